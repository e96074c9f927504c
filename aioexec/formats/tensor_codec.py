"""Conversion of values and shapes to and from TensorFlow's protos (TensorProto, TensorShapeProto).

A TensorProto holds its elements in one of two forms: raw in `tensor_content`, or listed in the field of its
dtype (`float_val`, `int_val`, ...). Reading takes both, as TensorFlow does: non-empty content wins; a list shorter than the
shape is padded with its last element, an empty one means zeros. Writing chooses as TensorFlow's Python does, so that exported
graphs look like TensorFlow's: content for two elements or more of most numeric types, else a list.

Input is not trusted: nothing is allocated before dtype, shape and sizes have been checked, and every malformed proto is an
`InvalidArgumentError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from aioexec import dtypes
from aioexec.dtypes import DType, as_dtype, to_array
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError, ResourceExhaustedError
from aioexec.formats.protos import ResourceHandleProto, TensorProto, TensorShapeProto, VariantTensorDataProto
from aioexec.formats.repeated import SMALL, is_one_repeated
from aioexec.shapes import Dims, as_dims, describe

Array = npt.NDArray[Any]

MAX_BYTES: Final = 1 << 28
"""Upper bound of a decoded value that lists fewer elements than its shape has."""
MAX_REPEATED: Final = 1 << 32
"""Upper bound of one that lists a single element: it takes no memory, but reading all elements takes time."""
_MAX_CONTENT: Final = (1 << 31) - 1  # protobuf's upper bound of a message
_MAX_RANK: Final = 64  # numpy's
_SLICE: Final = 1 << 16  # Python objects converted at a time
_MAX_ADDRESSABLE: Final = (1 << 63) - 1  # NumPy's upper bound, without zero dimensions in the product


class _Listed(NamedTuple):
    """The field that lists the elements of one dtype."""

    field: str
    wire: np.dtype[Any]  # wide enough for every number of the field
    stored: np.dtype[Any]  # the same memory as the element: two floats for a complex, 16 bits for a half


def _listed(field: str, stored: Any) -> _Listed:
    of = np.dtype(stored)
    if of.kind in "iu":
        return _Listed(field, np.dtype(np.uint64 if of == np.uint64 else np.int64), of)
    return _Listed(field, of, of)


_NUMERIC: Final[dict[DType, _Listed]] = {
    dtypes.float32: _listed("float_val", np.float32),
    dtypes.float64: _listed("double_val", np.float64),
    dtypes.float16: _listed("half_val", np.uint16),
    dtypes.bfloat16: _listed("half_val", np.uint16),
    dtypes.int8: _listed("int_val", np.int8),
    dtypes.int16: _listed("int_val", np.int16),
    dtypes.int32: _listed("int_val", np.int32),
    dtypes.int64: _listed("int64_val", np.int64),
    dtypes.uint8: _listed("int_val", np.uint8),
    dtypes.uint16: _listed("int_val", np.uint16),
    dtypes.uint32: _listed("uint32_val", np.uint32),
    dtypes.uint64: _listed("uint64_val", np.uint64),
    dtypes.bool_: _listed("bool_val", np.bool_),
    dtypes.complex64: _listed("scomplex_val", np.float32),
    dtypes.complex128: _listed("dcomplex_val", np.float64),
    dtypes.qint8: _listed("int_val", np.int8),
    dtypes.qint16: _listed("int_val", np.int16),
    dtypes.qint32: _listed("int_val", np.int32),
    dtypes.quint8: _listed("int_val", np.uint8),
    dtypes.quint16: _listed("int_val", np.uint16),
}
# TensorFlow's Python code lists these whatever their number of elements.
_ALWAYS_LISTED: Final = frozenset({dtypes.bool_, dtypes.uint16, dtypes.complex64, dtypes.complex128})

# The field and the class of elements that are Python objects; an empty list means `kind()`.
_OBJECTS: Final[dict[DType, tuple[str, type[Any]]]] = {
    dtypes.string: ("string_val", bytes),
    dtypes.resource: ("resource_handle_val", ResourceHandleProto),
    dtypes.variant: ("variant_val", VariantTensorDataProto),
}


def encode_tensor(array: Any, dtype: Any = None) -> TensorProto:
    """Encode an array as a TensorProto. Elements of resource and variant arrays are their protos.

    Raises:
        GraphTypeError: the array does not convert to `dtype` without loss.
    """
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    if isinstance(array, np.ndarray) and is_one_repeated(array):
        converted = to_array(_single_element(array), wanted)
        return _write(converted, wanted or as_dtype(converted.dtype), array.shape)
    converted = to_array(array, wanted)
    return _write(converted, wanted or as_dtype(converted.dtype), converted.shape)


def _single_element(array: Array) -> Array:
    """Return the single element of an array of equal elements."""
    return array[(slice(1),) * array.ndim].reshape(1)


def make_tensor_proto(
    values: Any,
    dtype: Any = None,
    shape: Any = None,
    verify_shape: bool = False,
    allow_broadcast: bool = False,
) -> TensorProto:
    """Encode `values` as a TensorProto of `shape`, by default their own.

    Fewer values than `shape` has elements are kept as they are: the reader repeats the last one. An array is
    cast to `dtype` even where that loses; Python values are not.

    Args:
        verify_shape: `shape` must be the shape of `values`.
        allow_broadcast: allow a single value for all elements, but no other smaller number.

    Raises:
        GraphTypeError: values of a wrong type or, if verified, a wrong shape.
        GraphValueError: more values than `shape` has room for, values that do not fit `dtype`.
    """
    if verify_shape and allow_broadcast:
        raise GraphValueError("Expected verify_shape or allow_broadcast, got both")
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    if (
        wanted in _NUMERIC
        and isinstance(values, (np.ndarray, np.generic))
        and as_dtype(values.dtype) in _NUMERIC
    ):
        values = _cast(values, wanted)
    array = to_array(values, wanted)
    dims = array.shape if shape is None else _static(shape)
    room = math.prod(dims)
    if verify_shape and array.shape != dims:
        raise GraphTypeError(f"Expected values of shape {describe(dims)}, got {describe(array.shape)}")
    if allow_broadcast and array.size not in (1, room):
        raise GraphTypeError(f"Expected one value or {room}, got {array.size} for shape {describe(dims)}")
    if array.size > room:
        raise GraphValueError(f"Expected at most {room} values for shape {describe(dims)}, got {array.size}")
    return _write(array, wanted or as_dtype(array.dtype), dims)


def _cast(values: Any, dtype: DType) -> Any:
    held = as_dtype(values.dtype)
    if held is dtype or any(each.is_quantized or each not in _NUMERIC for each in (held, dtype)):
        return values
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


def _static(shape: Any) -> tuple[int, ...]:
    dims = as_dims(shape)
    if dims is None or None in dims:
        raise GraphTypeError(f"Expected a fully defined shape for values, got {describe(dims)}")
    return tuple(size for size in dims if size is not None)


def _write(array: Array, dtype: DType, dims: Sequence[int]) -> TensorProto:
    if is_one_repeated(array):
        array = _single_element(array)
    if array.nbytes > _MAX_CONTENT:
        raise GraphValueError(
            f"Expected a value of less than 2 GiB, got {array.nbytes} bytes of {dtype.name} with shape {dims}"
        )
    proto = TensorProto(dtype=dtype.as_datatype_enum)
    proto.tensor_shape.SetInParent()
    for size in dims:
        proto.tensor_shape.dim.add(size=size)
    by_content = dtype not in _OBJECTS and dtype not in _ALWAYS_LISTED
    if by_content and array.size > 1 and array.size == math.prod(dims):
        proto.tensor_content = array.tobytes()
    else:
        list_elements(proto, array, dtype)
    return proto


def list_elements(proto: TensorProto, array: Array, dtype: DType) -> None:
    """Store the elements of an array in the repeated field of their dtype."""
    if dtype in _OBJECTS:
        _list_objects(proto, array, dtype)
        return
    listed = _NUMERIC[dtype]
    flat = np.ascontiguousarray(array).reshape(-1).view(listed.stored)
    field = getattr(proto, listed.field)
    for first in range(0, flat.size, _SLICE):  # all at once takes 8 times the memory for bools
        field.extend(flat[first : first + _SLICE].tolist())


def count_listed(proto: TensorProto, dtype: DType) -> int:
    """Return the number of elements in the repeated field of their dtype."""
    if dtype in _OBJECTS:
        return len(getattr(proto, _OBJECTS[dtype][0]))
    listed = _NUMERIC[dtype]
    return len(getattr(proto, listed.field)) * listed.stored.itemsize // dtype.numpy.itemsize


def _list_objects(proto: TensorProto, array: Array, dtype: DType) -> None:
    field, kind = _OBJECTS[dtype]
    elements = array.ravel().tolist()
    for element in elements:
        if not isinstance(element, kind):
            raise GraphTypeError(
                f"Expected {kind.__name__} elements of a {dtype.name} value, got {element!r}"
            )
    getattr(proto, field).extend(elements)


def decode_tensor(proto: TensorProto, max_bytes: int = MAX_BYTES) -> Array:
    """Decode a TensorProto into a new array.

    String elements are `bytes`, resource and variant elements their protos.

    Args:
        max_bytes: upper bound for the memory of a value whose listed elements are fewer than its shape has. If a single
            element is listed for a large value, the result is a read-only array with strides of zero.

    Raises:
        InvalidArgumentError: the proto contradicts itself, has an unknown dtype, or is too large.
    """
    dtype, dims = dtype_and_dims(proto)
    count = math.prod(dims)
    try:
        given = _read_objects(proto, dtype, dims) if dtype in _OBJECTS else _read_numbers(proto, dtype, dims)
        if given.size == count:
            return given.reshape(dims)
        return _repeated(given, dtype, dims, max_bytes)
    except MemoryError as error:
        raise ResourceExhaustedError(f"TensorProto of {dtype.name}{list(dims)}: out of memory") from error


def _repeated(given: Array, dtype: DType, dims: tuple[int, ...], max_bytes: int) -> Array:
    """Pad the listed elements with the last one, or with zeros (empty objects) if there are none."""
    count = math.prod(dims)
    if not given.size:
        given = np.zeros(1, given.dtype)
        if dtype in _OBJECTS:
            given[0] = _OBJECTS[dtype][1]()
    repeats_one = given.size == 1 and count * given.itemsize > SMALL
    if repeats_one and dtype in _NUMERIC:
        max_bytes = max(max_bytes, MAX_REPEATED)
    if count * given.itemsize > max_bytes:
        raise InvalidArgumentError(
            f"TensorProto of {dtype.name}{list(dims)}: expected at most {max_bytes} bytes, got {count * given.itemsize} "
            f"by {given.size} elements"
        )
    if repeats_one:
        return np.broadcast_to(given, dims)
    filled = np.empty(count, given.dtype)
    filled[: given.size] = given
    filled[given.size :].fill(given[-1])
    return filled.reshape(dims)


def expanded_bytes(proto: TensorProto) -> int:
    """Return the memory that padding adds for a proto with too few listed elements; 0 for a complete or malformed proto."""
    if proto.tensor_content:
        return 0
    try:
        dtype, dims = dtype_and_dims(proto)
    except InvalidArgumentError:
        return 0
    count, listed = math.prod(dims), count_listed(proto, dtype)
    size = count * dtype.numpy.itemsize
    return 0 if listed >= count or (listed <= 1 and size > SMALL) else size


def MakeNdarray(tensor: TensorProto) -> Array:
    """Decode a TensorProto into an array with memory of its own for each element; TensorFlow's name of `decode_tensor`."""
    array = decode_tensor(tensor)
    return array.copy() if is_one_repeated(array) else array


