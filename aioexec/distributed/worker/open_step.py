"""A partial run on a worker: a step that stays open between calls.

The first call begins it, each call sends values and waits for others, the last one waits for its end. It runs in a task of its
own; the session that made it ends it by the last call or by `cancel`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aioexec.errors import CancelledError, InvalidArgumentError, OpError, from_exception
from aioexec.execution.rendezvous import IntraProcessRendezvous, Received


class OpenStep:
    """A partial run; `error` is its error, None unless it failed.

    Args:
        run: runs it until cancelled or done.
        on_end: called at its end.
    """

    def __init__(
        self,
        rendezvous: IntraProcessRendezvous,
        run: Callable[[], Awaitable[object]],
        on_end: Callable[[], None],
    ) -> None:
        self.rendezvous = rendezvous
        self.error: OpError | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(run))
        self._task.add_done_callback(lambda _: on_end())

    async def _run(self, run: Callable[[], Awaitable[object]]) -> None:
        try:
            await run()
        except asyncio.CancelledError:
            self.error = CancelledError("the step was cancelled")
            raise
        except Exception as error:
            self.error = from_exception(error)

    async def received(self, keys: Sequence[str]) -> list[Any]:
        """Wait for values that the step sends.

        Raises:
            OpError: it failed, or has ended without sending one of them.
        """
        return [(await self._received(key))[0] for key in keys]

    async def _received(self, key: str) -> Received:
        waiting = self.rendezvous.recv(key)
        try:
            await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
        finally:
            waiting.cancel()
        raise self.error or InvalidArgumentError(f"{key} was requested, but the step has not sent it")

    async def ended(self) -> None:
        """Wait for the end.

        Raises:
            OpError: it failed.
        """
        await asyncio.wait((self._task,))
        if self.error is not None or self._task.cancelled():
            raise self.error or CancelledError("the step was cancelled before it began")

    def stop(self) -> None:
        """Cancel it."""
        self._task.cancel()

    async def cancel(self) -> None:
        """Cancel it and wait until it has ended, even if this is cancelled meanwhile."""
        self.stop()
        cancelled = None
        while not self._task.done():
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
