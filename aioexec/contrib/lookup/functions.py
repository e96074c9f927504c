"""Lookup tables made from vectors and files, with the older arguments of `tf.contrib.lookup`."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.ops.lookup import vocabularies
from aioexec.ops.lookup.vocabularies import FastHashSpec


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """Return a table from the elements of the vector `mapping` to their positions.

    Raises:
        GraphValueError, GraphTypeError: an argument is invalid.
    """
    if mapping is None:
        raise GraphValueError("mapping must be specified.")
    return vocabularies.index_table_from_tensor(
        mapping, num_oov_buckets, default_value, hasher_spec, dtype, name
    )


def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    name: str | None = None,
) -> Any:
    """As `index_table_from_tensor`, for strings.

    Raises:
        GraphValueError: the elements are no strings.
    """
    mapping = convert_to_tensor(mapping)
    if mapping.dtype.base_dtype != dtypes.string:
        raise GraphValueError("string_to_index_table_from_tensor requires string.")
    return index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, name=name)


def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Return a table from the lines of a file to their numbers.

    Raises:
        GraphValueError: an argument is invalid.
    """
    return vocabularies.index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, dtypes.string, name
    )


def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Any:
    """Return the positions of strings in the vector `mapping`."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """Return a table from positions in the vector `mapping` to its elements.

    Raises:
        GraphValueError: `mapping` is None.
    """
    if mapping is None:
        raise GraphValueError("mapping must be specified.")
    return vocabularies.index_to_string_table_from_tensor(mapping, default_value, name)


def index_to_string(tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """Return the elements of the vector `mapping` at positions."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)
