"""SparseSegmentSum and the like: segment reductions of rows selected by index (sum, mean, sum / sqrt(count)).

Segment ids are ascending, as in `reduction.segments`; an empty segment is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.array.gathering import check_indices
from aioexec.ops.common.elementwise import Array, in_float32, named, shown, snake_case
from aioexec.ops.reduction.segments import check_sorted, reduced_rows, scalar, segment_count
from aioexec.shapes import Dims

_REAL = "{bfloat16|half|float|double}"

Scale = Callable[[Array], Array]
"""Maps the number of rows of a segment to the divisor of its sum."""

_SCALES: dict[str, tuple[str, Scale]] = {
    # dtypes, scale
    "Sum": ("@12", np.ones_like),
    "Mean": (_REAL, lambda counts: counts),
    "SqrtN": (_REAL, np.sqrt),
}

# Shapes


def _pairs(context: ShapeContext) -> None:
    """Check that indices and segment ids are vectors of one length."""
    shapes.merge(*(shapes.with_rank(dims, 1) for dims in context.inputs[1:3]))


def _shape(context: ShapeContext) -> Sequence[Dims]:
    data = shapes.with_rank_at_least(context.inputs[0], 1)
    _pairs(context)
    count = segment_count(context, 3, "num_segments") if len(context.inputs) == 4 else None
    return [None if data is None else (count, *data[1:])]


def _grad_shape(context: ShapeContext) -> Sequence[Dims]:
    data = shapes.with_rank_at_least(context.inputs[0], 1)
    _pairs(context)
    rows = segment_count(context, 3, "output_dim0")
    return [None if data is None else (rows, *data[1:])]


# Reference kernels


def _check(indices: Array, ids: Array, limit: int) -> None:
    if indices.ndim != 1 or indices.shape != ids.shape:
        raise InvalidArgumentError(
            f"segment_ids and indices should be vectors of one size, got {shown(ids.shape)} and {shown(indices.shape)}"
        )
    check_indices(indices, limit)


def _size(count: Array) -> int:
    if count.ndim or count < 0:
        raise InvalidArgumentError(f"expected a number of rows >= 0, got {count.tolist()}")
    return int(count)


def _divisors(scale: Scale, ids: Array, count: int, like: Array) -> Array:
    counts = np.maximum(np.bincount(ids, minlength=count), 1).astype(like.dtype)
    return np.asarray(scale(counts)).reshape(-1, *(1,) * (like.ndim - 1))


def _forward(scale: Scale) -> Any:
    def rows(data: Array, indices: Array, ids: Array, count: int) -> Array:
        total = reduced_rows(np.add, data[indices], ids, count, 0)
        return total if scale is np.ones_like else total / _divisors(scale, ids, count, total)

    def kernel(data: Array, indices: Array, ids: Array, count: Array | None = None) -> Array:
        if not data.ndim:
            raise InvalidArgumentError("expected data of at least one dimension, got a scalar")
        _check(indices, ids, len(data))
        check_sorted(ids)
        segments = int(ids[-1]) + 1 if ids.size else 0
        wanted = segments if count is None else _size(count)
        if segments > wanted:
            raise InvalidArgumentError(f"segment id {segments - 1} is out of range [0, {wanted})")
        result: Array = in_float32(lambda wide: rows(wide, indices, ids, wanted))(data)
        return result

    return plain(kernel)


def _backward(scale: Scale) -> Any:
    def rows(dy: Array, indices: Array, ids: Array, count: int) -> Array:
        scaled = dy if scale is np.ones_like else dy / _divisors(scale, ids, len(dy), dy)
        return reduced_rows(np.add, scaled[ids], indices, count, 0)

    def kernel(dy: Array, indices: Array, ids: Array, count: Array) -> Array:
        wanted = _size(count)
        _check(indices, ids, wanted)
        check_indices(ids, len(dy))
        result: Array = in_float32(lambda wide: rows(wide, indices, ids, wanted))(dy)
        return result

    return plain(kernel)


# Gradients


def _sum_gradient(op: Operation, dy: Tensor) -> list[Any]:
    data, indices, ids = op.inputs[:3]
    rows = apply_op("GatherV2", dy, ids, scalar(0))
    return [apply_op("UnsortedSegmentSum", rows, indices, _length(data)), *[None] * (len(op.inputs) - 1)]


def _scaled_gradient(op_type: str) -> Any:
    def gradient(op: Operation, dy: Tensor) -> list[Any]:
        data, indices, ids = op.inputs[:3]
        return [apply_op(op_type, dy, indices, ids, _length(data)), *[None] * (len(op.inputs) - 1)]

    return gradient


def _length(data: Tensor) -> Tensor:
    """Return the first dimension of a tensor."""
    bounds = (convert_to_tensor([n], dtypes.int32) for n in (0, 1, 1))
    return apply_op("StridedSlice", apply_op("Shape", data), *bounds, shrink_axis_mask=1)


# Rows

_INDICES = "Tidx:type{int32|int64}=int32"
_IDS = "Tsegmentids:type{int32|int64}=int32; sparse_gradient:bool=false"

for _kind, (_types, _scale) in _SCALES.items():
    _gradient = _sum_gradient if _kind == "Sum" else _scaled_gradient(f"SparseSegment{_kind}Grad")
    register(
        f"SparseSegment{_kind}(data:T, indices:Tidx, segment_ids:Tsegmentids) -> (output:T) "
        f"[T:type{_types}; {_INDICES}; {_IDS}]",
        shape=_shape,
        kernel=_forward(_scale),
        gradient=_gradient,
        dynamic_shape=True,
    )
    register(
        f"SparseSegment{_kind}WithNumSegments(data:T, indices:Tidx, segment_ids:Tsegmentids, num_segments:Tnumsegments)"
        f" -> (output:T) [T:type{_types}; {_INDICES}; Tnumsegments:type{{int32|int64}}=int32; {_IDS}]",
        shape=_shape,
        kernel=_forward(_scale),
        gradient=_gradient,
        shape_operands=(3,),
    )
    register(
        f"SparseSegment{_kind}Grad(grad:T, indices:Tidx, segment_ids:Tsegmentids, output_dim0:int32) -> (output:T) "
        f"[T:type{_REAL}; {_INDICES}; Tsegmentids:type{{int32|int64}}=int32]",
        shape=_grad_shape,
        kernel=_backward(_scale),
        gradient=undefined_gradient,
        shape_operands=(3,),
    )

# Functions


def _function(kind: str, summary: str) -> Callable[..., Tensor]:
    def function(
        data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
    ) -> Tensor:
        if num_segments is None:
            result = apply_op(f"SparseSegment{kind}", data, indices, segment_ids, name=name)
        else:
            op_type = f"SparseSegment{kind}WithNumSegments"
            result = apply_op(op_type, data, indices, segment_ids, num_segments, name=name)
        return result

    doc = f"Return {summary} of the rows data[indices[k]] for each id segment_ids[k]; the ids must be ascending."
    return named(function, snake_case(f"SparseSegment{kind}"), doc)


sparse_segment_sum = _function("Sum", "the sum")
sparse_segment_mean = _function("Mean", "the mean")
sparse_segment_sqrt_n = _function("SqrtN", "the sum over the square root of the number")