def dtype_and_dims(proto: TensorProto) -> tuple[DType, tuple[int, ...]]:
    """Return the dtype and shape of a TensorProto, after validating both.

    Raises:
        InvalidArgumentError: an unknown dtype, a shape that is not static, or too large to be addressed.
    """
    dtype = _dtype_of(proto)
    return dtype, _dims_of(proto.tensor_shape, dtype)


def _dtype_of(proto: TensorProto) -> DType:
    try:
        dtype = as_dtype(int(proto.dtype))
    except GraphTypeError:
        raise InvalidArgumentError(
            f"TensorProto: expected a supported dtype, got number {proto.dtype}"
        ) from None
    if dtype.is_ref:
        raise InvalidArgumentError(f"TensorProto: expected the dtype of a value, got {dtype.name}")
    return dtype


def _dims_of(shape: TensorShapeProto, dtype: DType) -> tuple[int, ...]:
    """Return the static shape, after checking that an array of it can be addressed."""
    subject = f"TensorProto of {dtype.name}"
    if shape.unknown_rank:
        raise InvalidArgumentError(f"{subject}: expected a fully defined shape, got an unknown rank")
    dims = tuple(dim.size for dim in shape.dim)
    if len(dims) > _MAX_RANK:
        raise InvalidArgumentError(f"{subject}: expected at most {_MAX_RANK} dimensions, got {len(dims)}")
    if any(size < 0 for size in dims):
        raise InvalidArgumentError(f"{subject}: expected a fully defined shape, got {list(dims)}")
    needed = math.prod(size or 1 for size in dims) * dtype.numpy.itemsize
    if needed > _MAX_ADDRESSABLE:
        raise InvalidArgumentError(
            f"{subject}: expected at most {_MAX_ADDRESSABLE} bytes, got {needed} by shape {list(dims)}"
        )
    return dims


