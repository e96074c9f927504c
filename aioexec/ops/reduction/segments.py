"""Segment reductions: sums, means, products and extrema of rows with equal ids.

Ids of a sorted op are ascending, and the last one determines the number of segments; an empty segment is 0, of a product 1.
Ids of an unsorted op have any order and shape, and negative ones drop their row; the number of segments is an input, and an
empty segment is the neutral element: 0, 1, the highest or the lowest number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Attrs, Launches, Native, Operand, Spec, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.array.gathering import NUMBERS, OUTSIDE, adding_launch, zeros_launch
from aioexec.ops.common.elementwise import Array, in_float32, named, shown, snake_case
from aioexec.shapes import Dims

# Shapes


def segment_count(context: ShapeContext, position: int, what: str) -> int | None:
    """Return the static number of segments in an input."""
    shapes.with_rank(context.inputs[position], 0)
    count = context.value(position)
    if count is not None and count < 0:
        raise GraphValueError(f"Dimension size, given by {what}, must be non-negative but is {int(count)}")
    return None if count is None else int(count)


def _sorted_shape(context: ShapeContext) -> Sequence[Dims]:
    data = shapes.with_rank_at_least(context.inputs[0], 1)
    shapes.with_rank(context.inputs[1], 1)
    return [None if data is None else (None, *data[1:])]


def _counted_shape(context: ShapeContext) -> Sequence[Dims]:
    data, ids = context.inputs[:2]
    count = segment_count(context, 2, "num_segments")
    if data is None or ids is None:
        return [None]
    if len(ids) > len(data):
        raise GraphValueError(
            f"segment_ids of rank {len(ids)} for data of rank {len(data)}: expected at most that"
        )
    shapes.merge(data[: len(ids)], ids)
    return [(count, *data[len(ids) :])]


# Reference kernels


def check_sorted(ids: Array) -> None:
    """Raise InvalidArgumentError unless ids are non-negative and ascending."""
    if ids.size and ids[0] < 0:
        raise InvalidArgumentError("segment ids must be >= 0")
    if (ids[1:] < ids[:-1]).any():
        raise InvalidArgumentError("segment ids are not increasing")


def _sorted_rows(data: Array, ids: Array) -> int:
    """Check the inputs of a sorted op; return the number of segments."""
    if ids.ndim != 1:
        raise InvalidArgumentError(f"segment_ids should be a vector, got shape {shown(ids.shape)}")
    if not data.ndim or len(data) != ids.size:
        raise InvalidArgumentError(
            f"segment_ids should be the same size as dimension 0 of input, got {ids.size} for {shown(data.shape)}"
        )
    check_sorted(ids)
    return int(ids[-1]) + 1 if ids.size else 0


def reduced_rows(ufunc: np.ufunc, rows: Array, ids: Array, count: int, initial: Any) -> Array:
    """Reduce rows by id with `ufunc`, starting from `initial`; ids must be valid."""
    result = np.full((count, *rows.shape[1:]), initial, rows.dtype)
    ufunc.at(result, ids, rows)
    return result


def _counts(ids: Array, count: int, like: Array) -> Array:
    """Return the number of rows per segment, at least 1, shaped to divide `like`."""
    counts = np.maximum(np.bincount(ids, minlength=count), 1)
    return counts.reshape(-1, *(1,) * (like.ndim - 1)).astype(like.dtype)


def _mean_rows(rows: Array, ids: Array, count: int) -> Array:
    total = reduced_rows(np.add, rows, ids, count, 0)
    counts = _counts(ids, count, total)
    if rows.dtype.kind in "iu":
        return np.asarray(np.sign(total) * (np.abs(total) // counts)).astype(rows.dtype)
    return np.asarray(total / counts)


def _limits(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction: its ufunc, and the value of empty segments in a sorted op (`absent`) and in an unsorted op (`neutral`)."""

    ufunc: np.ufunc
    absent: int
    neutral: Callable[[np.dtype[Any]], Any]


REDUCTIONS = {
    "Sum": Reduction(np.add, 0, lambda dtype: 0),
    "Prod": Reduction(np.multiply, 1, lambda dtype: 1),
    "Min": Reduction(np.minimum, 0, lambda dtype: _limits(dtype).max),
    "Max": Reduction(np.maximum, 0, lambda dtype: _limits(dtype).min),
}


def _sorted(reduction: Reduction) -> Any:
    def compute(data: Array, ids: Array) -> Array:
        count = _sorted_rows(data, ids)
        result = reduced_rows(reduction.ufunc, data, ids, count, reduction.neutral(data.dtype))
        if reduction.absent != reduction.neutral(data.dtype):
            result[np.bincount(ids, minlength=count) == 0] = reduction.absent
        return result

    return plain(_data_in_float32(compute))


