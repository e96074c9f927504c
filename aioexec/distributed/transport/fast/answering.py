"""The server side of a fast-path connection: receives calls and sends replies."""

from __future__ import annotations

import asyncio
import math
import socket
from asyncio import Task
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from aioexec.distributed.security.proofs import CLIENT, SERVER, is_proof, new_nonce, prove
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.connection import Connection, payload_of, read_payload, write_all
from aioexec.distributed.transport.fast.events import Cancel, Closing, Event, Greeting, Parts, Proof
from aioexec.distributed.transport.fast.frames import Reader
from aioexec.distributed.transport.fast.tensors import takes_long_to_write, write
from aioexec.distributed.transport.first_step import begin
from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.status import message_of
from aioexec.distributed.transport.transport import Call, Handler, Handlers, Payload
from aioexec.errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    from_exception,
)

_MOST_CALLS: Final = 10_000
"""The most calls under way on one connection."""

GREETING_SECONDS: Final = 5.0
"""Seconds until an unauthenticated connection is closed."""

_MOST_UNSENT: Final = 1 << 20
"""Bytes of small replies that may wait for the peer to read them; beyond that, nothing is read from the peer."""

_GRAPHS: Final = frozenset(
    {"MasterService/CreateSession", "MasterService/ExtendSession", "WorkerService/RegisterGraph"}
)


