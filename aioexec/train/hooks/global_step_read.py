"""The read of the global step that all hooks of a graph share: in each step it runs before the increment.

Hooks thus fetch the number of steps done before ("stale"). Other processes may train the same variables meanwhile, or count
differently: where the exact number matters, hooks read it again in a run of its own.
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
    """Make increments of the global step depend on the read; otherwise their order would differ between plans.

    An op in a loop or conditional can depend only on ops of the same context, and is left out.
    """
    counted = get_global_step().op.outputs[0]
    for op in counted.consumers():
        if op.type in _COUNTS and op._get_control_flow_context() is None and read.op not in op.control_inputs:
            op.add_control_inputs([read.op])


class StepForecast:
    """An upper bound on the global step after a run that read `stale`: `stale` plus the largest advance seen so far.

    It spares hooks a read after each run. If other processes advance the step at a growing rate, they read one run late.
    """

    UNKNOWN = 1_000_000
    """The advance assumed before any was seen: large enough to cause a read."""

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
