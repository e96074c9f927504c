"""What all feature columns have in common, and the features that they read.

A column names one or more features and says what a model makes of them: a dense column a tensor [batch, ...], a categorical
column the ids of categories as a SparseTensor [batch, n], with or without weights. Columns are immutable, and know no graph;
`Features` keeps what they made in one graph, so that columns that share a feature share its nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_sparse_tensor
from aioexec.ops.array.arrays import expand_dims
from aioexec.ops.control_flow.checks import assert_positive
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.sparse.functions import sparse_reshape
from aioexec.shapes import TensorShape

_NOT_IN_SCOPES: Final = re.compile(r"[^A-Za-z0-9_.\-]")


class IdWeightPair(NamedTuple):
    """The ids of the categories of a batch, int64, and their weights, None if all are 1; both have the same indices."""

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None


class FeatureColumn:
    """A column; subclasses define the members."""

    @property
    def name(self) -> str:
        """The name, different for each column of a model."""
        raise NotImplementedError

    @property
    def var_scope_name(self) -> str:
        """The default name of the scope of its variables."""
        return _NOT_IN_SCOPES.sub("_", self.name)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """How `parse_example` reads its features."""
        raise NotImplementedError

    def transform_feature(self, features: Features) -> Any:
        """What other columns and `Features.get` see of this column."""
        raise NotImplementedError


class DenseColumn(FeatureColumn):
    """A column of numbers."""

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of an example."""
        raise NotImplementedError

    def get_dense_tensor(self, features: Features, scope: ColumnScope) -> Tensor:
        """The numbers, float32 [batch, *variable_shape]; variables are made as `scope` says."""
        raise NotImplementedError


class StepsAndLengths(NamedTuple):
    """The numbers of sequences, [batch, steps, ...], and the number of steps of each, int64 [batch]."""

    dense_tensor: Tensor
    sequence_length: Tensor


class SequenceDenseColumn(FeatureColumn):
    """A column of numbers at each step of a sequence."""

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of a step."""
        raise NotImplementedError

    def get_sequence_dense_tensor(self, features: Features, scope: ColumnScope) -> StepsAndLengths:
        """The numbers, [batch, steps, *variable_shape]; variables are made as `scope` says."""
        raise NotImplementedError


class CategoricalColumn(FeatureColumn):
    """A column of categories, numbered from 0."""

    @property
    def num_buckets(self) -> int:
        """The number of categories."""
        raise NotImplementedError

    def get_sparse_tensors(self, features: Features) -> IdWeightPair:
        """The categories of each example; most columns have no weights."""
        return IdWeightPair(features.get(self), None)


class ColumnScope(NamedTuple):
    """How columns make their variables: whether they are trained, and in which collections they are."""

    collections: list[str]
    trainable: bool


class Features:
    """The features of a batch, by name, and what columns made of them; each is made once.

    Args:
        features: tensors or SparseTensors [batch, ...]; those of rank 1 become [batch, 1].
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: str | FeatureColumn) -> Any:
        """The feature of this name, or what the column makes of its features.

        Raises:
            GraphValueError: there is no such feature, or it is a scalar.
            GraphTypeError: the key is neither a name nor a column.
        """
        if key not in self._made:
            self._made[key] = self._make(key)
        return self._made[key]

    def _make(self, key: str | FeatureColumn) -> Any:
        if isinstance(key, FeatureColumn):
            return key.transform_feature(self)
        if not isinstance(key, str):
            raise GraphTypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key!r}')
        if key not in self._features:
            raise GraphValueError(f"Feature {key} is not in features dictionary.")
        tensor = convert_to_tensor_or_sparse_tensor(self._features[key])
        rank = tensor.shape.ndims
        if rank == 0:
            raise GraphValueError(f"Feature (key: {key}) cannot have rank 0. Given: {tensor!r}")
        if rank is not None:
            return _as_matrix(tensor) if rank == 1 else tensor
        return _with_checked_rank(tensor, key)


def _as_matrix(tensor: Tensor | SparseTensor) -> Any:
    """A vector as a matrix with one column."""
    if not isinstance(tensor, SparseTensor):
        return expand_dims(tensor, -1)
    length = apply_op("GatherV2", tensor.dense_shape, 0, 0)
    return sparse_reshape(tensor, apply_op("Pack", [length, np.int64(1)]))