def _read_numbers(proto: TensorProto, dtype: DType, dims: tuple[int, ...]) -> Array:
    count = math.prod(dims)
    listed = _NUMERIC[dtype]
    if content := proto.tensor_content:
        if len(content) != count * dtype.numpy.itemsize:
            raise _mismatch(dtype, dims, f"{count * dtype.numpy.itemsize} bytes of content", len(content))
        if dtype is dtypes.bool_:
            return np.not_equal(np.frombuffer(content, np.uint8), 0)
        return np.frombuffer(content, dtype.numpy).copy()
    numbers = getattr(proto, listed.field)
    per_element = dtype.numpy.itemsize // listed.stored.itemsize
    if len(numbers) % per_element or len(numbers) > count * per_element:
        raise _mismatch(
            dtype, dims, f"at most {count * per_element} numbers, {per_element} an element", len(numbers)
        )
    given = np.fromiter(numbers, listed.wire, len(numbers))
    return given.astype(listed.stored, copy=False).view(dtype.numpy)


def _read_objects(proto: TensorProto, dtype: DType, dims: tuple[int, ...]) -> Array:
    count = math.prod(dims)
    field, kind = _OBJECTS[dtype]
    elements: list[Any]
    if content := proto.tensor_content:
        elements = [_parsed(kind, piece) for piece in _split(content, dtype, dims)]
    else:
        elements = list(getattr(proto, field))
        if len(elements) > count:
            raise _mismatch(dtype, dims, f"at most {count} elements", len(elements))
    given = np.empty(len(elements), np.object_)
    given[:] = elements
    return given


