"""Columns of numbers, and of the intervals that they are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.feature_column.columns import (
    CategoricalColumn,
    ColumnScope,
    DenseColumn,
    Features,
    IdWeightPair,
    check_key,
)
from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.io.example_functions import FixedLenFeature
from aioexec.ops.math.cast import cast
from aioexec.shapes import TensorShape


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """Made by `numeric_column`."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: DType
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def transform_feature(self, features: Features) -> Tensor:
        value = features.get(self.key)
        if isinstance(value, SparseTensor):
            raise GraphValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is not supported. "
                f"key: {self.key}"
            )
        if self.normalizer_fn is not None:
            value = self.normalizer_fn(value)
        number: Tensor = cast(value, dtypes.float32)
        return number

    def get_dense_tensor(self, features: Features, scope: ColumnScope) -> Tensor:
        tensor: Tensor = features.get(self)
        return tensor


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """Made by `bucketized_column`."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([*self.source_column.shape, len(self.boundaries) + 1])

    @property
    def num_buckets(self) -> int:
        """The number of intervals of all numbers of an example."""
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transform_feature(self, features: Features) -> Tensor:
        return apply_op(
            "Bucketize",
            features.get(self.source_column),
            boundaries=[float(each) for each in self.boundaries],
        )

    def get_dense_tensor(self, features: Features, scope: ColumnScope) -> Tensor:
        buckets = cast(features.get(self), dtypes.int64)
        return apply_op("OneHot", buckets, len(self.boundaries) + 1, np.float32(1), np.float32(0), axis=-1)

    def get_sparse_tensors(self, features: Features) -> IdWeightPair:
        """The intervals, each number with its own: those of number i begin at i times their number."""
        buckets, width = features.get(self), self.source_column.shape[0]
        batch_size = apply_op("Shape", buckets)[0]
        rows = apply_op("ExpandDims", apply_op("Range", 0, batch_size, 1), 1)
        first = apply_op("Reshape", apply_op("Tile", rows, [1, width]), [-1])
        second = apply_op("Tile", apply_op("Range", 0, width, 1), apply_op("Pack", [batch_size]))
        ids = apply_op("Reshape", buckets, [-1]) + (len(self.boundaries) + 1) * second
        indices = cast(apply_op("Pack", [first, second], axis=1), dtypes.int64)
        shape = cast(apply_op("Pack", [batch_size, width]), dtypes.int64)
        return IdWeightPair(SparseTensor(indices, cast(ids, dtypes.int64), shape), None)


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """Return a column of numbers.

    Args:
        key: the name of the feature, which is dense.
        shape: shape of an example.
        default_value: for examples without the feature, a number or numbers of this shape; None: that is an error.
        dtype: of the feature in Examples; the numbers become float32.
        normalizer_fn: function of the tensor that is applied first.

    Raises:
        GraphValueError: the dtype is not numeric, or the default has another shape.
        GraphTypeError: a dimension is no integer, the default is of another type, or `normalizer_fn` cannot be called.
    """
    dims, kind = checked_shape(shape, key), dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise GraphValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    default = _checked_default(default_value, dims, kind, key)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise GraphTypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn!r}")
    check_key(key)
    return NumericColumn(key, dims, default, kind, normalizer_fn)


def bucketized_column(source_column: NumericColumn, boundaries: Sequence[float]) -> BucketizedColumn:
    """Return a column of the intervals of numbers: interval i reaches from boundary i - 1, inclusive, to boundary i.

    Args:
        source_column: a numeric column of one dimension.
        boundaries: ascending.

    Raises:
        GraphValueError: the column is another, or the boundaries are empty or not ascending.
    """
    if not isinstance(source_column, NumericColumn):
        raise GraphValueError(
            f"source_column must be a column generated with numeric_column(). Given: {source_column!r}"
        )
    if len(source_column.shape) > 1:
        raise GraphValueError(f"source_column must be one-dimensional column. Given: {source_column!r}")
    if not boundaries:
        raise GraphValueError("boundaries must not be empty.")
    is_list = isinstance(boundaries, list | tuple)
    if not is_list or any(low >= high for low, high in pairwise(boundaries)):
        raise GraphValueError("boundaries must be a sorted list.")
    return BucketizedColumn(source_column, tuple(boundaries))


def checked_shape(shape: Any, key: str) -> tuple[int, ...]:
    """The shape of a numeric column.

    Raises:
        GraphTypeError: a dimension is no integer.
        GraphValueError: a dimension is not positive.
    """
    dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
    for dimension in dims:
        if not isinstance(dimension, int):
            raise GraphTypeError(f"shape dimensions must be integer. shape: {dims}, key: {key}")
        if dimension < 1:
            raise GraphValueError(f"shape dimensions must be greater than 0. shape: {dims}, key: {key}")
    return dims


def _checked_default(value: Any, shape: tuple[int, ...], dtype: DType, key: str) -> Any:
    """A default as nested tuples of the shape; a single number stands for all."""
    if value is None:
        return None
    given = np.asarray(value)
    if given.dtype.kind not in ("iu" if dtype.is_integer else "iuf"):
        raise GraphTypeError(
            f"default_value must be compatible with dtype. default_value: {value!r}, dtype: {dtype}, key: {key}"
        )
    if given.ndim and given.shape != shape:
        raise GraphValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {value!r}, shape: {shape}, key: {key}"
        )
    return _as_tuples(np.broadcast_to(given, shape).tolist())


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(each) for each in value) if isinstance(value, list) else value