def _with_checked_rank(tensor: Tensor | SparseTensor, key: str) -> Any:
    """A tensor whose rank is known only when it runs: it must be positive, and a vector becomes a matrix."""
    if isinstance(tensor, SparseTensor):
        rank = apply_op("Size", tensor.dense_shape)
    else:
        rank = apply_op("Rank", tensor)
    check = assert_positive(rank, message=f"Feature (key: {key}) cannot have rank 0. Given: {tensor!r}")
    with get_default_graph().control_dependencies([check]):
        return cond(apply_op("Equal", 1, rank), lambda: _as_matrix(tensor), lambda: tensor)


def to_sparse(value: Any, ignored: Any = None) -> SparseTensor:
    """The elements of a tensor [batch, n] other than `ignored`; a SparseTensor as it is.

    Args:
        ignored: by default "" for strings, -1 for integers, 0 for other numbers.
    """
    tensor = convert_to_tensor_or_sparse_tensor(value)
    if isinstance(tensor, SparseTensor):
        return tensor
    dtype = tensor.dtype.base_dtype
    if ignored is None:
        ignored = b"" if dtype == dtypes.string else -1 if dtype.is_integer else 0
    with get_default_graph().name_scope("to_sparse_input"):
        is_kept = apply_op("NotEqual", tensor, np.array(ignored, dtype.numpy))
        indices = apply_op("Where", is_kept, name="indices")
        values = apply_op("GatherNd", tensor, indices, name="values")
        shape = apply_op("Shape", tensor, out_type=dtypes.int64, name="dense_shape")
        return SparseTensor(indices, values, shape)


def checked_columns(feature_columns: Any) -> list[FeatureColumn]:
    """The columns, sorted by name.

    Args:
        feature_columns: a column or an iterable of columns.

    Raises:
        GraphValueError: there are none, one is no column, or two have the same name.
    """
    if isinstance(feature_columns, FeatureColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, Mapping) or not isinstance(feature_columns, Iterable):
        raise GraphValueError(
            f"Expected feature_columns to be iterable, found {type(feature_columns).__name__}."
        )
    columns = list(feature_columns)
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise GraphValueError(
                f"Items of feature_columns must be a FeatureColumn. Given (type {type(column)}): {column!r}."
            )
    if not columns:
        raise GraphValueError("feature_columns must not be empty.")
    by_name: dict[str, FeatureColumn] = {}
    for column in columns:
        if column.name in by_name:
            raise GraphValueError(
                f"Duplicate feature column name found for columns: {column} and {by_name[column.name]}. This usually means "
                "that these columns refer to same base feature. Either one must be discarded or a duplicated but renamed "
                "item must be inserted in features dict."
            )
        by_name[column.name] = column
    return [by_name[name] for name in sorted(by_name)]


def check_batch_sizes(tensors: Iterable[Tensor], columns: Iterable[FeatureColumn]) -> None:
    """Check that the static batch sizes are equal.

    Raises:
        GraphValueError: they are not.
    """
    first: tuple[str, int] | None = None
    for tensor, column in zip(tensors, columns, strict=True):
        size = None if not tensor.dims else tensor.dims[0]
        if size is None:
            continue
        if first is not None and size != first[1]:
            raise GraphValueError(
                "Batch size (first dimension) of each feature must be same. "
                f"Batch size of columns ({first[0]}, {column.name}): ({first[1]}, {size})"
            )
        first = first or (column.name, size)


def check_key(key: Any) -> None:
    """Check the name of a feature.

    Raises:
        GraphValueError: it is no string.
    """
    if not isinstance(key, str):
        raise GraphValueError(f"key must be a string. Got: type {type(key)}. Given key: {key!r}.")


def check_is_text_or_integer(dtype: DType, of: str) -> None:
    """Check the dtype of categories.

    Raises:
        GraphValueError: it is neither string nor integer.
    """
    if dtype.base_dtype != dtypes.string and not dtype.is_integer:
        raise GraphValueError(f"{of} dtype must be string or integer. dtype: {dtype}.")