class AnsweringConnection(Connection):
    """The server side of a connection. Calls are tasks, or answers without a task; both are cancelled when the connection is
    lost.

    Args:
        peer: the value of `Call.peer`.
        refusal_of: returns the error that refuses the peer's greeting, or None.
        token: which the peer must prove to have; None: no proof is required.
        tasks, answers: sets to which the connection adds its unfinished tasks and answers; their owner awaits them.
        on_made: called when the connection is made: with TLS, after the handshake.
        on_welcome: called when the peer is admitted.
        on_gone: called when the connection is lost.

    `_running` are the calls whose handlers run.
    """

    def __init__(
        self,
        peer: str,
        handlers: Handlers,
        limits: Limits,
        refusal_of: Callable[[AnsweringConnection, Greeting], OpError | None],
        token: str | None,
        tasks: set[Task[None]],
        answers: set[Answer],
        on_made: Callable[[AnsweringConnection], None],
        on_welcome: Callable[[AnsweringConnection], None],
        on_gone: Callable[[AnsweringConnection], None],
    ) -> None:
        super().__init__(
            peer,
            Reader(
                limits.message_bytes, limits.tensor_bytes, most_of=dict.fromkeys(_GRAPHS, limits.graph_bytes)
            ),
        )
        self.peer = peer
        self._limits = limits  # bounds on received messages
        self._handlers = handlers
        self._refusal_of = refusal_of
        self._token = token
        self._expected: tuple[bytes, bytes] | None = None  # both nonces, which a proof covers, once greeted
        self._tasks = tasks
        self._answers = answers
        self._on_made = on_made
        self._on_welcome = on_welcome
        self._on_gone = on_gone
        self._running: dict[int, Task[None] | Answer | None] = {}  # None: in its first step
        self.takes_calls = True  # the listener resets it when it stops
        self._unsent = 0  # bytes of frames written while the transport is paused
        self._greeting: asyncio.TimerHandle | None = None  # until the welcome

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._greeting = self._loop.call_later(GREETING_SECONDS, self.abort)
        self._on_made(self)

    def resume_writing(self) -> None:
        was_choked, self._unsent = self._unsent > _MOST_UNSENT, 0
        if was_choked:
            self._resume_reading()
        super().resume_writing()

    def _resume_reading(self) -> None:
        if self._unsent <= _MOST_UNSENT:
            super()._resume_reading()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Parts):
            self._on_request(event)
        elif isinstance(event, Cancel):
            self._reader.forget(event.call)
            self._outbox.drop(event.call)
            task = self._running.pop(event.call, None)
            if task is not None:
                task.cancel()
        elif isinstance(event, Greeting):
            self._on_greeting(event)
        elif isinstance(event, Proof):
            self._on_proof(event)
        elif isinstance(event, Closing):
            self._reason = event.reason

    def socket(self) -> socket.socket:
        """The socket of the connection, which must be open; for queries only."""
        assert self._transport is not None
        found: socket.socket = self._transport.get_extra_info("socket")
        return found

    def _on_greeting(self, greeting: Greeting) -> None:
        if self._expected is not None:
            raise DataLossError("a second greeting")
        error = self._refusal_of(self, greeting)
        if error is not None:
            self.end(error.message)
            return
        nonce = new_nonce()
        self._expected = greeting.nonce, nonce
        if self._token is None:
            self._admit()
        else:
            self._write(frames.challenge(nonce, prove(self._token, SERVER, greeting.nonce, nonce)))

    def _on_proof(self, event: Proof) -> None:
        if self._expected is None or self._token is None:
            raise DataLossError("an unexpected proof")
        if is_proof(event.proof, self._token, CLIENT, *self._expected):
            self._admit()
        else:
            self.end("expected a valid token")

    def _admit(self) -> None:
        assert self._greeting is not None
        self._greeting.cancel()
        self._reader.kinds = frames.BY_CLIENT
        self._write(frames.welcome())
        self._on_welcome(self)

    def _write(self, frame: bytes, stream: frames.Stream | None = None, call: int = 0) -> None:
        self._send(call, frame, stream or [])
        if self._is_paused and self._unsent <= _MOST_UNSENT:
            self._unsent += len(frame)
            if self._unsent > _MOST_UNSENT:
                assert self._transport is not None
                self._transport.pause_reading()

    def _on_request(self, parts: Parts) -> None:
        handler = self._handlers.get(parts.method)
        if parts.call in self._running:
            raise DataLossError(f"call {parts.call} is under way already")
        if parts.refused is not None:
            self._fail(parts.call, parts.refused)
        elif not self.takes_calls:
            self._fail(parts.call, UnavailableError("the server is shutting down"))
        elif len(self._running) + len(self._reader.incoming) + len(self._outbox) >= _MOST_CALLS:
            self._fail(parts.call, ResourceExhaustedError(f"expected at most {_MOST_CALLS} calls at a time"))
        elif handler is None:
            self._fail(parts.call, UnimplementedError(f"{parts.method} is not served here"))
        else:
            self._start(parts, handler)

    def _start(self, parts: Parts, handler: Handler) -> None:
        """Run the handler; if it does not wait, the reply has been sent when this returns."""
        number = parts.call
        bounded = parts.timeout != math.inf
        deadline = self._loop.time() + parts.timeout if bounded else None
        self._running[number] = None
        call = Call(self.peer, deadline, partial(self._notify, number))
        reply: Awaitable[Payload] | None = None
        if not parts.takes_long:
            try:
                reply = handler(self._payload(parts), call)
            except Exception as error:
                self._running.pop(number, None)
                self._fail(number, from_exception(error))
                return
            if isinstance(reply, Answer) and self._answer_without_task(parts, reply):
                return
        task = begin(self._serve(parts, handler, call, reply))
        if number in self._running:
            self._running[number] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if deadline is not None:
                timer = self._loop.call_at(deadline, self._expire, parts)
                task.add_done_callback(lambda _: timer.cancel())

    def _payload(self, parts: Parts) -> Payload:
        described = METHODS[parts.method]
        return payload_of(parts.values(), parts, described.request, described.sent, self._limits)

    def _answer_without_task(self, parts: Parts, answer: Answer) -> bool:
        """Send the reply, or register a callback that sends it; False if a task must do so."""
        if answer.reply is not None:
            return self._send_result(parts.call, answer.reply)
        if parts.timeout != math.inf:
            return False
        self._running[parts.call] = answer
        self._answers.add(answer)
        answer.add_callback(partial(self._on_reply, parts.call, answer))
        return True

    def _on_reply(self, call: int, answer: Answer, reply: Payload | OpError) -> None:
        self._answers.discard(answer)
        if call in self._running and not self._send_result(call, reply):
            task = begin(self._send_reply(call, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _send_result(self, call: int, reply: Payload | OpError) -> bool:
        """Send the result of a handler; False if encoding it takes long, so that a task must do it."""
        if isinstance(reply, OpError):
            self._running.pop(call, None)
            self._fail(call, reply)
            return True
        if any(map(takes_long_to_write, reply.tensors)):
            return False
        try:
            frame, stream = frames.reply(
                call, reply.message.SerializeToString(), [*map(write, reply.tensors)]
            )
        except Exception as error:
            self._running.pop(call, None)
            self._fail(call, from_exception(error))
            return True
        self._running.pop(call, None)
        if self.is_open:
            self._write(frame, stream, call)
        return True

    def _notify(self, call: int, payload: Payload) -> None:
        if call in self._running and self.is_open:
            tensors = [*map(write, payload.tensors)]
            frame = frames.notification(call, payload.message.SerializeToString(), tensors)
            if self._is_paused or self._holding is not None:
                self._write(frame)
            else:  # before the remaining input is read: the caller processes the notification meanwhile
                self._send_now(frame)

    def _expire(self, parts: Parts) -> None:
        task = self._running.pop(parts.call, None)
        if task is not None:
            task.cancel()
            self._fail(
                parts.call, DeadlineExceededError(f"{parts.method}: not done within {parts.timeout:g} s")
            )

    async def _serve(
        self, parts: Parts, handler: Handler, call: Call, reply: Awaitable[Payload] | None
    ) -> None:
        """Await a handler (`reply`, if it was called already) and send its reply."""
        if reply is None:
            described = METHODS[parts.method]
            request = read_payload(parts, described.request, described.sent, self._limits)
            reply = _call_handler(handler, request, call)
        await self._send_reply(parts.call, reply)

    async def _send_reply(self, number: int, reply: Awaitable[Payload]) -> None:
        try:
            payload = await reply
            tensors = await write_all(payload.tensors)
            frame, stream = frames.reply(number, payload.message.SerializeToString(), tensors)
        except asyncio.CancelledError:
            if number in self._running:  # otherwise the caller cancelled the call
                self._fail(number, CancelledError("the call was cancelled"))
            raise
        except Exception as error:
            if number in self._running:
                self._fail(number, from_exception(error))
        else:
            if number in self._running and self.is_open:
                self._write(frame, stream, number)
        finally:
            self._running.pop(number, None)

    def _fail(self, call: int, error: OpError) -> None:
        if self.is_open:
            self._write(frames.failure(call, error.error_code, message_of(error), error.payloads))

    def _on_connection_lost(self, reason: str) -> None:
        if self._greeting is not None:
            self._greeting.cancel()
        running = [each for each in self._running.values() if each is not None]
        self._running.clear()
        for each in running:
            each.cancel()
        self._on_gone(self)


async def _call_handler(handler: Handler, request: Awaitable[Payload], call: Call) -> Payload:
    return await handler(await request, call)
