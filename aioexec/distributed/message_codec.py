"""Requests and replies as protobuf's bytes and back, the tensors inside them.

Protobuf would copy what a tensor holds several times, so its bytes are put between protobuf's by hand and left out of what
protobuf parses (`message_pieces`). Field order is free in protobuf, so the bytes mean the same to every other reader.

What comes in may be anything. Nothing is allocated for a tensor before dtype, shape and size have been checked.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from aioexec import dtypes
from aioexec.distributed.message_pieces import PIECE, Pieces
from aioexec.distributed.methods import METHODS, STAY, tensor_protos
from aioexec.distributed.settings import PROTOBUF_BYTES, Limits
from aioexec.distributed.transport import Payload
from aioexec.dtypes import as_dtype
from aioexec.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from aioexec.formats.protos import TensorProto, TensorShapeProto
from aioexec.formats.sorted_table import encode_varint
from aioexec.formats.tensor_codec import MAX_BYTES, Array, decode_tensor, dtype_and_dims, encode_tensor

INLINE: Final = 1 << 18
"""What has more bytes is encoded and decoded in a thread."""

_WITH_GRAPH: Final = ("/CreateSession", "/ExtendSession", "/RegisterGraph")
_OBJECT_BYTES: Final = 64  # of a string, say, when it must be guessed whether encoding takes long

Chunk = bytes | memoryview


async def encoded_request(method: str, request: Payload) -> bytes:
    """The bytes of a request.

    Raises:
        ResourceExhaustedError: more than protobuf can hold.
    """
    return await _encoded(request, METHODS[method].sent, method.endswith(_WITH_GRAPH))


async def encoded_reply(method: str, reply: Payload) -> bytes:
    """The bytes of a reply.

    Raises:
        ResourceExhaustedError: more than protobuf can hold.
    """
    return await _encoded(reply, METHODS[method].received, False)


async def decoded_request(method: str, data: bytes, limits: Limits) -> Payload:
    """The request that the bytes say; its large tensors are read-only views of the bytes.

    Raises:
        InternalError: they say none.
        InvalidArgumentError: a tensor that contradicts itself.
        ResourceExhaustedError: a graph, or a tensor, of more bytes than the limits allow.
    """
    if len(data) > limits.graph_bytes and method.endswith(_WITH_GRAPH):
        raise ResourceExhaustedError(
            f"{method}: expected a graph of at most {limits.graph_bytes} bytes, got a message of {len(data)}"
        )
    described = METHODS[method]
    arguments = (data, described.request, described.sent, limits, False)
    return await asyncio.to_thread(decode, *arguments) if len(data) > INLINE else decode(*arguments)


async def decoded_reply(method: str, data: bytes, limits: Limits) -> Payload:
    """The reply that the bytes say; the caller may write to its tensors.

    Raises:
        InternalError, InvalidArgumentError, ResourceExhaustedError: likewise.
    """
    described = METHODS[method]
    arguments = (data, described.response, described.received, limits, True)
    return await asyncio.to_thread(decode, *arguments) if len(data) > INLINE else decode(*arguments)


async def _encoded(payload: Payload, field: str, with_graph: bool) -> bytes:
    if with_graph or _size(payload.tensors, _OBJECT_BYTES) > INLINE:
        return await asyncio.to_thread(encode, payload, field)
    return encode(payload, field)


def _size(tensors: Sequence[Any], object_bytes: int = 0) -> int:
    return sum(
        tensor.size * object_bytes if tensor.dtype.hasobject else tensor.nbytes
        for tensor in tensors
        if isinstance(tensor, np.ndarray)
    )


# Writing


def encode(payload: Payload, field: str) -> bytes:
    """The bytes of a message with its tensors, which are in `field` of it; the message stays as it is.

    Raises:
        ResourceExhaustedError: more than protobuf can hold.
    """
    message = payload.message
    if not payload.tensors:
        return message.SerializeToString()  # type: ignore[no-any-return]
    _check_size(message, _size(payload.tensors))
    chunks = list(_chunks(message, field, payload.tensors))
    _check_size(message, sum(map(len, chunks)))
    return b"".join(chunks)


def _check_size(message: Any, size: int) -> None:
    if size > PROTOBUF_BYTES:
        raise ResourceExhaustedError(
            f"{type(message).__name__}: expected at most {PROTOBUF_BYTES} bytes, protobuf's own bound, got {size}"
        )


def _chunks(message: Any, field: str, tensors: Sequence[Any]) -> Iterator[Chunk]:
    held = getattr(message, field)
    key = _key(message.DESCRIPTOR.fields_by_name[field].number)
    if isinstance(held, TensorProto):
        yield message.SerializeToString()
        (tensor,) = tensors
        if tensor is not None:
            yield from _delimited(key, list(_tensor_chunks(tensor)))
        return
    rest = type(message)()
    rest.CopyFrom(message)
    rest.ClearField(field)
    yield rest.SerializeToString()
    named = bool(held) and not isinstance(held[0], TensorProto)
    if named and len(held) != len(tensors):
        raise ValueError(
            f"{type(message).__name__}.{field}: expected {len(held)} tensors, got {len(tensors)}"
        )
    for index, tensor in enumerate(tensors):
        parts: list[Chunk] = [held[index].SerializeToString()] if named or tensor is None else []
        if tensor is not None:
            content = list(_tensor_chunks(tensor))
            parts += _delimited(_key(held[index].TENSOR_FIELD_NUMBER), content) if named else content
        yield from _delimited(key, parts)


def _tensor_chunks(tensor: Any) -> Iterator[Chunk]:
    """A TensorProto as TensorFlow's servers write it: numbers as `tensor_content`, whatever their number."""
    array = np.asarray(tensor)
    if array.dtype.kind in "OSU":
        yield encode_tensor(array, dtypes.string).SerializeToString()
        return
    yield _head(array.dtype, array.shape)
    if array.nbytes > PIECE:
        yield encode_varint(array.nbytes)
        yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    else:
        content = array.tobytes()
        yield encode_varint(len(content))
        yield content


