"""LooperThread: calls a function repeatedly, on a timer if it has one, until its coordinator stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.train.callbacks import settle
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.coordination.task_thread import TaskThread


class LooperThread(TaskThread):
    """A task that calls `target`, or the `run_loop` of a subclass, until a stop is requested; an error requests one.

    `target`, `start_loop`, `run_loop` and `stop_loop` may be plain or `async def`; plain ones run on the event loop, so they
    must not block.

    Args:
        timer_interval_secs: seconds from one call to the next, by the loop's clock; None for no pause. Calls that are late
            because of a slow one follow it at once.

    Raises:
        GraphValueError: `coord` is no Coordinator, or there are arguments without a target.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise GraphValueError(f"'coord' argument must be a Coordinator: {coord!r}")
        if target is None and (args or kwargs):
            raise GraphValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        super().__init__(
            self.run, name=f"LooperThread-{getattr(target, '__qualname__', type(self).__name__)}"
        )
        self._coord = coord
        self._timer_interval_secs = timer_interval_secs
        self._call = target
        self._args = tuple(args or ())
        self._kwargs = dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> LooperThread:
        """Make and start a looper."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    async def run(self) -> None:
        """The body of the task."""
        with self._coord.stop_on_exception():
            await settle(self.start_loop())
            due = asyncio.get_running_loop().time()
            while not await self._wait_until_due(due):
                due += self._timer_interval_secs or 0
                await settle(self.run_loop())
            await settle(self.stop_loop())

    async def _wait_until_due(self, due: float) -> bool:
        """Wait until the next call is due; returns whether a stop was requested instead."""
        if self._timer_interval_secs is None:
            return await self._coord.wait_for_stop(0)
        return await self._coord.wait_for_stop(due - asyncio.get_running_loop().time())

    def start_loop(self) -> Any:
        """Called once, before the first call."""

    def stop_loop(self) -> Any:
        """Called once, after the last call; not after an error."""

    def run_loop(self) -> Any:
        """Make one call."""
        if self._call is not None:
            return self._call(*self._args, **self._kwargs)
        return None
