"""Functions on strings under the names of TensorFlow 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.dtypes import as_dtype
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.filling import range_
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.strings import string_ops  # noqa: F401  (registers ops)


def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Tensor:
    """Join strings element-wise; scalars broadcast."""
    return apply_op("StringJoin", list(inputs), separator=separator, name=name)


def string_split(
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> SparseTensor:
    """Split each string of a vector at every byte of `sep`; return the pieces as rows of a sparse matrix."""
    by = delimiter if delimiter is not None else " " if sep is None else sep
    indices, values, shape = apply_tuple_op("StringSplit", source, by, skip_empty=skip_empty, name=name)
    return SparseTensor(indices, values, shape)


def string_split_v2(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> SparseTensor:
    """Split each string of a vector as Python's `split` does; return the pieces as rows of a sparse matrix."""
    value = source if input is None else input
    by = "" if sep is None else sep
    indices, values, shape = apply_tuple_op("StringSplitV2", value, by, maxsplit=maxsplit, name=name)
    return SparseTensor(indices, values, shape)


def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return substrings of `len` units from `pos` on, counted from the end if negative."""
    dtype = next((value.dtype for value in (pos, len) if isinstance(value, Tensor)), as_dtype("int32"))
    parts = [convert_to_tensor(value, dtype) for value in (pos, len)]
    return apply_op("Substr", input, *parts, unit=unit, name=name)


def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Return the length of strings in bytes or characters."""
    return apply_op("StringLength", input, unit=unit, name=name)


def string_strip(input: Any, name: str | None = None) -> Tensor:
    """Strip leading and trailing whitespace."""
    return apply_op("StringStrip", input, name=name)


def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert to lower case: ASCII letters, or with "utf-8" all letters."""
    return apply_op("StringLower", input, encoding=encoding, name=name)


def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Tensor:
    """Convert to upper case: ASCII letters, or with "utf-8" all letters."""
    return apply_op("StringUpper", input, encoding=encoding, name=name)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """Join strings along axes in the given order; by default along all."""
    keeps = bool(keep_dims if keepdims is None else keepdims)
    axes = reduction_indices if axis is None else axis
    with op_scope(name, "ReduceJoin", inputs, axes) as scope:
        value = convert_to_tensor(inputs, as_dtype("string"))
        if axes is None:
            rank = value.dims
            axes = range_(0, apply_op("Rank", value)) if rank is None else list(range(len(rank)))
        indices = convert_to_tensor(axes, as_dtype("int32"))
        return apply_op("ReduceJoin", value, indices, keep_dims=keeps, separator=separator, name=scope)


def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """Join the strings of each segment in order."""
    return apply_op("UnsortedSegmentJoin", inputs, segment_ids, num_segments, separator=separator, name=name)


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Tensor:
    """Encode strings in URL-safe base64; `pad` appends "="."""
    return apply_op("EncodeBase64", input, pad=pad, name=name)


def decode_base64(input: Any, name: str | None = None) -> Tensor:
    """Decode the result of `encode_base64`."""
    return apply_op("DecodeBase64", input, name=name)
