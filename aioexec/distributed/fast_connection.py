"""Connections of the fast path: what the frames mean, on a transport of the loop. One side calls, the other answers.

Writing: a frame is one write. Large parts go out in chunks, as many a turn of the loop as keep it free, and none while the
transport has enough to send: so a peer that does not read costs no memory here. Who answers also reads nothing while its
replies are not taken; who calls always reads, so the two never wait for each other.

The arrays of a call are read until it is over. After a cancelled call the transport may still read a chunk of them; what it
reads then is of no account, because the other side hears of the cancellation before it has all of the request.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import Future, Task
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from aioexec.distributed import fast_frames as frames
from aioexec.distributed.fast_frames import (
    Cancel,
    Closing,
    Event,
    Failure,
    Greeting,
    Outbox,
    Parts,
    Reader,
    Welcome,
)
from aioexec.distributed.fast_tensors import Written, takes_long_to_write, write
from aioexec.distributed.first_step import begin
from aioexec.distributed.message_codec import decode
from aioexec.distributed.methods import METHODS
from aioexec.distributed.settings import Limits
from aioexec.distributed.status import error_from, message_of
from aioexec.distributed.transport import Call, Handler, Handlers, Payload
from aioexec.errors import (
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    InternalError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    from_exception,
)
from aioexec.formats.protos import TensorProto

_BYTES_A_TURN: Final = 1 << 20
_LARGE_READ: Final = 1 << 15  # fewer bytes at once are no chunk, and not worth counting
_MOST_WAITING: Final = 1 << 19
"""Bytes that wait in the transport before it says that it has enough."""

_MOST_CALLS: Final = 10_000
"""Calls of one connection at a time."""

_GREETING_SECONDS: Final = 5.0
"""Who connects and does not say what for is shown out."""

_MOST_UNSENT: Final = 1 << 20
"""Bytes of small replies that wait because the other side does not read; then nothing is read from it either."""

_GRAPHS: Final = frozenset(
    {"MasterService/CreateSession", "MasterService/ExtendSession", "WorkerService/RegisterGraph"}
)


class _Signal:
    """Something that happens now and then, and who waits for the next time."""

    def __init__(self) -> None:
        self._waiting: Future[None] | None = None

    async def wait(self) -> None:
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiting)

    def give(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.set_result(None)


class Connection(asyncio.BufferedProtocol):
    """What both sides share.

    Args:
        who: for messages, "host:port" of the other side.
    """

    def __init__(self, who: str, reader: Reader) -> None:
        self._who = who
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._outbox = Outbox()
        self._is_paused = False  # the transport has enough to send
        self._pumping: asyncio.Handle | None = None
        self._turn: asyncio.Handle | None = None  # ends the turn in which `_taken` bytes of chunks were read
        self._taken = 0
        self._resumed = _Signal()  # the transport wants more
        self._emptied = _Signal()  # all large parts are written
        self._reason = ""  # why the connection ends, if that is known before it does
        self.lost: Future[None] = self._loop.create_future()
        """Done when the connection is."""

    @property
    def is_open(self) -> bool:
        """Whether calls may travel."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are none by class
        self._transport.set_write_buffer_limits(high=_MOST_WAITING)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for event in self._reader.received(nbytes):
                self._happened(event)
        except DataLossError as error:
            self.end(f"malformed data: {error.message}")
            return
        if nbytes >= _LARGE_READ:
            self._pace(nbytes)

    def _pace(self, count: int) -> None:
        """Read no more in this turn of the loop than it bears: uvloop would go on for as long as there is something."""
        if self._turn is None:
            self._turn = self._loop.call_soon(self._turn_ended)
            self._taken = 0
        self._taken += count
        if self._taken >= _BYTES_A_TURN and self.is_open:
            assert self._transport is not None
            self._transport.pause_reading()

    def _turn_ended(self) -> None:
        self._turn = None
        if self._taken >= _BYTES_A_TURN:
            self._resume_reading()

    def _resume_reading(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.resume_reading()

    def _happened(self, event: Event) -> None:
        raise NotImplementedError

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._resumed.give()
        if self._pumping is None:
            self._pump()

    async def _ready_to_write(self, deadline: float | None) -> None:
        """Wait for the transport to want more, once: when this goes on, large parts of other calls have filled it again."""
        try:
            async with asyncio.timeout_at(deadline):
                if self._is_paused and self.is_open:
                    await self._resumed.wait()
        except TimeoutError:
            raise DeadlineExceededError(f"{self._who} took no call in time") from None

    async def flush(self) -> None:
        """Wait until all large parts are written, or the connection is lost."""
        while self._outbox and self.is_open:
            await self._emptied.wait()

    def _send(self, call: int, frame: bytes, stream: frames.Stream) -> None:
        """Write a frame, and have what belongs to it follow."""
        assert self._transport is not None
        self._transport.write(frame)
        if stream:
            self._outbox.add(call, stream)
            if self._pumping is None and not self._is_paused:
                self._pump()

    def _pump(self) -> None:
        """Write chunks, as many as one turn of the loop bears."""
        self._pumping = None
        assert self._transport is not None
        left = _BYTES_A_TURN
        while self._outbox and not self._is_paused and self.is_open:
            if left <= 0:
                self._pumping = self._loop.call_soon(self._pump)
                return
            head, chunk = self._outbox.next()
            self._transport.write(head)
            self._transport.write(chunk)
            left -= len(chunk)
        if not self._outbox:
            self._emptied.give()

    def end(self, reason: str) -> None:
        """Say why, and close the connection."""
        if self.is_open:
            assert self._transport is not None
            self._reason = self._reason or reason
            self._transport.write(frames.closing(reason))
            self._transport.close()

    def abort(self) -> None:
        """Close the connection at once, with what is not sent."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        for handle in (self._pumping, self._turn):
            if handle is not None:
                handle.cancel()
        self._outbox = Outbox()
        self._resumed.give()
        self._emptied.give()
        reason = self._reason or (str(error) if error else "closed by the other side")
        self._is_lost(reason)
        if not self.lost.done():
            self.lost.set_result(None)

    def _is_lost(self, reason: str) -> None:
        raise NotImplementedError


class CallingConnection(Connection):
    """The side that calls.

    `_pending` are the calls without an answer.
    """

    def __init__(self, who: str, limits: Limits) -> None:
        self._pending: dict[int, Future[Parts]] = {}
        super().__init__(who, Reader(lambda _: limits.message_bytes, limits.tensor_bytes, self._pending))
        self._limits = limits
        self._last_call = 0
        self._welcome: Future[None] = self._loop.create_future()

    async def greet(self, listener: int, authorization: str | None) -> None:
        """Say who is meant, and wait for the welcome.

        Raises:
            UnavailableError: it is somebody else, or does not want to.
        """
        assert self._transport is not None
        self._transport.write(frames.greeting(frames.VERSION, listener, authorization))
        await self._welcome

    async def call(self, method: str, request: Payload, timeout: float | None) -> Payload:
        """Make a call; see `transport.Channel`."""
        described = METHODS[method]
        deadline = None if timeout is None else self._loop.time() + timeout
        message = request.message.SerializeToString()
        if any(map(takes_long_to_write, request.tensors)):
            written = await _written_slowly(request.tensors)
        else:
            written = [*map(write, request.tensors)]
        if self._is_paused:
            await self._ready_to_write(deadline)
        call = self._last_call = self._last_call + 1
        left = math.inf if deadline is None else max(deadline - self._loop.time(), 0.0)
        frame, stream = frames.request(call, left, method, message, written)
        if not self.is_open:
            raise self._gone(self._reason or "it is closed")
        answer = self._pending[call] = self._loop.create_future()
        timer = None if deadline is None else self._loop.call_at(deadline, self._expire, call)
        try:
            self._send(call, frame, stream)
            parts = await answer
        except asyncio.CancelledError:
            self._withdraw(call)
            raise
        finally:
            self._pending.pop(call, None)
            if timer is not None:
                timer.cancel()
        tensors = await asyncio.to_thread(parts.values) if parts.takes_long else parts.values()
        return _payload(parts, tensors, described.response, described.received, self._limits)

    def _expire(self, call: int) -> None:
        answer = self._pending.get(call)
        if answer is not None and not answer.done():
            self._withdraw(call)
            answer.set_exception(DeadlineExceededError(f"{self._who} did not answer in time"))

    def _withdraw(self, call: int) -> None:
        """Nobody waits for this call any more."""
        self._pending.pop(call, None)
        self._outbox.drop(call)
        self._reader.forget(call)
        if self.is_open:
            assert self._transport is not None
            self._transport.write(frames.cancel(call))

    def _happened(self, event: Event) -> None:
        if isinstance(event, Parts):
            self._answer(event.call, event, event.refused)
            if event.refused is not None:
                self._withdraw(event.call)
        elif isinstance(event, Failure):
            self._reader.forget(event.call)
            self._outbox.drop(event.call)
            self._answer(event.call, None, error_from(event.code, event.message, event.payloads))
        elif isinstance(event, Welcome):
            self._reader.kinds = frames.BY_SERVER
            if not self._welcome.done():
                self._welcome.set_result(None)
        elif isinstance(event, Closing):
            self._reason = event.reason

    def _answer(self, call: int, parts: Parts | None, error: OpError | None) -> None:
        answer = self._pending.get(call)
        if answer is None or answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            assert parts is not None
            answer.set_result(parts)

    def _gone(self, reason: str) -> UnavailableError:
        return UnavailableError(f"the connection to {self._who} was lost: {reason}")

    def _is_lost(self, reason: str) -> None:
        waiting: list[Future[Any]] = [self._welcome, *self._pending.values()]
        self._pending.clear()
        for each in waiting:
            if not each.done():
                each.set_exception(self._gone(reason))
        self._welcome.exception()  # nobody may have waited for it


class AnsweringConnection(Connection):
    """The side that answers. Calls are tasks; those of a lost connection are cancelled.

    Args:
        peer: what the other side is called in `Call.peer`.
        admits: whether a greeting may go on, by its listener and authorization.
        tasks: where the tasks are kept until they are over; whoever owns it awaits them.
        on_gone: told when the connection is lost.

    `_running` are the calls whose handlers run.
    """

    def __init__(
        self,
        peer: str,
        handlers: Handlers,
        limits: Limits,
        admits: Callable[[Greeting], OpError | None],
        tasks: set[Task[None]],
        on_gone: Callable[[AnsweringConnection], None],
    ) -> None:
        super().__init__(
            peer,
            Reader(
                lambda method: limits.graph_bytes if method in _GRAPHS else limits.message_bytes,
                limits.tensor_bytes,
            ),
        )
        self.peer = peer
        self._limits = limits
        self._handlers = handlers
        self._admits = admits
        self._tasks = tasks
        self._on_gone = on_gone
        self._running: dict[int, Task[None] | None] = {}  # None: in its first step
        self.takes_calls = True
        self._unsent = 0
        self._greeting: asyncio.TimerHandle | None = None  # until the greeting

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._greeting = self._loop.call_later(_GREETING_SECONDS, self.abort)

    def resume_writing(self) -> None:
        was_choked, self._unsent = self._unsent > _MOST_UNSENT, 0
        if was_choked:
            self._resume_reading()
        super().resume_writing()

    def _resume_reading(self) -> None:
        if self._unsent <= _MOST_UNSENT:
            super()._resume_reading()

    def _happened(self, event: Event) -> None:
        if isinstance(event, Parts):
            self._request(event)
        elif isinstance(event, Cancel):
            self._reader.forget(event.call)
            self._outbox.drop(event.call)
            task = self._running.pop(event.call, None)
            if task is not None:
                task.cancel()
        elif isinstance(event, Greeting):
            self._greeted(event)
        elif isinstance(event, Closing):
            self._reason = event.reason

    def _greeted(self, greeting: Greeting) -> None:
        assert self._greeting is not None
        self._greeting.cancel()
        error = self._admits(greeting)
        if error is not None:
            self.end(error.message)
            return
        self._reader.kinds = frames.BY_CLIENT
        self._write(frames.welcome())

    def _write(self, frame: bytes, stream: frames.Stream | None = None, call: int = 0) -> None:
        self._send(call, frame, stream or [])
        if self._is_paused and self._unsent <= _MOST_UNSENT:
            self._unsent += len(frame)
            if self._unsent > _MOST_UNSENT:
                assert self._transport is not None
                self._transport.pause_reading()

    def _request(self, parts: Parts) -> None:
        handler = self._handlers.get(parts.method)
        if parts.call in self._running:
            raise DataLossError(f"call {parts.call} is under way already")
        if parts.refused is not None:
            self._fail(parts.call, parts.refused)
        elif not self.takes_calls:
            self._fail(parts.call, UnavailableError("the server is shutting down"))
        elif len(self._running) + self._reader.incoming + len(self._outbox) >= _MOST_CALLS:
            self._fail(parts.call, ResourceExhaustedError(f"expected at most {_MOST_CALLS} calls at a time"))
        elif handler is None:
            self._fail(parts.call, UnimplementedError(f"{parts.method} is not served here"))
        else:
            self._start(parts, handler)

    def _start(self, parts: Parts, handler: Handler) -> None:
        """Run the handler; what does not wait is over, and answered, when this returns."""
        bounded = parts.timeout != math.inf
        deadline = self._loop.time() + parts.timeout if bounded else None
        self._running[parts.call] = None
        task = begin(self._serve(parts, handler, Call(self.peer, deadline)))
        if parts.call in self._running:
            self._running[parts.call] = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if deadline is not None:
                timer = self._loop.call_at(deadline, self._expire, parts)
                task.add_done_callback(lambda _: timer.cancel())

    def _expire(self, parts: Parts) -> None:
        task = self._running.pop(parts.call, None)
        if task is not None:
            task.cancel()
            self._fail(
                parts.call, DeadlineExceededError(f"{parts.method}: not done within {parts.timeout:g} s")
            )

    async def _serve(self, parts: Parts, handler: Handler, call: Call) -> None:
        described = METHODS[parts.method]
        number = parts.call
        try:
            tensors = await asyncio.to_thread(parts.values) if parts.takes_long else parts.values()
            payload = _payload(parts, tensors, described.request, described.sent, self._limits)
            reply = await handler(payload, call)
            if any(map(takes_long_to_write, reply.tensors)):
                written = await _written_slowly(reply.tensors)
            else:
                written = [*map(write, reply.tensors)]
            frame, stream = frames.reply(number, reply.message.SerializeToString(), written)
        except asyncio.CancelledError:
            if number in self._running:  # else nobody waits for it, and that is why it was cancelled
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

    def _is_lost(self, reason: str) -> None:
        if self._greeting is not None:
            self._greeting.cancel()
        running = [task for task in self._running.values() if task is not None]
        self._running.clear()
        for task in running:
            task.cancel()
        self._on_gone(self)


def _payload(parts: Parts, tensors: list[Any], kind: type[Any], field: str, limits: Limits) -> Payload:
    """What has arrived, as the other side has given it."""
    data = bytes(parts.message)
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise InternalError(f"Unable to parse {kind.__name__}") from error
    if field and not tensors and _holds(message, field):  # who sent it left the tensors in the message
        return decode(data, kind, field, limits, True)
    return Payload(message, tensors)


def _holds(message: Any, field: str) -> bool:
    """Whether there is anything in a field for tensors."""
    held = getattr(message, field)
    return message.HasField(field) if isinstance(held, TensorProto) else len(held) > 0


async def _written_slowly(tensors: Sequence[Any]) -> list[Written]:
    """Tensors as they travel; what takes long is done off the loop."""
    return [
        await asyncio.to_thread(write, each) if takes_long_to_write(each) else write(each) for each in tensors
    ]
