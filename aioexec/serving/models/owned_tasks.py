"""`OwnedTasks`: tasks that one object starts at any time and waits for at its end.

An `asyncio.TaskGroup` around a block of the caller's would wrap the caller's own exceptions in groups.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


class OwnedTasks:
    """A set of tasks; an exception of one is logged, and the others go on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start a task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)
        return task

    async def join(self) -> None:
        """Wait until every task has ended, those too that are started meanwhile."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _on_end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task failed", exc_info=task.exception())
