"""A task with the interface of a thread (`start`, `is_alive`, `join`), where TensorFlow uses a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class TaskThread:
    """A coroutine that runs as a task after `start`, in a copy of the context of the call of `start`.

    Args:
        target: makes the coroutine.
        daemon: accepted for compatibility and stored: tasks never keep the process alive.
        owner: called with the task when it is started.

    State: `_task` is None until `start`, then never changes.
    """

    def __init__(
        self,
        target: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        daemon: bool = False,
        owner: Callable[[asyncio.Task[None]], None] | None = None,
    ) -> None:
        self.name = name
        self.daemon = daemon
        self._target = target
        self._owner = owner
        self._task: asyncio.Task[None] | None = None

    @property
    def task(self) -> asyncio.Task[None] | None:
        """The task, None before `start`."""
        return self._task

    def start(self) -> None:
        """Run it in the running event loop.

        Raises:
            RuntimeError: it was started before, or no loop is running.
        """
        if self._task is not None:
            raise RuntimeError(f"{self.name}: threads can only be started once")
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._target(), name=self.name)
        if self._owner is not None:
            self._owner(self._task)

    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self._task is not None and not self._task.done()

    def cancel(self) -> None:
        """Cancel the task, if it is alive."""
        if self._task is not None:
            self._task.cancel()

    async def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or for `timeout` seconds; its error is not raised.

        Raises:
            RuntimeError: it was not started.
        """
        if self._task is None:
            raise RuntimeError(f"{self.name}: cannot join a thread before it is started")
        await asyncio.wait([self._task], timeout=timeout)

    def __repr__(self) -> str:
        state = "initial" if self._task is None else "started" if self.is_alive() else "stopped"
        return f"<{type(self).__name__} {self.name!r}, {state}>"
