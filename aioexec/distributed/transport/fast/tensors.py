"""The encoding of tensors between aioexec processes: a header of dtype, dims and length, then the elements as they are in
memory.

Numbers are little-endian, in row-major order. Strings are encoded as in TensorFlow's bundles: the length of each as a varint,
then their bytes one after another. A tensor that stays in the message (a resource handle, a variant) has a header of dtype 0
and no bytes.

A header is untrusted input: `Tensor.read` checks it before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.transport import Allocate
from aioexec.dtypes import DType, as_dtype, bool_, resource, string, to_array, variant
from aioexec.errors import DataLossError, GraphTypeError, ResourceExhaustedError

Array = npt.NDArray[Any]

MANY_STRINGS: Final = 4096
"""Encoding or decoding so many strings takes a millisecond; more are processed off the loop."""

SMALL: Final = 1 << 15
"""Numeric tensors up to this many bytes are encoded and decoded by one copy."""

_ABSENT: Final = 0  # DT_INVALID
_MOST_DIMS: Final = 64  # numpy's
_MOST_ADDRESSABLE: Final = (1 << 63) - 1
_STRING_BYTES: Final = (
    41  # of memory per element besides its bytes: a pointer and the header of a bytes object
)
_HEADER: Final = Struct("<BBQ")  # dtype, number of dims, bytes
_DIMS: Final = tuple(Struct(f"<{rank}q") for rank in range(_MOST_DIMS + 1))
_SOON_COPIED: Final = 1 << 17  # bytes

_MOST_REMEMBERED: Final = 1024
_headers: dict[tuple[np.dtype[Any], tuple[int, ...]], bytes] = {}
"""Headers of recently written numeric tensors, which are mostly the same in every step."""
_known: dict[bytes, tuple[tuple[int, ...], np.dtype[Any]]] = {}
"""The reverse: shape and dtype by the checked header of a small numeric tensor."""

_NUMBERS: dict[np.dtype[Any], int] = {}  # DataType numbers by dtype: as_dtype is slower
_DTYPES: dict[int, DType] = {}  # the reverse, of the dtypes that are sent


def _remember(memory: dict[Any, Any], key: Any, value: Any) -> None:
    if len(memory) >= _MOST_REMEMBERED:
        memory.clear()
    memory[key] = value


def _dtype_of(number: int) -> DType:
    found = _DTYPES.get(number)
    if found is None:
        try:
            found = as_dtype(number)
        except GraphTypeError:
            raise DataLossError(f"a tensor's header: expected a known dtype, got number {number}") from None
        if found.is_ref or found in (resource, variant):
            raise DataLossError(f"a tensor's header: expected the dtype of a value, got {found.name}")
        _DTYPES[number] = found
    return found


def _number_of(dtype: np.dtype[Any]) -> int:
    found = _NUMBERS.get(dtype)
    if found is None:
        found = _NUMBERS[dtype] = as_dtype(dtype).as_datatype_enum
    return found


Written = tuple[bytes, Any]
"""An encoded tensor: its header, and its elements as bytes, which share its memory if possible."""

_ABSENT_TENSOR: Final = _HEADER.pack(_ABSENT, 0, 0), b""


def takes_long_to_write(tensor: Any) -> bool:
    """Whether `write` should be called off the loop."""
    if not isinstance(tensor, np.ndarray) or tensor.nbytes <= SMALL:
        return False
    if tensor.dtype.kind in "OSU":
        return tensor.size > MANY_STRINGS
    return tensor.nbytes > _SOON_COPIED and not (tensor.flags.c_contiguous and tensor.dtype.isnative)


def write(tensor: Any) -> Written:
    """Encode a tensor."""
    if tensor is None:
        return _ABSENT_TENSOR
    array = np.asarray(tensor)
    dtype = array.dtype
    header = _headers.get((dtype, array.shape))
    if header is not None and array.nbytes <= SMALL:
        return header, array.tobytes()
    elements: Any
    if dtype.kind in "OSU":
        elements = _written_strings(array)
        number, length = string.as_datatype_enum, len(elements)
    else:
        number = _number_of(dtype)
        if not dtype.isnative:
            array = array.astype(dtype.newbyteorder("="))
        elements = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        length = elements.size
    shape = array.shape
    header = _HEADER.pack(number, len(shape), length) + _DIMS[len(shape)].pack(*shape)
    if dtype.isnative and dtype.kind not in "OSU":
        _remember(_headers, (dtype, shape), header)
    return header, elements


@dataclass(slots=True)
class Tensor:
    """A tensor that is being received.

    Attributes:
        dtype, shape: from its header.
        length: its bytes in the frames, for strings those of their encoding.
        memory: the buffer for its bytes; empty until `allocate`.
    """

    dtype: DType
    shape: tuple[int, ...]
    length: int
    memory: Any = b""
    array: Array | None = None  # the memory of a numeric tensor, as an array

    @staticmethod
    def read(frame: bytes | memoryview, at: int, most_bytes: int) -> tuple[Tensor | None, int]:
        """Parse a header in a frame; return the tensor (None for one that stays in the message) and the position after the
        header.

        Raises:
            DataLossError: the header is malformed.
            ResourceExhaustedError: the tensor would take more than `most_bytes`; the header itself is valid.
        """
        number, rank, length = _HEADER.unpack_from(frame, at)
        begin, at = at, at + _HEADER.size
        if number == _ABSENT:
            if rank or length:
                raise DataLossError("a tensor's header: expected no dimensions and bytes of an absent tensor")
            return None, at
        dtype = _dtype_of(number)
        if rank > _MOST_DIMS:
            raise DataLossError(f"a tensor's header: expected at most {_MOST_DIMS} dimensions, got {rank}")
        shape: tuple[int, ...] = _DIMS[rank].unpack_from(frame, at)
        tensor = Tensor(dtype, shape, length)
        tensor._check(most_bytes)
        at += 8 * rank
        if dtype.size and length <= SMALL and dtype is not bool_:
            _remember(_known, bytes(frame[begin:at]), (shape, dtype.numpy))
        return tensor, at

    def _check(self, most_bytes: int) -> None:
        where = f"a tensor's header, {self.dtype.name}{list(self.shape)}"
        if min(self.shape, default=0) < 0:
            raise DataLossError(f"{where}: expected dimensions that are not negative")
        count, size = math.prod(self.shape), self.dtype.size
        if math.prod(each or 1 for each in self.shape) * (size or 8) > _MOST_ADDRESSABLE:
            raise DataLossError(f"{where}: expected at most {_MOST_ADDRESSABLE} bytes")
        if self.length < count if size == 0 else self.length != count * size:
            raise DataLossError(f"{where}: expected bytes for {count} elements, got {self.length}")
        needed = self.length if size else self.length + _STRING_BYTES * count
        if needed > most_bytes:
            raise ResourceExhaustedError(
                f"a tensor of {self.dtype.name}{list(self.shape)}: expected at most {most_bytes} bytes in memory, got {needed}"
            )

    def allocate(self, make: Allocate | None) -> None:
        """Allocate memory for the bytes; `make` makes the array of numbers.

        Raises:
            ResourceExhaustedError: not enough memory.
        """
        if not self.dtype.size:
            self.memory = memory_of(self.length)
            return
        try:
            dtype, shape = self.dtype.numpy, self.shape
            self.array = np.empty(shape, dtype) if make is None else make(dtype, shape)
        except MemoryError as error:
            raise ResourceExhaustedError(f"a tensor of {self.length} bytes: out of memory") from error
        self.memory = self.array.reshape(-1).view(np.uint8).data

    def fill(self, frame: bytes | memoryview, at: int) -> None:
        """Copy the elements from a frame that contains all of them.

        Raises:
            DataLossError: the frame ends before.
        """
        if at + self.length > len(frame):
            raise DataLossError(f"a frame of {len(frame)} bytes: expected {at + self.length} at least")
        if self.dtype.size:
            self.array = np.ndarray(self.shape, self.dtype.numpy, frame, at).copy()
        else:
            self.memory = bytes(frame[at : at + self.length])

    @property
    def takes_long(self) -> bool:
        """Whether `value` should be called off the loop."""
        return not self.dtype.size and math.prod(self.shape) > MANY_STRINGS

    def value(self) -> Array:
        """The array, once all bytes are in memory.

        Raises:
            DataLossError: strings whose lengths do not fit the bytes.
        """
        if self.array is None:
            return _read_strings(self.memory, self.shape)
        if self.dtype is bool_:  # NumPy misbehaves for bools that are neither 0 nor 1
            raw = self.array.view(np.uint8)
            np.minimum(raw, 1, out=raw)
        return self.array


def read_small(frame: bytes | memoryview, at: int, most_bytes: int) -> tuple[Array, int] | None:
    """Parse a tensor with a cached header and inline elements; return it and the position after it, None if it is neither."""
    _, rank, length = _HEADER.unpack_from(frame, at)
    begin = at + _HEADER.size + 8 * rank
    known = _known.get(bytes(frame[at:begin]))
    if known is None or length > most_bytes or begin + length > len(frame):
        return None
    return np.ndarray(*known, frame, begin).copy(), begin + length


def memory_of(length: int) -> memoryview:
    """Allocate a buffer.

    Raises:
        ResourceExhaustedError: not enough memory.
    """
    try:
        return np.empty(length, np.uint8).data
    except MemoryError as error:
        raise ResourceExhaustedError(f"{length} bytes: out of memory") from error


def _written_strings(array: Array) -> bytes:
    elements: list[bytes] = to_array(array, string).ravel().tolist()
    lengths = bytearray()
    for element in elements:
        length = len(element)
        while length > 0x7F:
            lengths.append(length & 0x7F | 0x80)
            length >>= 7
        lengths.append(length)
    return b"".join([bytes(lengths), *elements])


def _read_strings(memory: Any, shape: Sequence[int]) -> Array:
    content = bytes(memory)
    lengths = []
    at = 0
    try:
        for _ in range(math.prod(shape)):
            length = shift = 0
            while (byte := content[at]) > 0x7F and shift < 63:
                length |= (byte & 0x7F) << shift
                shift += 7
                at += 1
            lengths.append(length | byte << shift)
            at += 1
    except IndexError:
        raise DataLossError(f"a tensor of strings {list(shape)}: its lengths end too soon") from None
    if at + sum(lengths) != len(content):
        raise DataLossError(
            f"a tensor of strings {list(shape)}: expected {at + sum(lengths)} bytes by its lengths, got {len(content)}"
        )
    array = np.empty(len(lengths), np.object_)
    for index, length in enumerate(lengths):
        array[index] = content[at : at + length]
        at += length
    return array.reshape(shape)
