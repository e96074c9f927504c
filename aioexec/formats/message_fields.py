"""Serialised protocol buffer messages taken apart and put together without protobuf, which would copy the content of tensors.

A message is a sequence of fields; protobuf accepts any order. `split` cuts the values of one field out as views of the input,
and leaves the other fields to protobuf. `delimited` and `tensor_chunks` write fields as chunks, which the caller joins once.

Input is untrusted: a length is compared with the bytes available before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from aioexec import dtypes
from aioexec.dtypes import as_dtype
from aioexec.errors import DataLossError
from aioexec.formats.protos import TensorProto, TensorShapeProto
from aioexec.formats.sorted_table import decode_varint, encode_varint
from aioexec.formats.tensor_codec import encode_tensor

PIECE: Final = 1 << 16
"""Bytes of a field from which avoiding a copy is worth the work."""

VARINT: Final = 0
DELIMITED: Final = 2
FIXED: Final = {1: 8, 5: 4}
"""Bytes of a value by wire type."""

Chunk = bytes | memoryview


def field_at(data: memoryview, position: int) -> tuple[int, int, int, int]:
    """Number, wire type, begin and end of the value of the field at a position.

    Raises:
        DecodeError: malformed bytes.
    """
    key, begin = _varint(data, position)
    wire = key & 7
    end = begin
    if wire == DELIMITED:
        length, begin = _varint(data, begin)
        end = begin + length
    elif wire == VARINT:
        _, end = _varint(data, begin)
    else:
        end = begin + FIXED.get(wire, 0)
    if end > len(data):
        raise DecodeError(f"field {key >> 3}: expected {end - begin} bytes, got {len(data) - begin}")
    return key >> 3, wire, begin, end


def split(data: memoryview, number: int) -> tuple[bytes, list[memoryview]]:
    """Return the bytes of a message without the length-delimited field `number`, and the values of that field in order.

    Raises:
        DecodeError: malformed bytes.
    """
    rest: list[memoryview] = []
    values: list[memoryview] = []
    start = position = 0
    while position < len(data):
        found, wire, begin, end = field_at(data, position)
        if wire not in (VARINT, DELIMITED) and wire not in FIXED:
            break  # a group, or malformed: left to protobuf
        if found == number and wire == DELIMITED:
            rest.append(data[start:position])
            values.append(data[begin:end])
            start = end
        position = end
    rest.append(data[start:])
    return b"".join(rest), values


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """A varint and the position after it; most have one byte."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    try:
        return decode_varint(data, position)
    except DataLossError as error:
        raise DecodeError(str(error)) from error


def delimited(key: bytes, chunks: Sequence[Chunk]) -> list[Chunk]:
    """A length-delimited field whose value is in chunks."""
    return [key + encode_varint(sum(map(len, chunks))), *chunks]


def delimited_key(number: int) -> bytes:
    """The key of a length-delimited field, as bytes."""
    return encode_varint(number << 3 | DELIMITED)


def tensor_chunks(tensor: Any) -> list[Chunk]:
    """A TensorProto in the form of TensorFlow's servers: numbers as `tensor_content`, even a single one."""
    array = np.asarray(tensor)
    if array.dtype.kind in "OSU":
        return [encode_tensor(array, dtypes.string).SerializeToString()]
    content = content_of(array)
    return [_head(array.dtype, array.shape), encode_varint(len(content)), content]


def content_of(array: np.ndarray[Any, Any]) -> Chunk:
    """The elements of an array of numbers as bytes, in C order; a view of its memory if it is large and contiguous."""
    if array.nbytes > PIECE:
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return array.tobytes()


@lru_cache(maxsize=1024)
def _head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """The bytes of a TensorProto before the length of its content."""
    dims = [TensorShapeProto.Dim(size=size) for size in shape]
    head = TensorProto(dtype=as_dtype(dtype).as_datatype_enum, tensor_shape=TensorShapeProto(dim=dims))
    return head.SerializeToString() + delimited_key(TensorProto.TENSOR_CONTENT_FIELD_NUMBER)