def _data_in_float32(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Reduce 16-bit floats in float32; the other arguments are indices."""
    return lambda data, *rest: in_float32(lambda wide: compute(wide, *rest))(data)


def _unsorted(reduction: Reduction) -> Any:
    def compute(data: Array, ids: Array, count: Array, initial: Any) -> Array:
        flat = _checked_ids(data, ids, count)
        rows = data.reshape(flat.size, *data.shape[ids.ndim :])
        return reduced_rows(reduction.ufunc, rows[flat >= 0], flat[flat >= 0], int(count), initial)

    def kernel(data: Array, ids: Array, count: Array) -> Array:
        initial = reduction.neutral(data.dtype)
        reduced: Array = _data_in_float32(compute)(data, ids, count, initial)
        return reduced

    return plain(kernel)


def _checked_ids(data: Array, ids: Array, count: Array) -> Array:
    if data.shape[: ids.ndim] != ids.shape:
        raise InvalidArgumentError(
            f"data.shape = {shown(data.shape)} does not start with segment_ids.shape = {shown(ids.shape)}"
        )
    if count.ndim or count < 0:
        raise InvalidArgumentError(f"num_segments must be a scalar >= 0, got {count.tolist()}")
    flat = ids.reshape(-1)
    if (flat >= count).any():
        place = int(np.argmax(flat >= count))
        raise InvalidArgumentError(f"segment_ids[{place}] = {flat[place]} is out of range [0, {int(count)})")
    return flat


# Gradients


def scalar(value: int) -> Tensor:
    return convert_to_tensor(value, dtypes.int32)


def _per_row(op: Operation, values: Tensor) -> Tensor:
    """Return for each row of data the row of its segment in `values`; zeros for dropped rows."""
    ids = op.inputs[1]
    if not op.type.startswith("Unsorted"):
        return apply_op("GatherV2", values, ids, scalar(0))
    zero = apply_op("ZerosLike", ids)
    rows = apply_op("GatherV2", values, apply_op("Maximum", ids, zero), scalar(0))
    kept = apply_op("GreaterEqual", ids, zero)
    extra = apply_op("Sub", apply_op("Rank", rows), apply_op("Rank", kept))
    ones = apply_op("Fill", apply_op("Reshape", extra, convert_to_tensor([1], dtypes.int32)), scalar(1))
    mask = apply_op("Reshape", kept, apply_op("ConcatV2", [apply_op("Shape", kept), ones], scalar(0)))
    return apply_op("SelectV2", mask, rows, apply_op("ZerosLike", rows))


def _reduce_segments(op: Operation, kind: str, data: Tensor) -> Tensor:
    """Return another reduction of the same segments."""
    name = op.type.replace(op.type.removeprefix("Unsorted").removeprefix("Segment"), kind)
    return apply_op(name, data, *op.inputs[1:])


def _rest(op: Operation) -> list[None]:
    return [None] * (len(op.inputs) - 1)


def _sum_gradient(op: Operation, dy: Tensor) -> list[Any]:
    return [_per_row(op, dy), *_rest(op)]


def _mean_gradient(op: Operation, dy: Tensor) -> list[Any]:
    data, ids = op.inputs
    extra = apply_op(
        "Reshape", apply_op("Sub", apply_op("Rank", data), scalar(1)), convert_to_tensor([1], dtypes.int32)
    )
    shape = apply_op("ConcatV2", [apply_op("Shape", ids), apply_op("Fill", extra, scalar(1))], scalar(0))
    counts = _reduce_segments(op, "Sum", apply_op("Fill", shape, convert_to_tensor(1, dy.dtype.base_dtype)))
    return [_per_row(op, apply_op("RealDiv", dy, counts)), None]


def _extremum_gradient(op: Operation, dy: Tensor) -> list[Any]:
    """Divide the gradient equally among the rows equal to the extremum."""
    data = op.inputs[0]
    chosen = apply_op("Equal", data, _per_row(op, op.outputs[0]))
    count = _reduce_segments(op, "Sum", apply_op("Cast", chosen, DstT=dy.dtype.base_dtype))
    part = _per_row(op, apply_op("RealDiv", dy, count))
    return [apply_op("SelectV2", chosen, part, apply_op("ZerosLike", part)), *_rest(op)]


def _product_gradient(op: Operation, dy: Tensor) -> list[Any]:
    """Multiply by the product of the other rows: total / row, or the product of non-zero rows if the row is 0."""
    data, (product,) = op.inputs[0], op.outputs
    is_zero = apply_op("Equal", data, apply_op("ZerosLike", data))
    zeros = _reduce_segments(op, "Sum", apply_op("Cast", is_zero, DstT=dtypes.int32))
    dy = apply_op("SelectV2", apply_op("Greater", zeros, scalar(1)), apply_op("ZerosLike", dy), dy)
    others = _reduce_segments(op, "Prod", apply_op("SelectV2", is_zero, apply_op("OnesLike", data), data))
    divided = apply_op("RealDiv", _per_row(op, product), data)
    slope = apply_op("SelectV2", is_zero, _per_row(op, others), divided)
    return [_per_row(op, dy) * slope, *_rest(op)]


GRADIENTS = {
    "Sum": _sum_gradient,
    "Prod": _product_gradient,
    "Min": _extremum_gradient,
    "Max": _extremum_gradient,
}

# Rows


def _bind_unsorted_sum(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    data, ids, _ = inputs
    (output,) = outputs
    if output.dtype.name not in NUMBERS or (output.size == 0 and ids.size):
        return None
    rows = [zeros_launch(output)]
    if data.size:
        words = (output.shape[0], ids.size, prod(output.shape[1:]), 1)
        rows.append(adding_launch(Operand("input", 1), ids.dtype.name, 0, output, words))
    return Launches(tuple(row for row in rows if row is not None))


_COUNT = "Tnumsegments:type{int32|int64}=int32"

for _kind, _reduction in REDUCTIONS.items():
    _types = 12 if _kind in ("Min", "Max") else 6
    _ids = "int16|int32|int64" if _kind == "Sum" else "int32|int64"
    register(
        f"Segment{_kind}(data:T, segment_ids:Tindices) -> (output:T) [T:type@{_types}; Tindices:type{{int32|int64}}]",
        shape=_sorted_shape,
        kernel=_sorted(_reduction),
        gradient=GRADIENTS[_kind],
        dynamic_shape=True,
    )
    register(
        f"UnsortedSegment{_kind}(data:T, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:T) "
        f"[T:type@{_types}; Tindices:type{{{_ids}}}; {_COUNT}]",
        shape=_counted_shape,
        kernel=_unsorted(_reduction),
        gradient=GRADIENTS[_kind],
        native=Native(_bind_unsorted_sum, statuses=OUTSIDE) if _kind == "Sum" else None,
        shape_operands=(2,),
    )
    register(  # sorted ids with a count are a special case of unsorted ids
        f"Segment{_kind}V2(data:T, segment_ids:Tindices, num_segments:Tnumsegments) -> (output:T) "
        f"[T:type@{_types}; Tindices:type{{int32|int64}}; {_COUNT}]",
        shape=_counted_shape,
        kernel=_unsorted(_reduction),
        gradient=undefined_gradient,
        shape_operands=(2,),
    )

register(
    "SegmentMean(data:T, segment_ids:Tindices) -> (output:T) [T:type@6; Tindices:type{int32|int64}]",
    shape=_sorted_shape,
    kernel=plain(_data_in_float32(lambda data, ids: _mean_rows(data, ids, _sorted_rows(data, ids)))),
    gradient=_mean_gradient,
    dynamic_shape=True,
)

# Functions


def _sorted_function(kind: str, summary: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        return apply_op(f"Segment{kind}", data, segment_ids, name=name)

    doc = f"Return the {summary} of the rows of `data` of each id; the ids must be ascending."
    return named(function, snake_case(f"Segment{kind}"), doc)


def _unsorted_function(kind: str, summary: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        return apply_op(f"UnsortedSegment{kind}", data, segment_ids, num_segments, name=name)

    doc = f"Return the {summary} of the rows of `data` of each id; rows with negative ids are dropped."
    return named(function, snake_case(f"UnsortedSegment{kind}"), doc)


segment_sum = _sorted_function("Sum", "sum")
segment_mean = _sorted_function("Mean", "mean")
segment_prod = _sorted_function("Prod", "product")
segment_min = _sorted_function("Min", "minimum")
segment_max = _sorted_function("Max", "maximum")
unsorted_segment_sum = _unsorted_function("Sum", "sum")
unsorted_segment_prod = _unsorted_function("Prod", "product")
unsorted_segment_min = _unsorted_function("Min", "minimum")
unsorted_segment_max = _unsorted_function("Max", "maximum")


def _divided_by_counts(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None, root: bool
) -> Tensor:
    """Divide segment sums by the number of rows, or its square root; 0 for empty segments."""
    rows, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
    total = unsorted_segment_sum(rows, ids, num_segments)
    ones = apply_op("Fill", apply_op("Shape", ids), convert_to_tensor(1, rows.dtype.base_dtype))
    counts = unsorted_segment_sum(ones, ids, num_segments)
    counts = apply_op("Maximum", counts, convert_to_tensor(1, rows.dtype.base_dtype))
    counts = apply_op("Sqrt", counts) if root else counts
    tail = apply_op("Sub", apply_op("Rank", total), scalar(1))
    ones = apply_op("Fill", apply_op("Reshape", tail, convert_to_tensor([1], dtypes.int32)), scalar(1))
    shape = apply_op("ConcatV2", [apply_op("Shape", counts), ones], scalar(0))
    return apply_op("RealDiv", total, apply_op("Reshape", counts, shape), name=name)


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Return the mean of the rows of each segment; 0 for empty segments; see `unsorted_segment_sum`."""
    return _divided_by_counts(data, segment_ids, num_segments, name, root=False)


def unsorted_segment_sqrt_n(
    data: Any, segment_ids: Any, num_segments: Any, name: str | None = None
) -> Tensor:
    """Return the sum over the square root of the number of rows of each segment; 0 for empty segments."""
    return _divided_by_counts(data, segment_ids, num_segments, name, root=True)
