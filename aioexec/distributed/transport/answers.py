"""Replies and calls without a task.

A handler that is driven by events, or done when it returns, returns an `Answer`, which can be awaited and cancelled like a
coroutine. A transport that supports it registers a callback instead, which receives the reply in the loop iteration in which it
is ready. That saves the call a task and its loop iterations. A `PostedCall` is the counterpart on the caller's side.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from aioexec.distributed.transport.transport import Answered, Payload
from aioexec.errors import CancelledError, OpError


class Answer(Awaitable[Payload]):
    """One reply, ready or pending.

    Args:
        stop: called with an error to end the work that produces the reply; the reply is then this error, unless the work has
            ended otherwise. None if the reply is ready.

    Changing: `reply`, the reply or error, None while pending; `_waiters`, the callbacks for it.
    """

    __slots__ = ("_stop", "_waiters", "reply")

    def __init__(
        self, stop: Callable[[OpError], None] | None = None, reply: Payload | OpError | None = None
    ) -> None:
        self.reply = reply
        self._stop = stop
        self._waiters: list[Answered] = []

    def set_reply(self, reply: Payload | OpError) -> None:
        """Set the reply, and call the callbacks."""
        self.reply = reply
        self._stop = None
        waiters, self._waiters = self._waiters, []
        for each in waiters:
            each(reply)

    def add_callback(self, callback: Answered) -> None:
        """Register a callback for the reply, which must be pending."""
        self._waiters.append(callback)

    def cancel(self, error: OpError | None = None) -> None:
        """End the work that produces the reply, with this error as the reason; the reply follows soon."""
        if self._stop is not None:
            self._stop(error or CancelledError("the call was cancelled"))

    def as_future(self) -> asyncio.Future[None]:
        """A future that is done when the reply is ready."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.reply is None:
            self.add_callback(lambda _: None if future.done() else future.set_result(None))
        else:
            future.set_result(None)
        return future

    def __await__(self) -> Generator[Any, None, Payload]:
        cancelled = None
        while self.reply is None:
            try:
                yield from self.as_future()
            except asyncio.CancelledError as error:
                cancelled = error
                self.cancel()
        if cancelled is not None:
            raise cancelled
        if isinstance(self.reply, OpError):
            raise self.reply
        return self.reply


class PostedCall:
    """A call whose result goes to a callback. Its connection uses it like a future, which is done once the callback was called
    or dropped."""

    __slots__ = ("_answered",)

    def __init__(self, answered: Answered) -> None:
        self._answered: Answered | None = answered  # the callback; None once it was called or dropped

    def done(self) -> bool:
        return self._answered is None

    def give_up(self) -> None:
        """Drop the callback."""
        self._answered = None

    def deliver(self, reply: Payload | OpError) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(reply)