def _parsed(kind: type[Any], piece: bytes) -> Any:
    if kind is bytes:
        return piece
    try:
        return kind.FromString(piece)
    except Exception as error:  # a DecodeError; its class depends on protobuf's implementation
        raise InvalidArgumentError(
            f"TensorProto: expected a serialised {kind.__name__}, got {piece!r}"
        ) from error


def _split(content: bytes, dtype: DType, dims: tuple[int, ...]) -> list[bytes]:
    """Split the content of object elements: their lengths as varints, followed by their bytes."""
    count = math.prod(dims)
    if len(content) < count:
        raise _mismatch(dtype, dims, f"at least {count} bytes of content", len(content))
    lengths = []
    position = 0
    for _ in range(count):
        length, position = _varint(content, position, dtype, dims)
        lengths.append(length)
    if position + sum(lengths) != len(content):
        raise _mismatch(
            dtype, dims, f"{position + sum(lengths)} bytes of content by its lengths", len(content)
        )
    pieces = []
    for length in lengths:
        pieces.append(content[position : position + length])
        position += length
    return pieces


def _varint(content: bytes, position: int, dtype: DType, dims: tuple[int, ...]) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        if position == len(content):
            break
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise _mismatch(dtype, dims, "whole varints as lengths", f"a broken one before byte {position}")


def _mismatch(dtype: DType, dims: tuple[int, ...], expected: str, got: object) -> InvalidArgumentError:
    return InvalidArgumentError(f"TensorProto of {dtype.name}{list(dims)}: expected {expected}, got {got}")


def shape_to_proto(dims: Dims) -> TensorShapeProto:
    """Encode a shape as a TensorShapeProto; -1 stands for an unknown dimension."""
    if dims is None:
        return TensorShapeProto(unknown_rank=True)
    proto = TensorShapeProto()
    for size in dims:
        proto.dim.add(size=-1 if size is None else size)
    return proto


def shape_from_proto(proto: TensorShapeProto) -> Dims:
    """Decode a TensorShapeProto.

    Raises:
        InvalidArgumentError: a dimension below -1, or dimensions beside an unknown rank.
    """
    if proto.unknown_rank:
        if proto.dim:
            raise InvalidArgumentError(
                f"TensorShapeProto: expected no dimensions of an unknown rank, got {len(proto.dim)}"
            )
        return None
    sizes = [dim.size for dim in proto.dim]
    if any(size < -1 for size in sizes):
        raise InvalidArgumentError(f"TensorShapeProto: expected dimensions of -1 or more, got {sizes}")
    return tuple(None if size == -1 else size for size in sizes)
