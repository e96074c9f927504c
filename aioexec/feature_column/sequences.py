"""Columns of sequences: numbers, and categories for embeddings and indicators, at each step of an example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from aioexec.feature_column.columns import (
    CategoricalColumn,
    ColumnScope,
    Features,
    IdWeightPair,
    SequenceDenseColumn,
    StepsAndLengths,
)
from aioexec.feature_column.numeric import checked_shape
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.io.example_functions import VarLenFeature
from aioexec.ops.math.cast import cast
from aioexec.ops.sparse.functions import sparse_reshape, sparse_tensor_to_dense
from aioexec.shapes import TensorShape


@dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn):
    """Made by `sequence_categorical_column_with_*`: the categories of each step, [batch, steps, n]."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform_feature(self, features: Features) -> Any:
        return features.get(self.categorical_column)

    def get_sparse_tensors(self, features: Features) -> IdWeightPair:
        """The categories, those of [batch, steps] as [batch, steps, 1], so that steps are not combined."""
        ids, weights = self.categorical_column.get_sparse_tensors(features)
        whole = ids.dense_shape
        shape = apply_op("Pack", [whole[0], whole[1], apply_op("Prod", whole[2:], [0])])
        by_step = sparse_reshape(ids, shape)
        return IdWeightPair(by_step, None if weights is None else sparse_reshape(weights, shape))


@dataclass(frozen=True)
class SequenceNumericColumn(SequenceDenseColumn):
    """Made by `sequence_numeric_column`."""

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
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def transform_feature(self, features: Features) -> Any:
        value = features.get(self.key)
        return value if self.normalizer_fn is None else self.normalizer_fn(value)

    def get_sequence_dense_tensor(self, features: Features, scope: ColumnScope) -> StepsAndLengths:
        """The numbers, of a matrix in groups of the shape's size: those of a step; missing ones are the default."""
        sparse = features.get(self)
        dense = sparse_tensor_to_dense(sparse, default_value=self.default_value)
        whole = apply_op("ConcatV2", [apply_op("Shape", dense)[:1], [-1], list(self.shape)], 0)
        size = self.variable_shape.num_elements() if sparse.shape.ndims == 2 else 1
        return StepsAndLengths(apply_op("Reshape", dense, whole), sequence_lengths(sparse, size or 1))


def sequence_lengths(sparse: SparseTensor, group: int = 1) -> Tensor:
    """The number of steps of each example, int64 [batch]: one more than its last index, divided by the size of a group."""
    with get_default_graph().name_scope("sequence_length") as scope:
        rows, places = sparse.indices[:, 0], sparse.indices[:, 1]
        ends = apply_op("SegmentMax", places + apply_op("OnesLike", places), rows)
        found = cast(apply_op("Ceil", ends / group), dtypes.int64)
        missing = cast(sparse.dense_shape, dtypes.int32)[:1] - apply_op("Shape", found)[:1]
        zeros = apply_op("Fill", missing, cast(0, dtypes.int64))
        return apply_op("ConcatV2", [found, zeros], 0, name=scope)


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = 0.0,
    dtype: Any = dtypes.float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """Return a column of numbers at each step of a sequence.

    Args:
        key: the name of the feature, a SparseTensor [batch, steps * size of the shape] or [batch, steps, size].
        shape: shape of a step.
        default_value: number after the end of shorter sequences.
        dtype: of the feature.
        normalizer_fn: function of the SparseTensor that is applied first.

    Raises:
        GraphValueError: the dtype is not numeric, or a dimension is not positive.
        GraphTypeError: a dimension is no integer, or `normalizer_fn` cannot be called.
    """
    dims, kind = checked_shape(shape, key), dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise GraphValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise GraphTypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn!r}")
    return SequenceNumericColumn(key, dims, default_value, kind, normalizer_fn)


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Return categories at each step that are integers; see `categorical_column_with_identity`."""
    return SequenceCategoricalColumn(categorical_column_with_identity(key, num_buckets, default_value))


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> SequenceCategoricalColumn:
    """Return categories at each step, numbered by their hash; see `categorical_column_with_hash_bucket`."""
    return SequenceCategoricalColumn(categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = dtypes.string,
) -> SequenceCategoricalColumn:
    """Return categories at each step, numbered by a file; see `categorical_column_with_vocabulary_file`."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[Any],
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """Return categories at each step, numbered by a list; see `categorical_column_with_vocabulary_list`."""
    return SequenceCategoricalColumn(
        categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )
