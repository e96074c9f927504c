"""Encoding of requests and replies as protobuf, with tensors inside the messages.

Protobuf would copy the contents of tensors several times, so they are inserted between protobuf's bytes when encoding, and not
parsed by protobuf when decoding (`message_pieces`). Protobuf permits any order of fields, so other readers see the same
message.

Input is untrusted: nothing is allocated for a tensor before dtype, shape and size have been checked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from aioexec import dtypes
from aioexec.distributed.transport.message_pieces import Pieces, written
from aioexec.distributed.transport.methods import METHODS, STAY, tensor_protos
from aioexec.distributed.transport.settings import PROTOBUF_BYTES, Limits
from aioexec.distributed.transport.transport import Payload
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from aioexec.formats.message_fields import PIECE, Chunk, delimited, delimited_key, tensor_chunks
from aioexec.formats.protos import DataType, TensorProto, TensorShapeProto
from aioexec.formats.repeated import is_one_repeated
from aioexec.formats.tensor_codec import (
    MAX_BYTES,
    Array,
    count_listed,
    decode_tensor,
    dtype_and_dims,
)
from aioexec.in_thread import in_thread

INLINE: Final = 1 << 18
"""Messages of more bytes are encoded and decoded in a thread."""

_WITH_GRAPH: Final = ("/CreateSession", "/ExtendSession", "/RegisterGraph")
_OBJECT_BYTES: Final = 64  # assumed size of a string, to estimate whether encoding takes long

_MOST_REPEATED: Final = 1 << 26
"""The most bytes that repeated elements of the tensors in one message may expand to."""

_WRITE: Final = 1 << 18  # bytes to copy at once
_LONG_SHAPE: Final = 256  # bytes; longer shapes are not cached, since a peer could fill the memory with them


async def encode_request(method: str, request: Payload) -> bytes:
    """Encode a request.

    Raises:
        ResourceExhaustedError: more bytes than protobuf supports.
    """
    return await _encode_payload(request, METHODS[method].sent, method.endswith(_WITH_GRAPH))


async def encode_reply(method: str, reply: Payload) -> bytes:
    """Encode a reply.

    Raises:
        ResourceExhaustedError: more bytes than protobuf supports.
    """
    return await _encode_payload(reply, METHODS[method].received, False)


async def decode_request(method: str, data: bytes, limits: Limits) -> Payload:
    """Decode a request; its large tensors are read-only views of the bytes.

    Raises:
        InternalError: malformed bytes.
        InvalidArgumentError: an inconsistent tensor.
        ResourceExhaustedError: a graph, or a tensor, of more bytes than the limits allow.
    """
    if len(data) > limits.graph_bytes and method.endswith(_WITH_GRAPH):
        raise ResourceExhaustedError(
            f"{method}: expected a graph of at most {limits.graph_bytes} bytes, got a message of {len(data)}"
        )
    described = METHODS[method]
    arguments = (data, described.request, described.sent, limits, False)
    return await in_thread(decode, *arguments) if len(data) > INLINE else decode(*arguments)


async def decode_reply(method: str, data: bytes, limits: Limits) -> Payload:
    """Decode a reply; its tensors are writable.

    Raises:
        InternalError, InvalidArgumentError, ResourceExhaustedError: see `decode_request`.
    """
    described = METHODS[method]
    arguments = (data, described.response, described.received, limits, True)
    return await in_thread(decode, *arguments) if len(data) > INLINE else decode(*arguments)


async def _encode_payload(payload: Payload, field: str, with_graph: bool) -> bytes:
    if with_graph:
        return await in_thread(_encode_in_pieces, payload.message)
    if _size(payload.tensors, _OBJECT_BYTES) > INLINE:
        return await in_thread(encode, payload, field)
    return encode(payload, field)


def _size(tensors: Sequence[Any], object_bytes: int = 0) -> int:
    return sum(
        tensor.size * object_bytes if tensor.dtype.hasobject else tensor.nbytes
        for tensor in tensors
        if isinstance(tensor, np.ndarray)
    )


# Writing


def _encode_in_pieces(message: Any) -> bytes:
    pieces = list(written(message))
    return _join(message, pieces)


def encode(payload: Payload, field: str) -> bytes:
    """Encode a message and its tensors, which belong in `field`; the message is not changed.

    Raises:
        ResourceExhaustedError: more bytes than protobuf supports.
    """
    message = payload.message
    if not payload.tensors:
        content: bytes = message.SerializeToString()
        return content
    _check_size(message, _size(payload.tensors))
    chunks = _chunks(message, field, payload.tensors)
    return _join(message, chunks)


def _join(message: Any, chunks: Sequence[Chunk]) -> bytes:
    size = sum(map(len, chunks))
    _check_size(message, size)
    if size <= INLINE:
        return b"".join(chunks)
    # Several writes: other threads get the interpreter lock between them. `getvalue` returns the buffer without a copy.
    buffer = BytesIO()
    for chunk in chunks:
        for start in range(0, len(chunk), _WRITE):
            buffer.write(chunk[start : start + _WRITE])
    return buffer.getvalue()


def _check_size(message: Any, size: int) -> None:
    if size > PROTOBUF_BYTES:
        raise ResourceExhaustedError(
            f"{type(message).__name__}: expected at most {PROTOBUF_BYTES} bytes, protobuf's own bound, got {size}"
        )


def _chunks(message: Any, field: str, tensors: Sequence[Any]) -> list[Chunk]:
    held = getattr(message, field)
    key, inner_key = _keys(message.DESCRIPTOR, field)
    if isinstance(held, TensorProto):
        (tensor,) = tensors
        rest = message.SerializeToString()
        return [rest] if tensor is None else [rest, *delimited(key, tensor_chunks(tensor))]
    if inner_key and len(held) != len(tensors):
        raise ValueError(
            f"{type(message).__name__}.{field}: expected {len(held)} tensors, got {len(tensors)}"
        )
    without = type(message)()
    without.CopyFrom(message)
    without.ClearField(field)
    chunks: list[Chunk] = [without.SerializeToString()]
    for index, tensor in enumerate(tensors):
        if tensor is None:
            chunks += delimited(key, [held[index].SerializeToString()])
        elif inner_key:
            content = delimited(inner_key, tensor_chunks(tensor))
            chunks += delimited(key, [held[index].SerializeToString(), *content])
        else:
            chunks += delimited(key, tensor_chunks(tensor))
    return chunks


@lru_cache(maxsize=64)
def _keys(descriptor: Any, field: str) -> tuple[bytes, bytes]:
    """The key of a field, and that of the tensor within it, b"" if the field is the tensor."""
    described = descriptor.fields_by_name[field]
    inner = described.message_type.fields_by_name.get("tensor")
    return delimited_key(described.number), b"" if inner is None else delimited_key(inner.number)


# Reading


def decode(
    data: bytes,
    kind: type[Any],
    field: str,
    limits: Limits,
    writable: bool,
    most_repeated: int = _MOST_REPEATED,
) -> Payload:
    """Decode a message of class `kind`, and the tensors in `field` of it.

    Raises:
        InternalError: malformed bytes.
        InvalidArgumentError: an inconsistent tensor.
        ResourceExhaustedError: a tensor of more bytes than the limits allow.
    """
    pieces = Pieces()
    message = kind()
    try:
        if len(data) > PIECE:
            pieces.merge(message, memoryview(data))
        else:
            message.MergeFromString(data)
    except DecodeError as error:
        raise InternalError(f"Unable to parse {kind.__name__}") from error
    tensors = list(_tensors(message, field, pieces, limits, writable, most_repeated))
    pieces.put_back()
    return Payload(message, tensors)


def _tensors(
    message: Any, field: str, pieces: Pieces, limits: Limits, writable: bool, most_repeated: int
) -> Iterator[Any]:
    room = most_repeated
    for index, place in enumerate(tensor_protos(message, field)):
        if place.dtype in STAY:
            yield None
            continue
        try:
            content = _content(place, pieces)
            value = _value(place, content, limits, writable, room)
            if content is None:
                room -= _repeated_bytes(place, value)
            yield value
        except InvalidArgumentError as error:
            what = "fetch" if writable else "feed"
            raise InvalidArgumentError(f"Invalid TensorProto for {what} value {index}: {error}") from error
        place.Clear()


def _content(place: TensorProto, pieces: Pieces) -> memoryview | None:
    """Remove the unparsed content of a tensor from the pieces and return it, or None."""
    for index, (proto, content) in enumerate(pieces.contents):
        if proto is place:
            del pieces.contents[index]
            return content
    return None


def _repeated_bytes(place: TensorProto, value: Array) -> int:
    """The memory of a decoded tensor, if the message lists fewer elements than it has."""
    if is_one_repeated(value) or place.tensor_content:
        return 0
    return value.nbytes if count_listed(place, as_dtype(int(place.dtype))) < value.size else 0


def _value(
    place: TensorProto, content: memoryview | None, limits: Limits, writable: bool, room: int
) -> Array:
    shape = place.tensor_shape.SerializeToString()
    describe = _described if len(shape) < _LONG_SHAPE else _described.__wrapped__
    dtype, dims, needed = describe(place.dtype, shape)
    held = content or place.tensor_content
    if needed > limits.tensor_bytes:
        # A message with all these bytes exceeds the limit; one that only announces them is malformed.
        kind = ResourceExhaustedError if len(held) == needed else InvalidArgumentError
        raise kind(
            f"tensor of {dtype.name}{list(dims)}: expected at most {limits.tensor_bytes} bytes, got {needed}"
        )
    if not held:
        listed = decode_tensor(place, room)
        if not writable or listed.flags.writeable:
            return listed
        if listed.nbytes > room:
            raise InvalidArgumentError(
                f"tensor of {dtype.name}{list(dims)}: expected at most {room} bytes, got {listed.nbytes} by one element"
            )
        return listed.copy()
    if dtype.numpy.hasobject:
        place.tensor_content = bytes(held)
        return decode_tensor(place, MAX_BYTES)
    if len(held) != needed:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name}{list(dims)}: expected {needed} bytes of content, got {len(held)}"
        )
    if dtype is dtypes.bool_:
        return np.not_equal(np.frombuffer(held, np.uint8), 0).reshape(dims)
    view = np.frombuffer(held, dtype.numpy).reshape(dims)
    return view.copy() if writable or not view.flags.aligned else view


@lru_cache(maxsize=1024)
def _described(number: DataType, shape: bytes) -> tuple[DType, tuple[int, ...], int]:
    """Dtype, static shape and bytes of a tensor, checked to be possible."""
    dtype, dims = dtype_and_dims(TensorProto(dtype=number, tensor_shape=TensorShapeProto.FromString(shape)))
    return dtype, dims, math.prod(dims) * dtype.numpy.itemsize
