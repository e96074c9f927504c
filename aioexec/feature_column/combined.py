"""Columns of categories that are made of others: with weights, or crossed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.feature_column.categorical import HashedCategoricalColumn
from aioexec.feature_column.columns import CategoricalColumn, Features, IdWeightPair, to_sparse
from aioexec.graph.sparse_tensor import SparseTensor, convert_to_tensor_or_sparse_tensor
from aioexec.ops.io.example_functions import VarLenFeature
from aioexec.ops.math.cast import cast
from aioexec.ops.sparse.crosses import sparse_cross_hashed


@dataclass(frozen=True)
class WeightedCategoricalColumn(CategoricalColumn):
    """Made by `weighted_categorical_column`."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: DType

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec = self.categorical_column.parse_example_spec
        if self.weight_feature_key in spec:
            raise GraphValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for {self.weight_feature_key}."
            )
        return {**spec, self.weight_feature_key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        return self.categorical_column.num_buckets

    def transform_feature(self, features: Features) -> IdWeightPair:
        weights = convert_to_tensor_or_sparse_tensor(features.get(self.weight_feature_key))
        if weights.dtype.base_dtype != self.dtype:
            raise GraphValueError(f"Bad dtype, expected {self.dtype}, but got {weights.dtype}.")
        if not isinstance(weights, SparseTensor):
            weights = to_sparse(weights, ignored=0)
        if not weights.dtype.is_floating:
            numbers = cast(weights.values, dtypes.float32)
            weights = SparseTensor(weights.indices, numbers, weights.dense_shape)
        return IdWeightPair(features.get(self.categorical_column), weights)

    def get_sparse_tensors(self, features: Features) -> IdWeightPair:
        pair: IdWeightPair = features.get(self)
        return pair


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """Made by `crossed_column`."""

    keys: tuple[str | CategoricalColumn, ...]
    hash_bucket_size: int
    hash_key: int | None

    @property
    def name(self) -> str:
        names = (key if isinstance(key, str) else key.name for key in _leaves(self))
        return "_X_".join(sorted(names))

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {}
        for key in self.keys:
            spec.update(
                {key: VarLenFeature(dtypes.string)} if isinstance(key, str) else key.parse_example_spec
            )
        return spec

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def transform_feature(self, features: Features) -> SparseTensor:
        tensors = [
            features.get(key) if isinstance(key, str) else _ids_without_weights(key, features)
            for key in _leaves(self)
        ]
        return sparse_cross_hashed(tensors, self.hash_bucket_size, self.hash_key)


def _leaves(column: CrossedColumn) -> Iterator[str | CategoricalColumn]:
    """The keys of a crossed column, and of those among its keys."""
    for key in column.keys:
        if isinstance(key, CrossedColumn):
            yield from _leaves(key)
        else:
            yield key


def _ids_without_weights(column: CategoricalColumn, features: Features) -> SparseTensor:
    ids, weights = column.get_sparse_tensors(features)
    if weights is not None:
        raise GraphValueError(
            "crossed_column does not support weight_tensor, but the given column populates weight_tensor. "
            f"Given column: {column.name}"
        )
    return ids


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: Any = dtypes.float32
) -> WeightedCategoricalColumn:
    """Return the categories of a column with weights from another feature, which has the same indices.

    Args:
        weight_feature_key: the name of the feature; of a dense one, zeros are left out.
        dtype: numeric dtype of the feature.

    Raises:
        GraphValueError: another dtype.
    """
    kind = None if dtype is None else dtypes.as_dtype(dtype)
    if kind is None or not (kind.is_integer or kind.is_floating):
        raise GraphValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedCategoricalColumn(categorical_column, weight_feature_key, kind)


def crossed_column(
    keys: Sequence[str | CategoricalColumn], hash_bucket_size: int, hash_key: int | None = None
) -> CrossedColumn:
    """Return a column of combinations of categories, numbered by their hash.

    Args:
        keys: names of features, or columns, except those that are numbered by a hash.
        hash_bucket_size: the number of categories.
        hash_key: of the hash; None for the usual one.

    Raises:
        GraphValueError: the size is not positive, there are fewer than two keys, or one is of another type.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise GraphValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if not keys or len(keys) < 2:
        raise GraphValueError(f"keys must be a list with length > 1. Given: {keys!r}")
    for key in keys:
        if not isinstance(key, str | CategoricalColumn):
            raise GraphValueError(
                "Unsupported key type. All keys must be either string, or categorical column except "
                f"HashedCategoricalColumn. Given: {key!r}"
            )
        if isinstance(key, HashedCategoricalColumn):
            raise GraphValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing before crossing will increase "
                f"probability of collision. Instead, use the feature name as a string. Given: {key!r}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)
