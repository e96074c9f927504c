"""Connections of the fast path: the common base of both sides, an asyncio protocol. See `fast.calling` and `fast.answering`.

Writing: a frame is one write. Large parts are written in chunks, a bounded number of bytes per loop iteration, and only while
the transport accepts more: a peer that does not read costs no memory here. The server side also stops reading while the peer
does not read its replies; the client side always reads, so the two never wait for each other.

The arrays of a call are read until the call is done. After a cancelled call the transport may still read a chunk of them; this
is harmless, because the peer receives the cancellation before the end of the request.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.events import Event, Parts
from aioexec.distributed.transport.fast.frames import Reader
from aioexec.distributed.transport.fast.outbox import Outbox
from aioexec.distributed.transport.fast.tensors import Written, takes_long_to_write, write
from aioexec.distributed.transport.message_codec import decode
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import DataLossError, DeadlineExceededError, InternalError
from aioexec.formats.protos import TensorProto
from aioexec.in_thread import in_thread

_BYTES_A_TURN: Final = 1 << 20
_LARGE_READ: Final = 1 << 15  # fewer bytes at once are no chunk, and are not counted
_MOST_WAITING: Final = 1 << 19
"""Bytes in the transport's buffer from which on it calls `pause_writing`."""

_FAREWELL_SECONDS: Final = 1.0
"""Seconds that a closing connection may take to send its buffer."""


class _Signal:
    """An event that occurs repeatedly; `wait` waits for its next occurrence."""

    def __init__(self) -> None:
        self._waiting: Future[None] | None = None  # done at the next occurrence; None without waiters

    async def wait(self) -> None:
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiting)

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.set_result(None)


