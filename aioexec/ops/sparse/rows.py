"""Row-wise ops on sparse tensors: SparseFillEmptyRows and SparseSoftmax."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.ops.sparse.tensors import check_inside, checked_parts, parts_of
from aioexec.shapes import Dims


def _fill(indices: Array, values: Array, shape: Array, default: Array) -> tuple[Array, Array, Array, Array]:
    dims = checked_parts(indices, values, shape)
    if default.ndim:
        raise InvalidArgumentError(f"default_value must be a scalar, saw: {shown(default.shape)}")
    if not dims:
        raise InvalidArgumentError("Dense shape cannot be empty.")
    rows, height = indices[:, 0], dims[0]
    outside = (rows < 0) | (rows >= height)
    if outside.any():
        first = int(np.argmax(outside))
        what = f"{rows[first]} < 0" if rows[first] < 0 else f"{rows[first]} >= {height}"
        raise InvalidArgumentError(f"indices({first}, 0) is invalid: {what}")
    room_for((height, len(dims)), 8)
    is_empty = np.ones(height, bool)
    is_empty[rows] = False
    empty = np.flatnonzero(is_empty)
    added = np.zeros((len(empty), len(dims)), np.int64)
    added[:, 0] = empty
    order = np.argsort(np.concatenate([rows, empty]), kind="stable")
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    filled = np.empty(len(empty), values.dtype)
    filled[...] = default
    return (
        np.concatenate([indices, added])[order],
        np.concatenate([values, filled])[order],
        is_empty,
        places[: len(rows)],
    )


def _fill_shape(context: ShapeContext) -> Sequence[Dims]:
    count, rank = parts_of(context)
    shapes.with_rank(context.inputs[3], 0)
    dims = context.partial(2)
    return [(None, *rank), (None,), (None if dims is None else dims[0],), count]


def _fill_gradient(op: Operation, *gradients: Tensor) -> Sequence[Tensor | None]:
    by_value, by_default = apply_tuple_op("SparseFillEmptyRowsGrad", op.outputs[3], gradients[1])
    return None, by_value, None, by_default


def _fill_back(places: Array, dy: Array) -> tuple[Array, Array]:
    if places.ndim != 1 or dy.ndim != 1:
        raise InvalidArgumentError(
            f"Expected vectors, got shapes {shown(places.shape)} and {shown(dy.shape)}"
        )
    if dy.dtype == object:
        raise InvalidArgumentError("Expected gradients that are numbers, got strings")
    outside = (places < 0) | (places >= len(dy))
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"Elements in reverse index must be in [0, {len(dy)}) but got {places[first]}"
        )
    is_default = np.ones(len(dy), bool)
    is_default[places] = False
    wide = np.float32 if dy.dtype.itemsize == 2 and dy.dtype.kind not in "iu" else dy.dtype
    return dy[places], dy[is_default].sum(dtype=wide).astype(dy.dtype)


register(
    "SparseFillEmptyRows(indices:int64, values:T, dense_shape:int64, default_value:T) -> (output_indices:int64, "
    "output_values:T, empty_row_indicator:bool, reverse_index_map:int64) [T:type]",
    shape=_fill_shape,
    kernel=plain(_fill),
    gradient=_fill_gradient,
    dynamic_shape=True,
)
register(
    "SparseFillEmptyRowsGrad(reverse_index_map:int64, grad_values:T) -> (d_values:T, d_default_value:T) [T:type]",
    shape=lambda context: [shapes.with_rank(context.inputs[0], 1), ()],
    kernel=plain(_fill_back),
    gradient=undefined_gradient,
)


def _softmax(indices: Array, values: Array, shape: Array) -> Array:
    dims = checked_parts(indices, values, shape)
    if len(dims) < 2:
        raise InvalidArgumentError(f"Input should have rank >= 2, but received shape: {shown(dims)}")
    check_inside(indices, dims)
    if not len(values):
        return values.copy()
    _, rows = np.unique(indices[:, :-1], axis=0, return_inverse=True)
    rows = rows.reshape(-1)
    wide = values.astype(np.float32) if values.dtype.itemsize == 2 else values
    largest = np.full(int(rows.max()) + 1, -np.inf, wide.dtype)
    np.maximum.at(largest, rows, wide)
    raised = np.exp(wide - largest[rows])
    total = np.zeros_like(largest)
    np.add.at(total, rows, raised)
    shares: Array = raised / total[rows]
    return shares.astype(values.dtype)


def _softmax_shape(context: ShapeContext) -> Sequence[Dims]:
    return [parts_of(context)[0]]


def _softmax_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    indices, shape, y = op.inputs[0], op.inputs[2], op.outputs[0]
    sums = apply_op("SparseReduceSum", indices, dy * y, shape, [-1], keep_dims=True)
    spread = apply_op("SparseDenseCwiseAdd", indices, dy, shape, -sums)
    return None, spread * y, None


register(
    "SparseSoftmax(sp_indices:int64, sp_values:T, sp_shape:int64) -> (output:T) [T:type{half|float|double}]",
    shape=_softmax_shape,
    kernel=plain(_softmax),
    gradient=_softmax_gradient,
)
