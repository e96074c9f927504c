"""Dense columns made of categories: embeddings, of one column or shared by several, and indicators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.feature_column.columns import (
    CategoricalColumn,
    ColumnScope,
    DenseColumn,
    Features,
    IdWeightPair,
    SequenceDenseColumn,
    StepsAndLengths,
)
from aioexec.feature_column.combined import WeightedCategoricalColumn
from aioexec.feature_column.sequences import SequenceCategoricalColumn, sequence_lengths
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.gathering import scatter_nd
from aioexec.ops.nn.safe_lookup import safe_embedding_lookup_sparse
from aioexec.ops.sparse.functions import sparse_retain, sparse_tensor_to_dense
from aioexec.ops.state.initializers import TruncatedNormal
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.ops.state.variable_scope import get_variable
from aioexec.shapes import TensorShape
from aioexec.train.checkpoints.initialization import init_from_checkpoint


class _MadeOfCategories(DenseColumn, SequenceDenseColumn):
    """A dense column made of a categorical one, whose features it has; of sequences if that one is."""

    categorical_column: CategoricalColumn
    _kind: ClassVar[str] = "embedding_column"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    def get_dense_tensor(self, features: Features, scope: ColumnScope) -> Tensor:
        if isinstance(self.categorical_column, SequenceCategoricalColumn):
            raise GraphValueError(
                f"In {self._kind}: {self.name}. categorical_column must not be of type _SequenceCategoricalColumn. "
                "Suggested fix A: If you wish to use input_layer, use a non-sequence categorical_column_with_*. Suggested fix "
                "B: If you wish to create sequence input, use sequence_input_layer instead of input_layer. "
                f"Given: {self.categorical_column!r}"
            )
        return self._numbers(features, scope)[0]

    def get_sequence_dense_tensor(self, features: Features, scope: ColumnScope) -> StepsAndLengths:
        if not isinstance(self.categorical_column, SequenceCategoricalColumn):
            raise GraphValueError(
                f"In {self._kind}: {self.name}. categorical_column must be of type _SequenceCategoricalColumn to use "
                "sequence_input_layer. Suggested fix: Use one of sequence_categorical_column_with_*. "
                f"Given: {self.categorical_column!r}"
            )
        numbers, ids = self._numbers(features, scope)
        if ids is None:
            ids = self.categorical_column.get_sparse_tensors(features).id_tensor
        return StepsAndLengths(numbers, sequence_lengths(ids))

    def _numbers(self, features: Features, scope: ColumnScope) -> tuple[Tensor, SparseTensor | None]:
        """The numbers, and the ids that they are made of, if they were needed."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Embedding(_MadeOfCategories):
    """The part that all embeddings have in common: the look-up of the rows of a table [num_buckets, dimension]."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([self.dimension])

    def transform_feature(self, features: Features) -> Any:
        return features.get(self.categorical_column)

    def _table(self, scope: ColumnScope) -> Any:
        return get_variable(
            "embedding_weights",
            shape=(self.categorical_column.num_buckets, self.dimension),
            dtype=dtypes.float32,
            initializer=self.initializer,
            trainable=self.trainable and scope.trainable,
            collections=list(scope.collections),
        )

    def _rows(self, pair: IdWeightPair, table: Any) -> Tensor:
        if self.ckpt_to_load_from is not None:
            parts = list(table) if isinstance(table, PartitionedVariable) else table
            init_from_checkpoint(self.ckpt_to_load_from, {str(self.tensor_name_in_ckpt): parts})
        return safe_embedding_lookup_sparse(
            table,
            pair.id_tensor,
            pair.weight_tensor,
            combiner=self.combiner,
            name=f"{self.var_scope_name}_weights",
            max_norm=self.max_norm,
        )


@dataclass(frozen=True)
class EmbeddingColumn(_Embedding):
    """Made by `embedding_column`; its variable is `embedding_weights`."""

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"

    def _numbers(self, features: Features, scope: ColumnScope) -> tuple[Tensor, SparseTensor | None]:
        pair = self.categorical_column.get_sparse_tensors(features)
        return self._rows(pair, self._table(scope)), pair.id_tensor


@dataclass(frozen=True)
class SharedEmbeddingColumn(_Embedding):
    """Made by `shared_embedding_columns`; the first one in a graph makes `embedding_weights`, which is kept in a collection."""

    shared_embedding_collection_name: str

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def var_scope_name(self) -> str:
        return self.shared_embedding_collection_name

    def _numbers(self, features: Features, scope: ColumnScope) -> tuple[Tensor, SparseTensor | None]:
        graph = get_default_graph()
        with graph.name_scope(self.name):
            pair = self.categorical_column.get_sparse_tensors(features)
            held = graph.get_collection(self.shared_embedding_collection_name)
            if not held:
                held = [self._table(scope)]
                graph.add_to_collection(self.shared_embedding_collection_name, held[0])
            return self._rows(pair, self._checked(held)), pair.id_tensor

    def _checked(self, held: list[Any]) -> Any:
        expected = TensorShape([self.categorical_column.num_buckets, self.dimension])
        if len(held) > 1 or not expected.is_compatible_with(held[0].shape):
            raise GraphValueError(
                f"The shared embedding collection {self.shared_embedding_collection_name} may only contain one variable, of "
                f"shape {expected}, but has {held}. Choose a unique name for this collection"
            )
        return held[0]


@dataclass(frozen=True)
class IndicatorColumn(_MadeOfCategories):
    """Made by `indicator_column`."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def variable_shape(self) -> TensorShape:
        return TensorShape([1, self.categorical_column.num_buckets])

    def transform_feature(self, features: Features) -> Tensor:
        pair, size = self.categorical_column.get_sparse_tensors(features), self.categorical_column.num_buckets
        if pair.weight_tensor is not None:
            return _weights_by_id(pair, size)
        ids = sparse_tensor_to_dense(pair.id_tensor, default_value=-1)
        hot = apply_op("OneHot", ids, size, np.float32(1), np.float32(0), axis=-1)
        return apply_op("Sum", hot, [-2])

    _kind = "indicator_column"

    def _numbers(self, features: Features, scope: ColumnScope) -> tuple[Tensor, SparseTensor | None]:
        return features.get(self), None


