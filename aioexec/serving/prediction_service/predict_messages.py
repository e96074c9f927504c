"""Predict: bytes of requests to arrays, and arrays to bytes of replies.

Contents of tensors are not parsed by protobuf, which would copy them: they are views of the received bytes. Replies list
numbers in the repeated field of their dtype, as TensorFlow Serving does, since clients read `outputs["y"].float_val`. Packed
floats have the same bytes as the array, so these are inserted between protobuf's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, as_dtype
from aioexec.errors import InvalidArgumentError
from aioexec.formats.message_fields import Chunk, content_of, delimited, delimited_key, split
from aioexec.formats.protos import TensorProto, TensorShapeProto
from aioexec.formats.sorted_table import encode_varint
from aioexec.formats.tensor_codec import Array, count_listed, decode_tensor, dtype_and_dims, list_elements
from aioexec.in_thread import in_thread
from aioexec.serving.protos.prediction_pb2 import ModelSpec, PredictRequest, PredictResponse

INLINE: Final = 1 << 18
"""Messages of more bytes are decoded and encoded in a thread."""

_INPUTS: Final = PredictRequest.INPUTS_FIELD_NUMBER
_CONTENT: Final = TensorProto.TENSOR_CONTENT_FIELD_NUMBER
_OUTPUTS_KEY: Final = delimited_key(PredictResponse.OUTPUTS_FIELD_NUMBER)
_MAP_KEY, _MAP_VALUE = 1, 2  # fields of a map's entries
_SHORT: Final = 256  # bytes of what is cached; a client could fill the memory with longer ones

_PACKED: Final = {
    dt.float32: "float_val",
    dt.float64: "double_val",
    dt.complex64: "scomplex_val",
    dt.complex128: "dcomplex_val",
    dt.bool_: "bool_val",
}
"""The repeated fields whose packed form is the memory of an array."""


@dataclass(frozen=True, slots=True)
class PredictCall:
    """A request: `outputs` are the names of the wanted ones, empty for all."""

    spec: ModelSpec
    inputs: Mapping[str, Array]
    outputs: Sequence[str]


async def decode_request(data: bytes, most_bytes: int) -> PredictCall:
    """Parse a PredictRequest; its large tensors are read-only views of the bytes.

    Args:
        most_bytes: that tensors with fewer listed elements than their shape has may expand to, all together.

    Raises:
        InvalidArgumentError: malformed bytes, or a tensor that contradicts itself.
    """
    return await in_thread(_decode, data, most_bytes) if len(data) > INLINE else _decode(data, most_bytes)


def _decode(data: bytes, most_bytes: int) -> PredictCall:
    try:
        rest, entries = split(memoryview(data), _INPUTS)
        request = PredictRequest.FromString(rest)
        return PredictCall(request.model_spec, dict(_inputs(entries, most_bytes)), [*request.output_filter])
    except DecodeError as error:
        raise InvalidArgumentError(f"expected a PredictRequest, got malformed bytes: {error}") from error


def _inputs(entries: Sequence[memoryview], room: int) -> Iterator[tuple[str, Array]]:
    for entry in entries:
        rest, values = split(entry, _MAP_VALUE)
        # Protobuf merges values of one entry, which is the same as to join their bytes.
        value = values[0] if len(values) == 1 else memoryview(b"".join(values))
        name = PredictRequest.InputsEntry.FromString(rest).key
        try:
            array, expanded = _decode_tensor(value, room)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"input {name!r}: {error.message}") from error
        room -= expanded
        yield name, array


def _decode_tensor(data: memoryview, room: int) -> tuple[Array, int]:
    """The array of a TensorProto, and its memory if it lists fewer elements than its shape has, else 0."""
    head, contents = split(data, _CONTENT)
    dtype, dims, needed = (_head_of if len(head) <= _SHORT else _head_of.__wrapped__)(head)
    if not contents or not contents[-1] or dtype is dt.string:
        return _decode_listed(TensorProto.FromString(bytes(data)), dtype, needed, room)
    content = contents[-1]  # the last one counts
    if len(content) != needed:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name}{list(dims)}: expected {needed} bytes of content, got {len(content)}"
        )
    if dtype is dt.bool_:
        return np.not_equal(np.frombuffer(content, np.uint8), 0).reshape(dims), 0
    return np.frombuffer(content, dtype.numpy).reshape(dims), 0


def _decode_listed(proto: TensorProto, dtype: DType, needed: int, room: int) -> tuple[Array, int]:
    is_complete = proto.tensor_content or count_listed(proto, dtype) * dtype.numpy.itemsize >= needed
    expanded = 0 if is_complete else needed
    if expanded > room:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name}: expected at most {room} bytes by fewer elements than its shape has, got {needed}"
        )
    return decode_tensor(proto, max(needed, 1)), expanded


@lru_cache(maxsize=256)
def _head_of(head: bytes) -> tuple[DType, tuple[int, ...], int]:
    """Dtype, shape and bytes of a TensorProto without its content, checked to be possible."""
    dtype, dims = dtype_and_dims(TensorProto.FromString(head))
    if dtype in (dt.resource, dt.variant):
        raise InvalidArgumentError(f"TensorProto: expected numbers or strings, got {dtype.name}")
    return dtype, dims, int(np.prod(dims, dtype=object)) * dtype.numpy.itemsize


async def encode_reply(spec: ModelSpec, outputs: Mapping[str, Array]) -> bytes:
    """Serialize a PredictResponse."""
    size = sum(value.size * 64 if value.dtype.hasobject else value.nbytes for value in outputs.values())
    return await in_thread(_encode, spec, outputs) if size > INLINE else _encode(spec, outputs)


def _encode(spec: ModelSpec, outputs: Mapping[str, Array]) -> bytes:
    chunks: list[Chunk] = [PredictResponse(model_spec=spec).SerializeToString()]
    for name, value in outputs.items():
        tensor = delimited(delimited_key(_MAP_VALUE), _listed(value))
        chunks += delimited(_OUTPUTS_KEY, [*delimited(delimited_key(_MAP_KEY), [name.encode()]), *tensor])
    return b"".join(chunks)


def _listed(array: Array) -> list[Chunk]:
    """A TensorProto with its elements in the repeated field of their dtype."""
    dtype = as_dtype(array.dtype)
    field = _PACKED.get(dtype)
    if field is None:
        proto = TensorProto.FromString(_head(array.dtype, array.shape, ""))
        list_elements(proto, array, dtype)
        return [proto.SerializeToString()]
    content = content_of(array)
    return [_head(array.dtype, array.shape, field), encode_varint(len(content)), content]


@lru_cache(maxsize=1024)
def _head(dtype: np.dtype[Any], shape: tuple[int, ...], field: str) -> bytes:
    """The bytes of a TensorProto before the length of a field; without a field, before its elements."""
    dims = [TensorShapeProto.Dim(size=size) for size in shape]
    head = TensorProto(dtype=as_dtype(dtype).as_datatype_enum, tensor_shape=TensorShapeProto(dim=dims))
    number = TensorProto.DESCRIPTOR.fields_by_name[field].number if field else None
    return head.SerializeToString() + (b"" if number is None else delimited_key(number))
