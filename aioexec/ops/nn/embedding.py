"""Embedding lookup in tables of one or several partitions, and combination of the rows of each example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.partitioning import dynamic_partition, dynamic_stitch
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.reduction.norms import clip_by_norm
from aioexec.shapes import as_dims


def _parts(params: Any) -> list[Any]:
    """Return the partitions of a table: a tensor, a list, or a partitioned variable."""
    if params is None:
        raise GraphValueError("Need at least one param")
    if isinstance(params, list | tuple):
        found = list(params)
    elif hasattr(params, "_get_variable_list"):  # TensorFlow's name for partitioned variables
        found = list(params._get_variable_list())
    else:
        found = [params]
    if not found:
        raise GraphValueError("Need at least one param")
    return found


def _static_rows(part: Any) -> int | None:
    dims = as_dims(part.shape) if hasattr(part, "shape") else convert_to_tensor(part).dims
    return None if dims is None else dims[0]


def _place(ids: Tensor, parts: list[Any], strategy: str) -> tuple[Tensor, Tensor]:
    """Return for each id the number of its partition, and its row there."""
    count = constant(len(parts), ids.dtype.base_dtype)
    if strategy == "mod":
        return apply_op("FloorMod", ids, count), apply_op("FloorDiv", ids, count)
    if strategy != "div":
        raise GraphValueError(f"Unrecognized partition strategy: {strategy}")
    rows = [_static_rows(part) for part in parts]
    if any(each is None for each in rows):
        sizes = [apply_op("Shape", convert_to_tensor(part)) for part in parts]
        first = [apply_op("StridedSlice", size, [0], [1], [1], shrink_axis_mask=1) for size in sizes]
        total = apply_op("Cast", apply_op("AddN", first), DstT=ids.dtype.base_dtype)
    else:
        total = constant(sum(each or 0 for each in rows), ids.dtype.base_dtype)
    each, more = apply_op("FloorDiv", total, count), apply_op("FloorMod", total, count)
    wide = apply_op("AddV2", each, constant(1, ids.dtype.base_dtype))
    before = apply_op("Mul", more, wide)  # ids in the partitions that have one row more
    part = apply_op("Maximum", apply_op("FloorDiv", ids, wide), apply_op("FloorDiv", ids - more, each))
    is_wide = apply_op("Less", ids, before)
    row = apply_op(
        "SelectV2", is_wide, apply_op("FloorMod", ids, wide), apply_op("FloorMod", ids - more, each)
    )
    return part, row


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Tensor:
    """Look up rows of a table, which may be partitioned.

    Args:
        params: a tensor or variable, a list of partitions, or a partitioned variable.
        partition_strategy: "mod": row i is in partition i modulo their number; "div": rows are contiguous.
        validate_indices: ignored, as in TensorFlow.
        max_norm: the norm to which longer rows are scaled down.

    Raises:
        GraphValueError: there are no partitions, or the strategy is unknown.
    """
    return _lookup(params, ids, partition_strategy, name, max_norm, None)


def _lookup(
    params: Any,
    ids: Any,
    strategy: str,
    name: str | None,
    max_norm: Any,
    transform: Callable[[Tensor], Tensor] | None,
) -> Tensor:
    parts = _parts(params)
    with op_scope(name, "embedding_lookup", *parts, ids) as scope:
        wanted = convert_to_tensor(ids, name="ids")
        if len(parts) == 1:
            rows = _clipped(gather(parts[0], wanted), wanted, max_norm)
            found = rows if transform is None else transform(rows)
            return apply_op("Identity", found, name=scope)
        flat = apply_op("Reshape", wanted, constant(np.array([-1], np.int32)))
        part, row = _place(flat, parts, strategy)
        part = apply_op("Cast", part, DstT=dtypes.int32)
        positions = apply_op("Range", 0, apply_op("Size", flat), 1)
        groups = dynamic_partition(row, part, len(parts))
        places = dynamic_partition(positions, part, len(parts))
        found_parts = [gather(each, group) for each, group in zip(parts, groups, strict=True)]
        if transform is not None:
            found_parts = [transform(each) for each in found_parts]
        joined = dynamic_stitch(places, found_parts)
        inner = apply_op("StridedSlice", apply_op("Shape", joined), [1], [0], [1], end_mask=1)
        shape = apply_op("ConcatV2", [apply_op("Shape", wanted), inner], 0)
        return _clipped(apply_op("Reshape", joined, shape), wanted, max_norm)


def _clipped(rows: Tensor, ids: Tensor, max_norm: Any) -> Tensor:
    if max_norm is None:
        return rows
    if rows.dims is None or ids.dims is None:
        raise GraphValueError("embedding_lookup: max_norm needs ids and params of known rank")
    clipped: Tensor = clip_by_norm(rows, max_norm, axes=list(range(len(ids.dims), len(rows.dims))))
    return clipped


COMBINERS = ("sum", "mean", "sqrtn")


def _check_sparse_arguments(sp_ids: Any, sp_weights: Any, combiner: str) -> None:
    if combiner not in COMBINERS:
        raise GraphValueError(f"combiner must be one of {', '.join(map(repr, COMBINERS))}, got {combiner!r}")
    for what, value in (("sp_ids", sp_ids), ("sp_weights", sp_weights)):
        if not isinstance(value, SparseTensor) and (value is not None or what == "sp_ids"):
            raise GraphTypeError(f"{what} must be SparseTensor, got {value!r}")


def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
) -> Tensor:
    """Look up the rows of each example and combine them: their sum, mean, or sum over the square root of their number.

    Args:
        sp_ids: a SparseTensor of rank 2 or more: the ids of each example.
        sp_weights: a SparseTensor with the same indices; None: all weights are 1.
        combiner: "sum", "mean" (the default) or "sqrtn"; weights replace the number of rows.

    Raises:
        GraphTypeError: ids or weights are not SparseTensors.
        GraphValueError: the combiner is unknown.
    """
    combiner = combiner or "mean"
    _check_sparse_arguments(sp_ids, sp_weights, combiner)
    with op_scope(name, "embedding_lookup_sparse", *_parts(params), sp_ids.values) as scope:
        masks: dict[str, Any] = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
        examples = apply_op("StridedSlice", sp_ids.indices, [0, 0], [0, 1], [1, 1], **masks)
        segments = apply_op("Cast", examples, DstT=dtypes.int32)
        different, numbers = apply_tuple_op("Unique", sp_ids.values)
        rows = embedding_lookup(params, different, partition_strategy, max_norm=max_norm)
        if rows.dtype.base_dtype in (dtypes.float16, dtypes.bfloat16):
            rows = apply_op("Cast", rows, DstT=dtypes.float32)
        if sp_weights is None:
            op_type = {"sum": "SparseSegmentSum", "mean": "SparseSegmentMean", "sqrtn": "SparseSegmentSqrtN"}
            return apply_op(op_type[combiner], rows, numbers, segments, name=scope)
        return _weighted(gather(rows, numbers), sp_weights.values, segments, combiner, scope)


def _weighted(rows: Tensor, weights: Tensor, segments: Tensor, combiner: str, scope: str) -> Tensor:
    if weights.dtype.base_dtype != rows.dtype.base_dtype:
        weights = apply_op("Cast", weights, DstT=rows.dtype.base_dtype)
    ones = apply_op(
        "Fill", apply_op("ExpandDims", apply_op("Sub", apply_op("Rank", rows), 1), 0), constant(1, "int32")
    )
    wide = apply_op("Reshape", weights, apply_op("ConcatV2", [apply_op("Shape", weights), ones], 0))
    if rows.dims is not None:
        wide.set_shape([None] + [1] * (len(rows.dims) - 1))
    total = apply_op("SegmentSum", apply_op("Mul", rows, wide), segments)
    if combiner == "sum":
        return apply_op("Identity", total, name=scope)
    if combiner == "mean":
        return apply_op("DivNoNan", total, apply_op("SegmentSum", wide, segments), name=scope)
    squares = apply_op("SegmentSum", apply_op("Square", wide), segments)
    return apply_op("DivNoNan", total, apply_op("Sqrt", squares), name=scope)
