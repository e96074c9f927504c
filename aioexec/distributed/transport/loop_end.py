"""Stops a server or listener when its event loop ends.

`asyncio.run` cancels every task of its loop before it closes the loop. A `LoopEndGuard` is a task that only waits for that: if
it is cancelled, it stops its owner while the loop still runs. `Server` and `GrpcListener` have one each from their start to the
end of their `stop`. A loop that is closed without cancelling its tasks leaves its guards, and their owners, until the process
ends. All functions are called in the owner's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

_tasks: set[asyncio.Task[None]] = set()
"""The tasks of all guards: an event loop holds only weak references to its tasks."""


class LoopEndGuard:
    """Calls `stop` once if the loop cancels its tasks before `end` is called.

    Constant: `_task`. Changing: `_has_ended`, set once, by `end`.
    """

    def __init__(self, stop: Callable[[], Awaitable[None]], name: str) -> None:
        self._has_ended = asyncio.Event()
        self._task = asyncio.ensure_future(self._wait(stop))
        self._task.set_name(name)
        _tasks.add(self._task)
        self._task.add_done_callback(_tasks.discard)

    async def _wait(self, stop: Callable[[], Awaitable[None]]) -> None:
        try:
            await self._has_ended.wait()
        except asyncio.CancelledError:
            await stop()
            raise

    async def end(self) -> None:
        """End the guard: its owner has stopped. The guard may be the caller."""
        self._has_ended.set()
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])
