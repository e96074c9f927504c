"""SerializeSparse and DeserializeSparse: a sparse tensor as three strings, TensorProtos of its indices, values and shape, or as
three variants that hold them.

Reading checks that the parts are consistent; ops that use the indices check their bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.sparse.tensors import check_inside, checked_size, order_of
from aioexec.shapes import Dims

_MOST_ROWS: Final = 1 << 28
_VARINT_BITS: Final = 7


class Parts(NamedTuple):
    """The components of a sparse tensor."""

    indices: Array
    values: Array
    shape: Array


# One tensor


def _written(value: Array, dtype: DType) -> bytes:
    """Serialise a TensorProto with raw content; for strings, all lengths followed by all bytes."""
    from aioexec.formats.protos import TensorProto
    from aioexec.formats.tensor_codec import shape_to_proto

    content = _string_content(value) if dtype is dt.string else np.ascontiguousarray(value).tobytes()
    proto = TensorProto(
        dtype=dtype.as_datatype_enum, tensor_shape=shape_to_proto(value.shape), tensor_content=content
    )
    return proto.SerializeToString(deterministic=True)


def _string_content(value: Array) -> bytes:
    strings = [bytes(each) for each in value.ravel()]
    return b"".join(map(_length, map(len, strings))) + b"".join(strings)


def _length(number: int) -> bytes:
    parts = []
    while number >= 1 << _VARINT_BITS:
        parts.append(number & 0x7F | 0x80)
        number >>= _VARINT_BITS
    return bytes([*parts, number])


def _read(text: Any) -> tuple[Array, int]:
    """Parse a TensorProto, or read a variant; return the tensor and the number of its dtype.

    Raises:
        InvalidArgumentError: the bytes are not a TensorProto.
    """
    if isinstance(text, _Content):
        return text.array, text.dtype.as_datatype_enum
    if not isinstance(text, bytes):
        raise InvalidArgumentError("Could not get a tensor from a variant of a serialized sparse tensor")
    from google.protobuf.message import DecodeError

    from aioexec.formats.protos import TensorProto
    from aioexec.formats.tensor_codec import decode_tensor

    try:
        proto = TensorProto.FromString(text)
    except DecodeError as error:
        raise InvalidArgumentError("Could not parse serialized proto") from error
    array = np.asarray(decode_tensor(proto))
    if array.size > len(text):
        raise InvalidArgumentError(f"Serialized proto of {len(text)} bytes stands for {array.size} elements")
    return array, proto.dtype


# Writing


def check_parts(indices: Array, values: Array, shape: Array) -> None:
    """Check the ranks of the components of a sparse tensor.

    Raises:
        InvalidArgumentError: a rank is wrong.
    """
    if np.ndim(indices) != 2:
        raise InvalidArgumentError(
            f"Input indices should be a matrix but received shape {shown(np.shape(indices))}"
        )
    for what, part in (("values", values), ("shape", shape)):
        if np.ndim(part) != 1:
            raise InvalidArgumentError(
                f"Input {what} should be a vector but received shape {shown(np.shape(part))}"
            )


class _Content:
    """A part of a sparse tensor, in a variant tensor."""

    __slots__ = ("array", "dtype")

    def __init__(self, array: Array, dtype: DType) -> None:
        self.array = array.copy()
        self.dtype = dtype


def _row(parts: Parts, dtype: DType, kind: DType) -> list[Any]:
    """Return the three parts, serialised or in variants."""
    if kind is dt.variant:
        return [
            _Content(parts.indices, dt.int64),
            _Content(parts.values, dtype),
            _Content(parts.shape, dt.int64),
        ]
    return [_written(parts.indices, dt.int64), _written(parts.values, dtype), _written(parts.shape, dt.int64)]


def variants_of(parts: Parts, dtype: DType) -> Array:
    """Return a sparse tensor as a vector of three variants."""
    row = np.empty(3, np.object_)
    row[:] = _row(parts, dtype, dt.variant)
    return row


def _serialize_kernel(context: KernelContext) -> Compute:
    dtype, kind = context.attrs["T"], context.attrs["out_type"]

    def compute(indices: Array, values: Array, shape: Array) -> Array:
        check_parts(indices, values, shape)
        row = np.empty(3, np.object_)
        row[:] = _row(Parts(indices, values, shape), dtype, kind)
        return row

    return compute


def _serialize_many_kernel(context: KernelContext) -> Compute:
    """Serialise each element along the first dimension of a sparse tensor as a row."""
    dtype, kind = context.attrs["T"], context.attrs["out_type"]

    def compute(indices: Array, values: Array, shape: Array) -> Array:
        check_parts(indices, values, shape)
        check_batch(indices, values, shape)
        empty, tensors = split_batch(Parts(indices, values, shape))
        rows = np.empty((int(shape[0]), 3), np.object_)
        rows[:] = _row(empty, dtype, kind)
        for number, parts in tensors:
            rows[number] = _row(parts, dtype, kind)
        return rows

    return compute


def split_batch(batch: Parts) -> tuple[Parts, Iterator[tuple[int, Parts]]]:
    """Split a checked sparse tensor along its first dimension: an empty one, and an iterator of (position, other).

    Raises:
        ResourceExhaustedError: there are more than `_MOST_ROWS`.
    """
    indices, values, shape = batch
    if shape[0] > _MOST_ROWS:
        raise ResourceExhaustedError(f"{shape[0]} sparse tensors are too many to serialize")
    numbers, starts, counts = np.unique(indices[:, 0], return_index=True, return_counts=True)
    tensors = (
        (int(number), Parts(indices[start:end, 1:], values[start:end], shape[1:]))
        for number, start, end in zip(numbers, starts, starts + counts, strict=True)
    )
    return Parts(indices[:0, 1:], values[:0], shape[1:]), tensors


def check_batch(indices: Array, values: Array, shape: Array) -> None:
    """Check that a sparse tensor can be split along its first dimension.

    Raises:
        InvalidArgumentError: its rank is below 2, its components are inconsistent, or its indices are repeated or not ordered.
    """
    if shape.size < 2:
        raise InvalidArgumentError(f"Rank of input SparseTensor should be > 1, but saw rank: {shape.size}")
    if indices.shape != (values.size, shape.size):
        raise InvalidArgumentError(
            f"Expected indices of {values.size} values and rank {shape.size}, got shape {shown(indices.shape)}"
        )
    check_inside(indices, checked_size(shape))
    if (order_of(indices) != np.arange(len(indices))).any():
        raise InvalidArgumentError(
            "indices are out of order. Many sparse ops require sorted indices. Use `sparse_reorder` to create a "
            "correctly ordered copy."
        )
    repeated = np.flatnonzero((indices[1:] == indices[:-1]).all(axis=1))
    if repeated.size:
        first = int(repeated[0]) + 1
        raise InvalidArgumentError(f"indices[{first}] = {shown(indices[first])} is repeated")


# Reading


def _read_parts(row: Array, number: int, dtype: DType) -> Parts:
    (indices, _), (values, kind), (shape, _) = map(_read, row)
    for what, part, rank in (
        ("an index matrix", indices, 2),
        ("a values vector", values, 1),
        ("a shape", shape, 1),
    ):
        if part.ndim != rank:
            raise InvalidArgumentError(
                f"Expected serialized_sparse[{number}] to represent {what} but received shape {shown(part.shape)}"
            )
    if indices.dtype != np.int64 or shape.dtype != np.int64:
        raise InvalidArgumentError(f"Expected SparseTensor[{number}] to have indices and a shape of int64")
    if kind != dtype.as_datatype_enum:
        raise InvalidArgumentError(
            f"Requested SparseTensor of type {dtype.name} but SparseTensor[{number}].values.dtype() == {dt.as_dtype(kind).name}"
        )
    if indices.shape != (values.size, shape.size):
        raise InvalidArgumentError(
            f"Expected counts of SparseTensor[{number}].indices to match its values and shape but they do not: "
            f"{shown(indices.shape)} vs. {values.size} and {shape.size}"
        )
    return Parts(indices, values, shape)


def _deserialize_kernel(context: KernelContext) -> Compute:
    """Return a kernel that joins sparse tensors of one rank along new leading dimensions; sizes are the largest."""
    dtype: DType = context.attrs["dtype"]

    def compute(serialized: Array) -> Parts:
        if not serialized.ndim or serialized.shape[-1] != 3 or not serialized.size:
            raise InvalidArgumentError(
                f"Serialized sparse should have 3 as the last dimension and at least 1 serialized tensor, got shape "
                f"{shown(serialized.shape)}"
            )
        batch = serialized.shape[:-1]
        parts = [_read_parts(row, n, dtype) for n, row in enumerate(serialized.reshape(-1, 3))]
        return joined(parts, batch)

    return compute


def joined(tensors: Sequence[Parts], batch: tuple[int, ...]) -> Parts:
    """Join sparse tensors of one rank, at least one, along new leading dimensions; sizes are the largest.

    Raises:
        InvalidArgumentError: their ranks differ.
    """
    ranks = [each.shape.size for each in tensors]
    if len(set(ranks)) > 1:
        raise InvalidArgumentError(f"Inconsistent shape across SparseTensors: ranks are {shown(ranks)}")
    places = np.repeat(np.arange(len(tensors)), [each.values.size for each in tensors])
    before = np.stack(np.unravel_index(places, batch), axis=1) if batch else np.zeros((len(places), 0))
    indices = np.concatenate([before, np.concatenate([each.indices for each in tensors])], axis=1)
    largest = np.max([each.shape for each in tensors], axis=0)
    return Parts(
        indices.astype(np.int64),
        np.concatenate([each.values for each in tensors]),
        np.concatenate([batch, largest]).astype(np.int64),
    )


# Rows


def _sparse_inputs(context: ShapeContext) -> None:
    shapes.with_rank(context.inputs[0], 2)
    shapes.with_rank(context.inputs[1], 1)
    shapes.with_rank(context.inputs[2], 1)


def _serialized_shape(context: ShapeContext) -> Sequence[Dims]:
    _sparse_inputs(context)
    return [(3,)]


def _many_serialized_shape(context: ShapeContext) -> Sequence[Dims]:
    _sparse_inputs(context)
    return [(None, 3)]


def _any_sparse(context: ShapeContext) -> Sequence[Dims]:
    return [(None, None), (None,), (None,)]


def _many_sparse(context: ShapeContext) -> Sequence[Dims]:
    serialized = shapes.with_rank(context.inputs[0], 2)
    if serialized is not None:
        shapes.merge(serialized[1:], (3,))
    return _any_sparse(context)


_SPARSE: Final = "(sparse_indices:int64, sparse_values:T, sparse_shape:int64) -> (serialized_sparse:out_type)"
_ATTRS: Final = "[T:type; out_type:type{string|variant}=string]"
_OUTPUTS: Final = "(sparse_indices:int64, sparse_values:dtype, sparse_shape:int64)"

register(
    f"SerializeSparse{_SPARSE} {_ATTRS}",
    shape=_serialized_shape,
    kernel=_serialize_kernel,
    gradient=undefined_gradient,
)
register(
    f"SerializeManySparse{_SPARSE} {_ATTRS}",
    shape=_many_serialized_shape,
    kernel=_serialize_many_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
register(
    f"DeserializeSparse(serialized_sparse:Tserialized) -> {_OUTPUTS} [dtype:type; Tserialized:type{{string|variant}}=string]",
    shape=_any_sparse,
    kernel=_deserialize_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
register(
    f"DeserializeManySparse(serialized_sparse:string) -> {_OUTPUTS} [dtype:type]",
    shape=_many_sparse,
    kernel=_deserialize_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)
