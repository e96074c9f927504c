"""The tasks of a session that may have lost its state, because a step failed there: they are checked before the next step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import nullcontext, suppress

from aioexec.distributed.transport.status import POSSIBLY_RESTARTED
from aioexec.errors import AbortedError, OpError, UnavailableError


class DoubtfulTasks:
    """The tasks of one session with failures since their last check.

    Args:
        restore: checks a task, and reopens the session there if the task was restarted, or (its second argument) has lost the
            graphs that were registered there.

    Changing: `tasks`, by name whether the task has lost its registered graphs; `_since_check`, the same from the failures that
    were recorded after the last check of the task began. Checks run one after another, under the lock `_checking`.
    """

    def __init__(self, restore: Callable[[str, bool], Awaitable[None]]) -> None:
        self.tasks: dict[str, bool] = {}
        self._since_check: dict[str, bool] = {}
        self._restore = restore
        self._checking = asyncio.Lock()

    def record_failure(self, task: str, error: OpError) -> None:
        """Add a task if this error of a step means that the task was lost, or may have been restarted."""
        if not isinstance(error, UnavailableError | AbortedError):
            return
        has_lost_graphs = isinstance(error, AbortedError) and (
            POSSIBLY_RESTARTED in error.payloads or "handle is not found" in error.message
        )
        for failures in (self.tasks, self._since_check):
            failures[task] = failures.get(task, False) or has_lost_graphs

    async def check(self, needed: Collection[str] | None = None) -> None:
        """Check tasks, and restore the session on those that were restarted.

        Args:
            needed: the tasks a step needs. None: all tasks are checked, and unreachable ones are skipped.

        Raises:
            UnavailableError: a needed task is unreachable.
        """
        chosen = [task for task in self.tasks if needed is None or task in needed]
        if chosen:
            async with self._checking:
                for task in chosen:
                    with nullcontext() if needed is not None else suppress(UnavailableError):
                        await self._check(task)

    async def _check(self, task: str) -> None:
        has_lost_graphs = self.tasks.get(task)
        if has_lost_graphs is None:
            return  # another call has checked it meanwhile
        self._since_check.pop(task, None)
        await self._restore(task, has_lost_graphs)
        if task in self._since_check:
            self.tasks[task] = self._since_check[task]
        else:
            del self.tasks[task]