@lru_cache(maxsize=1024)
def _head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """A TensorProto up to the length of its content."""
    dims = [TensorShapeProto.Dim(size=size) for size in shape]
    head = TensorProto(
        dtype=as_dtype(dtype).as_datatype_enum,  # type: ignore[arg-type]  # enum numbers are ints here
        tensor_shape=TensorShapeProto(dim=dims),
    )
    return head.SerializeToString() + _key(TensorProto.TENSOR_CONTENT_FIELD_NUMBER)


def _delimited(key: bytes, chunks: list[Chunk]) -> list[Chunk]:
    return [key + encode_varint(sum(map(len, chunks))), *chunks]


def _key(number: int) -> bytes:
    """What comes before the length of a field that has one."""
    return encode_varint(number << 3 | 2)


# Reading


def decode(data: bytes, kind: type[Any], field: str, limits: Limits, writable: bool) -> Payload:
    """The message of a class that the bytes say, and the tensors in `field` of it.

    Raises:
        InternalError: they say none.
        InvalidArgumentError: a tensor that contradicts itself.
        ResourceExhaustedError: one of more bytes than the limits allow.
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
    tensors = list(_tensors(message, field, pieces, limits, writable))
    pieces.put_back()
    return Payload(message, tensors)


def _tensors(message: Any, field: str, pieces: Pieces, limits: Limits, writable: bool) -> Iterator[Any]:
    for index, place in enumerate(tensor_protos(message, field)):
        if place.dtype in STAY:
            yield None
            continue
        try:
            yield _value(place, _content(place, pieces), limits, writable)
        except InvalidArgumentError as error:
            what = "fetch" if writable else "feed"
            raise InvalidArgumentError(f"Invalid TensorProto for {what} value {index}: {error}") from error
        place.Clear()


def _content(place: TensorProto, pieces: Pieces) -> memoryview | None:
    """What was left out of a tensor, which is left to whoever asks."""
    for index, (proto, content) in enumerate(pieces.contents):
        if proto is place:
            del pieces.contents[index]
            return content
    return None


def _value(place: TensorProto, content: memoryview | None, limits: Limits, writable: bool) -> Array:
    dtype, dims = dtype_and_dims(place)
    needed = math.prod(dims) * dtype.numpy.itemsize
    if needed > limits.tensor_bytes:
        raise ResourceExhaustedError(
            f"tensor of {dtype.name}{list(dims)}: expected at most {limits.tensor_bytes} bytes, got {needed}"
        )
    if content is None or dtype is dtypes.string or dtype is dtypes.bool_:
        if content is not None:
            place.tensor_content = bytes(content)
        return decode_tensor(place, MAX_BYTES)
    if len(content) != needed:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name}{list(dims)}: expected {needed} bytes of content, got {len(content)}"
        )
    view = np.frombuffer(content, dtype.numpy).reshape(dims)
    return view.copy() if writable or not view.flags.aligned else view
