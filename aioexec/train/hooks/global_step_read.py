"""The read of the global step that all hooks of a graph share: in each step it runs before the step is counted.

So hooks fetch the number of steps done before ("stale"). Other processes may train the same variables meanwhile, or count in
another way: where the exact number matters, hooks read it again in a run of its own.
"""

from __future__ import annotations

from typing import Any, Final

from aioexec.graph.graph import get_default_graph
from aioexec.train.errors import TrainingStateError
from aioexec.train.global_steps import _get_or_create_global_step_read, get_global_step

_COUNTS: Final = ("AssignAdd", "AssignAddVariableOp")


def required_global_step_read(user: str) -> Any:
    """The shared read in the default graph, made at first use.

    Raises:
        TrainingStateError: the graph has no global step.
    """
    read = _get_or_create_global_step_read()
    if read is None:
        raise TrainingStateError(f"Global step should be created to use {user}")
    if not get_default_graph().finalized:
        _order(read)
    return read


def _order(read: Any) -> None:
    """Let whatever counts the global step wait for the read; without it, plans would read it now before, now after.

    An op in a loop or conditional can wait only for its neighbours, and does not.
    """
    counted = get_global_step().op.outputs[0]
    for op in counted.consumers():
        if op.type in _COUNTS and op._get_control_flow_context() is None and read.op not in op.control_inputs:
            op.add_control_inputs([read.op])


class StepForecast:
    """How far the global step may be after a run that found it at `stale`: further by the largest advance ever seen.

    Spares hooks a read after each run. Where others advance the same step at a growing pace, they look one run late.
    """

    UNKNOWN = 1_000_000
    """The advance to expect before any was seen: enough to look."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._largest = 1

    def reached(self, stale: int) -> int:
        last, self._last = self._last, stale
        if last is None:
            return stale + self.UNKNOWN
        if stale - last > self._largest:
            self._largest = stale - last
        return stale + self._largest
