"""Initial values from a matrix of a checkpoint whose rows or columns belong to the words of a vocabulary.

Each word gets the row (or column) of the same word in the checkpoint, whatever its position there; new words, and
out-of-vocabulary buckets, get values of an initializer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.ops.array.filling import range_
from aioexec.ops.array.joining import concat
from aioexec.ops.state.initializers import TruncatedNormal, Zeros

Initializer = Callable[..., Any]


def _load_and_remap_matrix(
    ckpt_path: str,
    old_tensor_name: str,
    new_row_vocab_offset: int,
    num_rows_to_load: int,
    new_col_vocab_size: int,
    initializer: Initializer,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: str | None = None,
    new_row_vocab_file: str | None = None,
    old_col_vocab_file: str | None = None,
    new_col_vocab_file: str | None = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    max_rows_in_memory: int = -1,
) -> Any:
    """A matrix for new vocabularies of rows, columns or both, with out-of-vocabulary buckets after the words.

    Args:
        new_row_vocab_offset, num_rows_to_load: the range of new rows to load; the others are in other partitions of a variable.
        initializer: makes values of a shape, for new words and buckets.
        old_row_vocab_size: the number of lines of the old file to use; -1 for all.
        max_rows_in_memory: the number of rows to read at once; -1 for all.

    Raises:
        GraphValueError: a negative number of buckets, only one vocabulary of a pair, or no pair.
    """
    for axis, buckets in (("row", num_row_oov_buckets), ("col", num_col_oov_buckets)):
        if buckets < 0:
            raise GraphValueError(f"num_{axis}_oov_buckets must be >= 0, but received {buckets}")
    remaps_rows = _is_pair("row", old_row_vocab_file, new_row_vocab_file)
    remaps_columns = _is_pair("col", old_col_vocab_file, new_col_vocab_file)
    if not (remaps_rows or remaps_columns):
        raise GraphValueError(
            "Must provide either row or column vocab files. If no remapping is necessary, consider using "
            "`init_from_checkpoint` instead."
        )
    rows: Any = range_(new_row_vocab_offset, new_row_vocab_offset + num_rows_to_load, dtype=dtypes.int64)
    columns: Any = convert_to_tensor([], dtypes.int64)
    rows_present: Any = num_rows_to_load
    columns_present: Any = new_col_vocab_size
    if remaps_rows:
        rows, rows_present = _lookup(
            new_row_vocab_file, old_row_vocab_file, new_row_vocab_offset, num_rows_to_load, old_row_vocab_size
        )
    if remaps_columns:
        columns, columns_present = _lookup(new_col_vocab_file, old_col_vocab_file, 0, new_col_vocab_size, -1)
    missing = num_rows_to_load * new_col_vocab_size - rows_present * columns_present
    matrix = apply_op(
        "LoadAndRemapMatrix",
        ckpt_path,
        old_tensor_name,
        rows,
        columns,
        initializer([missing, 1]),
        num_rows=num_rows_to_load,
        num_cols=new_col_vocab_size,
        max_rows_in_memory=max_rows_in_memory,
    )
    if num_row_oov_buckets:
        more = initializer([num_row_oov_buckets, new_col_vocab_size])
        matrix = concat([matrix, convert_to_tensor(more)], 0)
    if num_col_oov_buckets:
        more = initializer([num_rows_to_load + num_row_oov_buckets, num_col_oov_buckets])
        matrix = concat([matrix, convert_to_tensor(more)], 1)
    return matrix


def _is_pair(axis: str, old: str | None, new: str | None) -> bool:
    if bool(old) != bool(new):
        raise GraphValueError(
            f"old_{axis}_vocab_file and new_{axis}_vocab_file must both be specified or left unspecified. "
            f"old_{axis}_vocab_file={old!r}, new_{axis}_vocab_file={new!r}"
        )
    return bool(old)


def _lookup(new: Any, old: Any, offset: int, count: int, old_size: int) -> Any:
    """The index of each new word in the old vocabulary, and the number of words found."""
    return apply_tuple_op(
        "GenerateVocabRemapping",
        new,
        old,
        new_vocab_offset=offset,
        num_new_vocab=count,
        old_vocab_size=old_size,
    )


def _load_and_remap_matrix_initializer(
    ckpt_path: str,
    old_tensor_name: str,
    new_row_vocab_size: int,
    new_col_vocab_size: int,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: str | None = None,
    new_row_vocab_file: str | None = None,
    old_col_vocab_file: str | None = None,
    new_col_vocab_file: str | None = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    initializer: Initializer | None = None,
    max_rows_in_memory: int = -1,
) -> Initializer:
    """An initializer of a variable, or of its partitions along the rows, from a matrix; see `_load_and_remap_matrix`.

    Raises:
        GraphTypeError: `initializer` is not callable.
    """
    make = Zeros() if initializer is None else initializer
    if not callable(make):
        raise GraphTypeError(f"initializer must be callable, instead of being {initializer!r}")

    def initialize(shape: Sequence[int], dtype: Any = dtypes.float32, partition_info: Any = None) -> Any:
        if dtypes.as_dtype(dtype) != dtypes.float32:
            raise GraphTypeError(f"Currently, only float32 is supported. Received dtype: {dtype}")
        offset = 0 if partition_info is None else partition_info.single_offset(shape)
        rows = _rows(shape, offset)
        if not rows:
            return make(shape)
        return _load_and_remap_matrix(
            ckpt_path=ckpt_path,
            old_tensor_name=old_tensor_name,
            new_row_vocab_offset=offset,
            num_rows_to_load=rows,
            new_col_vocab_size=new_col_vocab_size,
            initializer=make,
            old_row_vocab_size=old_row_vocab_size,
            old_row_vocab_file=old_row_vocab_file,
            new_row_vocab_file=new_row_vocab_file,
            old_col_vocab_file=old_col_vocab_file,
            new_col_vocab_file=new_col_vocab_file,
            num_row_oov_buckets=shape[0] - rows,
            num_col_oov_buckets=num_col_oov_buckets,
            max_rows_in_memory=max_rows_in_memory,
        )

    def _rows(shape: Sequence[int], offset: int) -> int:
        """The number of rows of a partition that belong to words."""
        width = new_col_vocab_size + num_col_oov_buckets
        if len(shape) != 2 or shape[0] <= 0 or shape[1] != width:
            raise GraphValueError(f"Expected a shape of 2 dimensions, [rows, {width}], but received: {shape}")
        height = new_row_vocab_size + num_row_oov_buckets
        if offset + shape[0] > height:
            raise GraphValueError(
                f"Trying to initialize {shape[0]} additional rows after {offset} rows have already been initialized, which "
                f"would exceed expected total row count of {height}"
            )
        return max(0, min(shape[0], new_row_vocab_size - offset))

    return initialize


def _load_embedding_initializer(
    ckpt_path: str,
    embedding_tensor_name: str,
    new_vocab_size: int,
    embedding_dim: int,
    old_vocab_file: str,
    new_vocab_file: str,
    old_vocab_size: int = -1,
    num_oov_buckets: int = 0,
    initializer: Initializer | None = None,
    max_rows_in_memory: int = -1,
) -> Initializer:
    """An initializer of an embedding, one row per word; new words get small random numbers by default."""
    return _load_and_remap_matrix_initializer(
        ckpt_path=ckpt_path,
        old_tensor_name=embedding_tensor_name,
        new_row_vocab_size=new_vocab_size,
        new_col_vocab_size=embedding_dim,
        old_row_vocab_size=old_vocab_size,
        old_row_vocab_file=old_vocab_file,
        new_row_vocab_file=new_vocab_file,
        num_row_oov_buckets=num_oov_buckets,
        initializer=initializer or TruncatedNormal(stddev=1.0 / math.sqrt(embedding_dim)),
        max_rows_in_memory=max_rows_in_memory,
    )
