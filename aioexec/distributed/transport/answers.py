"""Replies that need no task: what a handler returns if it is driven by events, or is over already; and who posts a call.

Whoever awaits an answer waits as for a coroutine, and cancels as one is cancelled. A transport that knows it is told of the
reply instead, in the turn of the loop in which it comes, which spares a call its task and that task's turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from aioexec.distributed.transport.transport import Answered, Payload
from aioexec.errors import CancelledError, OpError


class Answer(Awaitable[Payload]):
    """One reply.

    Args:
        stop: has what it comes from end with an error, which comes then if nothing else does; None where it is there.

    `came` is what it is, once it is there; `_waiters` are those who wait for it.
    """

    __slots__ = ("_stop", "_waiters", "came")

    def __init__(
        self, stop: Callable[[OpError], None] | None = None, came: Payload | OpError | None = None
    ) -> None:
        self.came = came
        self._stop = stop
        self._waiters: list[Answered] = []

    def give(self, came: Payload | OpError) -> None:
        """It is there."""
        self.came = came
        self._stop = None
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            each(came)

    def then(self, callback: Answered) -> None:
        """Have somebody told when it is there, if it is not."""
        self._waiters.append(callback)

    def cancel(self, error: OpError | None = None) -> None:
        """Nobody wants it, for which this error is the reason: it will come soon."""
        if self._stop is not None:
            self._stop(error or CancelledError("the call was cancelled"))

    def over(self) -> asyncio.Future[None]:
        """Done when it is there."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.came is None:
            self.then(lambda _: None if future.done() else future.set_result(None))
        else:
            future.set_result(None)
        return future

    def __await__(self) -> Generator[Any, None, Payload]:
        cancelled = None
        while self.came is None:
            try:
                yield from self.over()
            except asyncio.CancelledError as error:
                cancelled = error
                self.cancel()
        if cancelled is not None:
            raise cancelled
        if isinstance(self.came, OpError):
            raise self.came
        return self.came


class PostedCall:
    """A call that nobody awaits, to its connection: like a future, until somebody was told, or is not to be told any more."""

    __slots__ = ("_answered",)

    def __init__(self, answered: Answered) -> None:
        self._answered: Answered | None = answered

    def done(self) -> bool:
        return self._answered is None

    def give_up(self) -> None:
        """Tell nothing any more."""
        self._answered = None

    def deliver(self, came: Payload | OpError) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(came)
