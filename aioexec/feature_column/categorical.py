"""Columns of categories: numbered by their hash, by a vocabulary, or by themselves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.feature_column.columns import (
    CategoricalColumn,
    Features,
    check_is_text_or_integer,
    check_key,
    to_sparse,
)
from aioexec.graph.apply import apply_op
from aioexec.graph.scopes import init_scope
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.io.example_functions import VarLenFeature
from aioexec.ops.lookup.vocabularies import index_table_from_file, index_table_from_tensor
from aioexec.ops.math.cast import cast
from aioexec.ops.strings.numbers import as_string, string_to_hash_bucket_fast

logger = logging.getLogger(__name__)


class _OneFeatureColumn(CategoricalColumn):
    """A column of the categories of one feature."""

    key: str
    dtype: DType

    @property
    def name(self) -> str:
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return {self.key: VarLenFeature(self.dtype)}

    def transform_feature(self, features: Features) -> SparseTensor:
        return self._ids(to_sparse(features.get(self.key)))

    def _ids(self, values: SparseTensor) -> SparseTensor:
        raise NotImplementedError

    def _check(self, values: SparseTensor) -> None:
        """Check that a feature has the dtype of the column.

        Raises:
            GraphValueError: one is an integer and the other a string, or the feature is neither.
        """
        if self.dtype.is_integer != values.dtype.is_integer:
            raise GraphValueError(
                "Column dtype and SparseTensors dtype must be compatible. "
                f"key: {self.key}, column dtype: {self.dtype}, tensor dtype: {values.dtype}"
            )
        check_is_text_or_integer(values.dtype, f"column_name: {self.key} input_tensor")


@dataclass(frozen=True)
class HashedCategoricalColumn(_OneFeatureColumn):
    """Made by `categorical_column_with_hash_bucket`."""

    key: str
    hash_bucket_size: int
    dtype: DType

    @property
    def num_buckets(self) -> int:
        return self.hash_bucket_size

    def _ids(self, values: SparseTensor) -> SparseTensor:
        self._check(values)
        text = values.values if self.dtype == dtypes.string else as_string(values.values)
        ids = string_to_hash_bucket_fast(text, self.hash_bucket_size, name="lookup")
        return SparseTensor(values.indices, ids, values.dense_shape)


@dataclass(frozen=True)
class VocabularyFileCategoricalColumn(_OneFeatureColumn):
    """Made by `categorical_column_with_vocabulary_file`."""

    key: str
    vocabulary_file: str
    vocabulary_size: int
    num_oov_buckets: int
    dtype: DType
    default_value: int

    @property
    def num_buckets(self) -> int:
        return self.vocabulary_size + self.num_oov_buckets

    def _ids(self, values: SparseTensor) -> SparseTensor:
        self._check(values)
        keys, kind = _keys(values, self.dtype)
        with init_scope():
            table = index_table_from_file(
                vocabulary_file=self.vocabulary_file,
                num_oov_buckets=self.num_oov_buckets,
                vocab_size=self.vocabulary_size,
                default_value=self.default_value,
                key_dtype=kind,
                name=f"{self.key}_lookup",
            )
        ids: SparseTensor = table.lookup(keys)
        return ids


@dataclass(frozen=True)
class VocabularyListCategoricalColumn(_OneFeatureColumn):
    """Made by `categorical_column_with_vocabulary_list`."""

    key: str
    vocabulary_list: tuple[Any, ...]
    dtype: DType
    default_value: int
    num_oov_buckets: int

    @property
    def num_buckets(self) -> int:
        return len(self.vocabulary_list) + self.num_oov_buckets

    def _ids(self, values: SparseTensor) -> SparseTensor:
        self._check(values)
        keys, kind = _keys(values, self.dtype)
        with init_scope():
            table = index_table_from_tensor(
                vocabulary_list=self.vocabulary_list,
                default_value=self.default_value,
                num_oov_buckets=self.num_oov_buckets,
                dtype=kind,
                name=f"{self.key}_lookup",
            )
        ids: SparseTensor = table.lookup(keys)
        return ids


@dataclass(frozen=True)
class IdentityCategoricalColumn(_OneFeatureColumn):
    """Made by `categorical_column_with_identity`."""

    key: str
    number_buckets: int
    default_value: int | None

    dtype = dtypes.int64

    @property
    def num_buckets(self) -> int:
        return self.number_buckets

    def _ids(self, values: SparseTensor) -> SparseTensor:
        if not values.dtype.is_integer:
            raise GraphValueError(f"Invalid input, not integer. key: {self.key} dtype: {values.dtype}")
        ids = cast(values.values, dtypes.int64, name="values")
        if self.default_value is not None:
            is_low = apply_op("Less", ids, np.int64(0))
            is_high = apply_op("GreaterEqual", ids, np.int64(self.number_buckets))
            is_outside = apply_op("LogicalOr", is_low, is_high, name="out_of_range")
            ids = apply_op("SelectV2", is_outside, np.int64(self.default_value), ids)
        return SparseTensor(values.indices, ids, values.dense_shape)


def _keys(values: SparseTensor, dtype: DType) -> tuple[SparseTensor, DType]:
    """The keys to look up, and their dtype; all integers are int64."""
    if not values.dtype.is_integer:
        return values, dtype
    wide = cast(values.values, dtypes.int64)
    return SparseTensor(values.indices, wide, values.dense_shape), dtypes.int64


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = dtypes.string
) -> HashedCategoricalColumn:
    """Return a column of categories that are numbered by their hash.

    Args:
        key: the name of the feature; the elements of a dense one are left out where they are "" or -1.
        hash_bucket_size: the number of categories.
        dtype: string or an integer.

    Raises:
        GraphValueError: the size is not positive, or another dtype.
    """
    if hash_bucket_size is None:
        raise GraphValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise GraphValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    check_key(key)
    kind = dtypes.as_dtype(dtype)
    check_is_text_or_integer(kind, f"column_name: {key}")
    return HashedCategoricalColumn(key, hash_bucket_size, kind)


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: str,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = dtypes.string,
) -> VocabularyFileCategoricalColumn:
    """Return a column of categories that are numbered by their line in a file.

    Args:
        vocabulary_size: the lines to read; None: the file is read for their number, which blocks.
        num_oov_buckets: further categories, for what is not in the file, by its hash.
        default_value: category of what is not in the file, by default -1: none.
        dtype: string or an integer.

    Raises:
        GraphValueError: there is no file, both `num_oov_buckets` and `default_value`, a number out of range, or another dtype.
    """
    if not vocabulary_file:
        raise GraphValueError(f"Missing vocabulary_file in {key}.")
    if vocabulary_size is None:
        vocabulary_size = _count_lines(vocabulary_file, key)
    if vocabulary_size < 1:
        raise GraphValueError(f"Invalid vocabulary_size in {key}.")
    if num_oov_buckets:
        _check_spare(num_oov_buckets, default_value is not None, key)
    kind = dtypes.as_dtype(dtype)
    check_is_text_or_integer(kind, f"column_name: {key}")
    check_key(key)
    default = -1 if default_value is None else default_value
    return VocabularyFileCategoricalColumn(
        key, vocabulary_file, vocabulary_size, num_oov_buckets, kind, default
    )


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Sequence[Any],
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListCategoricalColumn:
    """Return a column of categories that are numbered by their place in a list.

    Args:
        dtype: string or an integer, by default that of the list.
        default_value: category of what is not in the list; -1: none.
        num_oov_buckets: further categories, for what is not in the list, by its hash.

    Raises:
        GraphValueError: the list is empty, has an element twice or is of another dtype; both `num_oov_buckets` and
            `default_value`.
    """
    if not len(vocabulary_list or ()):
        raise GraphValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(vocabulary_list)) != len(vocabulary_list):
        raise GraphValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    own = dtypes.as_dtype(np.array(vocabulary_list).dtype)
    if num_oov_buckets:
        _check_spare(num_oov_buckets, default_value != -1, key)
    check_is_text_or_integer(own, f"column_name: {key} vocabulary")
    kind = own if dtype is None else dtypes.as_dtype(dtype)
    if kind.is_integer != own.is_integer:
        raise GraphValueError(f"dtype {kind} and vocabulary dtype {own} do not match, column_name: {key}")
    check_is_text_or_integer(kind, f"column_name: {key}")
    check_key(key)
    return VocabularyListCategoricalColumn(key, tuple(vocabulary_list), kind, default_value, num_oov_buckets)


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityCategoricalColumn:
    """Return a column of categories that are integers from 0 to `num_buckets` - 1.

    Args:
        default_value: category of integers outside; None: they are an error when they are used.

    Raises:
        GraphValueError: a number out of range.
    """
    if num_buckets < 1:
        raise GraphValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise GraphValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    check_key(key)
    return IdentityCategoricalColumn(key, num_buckets, default_value)


def _check_spare(num_oov_buckets: int, has_default: bool, key: str) -> None:
    if has_default:
        raise GraphValueError(f"Can't specify both num_oov_buckets and default_value in {key}.")
    if num_oov_buckets < 0:
        raise GraphValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


def _count_lines(path: str, key: str) -> int:
    """The number of lines of a file. Blocks."""
    try:
        with open(path, "rb") as file:
            lines = sum(1 for _ in file)
    except FileNotFoundError as error:
        raise GraphValueError(f"vocabulary_file in {key} does not exist.") from error
    logger.info(
        "vocabulary_size = %d in %s is inferred from the number of elements in the vocabulary_file %s.",
        lines,
        key,
        path,
    )
    return lines
