"""The client side of a fast-path connection: sends calls and receives replies."""

from __future__ import annotations

import asyncio
import math
from asyncio import Future
from collections.abc import Callable
from typing import Any, Protocol

from aioexec.distributed.security.proofs import CLIENT, SERVER, is_proof, new_nonce, prove
from aioexec.distributed.transport.answers import PostedCall
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.connection import Connection, payload_of, read_payload, write_all
from aioexec.distributed.transport.fast.events import Challenge, Closing, Event, Failure, Parts, Welcome
from aioexec.distributed.transport.fast.frames import Reader
from aioexec.distributed.transport.fast.tensors import takes_long_to_write, write
from aioexec.distributed.transport.methods import METHODS, NOTIFICATIONS, Method
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.status import error_from
from aioexec.distributed.transport.transport import Answered, Notify, Payload, Posted
from aioexec.errors import (
    DeadlineExceededError,
    OpError,
    UnauthenticatedError,
    UnavailableError,
    from_exception,
)
from aioexec.in_thread import in_thread


class _Pending(Protocol):
    """The receiver of a call's result: a future, or an object with these methods of one."""

    def done(self) -> bool: ...
    def set_result(self, result: Parts, /) -> None: ...
    def set_exception(self, exception: OpError, /) -> None: ...


class CallingConnection(Connection):
    """The client side of a connection.

    `_pending` are the calls without a reply, each with the receiver of its result; `_followed` are those with notifications,
    each with their parser and callback.
    """

    def __init__(self, peer_name: str, limits: Limits, token: str | None = None) -> None:
        self._pending: dict[int, _Pending] = {}
        super().__init__(peer_name, Reader(limits.message_bytes, limits.tensor_bytes, self._pending))
        self._limits = limits  # bounds on received messages
        self._last_call = 0  # the number of the latest call
        self._followed: dict[int, tuple[Callable[[bytes], Any], Notify]] = {}
        self._token = token  # which both sides prove to have; None: neither does
        self._nonce = new_nonce()  # the client's part of what is proved
        self._is_proved = False  # whether the peer has proved that it has the token
        # Done when the server has admitted this client.
        self._welcome: Future[None] = self._loop.create_future()

    async def greet(self, listener: int) -> None:
        """Identify the intended listener, exchange proofs of the token if there is one, and wait for the welcome.

        Raises:
            UnavailableError: the peer is another listener, or refuses.
            UnauthenticatedError: the peer does not have the token.
        """
        assert self._transport is not None
        self._transport.write(frames.greeting(frames.VERSION, listener, self._nonce))
        await self._welcome

    def _on_challenge(self, event: Challenge) -> None:
        if self._token is None:
            self._reject("it requires a token, and there is none here")
        elif not is_proof(event.proof, self._token, SERVER, self._nonce, event.nonce):
            self._reject("it does not know the token")
        else:
            assert self._transport is not None
            self._is_proved = True
            self._transport.write(frames.proof(prove(self._token, CLIENT, self._nonce, event.nonce)))

    def _on_welcome(self) -> None:
        if self._token is not None and not self._is_proved:
            self._reject("it did not prove that it knows the token")
            return
        self._reader.kinds = frames.BY_SERVER
        if not self._welcome.done():
            self._welcome.set_result(None)

    def _reject(self, why: str) -> None:
        if not self._welcome.done():
            self._welcome.set_exception(UnauthenticatedError(f"the connection to {self._peer_name}: {why}"))
        self.end(why)

    async def call(
        self, method: str, request: Payload, timeout: float | None, notify: Notify | None = None
    ) -> Payload:
        """Make a call; with `notify`, receive its notifications; see `transport.Channel`."""
        described = METHODS[method]
        deadline = None if timeout is None else self._loop.time() + timeout
        message = request.message.SerializeToString()
        tensors = await write_all(request.tensors)
        if self._is_paused:
            await self._wait_until_writable(deadline)
        call = self._last_call = self._last_call + 1
        left = math.inf if deadline is None else max(deadline - self._loop.time(), 0.0)
        frame, stream = frames.request(call, left, method, message, tensors)
        if not self.is_open:
            raise self._lost_error(self._reason or "it is closed")
        answer: Future[Parts] = self._loop.create_future()
        self._expect(call, answer, request)
        if notify is not None:
            self._followed[call] = NOTIFICATIONS.get(method, described.response).FromString, notify
        timer = None if deadline is None else self._loop.call_at(deadline, self._expire, call)
        try:
            self._send(call, frame, stream)
            parts = await answer
        except asyncio.CancelledError:
            self.withdraw(call)
            raise
        finally:
            self._pending.pop(call, None)
            self._followed.pop(call, None)
            if timer is not None:
                timer.cancel()
        return await read_payload(parts, described.response, described.received, self._limits)

    def post(self, method: str, request: Payload, answered: Answered) -> Posted | None:
        """Make a call without a task; see `transport.Channel`."""
        if self._is_paused or not self.is_open or any(map(takes_long_to_write, request.tensors)):
            return None
        call = self._last_call = self._last_call + 1
        message = request.message.SerializeToString()
        frame, stream = frames.request(call, math.inf, method, message, [*map(write, request.tensors)])
        posted = _PostedCall(self, call, METHODS[method], answered, self._limits)
        self._expect(call, posted, request)
        self._send(call, frame, stream)
        return posted

    def _expect(self, call: int, receiver: _Pending, request: Payload) -> None:
        self._pending[call] = receiver
        if request.allocate is not None:
            self._reader.allocators[call] = request.allocate

    def _expire(self, call: int) -> None:
        answer = self._pending.get(call)
        if answer is not None and not answer.done():
            self.withdraw(call)
            answer.set_exception(DeadlineExceededError(f"{self._peer_name} did not answer in time"))

    def withdraw(self, call: int) -> None:
        """Cancel a call: its reply is no longer wanted."""
        self._pending.pop(call, None)
        self._reader.allocators.pop(call, None)
        self._outbox.drop(call)
        self._reader.forget(call)
        if self.is_open:
            self._send(call, frames.cancel(call), [])

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Parts) and event.is_notification:
            self._on_notification(event)
        elif isinstance(event, Parts):
            self._finish_call(event.call, event, event.refused)
            if event.refused is not None:
                self.withdraw(event.call)
        elif isinstance(event, Failure):
            self._reader.forget(event.call)
            self._outbox.drop(event.call)
            self._finish_call(event.call, None, error_from(event.code, event.message, event.payloads))
        elif isinstance(event, Challenge):
            self._on_challenge(event)
        elif isinstance(event, Welcome):
            self._on_welcome()
        elif isinstance(event, Closing):
            self._reason = event.reason

    def _on_notification(self, parts: Parts) -> None:
        followed = self._followed.get(parts.call)
        if followed is None:
            return
        read, notify = followed
        try:
            notify(Payload(read(parts.message), parts.tensors if parts.are_read else parts.values()))
        except Exception as error:
            del self._followed[parts.call]
            self._finish_call(parts.call, None, from_exception(error))
            self.withdraw(parts.call)

    def _finish_call(self, call: int, parts: Parts | None, error: OpError | None) -> None:
        answer = self._pending.pop(call, None)
        self._reader.allocators.pop(call, None)
        if answer is None or answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            assert parts is not None
            answer.set_result(parts)

    def _lost_error(self, reason: str) -> UnavailableError:
        return UnavailableError(f"the connection to {self._peer_name} was lost: {reason}")

    def _on_connection_lost(self, reason: str) -> None:
        waiting: list[Future[None] | _Pending] = [self._welcome, *self._pending.values()]
        self._pending.clear()
        self._reader.allocators.clear()
        for each in waiting:
            if not each.done():
                each.set_exception(self._lost_error(reason))
        self._welcome.exception()  # retrieved, because there may be no waiter


class _PostedCall(PostedCall):
    """A call on a connection whose result goes to a callback. `_limits` bound the decoded reply."""

    __slots__ = ("_call", "_connection", "_described", "_limits")

    def __init__(
        self, connection: CallingConnection, call: int, described: Method, answered: Answered, limits: Limits
    ) -> None:
        super().__init__(answered)
        self._connection = connection
        self._limits = limits
        self._call = call  # its number
        self._described = described  # the messages of its method

    def cancel(self) -> None:
        if not self.done():
            self.give_up()
            self._connection.withdraw(self._call)

    def set_result(self, parts: Parts) -> None:
        if parts.takes_long:
            values = in_thread(parts.values)
            values.add_done_callback(lambda _: self._deliver_read(parts, values.result))
        else:
            self._deliver_read(parts, parts.values)

    def _deliver_read(self, parts: Parts, values: Callable[[], list[Any]]) -> None:
        described = self._described
        reply: Payload | OpError
        try:
            reply = payload_of(values(), parts, described.response, described.received, self._limits)
        except Exception as error:
            reply = from_exception(error)
        self.deliver(reply)

    def set_exception(self, error: OpError) -> None:
        self.deliver(error)