class Connection(asyncio.BufferedProtocol):
    """The base of both sides.

    Args:
        peer_name: "host:port" of the peer, for messages.
        reader: parses the input; its owner sets which frames it admits.

    Constant: `_loop`, to which the connection belongs.
    """

    def __init__(self, peer_name: str, reader: Reader) -> None:
        self._peer_name = peer_name
        self._reader = reader  # parses the input
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None  # None until the connection is made
        self._outbox = Outbox()  # large parts to be written
        self._is_paused = False  # the transport has called `pause_writing`
        self._held: list[bytes] = []  # frames to write together, of the current events or loop iteration
        self._is_reading = False  # events are being handled: frames are held until that is done
        self._holding: asyncio.Handle | None = (
            None  # writes them; set for the rest of an iteration in which a frame was written
        )
        self._pumping: asyncio.Handle | None = None  # writes further chunks in the next iteration
        self._turn: asyncio.Handle | None = None  # ends an iteration that has read `_taken` bytes
        self._taken = 0  # bytes read in this loop iteration
        self._farewell: asyncio.Handle | None = None  # aborts a connection that is closing
        self._resumed = _Signal()  # the transport has called `resume_writing`
        self._emptied = _Signal()  # all large parts are written
        self._reason = ""  # the reason of the end of the connection, if known beforehand
        self.lost: Future[None] = self._loop.create_future()
        """A future that is done when the connection is closed."""

    @property
    def is_open(self) -> bool:
        """Whether calls can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are no subclasses
        self._transport.set_write_buffer_limits(high=_MOST_WAITING)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._is_reading = True
        try:
            for event in self._reader.parse(nbytes):
                self._on_event(event)
        except DataLossError as error:
            self.end(f"malformed data: {error.message}")
            return
        finally:
            self._is_reading = False
            if self._held and self._holding is None and self.is_open:
                self._write_held()
                self._holding = self._loop.call_soon(self._send_held)
        if nbytes >= _LARGE_READ:
            self._limit_reading(nbytes)

    def _limit_reading(self, count: int) -> None:
        """Bound the bytes read in one loop iteration: uvloop would read as long as there is input."""
        if self._turn is None:
            self._turn = self._loop.call_soon(self._end_turn)
            self._taken = 0
        self._taken += count
        if self._taken >= _BYTES_A_TURN and self.is_open:
            assert self._transport is not None
            self._transport.pause_reading()

    def _end_turn(self) -> None:
        self._turn = None
        if self._taken >= _BYTES_A_TURN:
            self._resume_reading()

    def _resume_reading(self) -> None:
        if self.is_open:
            assert self._transport is not None
            self._transport.resume_reading()

    def _on_event(self, event: Event) -> None:
        raise NotImplementedError

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._resumed.notify_all()
        if self._pumping is None:
            self._pump()

    async def _wait_until_writable(self, deadline: float | None) -> None:
        """Wait until the transport has resumed writing, once: other calls may fill it again before the caller continues."""
        try:
            async with asyncio.timeout_at(deadline):
                if self._is_paused and self.is_open:
                    await self._resumed.wait()
        except TimeoutError:
            raise DeadlineExceededError(f"{self._peer_name} accepted no call within the timeout") from None

    async def flush(self) -> None:
        """Wait until all large parts are written, or the connection is lost."""
        while self._outbox and self.is_open:
            await self._emptied.wait()

    def _send(self, call: int, frame: bytes, stream: frames.Stream) -> None:
        """Write a frame, and queue the large parts that follow it.

        Frames made while input is handled are written together. Otherwise the first frame of a loop iteration is written at
        once, the others together at its end: a write costs more than a frame, on both sides.
        """
        if self._is_reading or self._holding is not None:
            self._held.append(frame)
        else:
            self._send_now(frame)
        if stream:
            self._outbox.add(call, stream)
            if self._pumping is None and not self._is_paused:
                self._pump()

    def _send_now(self, frame: bytes) -> None:
        """Write a frame at once, after those that are held; further ones of this iteration are held."""
        assert self._transport is not None
        self._write_held()
        self._transport.write(frame)
        self._holding = self._loop.call_soon(self._send_held)

    def _send_held(self) -> None:
        self._holding = None
        if self._held:
            self._write_held()

    def _write_held(self) -> None:
        """Write the held frames, which precede the next write."""
        if self._held and self._transport is not None:
            held, self._held = self._held, []
            self._transport.write(held[0] if len(held) == 1 else b"".join(held))

    def _pump(self) -> None:
        """Write chunks, up to the limit of one loop iteration."""
        self._pumping = None
        assert self._transport is not None
        self._write_held()
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
            self._emptied.notify_all()

    def end(self, reason: str) -> None:
        """Send the reason, and close the connection."""
        if self.is_open:
            assert self._transport is not None
            self._reason = self._reason or reason
            self._write_held()
            self._transport.write(frames.closing(reason))
            self._transport.close()
            self._farewell = self._loop.call_later(_FAREWELL_SECONDS, self.abort)

    def abort(self) -> None:
        """Close the connection at once, and discard unsent data."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        for handle in (self._holding, self._pumping, self._turn, self._farewell):
            if handle is not None:
                handle.cancel()
        self._outbox = Outbox()
        self._resumed.notify_all()
        self._emptied.notify_all()
        reason = self._reason or (str(error) if error else "closed by the other side")
        self._on_connection_lost(reason)
        if not self.lost.done():
            self.lost.set_result(None)

    def _on_connection_lost(self, reason: str) -> None:
        raise NotImplementedError


async def read_payload(parts: Parts, kind: type[Any], field: str, limits: Limits) -> Payload:
    """Decode a request or reply that has arrived completely; expensive tensors off the loop."""
    values: list[Any] = await in_thread(parts.values) if parts.takes_long else parts.values()
    return payload_of(values, parts, kind, field, limits)


def payload_of(values: list[Any], parts: Parts, kind: type[Any], field: str, limits: Limits) -> Payload:
    """The payload of a request or reply that has arrived completely, with the decoded values of its tensors."""
    data = bytes(parts.message)
    try:
        message = kind.FromString(data)
    except DecodeError as error:
        raise InternalError(f"Unable to parse {kind.__name__}") from error
    if not values and field:
        held = getattr(message, field)
        if message.HasField(field) if isinstance(held, TensorProto) else held:
            return decode(data, kind, field, limits, True)  # the sender left the tensors in the message
    return Payload(message, values)


async def write_all(tensors: Sequence[Any]) -> list[Written]:
    """Encode tensors; expensive ones off the loop."""
    if any(map(takes_long_to_write, tensors)):
        return [
            await in_thread(write, each) if takes_long_to_write(each) else write(each) for each in tensors
        ]
    return [*map(write, tensors)]
