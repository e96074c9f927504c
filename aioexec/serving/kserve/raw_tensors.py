"""Raw tensors: the elements of an array as bytes, little-endian and in C order, as gRPC and binary HTTP carry them.

An element of BYTES is its length, a little-endian uint32, followed by its bytes. Input is untrusted: shape and size are
compared with the bytes before anything is allocated.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioexec import dtypes as dt
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.formats.message_fields import Chunk, content_of

Array = npt.NDArray[Any]

_MOST_DIMENSIONS: Final = 64  # NumPy's
_MOST_BYTES: Final = (1 << 63) - 1  # of an array, without zero dimensions in the product
_LENGTH: Final = struct.Struct("<I")
_LONGEST: Final = (1 << 32) - 1


def count_of(shape: Sequence[int], dtype: DType, who: str) -> int:
    """Return the number of elements of a shape; `who` names the tensor in the error.

    Raises:
        InvalidArgumentError: a negative dimension, too many dimensions, or more bytes than can be addressed.
    """
    if len(shape) > _MOST_DIMENSIONS:
        raise InvalidArgumentError(f"{who}: expected at most {_MOST_DIMENSIONS} dimensions, got {len(shape)}")
    if any(size < 0 for size in shape):
        raise InvalidArgumentError(f"{who}: expected dimensions of 0 or more, got {list(shape)}")
    if math.prod(size or 1 for size in shape) * dtype.numpy.itemsize > _MOST_BYTES:
        raise InvalidArgumentError(f"{who}: expected a shape that can be addressed, got {list(shape)}")
    return math.prod(shape)


def decode_raw(content: Chunk, dtype: DType, shape: Sequence[int], who: str) -> Array:
    """Return the array of raw bytes: a read-only view of them, or for BYTES an array of `bytes` objects.

    Raises:
        InvalidArgumentError: the bytes are not those of this dtype and shape; `who` names the tensor.
    """
    count = count_of(shape, dtype, who)
    if dtype is dt.string:
        return _decode_strings(content, count, who).reshape(shape)
    needed = count * dtype.numpy.itemsize
    if len(content) != needed:
        raise InvalidArgumentError(
            f"{who}: expected {needed} bytes for {dtype.name}{list(shape)}, got {len(content)}"
        )
    if dtype is dt.bool_:
        return np.not_equal(np.frombuffer(content, np.uint8), 0).reshape(shape)
    return np.frombuffer(content, dtype.numpy).reshape(shape)


def _decode_strings(content: Chunk, count: int, who: str) -> Array:
    if count * _LENGTH.size > len(content):
        raise InvalidArgumentError(
            f"{who}: expected at least {count * _LENGTH.size} bytes for {count} lengths, got {len(content)}"
        )
    elements: list[bytes] = []
    position = 0
    for _ in range(count):
        end = position + _LENGTH.size
        if end <= len(content):
            (length,) = _LENGTH.unpack_from(content, position)
            position, end = end, end + length
        if end > len(content):
            raise InvalidArgumentError(
                f"{who}: element {len(elements)} ends at byte {end}, expected at most {len(content)}"
            )
        elements.append(bytes(content[position:end]))
        position = end
    if position != len(content):
        raise InvalidArgumentError(
            f"{who}: expected {position} bytes by the lengths of {count} elements, got {len(content)}"
        )
    return np.fromiter(elements, np.object_, count)


def encode_raw(array: Array, who: str) -> Chunk:
    """Return the raw bytes of an array; a view of its memory if it is large.

    Raises:
        ResourceExhaustedError: an element of 4 GiB or more.
    """
    if array.dtype.kind != "O":
        return content_of(array)
    chunks: list[bytes] = []
    for element in array.ravel().tolist():
        if len(element) > _LONGEST:
            raise ResourceExhaustedError(
                f"{who}: expected elements of at most {_LONGEST} bytes, got {len(element)}"
            )
        chunks += (_LENGTH.pack(len(element)), element)
    return b"".join(chunks)
