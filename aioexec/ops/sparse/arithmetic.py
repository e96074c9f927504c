"""Arithmetic on sparse tensors: products and sums with dense ones and with each other, reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.ops.sparse.tensors import check_inside, checked_parts, order_of, parts_of
from aioexec.shapes import Dims

# A sparse matrix times a dense one


def _product_kernel(context: KernelContext) -> Compute:
    flips: tuple[bool, bool] = context.attrs["adjoint_a"], context.attrs["adjoint_b"]

    def compute(indices: Array, values: Array, shape: Array, b: Array) -> Array:
        dims = checked_parts(indices, values, shape)
        if len(dims) != 2 or b.ndim != 2:
            raise InvalidArgumentError(
                f"Tensors 'a' and 'b' must be matrices, got shapes {shown(dims)} and {shown(b.shape)}"
            )
        rows, columns = (indices[:, 1], indices[:, 0]) if flips[0] else (indices[:, 0], indices[:, 1])
        outer, inner = dims[::-1] if flips[0] else dims
        right = b.conj().T if flips[1] else b
        if inner != right.shape[0]:
            raise InvalidArgumentError(
                f"Cannot multiply A and B because inner dimension does not match: {inner} vs. {right.shape[0]}. "
                "Did you forget a transpose?"
            )
        for what, found, limit, column in (("m", rows, outer, flips[0]), ("k", columns, inner, not flips[0])):
            _check_index(what, found, limit, int(column))
        room_for((outer, right.shape[1]), b.dtype.itemsize)
        wide = np.float32 if b.dtype.itemsize == 2 and b.dtype.kind not in "iu" else b.dtype
        left = values.conj() if flips[0] else values
        result = np.zeros((outer, right.shape[1]), wide)
        np.add.at(result, rows, left[:, None].astype(wide) * right.astype(wide)[columns])
        return result.astype(b.dtype)

    return compute


def _check_index(what: str, found: Array, limit: int, column: int) -> None:
    outside = (found < 0) | (found >= limit)
    if outside.any():
        row = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"{what} ({found[row]}) from index[{row},{column}] out of bounds (>={limit})"
        )


def _product_shape(context: ShapeContext) -> Sequence[Dims]:
    parts_of(context)
    a = shapes.with_rank(context.partial(2), 2) or (None, None)
    b = shapes.with_rank(context.inputs[3], 2) or (None, None)
    rows, inner = a[::-1] if context.attrs["adjoint_a"] else a
    also, columns = b[::-1] if context.attrs["adjoint_b"] else b
    shapes.merge((inner,), (also,))
    return [(rows, columns)]


def _product_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    indices, values, shape, b = op.inputs
    flips_a, flips_b = op.attrs["adjoint_a"], op.attrs["adjoint_b"]
    back = apply_op("SparseTensorDenseMatMul", indices, values, shape, dy, adjoint_a=not flips_a)
    if flips_b:
        back = _adjoint(back)
    places = apply_list_op("Unpack", indices, num=2, axis=1)
    rows, columns = places[::-1] if flips_a else places
    of_rows = apply_op("Gather", dy, rows)
    of_columns = apply_op("Gather", _adjoint(b) if flips_b else b, columns)
    if values.dtype.is_complex:
        of_columns = apply_op("Conj", of_columns)
    by_value = apply_op("Sum", of_rows * of_columns, [1])
    if flips_a and values.dtype.is_complex:
        by_value = apply_op("Conj", by_value)
    return None, by_value, None, back


def _adjoint(matrix: Tensor) -> Tensor:
    turned = apply_op("Transpose", matrix, [1, 0])
    return apply_op("Conj", turned) if matrix.dtype.is_complex else turned


register(
    "SparseTensorDenseMatMul(a_indices:Tindices, a_values:T, a_shape:int64, b:T) -> (product:T) [T:type; "
    "Tindices:type{int32|int64}=int64; adjoint_a:bool=false; adjoint_b:bool=false]",
    shape=_product_shape,
    kernel=_product_kernel,
    gradient=_product_gradient,
    shape_operands=(2,),
)


# A sparse tensor and a dense one


def _spread(indices: Array, values: Array, shape: Array, dense: Array) -> Array:
    """Broadcast a dense tensor to the sparse shape, and return its elements at the indices."""
    dims = checked_parts(indices, values, shape)
    fits = dense.ndim <= len(dims) and all(
        a in (1, b) for a, b in zip(dense.shape[::-1], dims[::-1], strict=False)
    )
    if not fits:
        raise InvalidArgumentError(
            f"SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: {shown(dims)} vs. "
            f"{shown(dense.shape)}"
        )
    check_inside(indices, dims)
    skipped = len(dims) - dense.ndim
    where = tuple(
        np.zeros(len(indices), np.int64) if dim == 1 else indices[:, skipped + k]
        for k, dim in enumerate(dense.shape)
    )
    return dense[where] if where else np.broadcast_to(dense, len(indices))


def _with_dense(formula: Callable[[Array, Array], Array]) -> Compute:
    def compute(indices: Array, values: Array, shape: Array, dense: Array) -> Array:
        with np.errstate(all="ignore"):
            return formula(values, _spread(indices, values, shape, dense)).astype(values.dtype)

    return compute


def _quotient(a: Array, b: Array) -> Array:
    if (b == 0).any():
        raise InvalidArgumentError(
            "SparseDenseCwiseDiv cannot divide by zero, but the dense tensor has one at an index"
        )
    if a.dtype.kind not in "iu":
        return np.true_divide(a, b)
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * b != a))
    return quotient


def _count_shape(context: ShapeContext) -> Sequence[Dims]:
    return [parts_of(context)[0]]


def _elementwise_product_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    return _operand_gradients(op, dy * _dense_values(op), dy * op.inputs[1])


def _quotient_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    dense = _dense_values(op)
    return _operand_gradients(op, dy / dense, dy * (-op.inputs[1] / (dense * dense)))


def _dense_values(op: Operation) -> Tensor:
    """Return the element of the dense tensor for each sparse value."""
    indices, values, shape, dense = op.inputs
    return apply_op("SparseDenseCwiseAdd", indices, apply_op("ZerosLike", values), shape, dense)


def _operand_gradients(op: Operation, by_value: Tensor, spread: Tensor) -> Sequence[Tensor | None]:
    """Return both gradients; `spread` is that of the dense tensor at each value, to be summed where it was broadcast."""
    indices, _, shape, dense = op.inputs
    own = apply_op("Shape", dense, out_type="int64")
    skipped = apply_op("Sub", apply_op("Size", shape), apply_op("Size", own))
    length = apply_op("Reshape", skipped, [1])
    ones = apply_op("Fill", length, np.int64(1))
    times = apply_op("FloorDiv", shape, apply_op("ConcatV2", [ones, own], 0))
    places = apply_op("FloorDiv", indices, apply_op("Maximum", times, np.int64(1)))
    begin = apply_op("ConcatV2", [[0], length], 0)
    at = apply_op("Slice", places, begin, np.array([-1, -1], np.int32))
    return None, by_value, None, apply_op("ScatterNd", at, spread, own)


def _add_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    raise NotImplementedError("SparseDenseCwiseAdd has no gradient, as in TensorFlow")


_WITH_DENSE = "(sp_indices:int64, sp_values:T, sp_shape:int64, dense:T) -> (output:T) [T:type@6]"
for _name, _formula, _gradient in (
    ("Add", np.add, _add_gradient),
    ("Mul", np.multiply, _elementwise_product_gradient),
    ("Div", _quotient, _quotient_gradient),
):
    register(
        f"SparseDenseCwise{_name}{_WITH_DENSE}",
        shape=_count_shape,
        kernel=plain(_with_dense(_formula)),
        gradient=_gradient,
    )


def _dense_sum(indices: Array, values: Array, shape: Array, b: Array) -> Array:
    dims = checked_parts(indices, values, shape)
    if len(dims) != b.ndim:
        raise InvalidArgumentError(f"Two operands have different ranks; received: {len(dims)} and {b.ndim}")
    if dims != b.shape:
        raise InvalidArgumentError(f"Dimensions do not equal: {shown(dims)} vs. {shown(b.shape)}")
    check_inside(indices, dims)
    result = b.copy()
    np.add.at(result, tuple(indices.T), values)
    return result


register(
    "SparseTensorDenseAdd(a_indices:Tindices, a_values:T, a_shape:Tindices, b:T) -> (output:T) [T:type@6; "
    "Tindices:type{int32|int64}]",
    shape=lambda context: [context.inputs[3]],
    kernel=plain(_dense_sum),
    gradient=lambda op, dy: (None, apply_op("GatherNd", dy, op.inputs[0]), None, dy),
)


# Two sparse tensors


def _index_union(a: Sequence[Array], b: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return the ordered union of the indices, and the position of each tensor's indices in it; keeps duplicates."""
    dims = [checked_parts(*a), checked_parts(*b)]
    if len(dims[0]) != len(dims[1]):
        raise InvalidArgumentError(
            f"Ranks of input tensors must match, but saw ranks: {len(dims[0])} and {len(dims[1])}"
        )
    for k, (one, other) in enumerate(zip(*dims, strict=True)):
        if one != other:
            raise InvalidArgumentError(
                f"Operands' shapes do not match: got {one} and {other} for dimension {k}"
            )
    both = np.concatenate([_numbered(a[0]), _numbered(b[0])])
    order = order_of(both)
    ordered = both[order]
    is_new = np.ones(len(both), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    places = np.empty(len(both), np.int64)
    places[order] = np.cumsum(is_new) - 1
    return ordered[is_new, :-1], places[: len(a[0])], places[len(a[0]) :]


def _numbered(indices: Array) -> Array:
    """Append a column that numbers the occurrences of equal indices, so that duplicates of two tensors match in pairs."""
    order = order_of(indices)
    ordered = indices[order]
    is_new = np.ones(len(ordered), bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    begins = np.flatnonzero(is_new)
    numbers = np.empty(len(indices), np.int64)
    numbers[order] = np.arange(len(indices)) - np.repeat(begins, np.diff(begins, append=len(indices)))
    return np.column_stack([indices, numbers])


def _sum(*inputs: Array) -> tuple[Array, Array, Array]:
    a, b, threshold = inputs[:3], inputs[3:6], inputs[6]
    if threshold.ndim:
        raise InvalidArgumentError(
            f"The magnitude threshold must be a scalar: got shape {shown(threshold.shape)}"
        )
    indices, of_a, of_b = _index_union(a, b)
    values = np.zeros(len(indices), a[1].dtype)
    np.add.at(values, of_a, a[1])
    np.add.at(values, of_b, b[1])
    is_sum = np.bincount(np.concatenate([of_a, of_b]), minlength=len(indices)) > 1
    kept = ~is_sum | (np.abs(values) >= threshold)  # elements of only one tensor are kept, however small
    return indices[kept], values[kept], a[2].copy()


def _sum_gradient(op: Operation, *gradients: Tensor) -> Sequence[Tensor | None]:
    a, b = apply_tuple_op("SparseAddGrad", gradients[1], op.inputs[0], op.inputs[3], op.outputs[0])
    return None, a, None, None, b, None, None


def _sum_back(dy: Array, a: Array, b: Array, total: Array) -> tuple[Array, Array]:
    if dy.ndim != 1 or any(each.ndim != 2 for each in (a, b, total)) or len(dy) != len(total):
        raise InvalidArgumentError(
            f"backprop_val_grad of shape {shown(dy.shape)} does not fit indices of shape {shown(total.shape)}"
        )
    ranks = [each.shape[1] for each in (a, b, total)]
    if len(set(ranks)) > 1:
        raise InvalidArgumentError(f"indices of a, of b and of the sum must have one rank, got {ranks}")
    found = {tuple(place): k for k, place in enumerate(_numbered(total).tolist())}
    made = []
    for indices in (a, b):
        result = np.zeros(len(indices), dy.dtype)
        for k, place in enumerate(_numbered(indices).tolist()):
            if tuple(place) in found:
                result[k] = dy[found[tuple(place)]]
        made.append(result)
    return made[0], made[1]


def _sum_shape(context: ShapeContext) -> Sequence[Dims]:
    _, rank = parts_of(context)
    parts_of(context, 3)
    shapes.with_rank(context.inputs[6], 0)
    return [(None, *rank), (None,), rank]


_PAIR = "a_indices:int64, a_values:T, a_shape:int64, b_indices:int64, b_values:T, b_shape:int64"
register(
    f"SparseAdd({_PAIR}, thresh:Treal) -> (sum_indices:int64, sum_values:T, sum_shape:int64) [T:type@6; Treal:type@12]",
    shape=_sum_shape,
    kernel=plain(_sum),
    gradient=_sum_gradient,
    dynamic_shape=True,
)
register(
    "SparseAddGrad(backprop_val_grad:T, a_indices:int64, b_indices:int64, sum_indices:int64) -> (a_val_grad:T, b_val_grad:T) "
    "[T:type@6]",
    shape=lambda context: [(dims or (None,))[:1] for dims in context.inputs[1:3]],
    kernel=plain(_sum_back),
    gradient=NOT_DIFFERENTIABLE,
)


def _extreme(formula: Callable[[Array, Array], Array], *inputs: Array) -> tuple[Array, Array]:
    indices, of_a, of_b = _index_union(inputs[:3], inputs[3:])
    for first in (0, 3):
        check_inside(inputs[first], inputs[first + 2].tolist())
    values = [np.zeros(len(indices), inputs[1].dtype) for _ in range(2)]
    values[0][of_a], values[1][of_b] = inputs[1], inputs[4]
    return indices, formula(*values)


# Reductions


def _reduced(
    formula: Any, indices: Array, values: Array, shape: Array, axes: Array
) -> tuple[Array, Array, list[int]]:
    """Return the indices along kept axes, the values for each distinct index, and the kept axes."""
    dims = checked_parts(indices, values, shape)
    rank = len(dims)
    if axes.ndim > 1:
        raise InvalidArgumentError(
            f"Expected reduction_axes to be a scalar or a vector; got shape: {shown(axes.shape)}"
        )
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise InvalidArgumentError(
                f"Invalid reduction dimension {axis}, for input with {rank} dimensions."
            )
    check_inside(indices, dims)
    reduced = {axis % rank for axis in axes.reshape(-1).tolist()}
    kept = [axis for axis in range(rank) if axis not in reduced]
    order = order_of(indices[:, kept])
    places = indices[order][:, kept]
    starts = (
        np.flatnonzero(np.r_[True, (places[1:] != places[:-1]).any(axis=1)])
        if len(places)
        else np.zeros(0, np.int64)
    )
    found = formula.reduceat(values[order], starts) if len(starts) else values[:0]
    return places[starts], found.astype(values.dtype), kept


def _dims_of(shape: Array, kept: Sequence[int], keeps: bool) -> tuple[int, ...]:
    dims = [int(dim) if k in kept else 1 for k, dim in enumerate(shape) if keeps or k in kept]
    return tuple(dims)


def _reduce_kernel(formula: Any, context: KernelContext) -> Compute:
    keeps: bool = context.attrs["keep_dims"]

    def compute(indices: Array, values: Array, shape: Array, axes: Array) -> Array:
        places, found, kept = _reduced(formula, indices, values, shape, axes)
        dims = _dims_of(shape, kept, keeps=False)
        room_for(dims, values.dtype.itemsize)
        result = np.zeros(dims, values.dtype)
        result[tuple(places.T)] = found if dims else (found[0] if len(found) else 0)
        return result.reshape(_dims_of(shape, kept, keeps))

    return compute


def _reduce_sparse_kernel(formula: Any, context: KernelContext) -> Compute:
    keeps: bool = context.attrs["keep_dims"]

    def compute(indices: Array, values: Array, shape: Array, axes: Array) -> Any:
        places, found, kept = _reduced(formula, indices, values, shape, axes)
        if keeps:
            spread = np.zeros((len(places), len(shape)), np.int64)
            spread[:, kept] = places
            places = spread
        return places, found, np.array(_dims_of(shape, kept, keeps), np.int64)

    return compute


def _reduce_shape(context: ShapeContext) -> Sequence[Dims]:
    parts_of(context)
    shape, axes = context.value(2), context.value(3)
    if shape is None or axes is None:
        return [None]
    dims = tuple(int(dim) if dim >= 0 else None for dim in shape.reshape(-1))
    rank = len(dims)
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise GraphValueError(f"Invalid reduction dimension {axis}, for input with {rank} dimensions")
    reduced = {axis % rank for axis in axes.reshape(-1).tolist()}
    if context.attrs["keep_dims"]:
        return [tuple(1 if k in reduced else dim for k, dim in enumerate(dims))]
    return [tuple(dim for k, dim in enumerate(dims) if k not in reduced)]


def _reduce_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    indices, _, shape, axes = op.inputs
    rank = apply_op("Size", shape)
    reduced = apply_op("FloorMod", apply_op("Add", apply_op("Reshape", axes, [-1]), rank), rank)
    numbers = apply_op("Range", 0, rank, 1)
    ones = apply_op("Fill", apply_op("Shape", reduced), np.int64(1))
    own = apply_op("DynamicStitch", [numbers, reduced], [shape, ones])
    spread = apply_op("Reshape", dy, own)
    places = apply_op("Minimum", indices, apply_op("Sub", own, np.int64(1)))
    return None, apply_op("GatherNd", spread, places), None, None


_REDUCED = "(input_indices:int64, input_values:T, input_shape:int64, reduction_axes:int32)"
for _name, _reduces, _types, _rule in (
    ("Sum", np.add, 6, _reduce_gradient),
    ("Max", np.maximum, 12, undefined_gradient),
):
    _attrs = f"[keep_dims:bool=false; T:type@{_types}]"
    register(
        f"SparseReduce{_name}{_REDUCED} -> (output:T) {_attrs}",
        shape=_reduce_shape,
        kernel=partial(_reduce_kernel, _reduces),
        gradient=_rule,
        shape_operands=(2, 3),
    )
    register(
        f"SparseReduce{_name}Sparse{_REDUCED} -> (output_indices:int64, output_values:T, output_shape:int64) {_attrs}",
        shape=lambda context: [None, None, None],
        kernel=partial(_reduce_sparse_kernel, _reduces),
        gradient=undefined_gradient,
        dynamic_shape=True,
    )
_EXTREMES = "(output_indices:int64, output_values:T)"
for _name, _chooses, _types in (("Maximum", np.maximum, 12), ("Minimum", np.minimum, 6)):
    register(
        f"SparseSparse{_name}({_PAIR}) -> {_EXTREMES} [T:type@{_types}]",
        shape=lambda context: [(None, None), (None,)],
        kernel=plain(partial(_extreme, _chooses)),
        gradient=undefined_gradient,
        dynamic_shape=True,
    )
