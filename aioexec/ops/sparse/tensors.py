"""Ops that convert, order, reshape, split and join sparse tensors.

A sparse tensor is passed as three tensors: indices [n, rank], values [n], dense shape [rank]. The dense shape is not trusted:
it is checked before anything of that size is allocated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aioexec import shapes
from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, room_for, shown
from aioexec.shapes import Dims

_MOST_SIZE: Final = (1 << 63) - 1

Known = tuple[int | None, ...]

# Shared by the kernels


def checked_parts(indices: Array, values: Array, shape: Array) -> tuple[int, ...]:
    """Return the dense shape of consistent components.

    Raises:
        InvalidArgumentError: the components are inconsistent.
    """
    if indices.ndim != 2 or shape.ndim != 1 or (values.ndim != 1 and values.ndim != 0):
        raise InvalidArgumentError(
            f"Expected indices to be a matrix, values and shape vectors, got shapes {shown(indices.shape)}, "
            f"{shown(values.shape)} and {shown(shape.shape)}"
        )
    if values.shape != indices.shape[:1] or shape.shape != indices.shape[1:]:
        raise InvalidArgumentError(
            f"Number of values must match first dimension of indices. Got {shown(values.shape)} values, indices shape: "
            f"{shown(indices.shape)}, shape of rank {shape.size}"
        )
    return checked_size(shape)


def checked_size(shape: Array) -> tuple[int, ...]:
    """Return a shape after checking that its number of elements fits into int64."""
    dims = tuple(int(dim) for dim in shape.reshape(-1))
    if any(dim < 0 for dim in dims):
        raise InvalidArgumentError(f"Shape dimension must be non-negative, got {shown(dims)}")
    if math.prod(dims) > _MOST_SIZE:
        raise InvalidArgumentError(f"Shape {shown(dims)} would overflow")
    return dims


def check_inside(indices: Array, dims: Sequence[int]) -> None:
    """Check that every index is within the shape."""
    outside = (
        ((indices < 0) | (indices >= np.array(dims, np.int64))).any(axis=1)
        if len(indices)
        else np.zeros(0, bool)
    )
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"indices[{first}] = {shown(indices[first])} is out of bounds: need 0 <= index < {shown(dims)}"
        )


def order_of(indices: Array) -> Array:
    """Return the permutation that orders indices by rows; stable."""
    if not indices.shape[1]:
        return np.arange(len(indices))
    return np.lexsort(indices.T[::-1])


def parts_of(context: ShapeContext, first: int = 0) -> tuple[Known, Known]:
    """Return the static ([n], [rank]) of the three inputs from `first` on."""
    indices, values, shape = (context.inputs[first + k] for k in range(3))
    indices, values, shape = (
        shapes.with_rank(indices, 2),
        shapes.with_rank(values, 1),
        shapes.with_rank(shape, 1),
    )
    count = shapes.merge(None if indices is None else indices[:1], values)
    return count or (None,), shapes.merge(None if indices is None else indices[1:], shape) or (None,)


# SparseToDense


def _to_dense_shape(context: ShapeContext) -> Sequence[Dims]:
    indices, shape, values, default = context.inputs
    shapes.with_rank_at_most(indices, 2)
    shapes.with_rank_at_most(values, 1)
    shapes.with_rank(shape, 1)
    shapes.with_rank(default, 0)
    return [context.partial(1)]


def _to_dense_kernel(context: KernelContext) -> Compute:
    validates: bool = context.attrs["validate_indices"]

    def compute(indices: Array, shape: Array, values: Array, default: Array) -> Array:
        if indices.ndim > 2 or shape.ndim != 1 or values.ndim > 1 or default.ndim:
            raise InvalidArgumentError(
                f"sparse_indices should be a scalar, vector, or matrix, output_shape a vector, got shapes "
                f"{shown(indices.shape)} and {shown(shape.shape)}"
            )
        places = indices.reshape(len(indices) if indices.ndim else 1, -1 if indices.size else shape.size)
        if places.shape[1] != shape.size:
            raise InvalidArgumentError(
                f"output_shape has incorrect number of elements: {shape.size} should be: {places.shape[1]}"
            )
        if values.ndim and len(values) != len(places):
            raise InvalidArgumentError(
                f"sparse_values has incorrect shape {shown(values.shape)}, should be [] or [{len(places)}]"
            )
        dims = checked_size(shape)
        room_for(dims, values.dtype.itemsize)
        check_inside(places, dims)
        if validates:
            check_order(places)
        dense = np.full(dims, default[()], values.dtype)
        dense[tuple(places.T)] = values
        return dense

    return compute


def check_order(indices: Array) -> None:
    """Check that indices ascend by rows, each once."""
    for k in range(1, len(indices)):
        before, here = indices[k - 1].tolist(), indices[k].tolist()
        if here == before:
            raise InvalidArgumentError(f"indices[{k}] = {shown(here)} is repeated")
        if here < before:
            raise InvalidArgumentError(
                f"indices[{k}] = {shown(here)} is out of order. Many sparse ops require sorted indices.\n"
                "    Use `tf.sparse.reorder` to create a correctly ordered copy."
            )


def _to_dense_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    indices, _, values, _ = op.inputs
    by_value = apply_op("GatherNd", dy, indices)
    return None, None, by_value if values.dims != () else apply_op("Sum", by_value, [0]), _rest(op, dy)


def _rest(op: Operation, dy: Tensor) -> Tensor:
    """Return the gradient of the default value: the sum of dy where there is no value."""
    zeros = apply_op("ZerosLike", op.inputs[2])
    one = apply_op("OnesLike", op.inputs[3])
    kept = apply_op("SparseToDense", op.inputs[0], op.inputs[1], zeros, one, validate_indices=False)
    flat = apply_op("Reshape", dy * kept, [-1])
    return apply_op("Sum", flat, [0])


register(
    "SparseToDense(sparse_indices:Tindices, output_shape:Tindices, sparse_values:T, default_value:T) -> (dense:T) "
    "[validate_indices:bool=true; T:type; Tindices:type{int32|int64}]",
    shape=_to_dense_shape,
    kernel=_to_dense_kernel,
    gradient=_to_dense_gradient,
    shape_operands=(1,),
)


# SparseReorder


def _reorder(indices: Array, values: Array, shape: Array) -> tuple[Array, Array]:
    checked_parts(indices, values, shape)
    order = order_of(indices)
    return indices[order], values[order]


def _reorder_shape(context: ShapeContext) -> Sequence[Dims]:
    count, rank = parts_of(context)
    return [(*count, *rank), count]


def _reorder_gradient(op: Operation, _: Any, dy: Tensor) -> Sequence[Tensor | None]:
    count = apply_op("Shape", op.inputs[1], out_type="int32")
    numbers = apply_op("Range", 0, apply_op("Squeeze", count), 1)
    _, order = apply_tuple_op("SparseReorder", op.inputs[0], numbers, op.inputs[2])
    return None, apply_op("Gather", dy, apply_op("InvertPermutation", order)), None


register(
    "SparseReorder(input_indices:int64, input_values:T, input_shape:int64) -> (output_indices:int64, output_values:T) [T:type]",
    shape=_reorder_shape,
    kernel=plain(_reorder),
    gradient=_reorder_gradient,
)


# SparseReshape


def _new_dims(dims: tuple[int, ...], wanted: Sequence[int]) -> tuple[int, ...]:
    size, open_at = math.prod(dims), [k for k, dim in enumerate(wanted) if dim == -1]
    if len(open_at) > 1:
        raise InvalidArgumentError(
            f"only one output dimension may be -1, not both {open_at[0]} and {open_at[1]}"
        )
    if any(dim < -1 for dim in wanted):
        raise InvalidArgumentError(f"sizes must be nonnegative, got {shown(wanted)}")
    if open_at:
        rest = math.prod(dim for dim in wanted if dim != -1)
        if not rest:
            raise InvalidArgumentError(
                "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are non-zero"
            )
        if size % rest:
            raise InvalidArgumentError(
                f"Input to reshape is a SparseTensor with {size} dense values, but the requested shape requires a "
                f"multiple of {rest}"
            )
        wanted = [size // rest if dim == -1 else dim for dim in wanted]
    if math.prod(wanted) != size:
        raise InvalidArgumentError(
            f"Input to reshape is a tensor with {size} dense values, but the requested shape has {math.prod(wanted)}. "
            f"input_shape={shown(dims)} output_shape={shown(wanted)}"
        )
    return tuple(wanted)


def _reshape(indices: Array, shape: Array, new_shape: Array) -> tuple[Array, Array]:
    if indices.ndim != 2 or shape.ndim != 1 or new_shape.ndim != 1 or indices.shape[1:] != shape.shape:
        raise InvalidArgumentError(
            f"Input indices should be a matrix, shapes vectors, got shapes {shown(indices.shape)}, {shown(shape.shape)} and "
            f"{shown(new_shape.shape)}"
        )
    dims = checked_size(shape)
    wanted = _new_dims(dims, new_shape.tolist())
    if len(indices) and 0 in (*dims, *wanted):
        raise InvalidArgumentError(
            f"Input tensor has {len(indices)} non zero elements but input shape {shown(dims)} or output shape "
            f"{shown(wanted)} is empty"
        )
    strides = np.cumprod([1, *dims[:0:-1]], dtype=np.int64)[::-1]
    places = indices @ strides[: len(dims)] if dims else np.zeros(len(indices), np.int64)
    columns = []
    for dim in wanted[::-1]:
        columns.append(places % max(dim, 1))
        places = places // max(dim, 1)
    made = np.stack(columns[::-1], axis=1) if columns else np.zeros((len(indices), 0), np.int64)
    return made.astype(np.int64), np.array(wanted, np.int64)


def _reshape_shape(context: ShapeContext) -> Sequence[Dims]:
    indices = shapes.with_rank(context.inputs[0], 2)
    shapes.with_rank(context.inputs[1], 1)
    wanted = shapes.with_rank(context.inputs[2], 1) or (None,)
    return [(None if indices is None else indices[0], *wanted), wanted]


register(
    "SparseReshape(input_indices:int64, input_shape:int64, new_shape:int64) -> (output_indices:int64, output_shape:int64)",
    shape=_reshape_shape,
    kernel=plain(_reshape),
    gradient=undefined_gradient,
)


# SparseConcat


def _concat_kernel(context: KernelContext) -> Compute:
    count, axis = context.attrs["N"], context.attrs["concat_dim"]

    def compute(*inputs: Array) -> Any:
        groups = inputs[:count], inputs[count : 2 * count], inputs[2 * count :]
        dims = [checked_parts(*parts) for parts in zip(*groups, strict=True)]
        rank = len(dims[0])
        if not -rank <= axis < rank:
            raise InvalidArgumentError(f"Concat dimension must be in range [{-rank}, {rank}), got {axis}")
        along = axis % rank
        for k, other in enumerate(dims):
            _check_alike(dims[0], other, along, k)
        offsets = np.cumsum([0, *(each[along] for each in dims)])
        moved = [np.array(part) for part in groups[0]]
        for part, offset in zip(moved, offsets, strict=False):
            part[:, along] += offset
        indices, values = np.concatenate(moved), np.concatenate(groups[1])
        order = order_of(indices)
        shape = np.array([int(offsets[-1]) if k == along else dim for k, dim in enumerate(dims[0])], np.int64)
        return indices[order], values[order], shape

    return compute


def _check_alike(first: tuple[int, ...], other: tuple[int, ...], along: int, position: int) -> None:
    if len(first) != len(other):
        raise InvalidArgumentError(
            f"Ranks of all input tensors must match: expected {len(first)} but got {len(other)} at position {position}"
        )
    for k, (a, b) in enumerate(zip(first, other, strict=True)):
        if a != b and k != along:
            raise InvalidArgumentError(
                f"Input shapes must match: expected {a} for dimension {k} but got {b} at position {position}"
            )


def _concat_shape(context: ShapeContext) -> Sequence[Dims]:
    count = context.attrs["N"]
    total: int | None = 0
    rank: Dims = (None,)
    for k in range(count):
        indices = shapes.with_rank(context.inputs[k], 2)
        values = shapes.with_rank(context.inputs[count + k], 1)
        rows = shapes.merge(None if indices is None else indices[:1], values)
        rank = shapes.merge(rank, shapes.with_rank(context.inputs[2 * count + k], 1))
        rank = shapes.merge(rank, None if indices is None else indices[1:])
        total = None if total is None or not rows or rows[0] is None else total + rows[0]
    assert rank is not None
    return [(total, *rank), (total,), rank]


register(
    "SparseConcat(indices:N*int64, values:N*T, shapes:N*int64) -> (output_indices:int64, output_values:T, output_shape:int64) "
    "[concat_dim:int; N:int>=2; T:type]",
    shape=_concat_shape,
    kernel=_concat_kernel,
    gradient=NOT_DIFFERENTIABLE,
)


# SparseSplit, SparseSlice


def _split_kernel(context: KernelContext) -> Compute:
    count: int = context.attrs["num_split"]

    def compute(split_dim: Array, indices: Array, values: Array, shape: Array) -> Any:
        if split_dim.ndim:
            raise InvalidArgumentError(
                f"Input axis should be a scalar but received shape {shown(split_dim.shape)}"
            )
        dims, axis = checked_parts(indices, values, shape), int(split_dim)
        if not -len(dims) <= axis < len(dims):
            raise InvalidArgumentError(
                f"Input axis should be in range [{-len(dims)}, {len(dims)}), got {axis}"
            )
        size = dims[axis]
        if not 1 <= count <= size:
            raise InvalidArgumentError(
                f"Input num_split should be between 1 and the splitting dimension size ({size}), got {count}"
            )
        check_inside(indices, dims)
        each, longer = divmod(size, count)
        starts = [k * each + min(k, longer) for k in range(count + 1)]
        pieces = [
            _between(indices, values, dims, axis % len(dims), *ends) for ends in itertools.pairwise(starts)
        ]
        return tuple(part for group in zip(*pieces, strict=True) for part in group)

    return compute


def _between(
    indices: Array, values: Array, dims: Sequence[int], axis: int, start: int, stop: int
) -> tuple[Array, Array, Array]:
    chosen = (indices[:, axis] >= start) & (indices[:, axis] < stop)
    places = indices[chosen]
    places[:, axis] -= start
    return places, values[chosen], np.array([*dims[:axis], stop - start, *dims[axis + 1 :]], np.int64)


def _split_shape(context: ShapeContext) -> Sequence[Dims]:
    count = context.attrs["num_split"]
    _, rank = parts_of(context, 1)
    return [*([(None, *rank)] * count), *([(None,)] * count), *([context.inputs[3]] * count)]


register(
    "SparseSplit(split_dim:int64, indices:int64, values:T, shape:int64) -> (output_indices:num_split*int64, "
    "output_values:num_split*T, output_shape:num_split*int64) [num_split:int>=1; T:type]",
    shape=_split_shape,
    kernel=_split_kernel,
    gradient=undefined_gradient,
    dynamic_shape=True,
)


def _slice(
    indices: Array, values: Array, shape: Array, start: Array, size: Array
) -> tuple[Array, Array, Array]:
    dims = checked_parts(indices, values, shape)
    for what, given in (("start", start), ("size", size)):
        if given.shape != (len(dims),):
            raise InvalidArgumentError(
                f"Expected {what} to be a vector of length {len(dims)} but got length {given.size}"
            )
    if size.size and size.min() < 0:
        raise InvalidArgumentError(f"Expected a non-negative size, got {size.min()}")
    room = np.clip(np.minimum(size, np.array(dims, np.int64) - start), 0, None)
    chosen = ((indices >= start) & (indices < start + size)).all(axis=1)
    return indices[chosen] - start, values[chosen], room.astype(np.int64)


def _slice_shape(context: ShapeContext) -> Sequence[Dims]:
    parts_of(context)
    for given in context.inputs[3:]:
        shapes.with_rank(given, 1)
    rank = shapes.with_rank(context.inputs[2], 1) or (None,)
    return [(None, *rank), (None,), context.inputs[2]]


def _slice_gradient(op: Operation, *gradients: Tensor) -> Sequence[Tensor | None]:
    dy = apply_op("SparseSliceGrad", gradients[1], op.inputs[0], op.inputs[3], op.outputs[0])
    return None, dy, None, None, None


def _slice_back(dy: Array, indices: Array, start: Array, kept: Array) -> Array:
    if (
        dy.ndim != 1
        or indices.ndim != 2
        or kept.ndim != 2
        or not start.shape == indices.shape[1:] == kept.shape[1:]
        or len(dy) != len(kept)
    ):
        raise InvalidArgumentError(
            f"a gradient of shape {shown(dy.shape)} does not fit indices of {shown(indices.shape)} and {shown(kept.shape)}"
        )
    if len(kept) > len(indices):
        raise InvalidArgumentError(
            f"rows of output_indices should not be more than of input_indices, got {len(kept)} and {len(indices)}"
        )
    taken = (kept + start).tolist()
    result, used = np.zeros(len(indices), dy.dtype), 0
    for k, place in enumerate(indices.tolist()):
        if used < len(taken) and place == taken[used]:
            result[k] = dy[used]
            used += 1
    if used < len(taken):
        raise InternalError(
            f"Elements of backprop_val_grad aren't all propagated. Num elements:{len(taken)}, used: {used}"
        )
    return result


register(
    "SparseSlice(indices:int64, values:T, shape:int64, start:int64, size:int64) -> (output_indices:int64, output_values:T, "
    "output_shape:int64) [T:type]",
    shape=_slice_shape,
    kernel=plain(_slice),
    gradient=_slice_gradient,
    dynamic_shape=True,
)
register(
    "SparseSliceGrad(backprop_val_grad:T, input_indices:int64, input_start:int64, output_indices:int64) -> (val_grad:T) "
    "[T:type@6]",
    shape=lambda context: [(context.inputs[1] or (None,))[:1]],
    kernel=plain(_slice_back),
    gradient=undefined_gradient,
)
