"""The part of a partial run on a worker: a step that stays open between calls.

The first call begins the part, each call sends values and waits for others, the last one waits for its end. The part runs in a
task of its own; the session that made it ends it by the last call or by `cancel`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aioexec.errors import CancelledError, InvalidArgumentError, OpError, from_exception
from aioexec.execution.rendezvous import IntraProcessRendezvous, Received


class PartialRunPart:
    """The part of one partial run; `error` is its error, None unless it failed.

    Args:
        run: runs the part until cancelled or done.
        on_end: called when the part has ended.
    """

    def __init__(
        self,
        rendezvous: IntraProcessRendezvous,
        run: Callable[[], Awaitable[object]],
        on_end: Callable[[], None],
    ) -> None:
        self.rendezvous = rendezvous  # holds the values that the step has sent or is to receive
        self.error: OpError | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(run))  # runs the step
        self._task.add_done_callback(lambda _: on_end())

    async def _run(self, run: Callable[[], Awaitable[object]]) -> None:
        try:
            await run()
        except asyncio.CancelledError:
            self.error = CancelledError("the step was cancelled")
            raise
        except Exception as error:
            self.error = from_exception(error)

    async def wait_for_values(self, keys: Sequence[str]) -> list[Any]:
        """Wait for values that the step sends.

        Raises:
            OpError: the step failed, or has ended without sending one of them.
        """
        return [(await self._wait_for_value(key))[0] for key in keys]

    async def _wait_for_value(self, key: str) -> Received:
        waiting = self.rendezvous.recv(key)
        try:
            await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
        finally:
            waiting.cancel()
        raise self.error or InvalidArgumentError(f"{key} was requested, but the step has not sent it")

    async def wait_ended(self) -> None:
        """Wait until the part has ended.

        Raises:
            OpError: the step failed.
        """
        await asyncio.wait((self._task,))
        if self.error is not None or self._task.cancelled():
            raise self.error or CancelledError("the step was cancelled before it began")

    def cancel(self) -> None:
        """Cancel the run; does not wait for its end."""
        self._task.cancel()

    async def cancel_and_wait(self) -> None:
        """Cancel the run and wait for its end, even if the calling task is cancelled."""
        self.cancel()
        cancelled = None
        while not self._task.done():
            try:
                await asyncio.wait((self._task,))
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