def _weights_by_id(pair: IdWeightPair, size: int) -> Tensor:
    """The sum of the weights of each id of each example; ids outside the range are left out."""
    ids, weights = pair.id_tensor, pair.weight_tensor
    is_inside = apply_op(
        "LogicalAnd",
        apply_op("GreaterEqual", ids.values, np.int64(0)),
        apply_op("Less", ids.values, np.int64(size)),
    )
    kept_ids, kept = sparse_retain(ids, is_inside), sparse_retain(weights, is_inside)
    outer = apply_op("StridedSlice", kept_ids.indices, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
    indices = apply_op("ConcatV2", [outer, apply_op("ExpandDims", kept_ids.values, 1)], 1)
    examples = apply_op("StridedSlice", ids.dense_shape, [0], [-1], [1], begin_mask=1)
    shape = apply_op("ConcatV2", [examples, np.array([size])], 0)
    return scatter_nd(indices, kept.values, shape)


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> EmbeddingColumn:
    """Return a dense column [dimension] with a trained vector for each category.

    Args:
        combiner: of the categories of an example: "mean", "sqrtn" or "sum".
        initializer: of the table, by default a truncated normal with standard deviation 1 / sqrt(dimension).
        ckpt_to_load_from, tensor_name_in_ckpt: a checkpoint, and the name of the table there.
        max_norm: the norm to which longer vectors are scaled down.

    Raises:
        GraphValueError: the dimension is not positive, the initializer cannot be called, or only one of checkpoint and name.
    """
    _check_table(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        initializer or _default_initializer(dimension),
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def shared_embedding_columns(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Return dense columns [dimension], one for each of the given ones, which all look up in one table.

    Args:
        categorical_columns: of one kind, with the same number of categories; some may be weighted.
        shared_embedding_collection_name: name of the scope and of the collection of the table, by default the names of the
            columns and "shared_embedding", joined by underscores.

    The others are those of `embedding_column`.

    Raises:
        GraphValueError: the columns are of different kinds or sizes; see `embedding_column`.
    """
    _check_table(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt)
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    _check_alike(ordered)
    name = shared_embedding_collection_name or "_".join(
        [*(column.name for column in ordered), "shared_embedding"]
    )
    table = initializer or _default_initializer(dimension)
    return [
        SharedEmbeddingColumn(
            column,
            dimension,
            combiner,
            table,
            ckpt_to_load_from,
            tensor_name_in_ckpt,
            max_norm,
            trainable,
            name,
        )
        for column in categorical_columns
    ]


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """Return a dense column [num_buckets] with the number of times that each category is in an example, or its weights.

    Raises:
        GraphValueError: the column is not categorical.
    """
    if not isinstance(categorical_column, CategoricalColumn):
        raise GraphValueError(
            f"Unsupported input type. Input must be a CategoricalColumn. Given: {categorical_column!r}"
        )
    return IndicatorColumn(categorical_column)


def _check_table(dimension: Any, initializer: Any, checkpoint: str | None, name: str | None) -> None:
    if dimension is None or dimension < 1:
        raise GraphValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (name is None):
        raise GraphValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )
    if initializer is not None and not callable(initializer):
        raise GraphValueError(f"initializer must be callable if specified, got {initializer!r}")


def _default_initializer(dimension: int) -> TruncatedNormal:
    return TruncatedNormal(mean=0.0, stddev=1 / math.sqrt(dimension))


def _check_alike(columns: Sequence[CategoricalColumn]) -> None:
    for column in columns:
        if not isinstance(column, CategoricalColumn):
            raise GraphValueError(
                f"All categorical_columns must be subclasses of CategoricalColumn. Given: {column!r}"
            )
    first = columns[0]
    for column in columns[1:]:
        if type(_without_weights(column)) is not type(_without_weights(first)):
            raise GraphValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                f"weighted_categorical_column of the same type. Given column: {first} does not match given column: {column}"
            )
        if column.num_buckets != first.num_buckets:
            raise GraphValueError(
                "To use shared_embedding_column, all categorical_columns must have the same number of buckets. Given column: "
                f"{first} with buckets: {first.num_buckets} does not match column: {column} with buckets: {column.num_buckets}"
            )


def _without_weights(column: CategoricalColumn) -> CategoricalColumn:
    while isinstance(column, WeightedCategoricalColumn):
        column = column.categorical_column
    return column
