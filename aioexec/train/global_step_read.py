"""The read of the global step that all hooks of a graph share.

Fetched together with a train op it gives the step's number before or after the op has counted it: nothing orders the two. Hooks
take it for the number before ("stale"), and read again in a run of its own where one step more or less would matter.
"""

from __future__ import annotations

from typing import Any

from aioexec.train.errors import TrainingStateError
from aioexec.train.global_step import _get_or_create_global_step_read


def required_global_step_read(user: str) -> Any:
    """The shared read in the default graph, made at first use.

    Raises:
        TrainingStateError: the graph has no global step.
    """
    read = _get_or_create_global_step_read()
    if read is None:
        raise TrainingStateError(f"Global step should be created to use {user}")
    return read


class StepForecast:
    """How far the global step may be after a run that found it at `stale`: further by the largest advance ever seen.

    Spares hooks a read after each run. Where others advance the same step at a growing pace, they look one run late.
    """

    UNKNOWN = 1_000_000
    """The advance to expect before any was seen: enough to look."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._largest: int | None = None

    def reached(self, stale: int) -> int:
        if self._last is not None:
            self._largest = max(stale - self._last, self._largest or 1)
        self._last = stale
        return stale + (self._largest or self.UNKNOWN)
