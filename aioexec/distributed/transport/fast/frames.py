"""The protocol of the fast path: frames and their parser. Bytes in, events out; no sockets, no clock.

A frame is a head (length of the body, kind, number of the call) and a body:

    GREETING  client: version, intended listener, random bytes          WELCOME       server: nothing
    PROOF     client: proof, after a CHALLENGE                          CHALLENGE     server: random bytes, proof (see `proofs`)
    REQUEST   client: seconds left, method, parts                       REPLY         server: parts
    CANCEL    client: nothing                                           FAILURE       server: code, message, payloads
                                                                        NOTIFICATION  server: parts, all of them small
    CHUNK     either: bytes of the parts that the call's REQUEST or REPLY has announced
    CLOSING   either: the reason for closing the connection

The *parts* are a message, and its tensors. Small parts are in the frame itself; large ones are announced in it and follow in
chunks, in order, so that chunks of several calls may be interleaved and small calls are sent between them.

A well-formed call that is too large (`Limits`) is refused, and its chunks are skipped. Malformed input raises DataLossError and
ends the connection. Memory for a part is allocated after its length was checked, and filled by the socket itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sequence
from functools import lru_cache
from math import inf
from struct import Struct, error as StructError
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec.distributed.security.proofs import NONCE_BYTES, PROOF_BYTES
from aioexec.distributed.transport.fast import events as fast_events
from aioexec.distributed.transport.fast.events import Cancel, Closing, Event, Failure, Parts
from aioexec.distributed.transport.fast.tensors import Tensor, Written, memory_of, read_small
from aioexec.distributed.transport.transport import Allocate
from aioexec.errors import DataLossError, InternalError, ResourceExhaustedError

VERSION: Final = 2

GREETING, WELCOME, REQUEST, REPLY, FAILURE, CANCEL = range(1, 7)
CHUNK, CLOSING, NOTIFICATION, CHALLENGE, PROOF = range(7, 12)

CHUNK_BYTES: Final = 1 << 18
INLINE_BYTES: Final = 1 << 16
"""Parts up to this size are in the frame, as long as their total is limited."""

MOST_FRAME: Final = 1 << 23
"""The longest body of a frame; that of a chunk is `MOST_CHUNK`."""
MOST_CHUNK: Final = 1 << 20

MOST_TENSORS: Final = 1 << 15
"""The most tensors of a call: those of a frame are parsed in one go."""

BY_SERVER: Final = frozenset({REPLY, FAILURE, CHUNK, CLOSING, NOTIFICATION})
BY_CLIENT: Final = frozenset({REQUEST, CANCEL, CHUNK, CLOSING})
_WITH_PARTS: Final = frozenset({REQUEST, REPLY, NOTIFICATION})
_BEFORE_WELCOME: Final = frozenset({GREETING, CHALLENGE, PROOF, WELCOME, CLOSING})

_MOST_INLINE: Final = 1 << 18
_MOST_TEXT: Final = 1 << 15
_SCRATCH: Final = 1 << 16
_SHORT: Final = 1 << 10
_MOST_LAYOUTS: Final = 256
_HEAD: Final = Struct("<IBQ")
_HEAD_BYTES: Final = _HEAD.size
_GREETING: Final = Struct(f"<HQ{NONCE_BYTES}s")
_CHALLENGE: Final = Struct(f"<{NONCE_BYTES}s{PROOF_BYTES}s")
_PROOF: Final = Struct(f"<{PROOF_BYTES}s")
_REQUEST: Final = Struct("<dB")
_PARTS: Final = Struct("<QI")  # bytes of the message, number of tensors
_PARTS_BYTES: Final = _PARTS.size
_FAILURE: Final = Struct("<BIB")
_PAYLOAD: Final = Struct("<HI")


Stream = list[Any]
"""Large parts that follow a frame: buffers of bytes."""
Bytes = bytes | memoryview


def greeting(version: int, listener: int, nonce: bytes) -> bytes:
    return _frame(GREETING, 0, _GREETING.pack(version, listener, nonce))


def challenge(nonce: bytes, proof: bytes) -> bytes:
    return _frame(CHALLENGE, 0, _CHALLENGE.pack(nonce, proof))


def proof(proof: bytes) -> bytes:
    return _frame(PROOF, 0, _PROOF.pack(proof))


def welcome() -> bytes:
    return _frame(WELCOME, 0)


def cancel(call: int) -> bytes:
    return _frame(CANCEL, call)


def closing(reason: str) -> bytes:
    return _frame(CLOSING, 0, reason.encode()[:_MOST_TEXT])


def chunk(call: int, length: int) -> bytes:
    """The head of a chunk."""
    return _head(length, CHUNK, call)


def failure(call: int, code: int, message: str, payloads: Mapping[str, bytes]) -> bytes:
    pieces = [
        piece
        for url, value in payloads.items()
        for piece in (_PAYLOAD.pack(len(url.encode()), len(value)), url.encode(), value)
    ]
    text = message.encode(errors="replace")[:_MOST_TEXT]  # file names may be invalid text
    return _frame(FAILURE, call, _FAILURE.pack(code, len(text), len(payloads)), text, *pieces)


def request(
    call: int, timeout: float, method: str, message: bytes, tensors: Sequence[Written]
) -> tuple[bytes, Stream]:
    """The frame of a request, and the buffers to send in chunks after it."""
    first = _unbounded(method) if timeout == inf else _named(method, timeout)
    return _with_parts(REQUEST, call, first, message, tensors)


def _named(method: str, timeout: float) -> bytes:
    name = method.encode()
    return _REQUEST.pack(timeout, len(name)) + name


@lru_cache
def _unbounded(method: str) -> bytes:
    """The first bytes of a request without timeout; most requests have none."""
    return _named(method, inf)


def reply(call: int, message: bytes, tensors: Sequence[Written]) -> tuple[bytes, Stream]:
    """The frame of a reply, and the buffers to send in chunks after it."""
    return _with_parts(REPLY, call, b"", message, tensors)


def notification(call: int, message: bytes, tensors: Sequence[Written]) -> bytes:
    """The frame of a notification, which precedes the reply.

    Raises:
        InternalError: the notification does not fit one frame.
    """
    frame, stream = _with_parts(NOTIFICATION, call, b"", message, tensors)
    if stream:
        raise InternalError(f"call {call}: a notification must fit one frame")
    return frame


def _with_parts(
    kind: int, call: int, first: bytes, message: bytes, tensors: Sequence[Written]
) -> tuple[bytes, Stream]:
    pieces: list[Any] = [b"", first, _PARTS.pack(len(message), len(tensors)), message]
    for each in tensors:
        pieces += each
    size = sum(map(len, pieces))
    large: Stream = []
    if size > INLINE_BYTES:
        pieces, large = _split_large(pieces)
        size = sum(map(len, pieces))
    pieces[0] = _head(size, kind, call)
    return b"".join(pieces), large


def _split_large(pieces: list[Any]) -> tuple[list[Any], Stream]:
    """The frame, and the large parts that follow it."""
    inline, large = pieces[:3], []
    room = _MOST_INLINE
    for place, piece in enumerate(pieces[3:]):
        if place % 2:  # a header
            inline.append(piece)
        elif len(piece) <= INLINE_BYTES and len(piece) <= room:  # writer and reader must agree on this
            inline.append(piece)
            room -= len(piece)
        else:
            large.append(memoryview(piece))
    return inline, large


def _head(length: int, kind: int, call: int) -> bytes:
    if length > MOST_FRAME:
        raise ResourceExhaustedError(
            f"a call of {length} bytes beside its tensors: expected at most {MOST_FRAME}"
        )
    return _HEAD.pack(length, kind, call)


def _frame(kind: int, call: int, *pieces: bytes) -> bytes:
    return b"".join((_head(sum(map(len, pieces)), kind, call), *pieces))


class _Layout(NamedTuple):
    """The layout of a short frame that contains all its parts: a message, and at most one tensor.

    Attributes:
        lengths: the bytes before the message.
        end: the position after the message.
        header: of the tensor that follows, and its decoded form, if there is one.
    """

    lengths: bytes
    end: int
    header: bytes
    tensor: tuple[tuple[int, ...], np.dtype[Any]] | None


class Reader:
    """Parses frames: the connection fills `buffer()`, passes the number of bytes to `parse`, and gets events.

    State: either the rest of a chunk is expected, which goes to its part (`_chunk`) or is discarded (`_skip` bytes), or frames
    are collected in `_scratch`, of which `_start` to `_end` is not parsed yet. `incoming` are the calls with missing parts,
    `allocators` make arrays for the replies of calls. `_layouts` caches the layouts of short frames, by the position of their
    parts and by length, since steps repeat them; it is unused if short frames could exceed a low limit (`_is_narrow`).

    Args:
        most_message_bytes, most_tensor_bytes: the limits of a message and of a tensor.
        expected: calls whose replies are awaited; other replies are skipped.
        most_of: the limits of messages of methods with another limit.
    """

    def __init__(
        self,
        most_message_bytes: int,
        most_tensor_bytes: int,
        expected: Container[int] = frozenset(),
        most_of: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._most_message_bytes = most_message_bytes
        self._most_of = most_of
        self._most_tensor_bytes = most_tensor_bytes
        self._expected = expected
        self.kinds: Container[int] = _BEFORE_WELCOME
        """The kinds of frames allowed now; set with the welcome. Until then frames are short, and nothing is allocated."""
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._start = self._end = 0
        self._chunk: memoryview | None = None
        self._chunk_of: Parts | None = None  # the call of `_chunk`
        self._skip = 0
        self.incoming: dict[int, Parts] = {}
        self.allocators: dict[int, Allocate] = {}
        self._layouts: dict[tuple[int, int], _Layout] = {}
        self._is_narrow = min(most_message_bytes, most_tensor_bytes, *most_of.values()) < _SHORT

    def buffer(self) -> memoryview:
        """The buffer for the next bytes; never empty."""
        if self._chunk is not None:
            return self._chunk
        if self._skip:
            return self._scratch[: self._skip]
        return self._scratch[self._end :] if self._end else self._scratch

    def forget(self, call: int) -> None:
        """Skip the remaining parts of a call."""
        self.incoming.pop(call, None)

    def parse(self, count: int) -> list[Event]:
        """Parse the bytes that are in `buffer()` now.

        Raises:
            DataLossError: the bytes violate the protocol.
        """
        events: list[Event] = []
        if self._chunk is None and not self._skip:
            self._end += count
            try:
                self._read_frames(events)
            except (StructError, UnicodeDecodeError) as error:
                raise DataLossError(f"a malformed frame: {error}") from None
        elif self._chunk is None:
            self._skip -= count
        elif count < len(self._chunk):
            self._chunk = self._chunk[count:]
        else:
            self._end_chunk(events)
        return events

    def _read_frames(self, events: list[Event]) -> None:
        scratch, start = self._scratch, self._start
        while self._end - start >= _HEAD_BYTES:
            length, kind, call = _HEAD.unpack_from(scratch, start)
            if kind not in self.kinds:
                raise DataLossError(f"a frame of kind {kind}, which is not allowed now")
            if kind == CHUNK:
                self._start = start
                self._read_chunk(call, length, events)
                start = self._start
                continue
            begin = start + _HEAD_BYTES
            end = begin + length
            if end > self._end:
                self._start = start
                self._make_room(_HEAD_BYTES + length)
                return
            body: Bytes = scratch[begin:end]
            if length <= _SHORT:
                body = bytes(body)  # slices of bytes are cheaper
            event = (self._read_parts_of if kind in _WITH_PARTS else _read_frame)(kind, call, body)
            if event is not None:
                events.append(event)
            start = end
        self._start = start
        if start == self._end and len(scratch) == _SCRATCH:
            self._start = self._end = 0
        else:
            self._make_room(_HEAD_BYTES)

    def _make_room(self, needed: int) -> None:
        """Move the unparsed bytes to the front of a scratch of at least `needed` bytes."""
        most = MOST_FRAME if self.kinds is not _BEFORE_WELCOME else _SCRATCH - _HEAD_BYTES
        if needed - _HEAD_BYTES > most:
            raise DataLossError(f"a frame of {needed - _HEAD_BYTES} bytes: expected at most {most}")
        left = self._scratch[self._start : self._end]
        self._start, self._end = 0, len(left)
        size = max(needed, _SCRATCH)
        if len(self._scratch) != size:
            self._scratch = memoryview(bytearray(size))
        self._scratch[: len(left)] = left

    def _read_parts_of(self, kind: int, call: int, body: Bytes) -> Parts | None:
        """Parse the frame of a message; return it if it is complete."""
        if kind == REQUEST:
            timeout, at = _REQUEST.unpack_from(body)
            at += _REQUEST.size
            if not timeout >= 0:
                raise DataLossError(f"call {call}: expected the seconds left, got {timeout}")
            parts = Parts(call, str(body[_REQUEST.size : at], "ascii"), timeout)
        elif call in self._expected:
            at = 0
            parts = Parts(call)
            parts.is_notification = kind == NOTIFICATION
        else:
            return None
        if call in self.incoming and kind != NOTIFICATION:
            raise DataLossError(f"call {call} has begun already")
        try:
            self._read_parts(parts, body, at)
        except ResourceExhaustedError as error:
            return _refused(parts, error)
        if parts.missing:
            self.incoming[call] = parts
            return None
        return parts

    def _read_parts(self, parts: Parts, body: Bytes, at: int) -> None:
        layout = self._layouts.get((at, len(body)))
        if (
            layout is not None
            and isinstance(body, bytes)
            and body.startswith(layout.lengths, at)
            and body.startswith(layout.header, layout.end)
        ):
            parts.message = body[at + _PARTS_BYTES : layout.end]
            if layout.tensor is not None:
                parts.tensors.append(np.ndarray(*layout.tensor, body, layout.end + len(layout.header)).copy())
            return
        length, count = _PARTS.unpack_from(body, at)
        begin = at + _PARTS_BYTES
        if (most := self._most_of.get(parts.method, self._most_message_bytes)) < length:
            raise ResourceExhaustedError(f"a message of {length} bytes: expected at most {most}")
        if count > MOST_TENSORS:
            raise ResourceExhaustedError(f"a call of {count} tensors: expected at most {MOST_TENSORS}")
        room = _MOST_INLINE
        if length <= INLINE_BYTES:
            end = begin + length
            parts.message = bytes(body[begin:end])  # a short message is detected below
            room -= length
        else:
            end = begin
            _check_may_follow(parts)
            parts.message = memory_of(length)
            parts.missing = deque((parts.message,))
        ended = self._read_tensors(parts, count, body, end, room)
        if ended != len(body):
            raise DataLossError(f"call {parts.call}: expected {ended} bytes, got a frame of {len(body)}")
        if isinstance(body, bytes) and count <= 1 and parts.are_read:
            self._remember(parts, body, at, end)

    def _read_tensors(self, parts: Parts, count: int, body: Bytes, at: int, room: int) -> int:
        """Parse the tensors of a frame, of which `room` bytes may be inline; return the position after them."""
        for _ in range(count):
            small = read_small(body, at, min(room, self._most_tensor_bytes))
            if small is not None:
                array, at = small
                room -= array.nbytes
                parts.tensors.append(array)
                continue
            tensor, at = Tensor.read(body, at, self._most_tensor_bytes)
            parts.tensors.append(tensor)
            if tensor is None:
                continue
            parts.are_read = False
            parts.takes_long |= tensor.takes_long
            if tensor.length <= INLINE_BYTES and tensor.length <= room:
                tensor.fill(body, at)
                at += tensor.length
                room -= tensor.length
            else:
                _check_may_follow(parts)
                tensor.allocate(self.allocators.get(parts.call))
                parts.missing = parts.missing or deque()
                parts.missing.append(tensor.memory)
        return at

    def _remember(self, parts: Parts, body: bytes, at: int, end: int) -> None:
        """Cache the layout of a frame for frames of the same length."""
        if self._is_narrow:
            return
        tensor = parts.tensors[0] if parts.tensors else None
        if parts.tensors and tensor is None:
            return
        known = None if tensor is None else (tensor.shape, tensor.dtype)
        elements = len(body) - (0 if tensor is None else tensor.nbytes)
        if len(self._layouts) >= _MOST_LAYOUTS:
            self._layouts.clear()
        self._layouts[at, len(body)] = _Layout(body[at : at + _PARTS_BYTES], end, body[end:elements], known)

    def _read_chunk(self, call: int, length: int, events: list[Event]) -> None:
        if not 1 <= length <= MOST_CHUNK:
            raise DataLossError(f"a chunk of {length} bytes: expected 1 to {MOST_CHUNK}")
        begin = self._start + _HEAD_BYTES
        end = min(begin + length, self._end)
        here, self._start = self._scratch[begin:end], end
        missing = length - len(here)
        parts = self.incoming.get(call)
        if parts is None:
            self._skip = missing
        else:
            assert parts.missing is not None
            part = parts.missing.popleft()
            if length > len(part):
                raise DataLossError(f"call {call}: a chunk of {length} bytes where {len(part)} were missing")
            part[: len(here)] = here
            if length < len(part):
                parts.missing.appendleft(part[length:])
            self._chunk, self._chunk_of = part[len(here) : length], parts
            if not missing:
                self._end_chunk(events)
        if missing:
            self._start = self._end = 0

    def _end_chunk(self, events: list[Event]) -> None:
        parts, self._chunk, self._chunk_of = self._chunk_of, None, None
        assert parts is not None
        if not parts.missing and self.incoming.get(parts.call) is parts:
            del self.incoming[parts.call]
            events.append(parts)


def _read_frame(kind: int, call: int, body: Bytes) -> Event:
    if kind == FAILURE:
        return _read_failure(call, body)
    if kind == CANCEL:
        return Cancel(call)
    if kind == GREETING:
        return fast_events.Greeting(*_GREETING.unpack(body))
    if kind == CHALLENGE:
        return fast_events.Challenge(*_CHALLENGE.unpack(body))
    if kind == PROOF:
        return fast_events.Proof(*_PROOF.unpack(body))
    return fast_events.Welcome() if kind == WELCOME else Closing(str(body, "utf-8", "replace"))


def _refused(parts: Parts, error: ResourceExhaustedError) -> Parts:
    if parts.is_notification:
        raise DataLossError(f"call {parts.call}: {error.message}") from None
    refused = Parts(parts.call, parts.method, parts.timeout)
    refused.refused = error
    return refused


def _check_may_follow(parts: Parts) -> None:
    if parts.is_notification:
        raise DataLossError(f"call {parts.call}: a notification must fit one frame")


def _read_failure(call: int, body: Bytes) -> Failure:
    code, length, count = _FAILURE.unpack_from(body)
    at = _FAILURE.size
    message = str(_cut(body, at, length), "utf-8", "replace")
    at += length
    payloads = {}
    for _ in range(count):
        url, value = _PAYLOAD.unpack_from(body, at)
        at += _PAYLOAD.size
        payloads[str(_cut(body, at, url), "utf-8")] = bytes(_cut(body, at + url, value))
        at += url + value
    return Failure(call, code, message, payloads)


def _cut(body: Bytes, at: int, length: int) -> Bytes:
    if at + length > len(body):
        raise DataLossError(f"a frame of {len(body)} bytes: expected {at + length} at least")
    return body[at : at + length]
