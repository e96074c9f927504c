"""Ops that select or update rows by index: gather and scatter, with single indices or coordinates; boolean_mask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.kernels.launches import c_strides, fill_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.arrays import axis_of, run_time
from aioexec.ops.array.batch_coordinates import batch_coordinates
from aioexec.ops.array.filling import dims_operand, shape_from
from aioexec.ops.array.gathering_loops import clear, flatten_indices, gather_rows, scatter_add_rows
from aioexec.ops.common.elementwise import Array, op_scope, shown
from aioexec.ops.common.strided_copies import movable
from aioexec.shapes import Dims

OUTSIDE = ((InvalidArgumentError, "an index is outside of the dimension it points into"),)
NUMBERS = ("float32", "float64", "int32", "int64")
WIDTH = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
"""The dtype as which elements are moved: only the width matters."""


def check_indices(indices: Array, limit: int) -> None:
    """Raise InvalidArgumentError unless all indices are in [0, limit)."""
    bad = (indices < 0) | (indices >= limit)
    if bad.any():
        place = tuple(int(k) for k in np.argwhere(bad)[0])
        raise InvalidArgumentError(
            f"indices{shown(place) if place else ''} = {indices[place]} is not in [0, {limit})"
        )


# Gather


def gathered(params: Dims, indices: Dims, axis: int | None, batch_dims: int) -> Dims:
    """Return the shape of `params` with dimension `axis` replaced by the dimensions of the indices after the batch."""
    if params is None or indices is None or axis is None:
        return None
    k = axis_of(axis, len(params))
    batch = batch_dims + len(indices) if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(k, len(indices)):
        raise GraphValueError(
            f"batch_dims {batch_dims} must be at most axis {k} and the rank of indices {len(indices)}"
        )
    shared = shapes.merge(params[:batch], indices[:batch]) or ()
    return (*shared, *params[batch:k], *indices[batch:], *params[k + 1 :])


def _gather(params: Array, indices: Array, axis: int, batch_dims: int) -> Array:
    shape = run_time(gathered)(params.shape, indices.shape, axis, batch_dims)
    k = axis % params.ndim
    batch = batch_dims % indices.ndim if batch_dims < 0 else batch_dims
    check_indices(indices, params.shape[k])
    if not batch:
        return np.take(params, indices, k)
    flat = params.reshape(prod(params.shape[:batch]), *params.shape[batch:])
    rows = indices.reshape(prod(indices.shape[:batch]), *indices.shape[batch:])
    parts = [np.take(each, row, k - batch) for each, row in zip(flat, rows, strict=True)]
    return np.array(parts, params.dtype).reshape(shape)


def gather_launch(params: Spec, indices: Spec, output: Spec, axis: int, batch: int) -> Launches | None:
    """Return the native form of a gather of input 1 from input 0."""
    if not movable(output):
        return None
    if output.size == 0:
        return Launches(()) if indices.size == 0 else None  # the reference kernel checks the indices
    k = axis % len(params.shape)
    words = (
        prod(params.shape[:batch]),
        prod(params.shape[batch:k]),
        params.shape[k],
        prod(indices.shape[batch:]),
        prod(params.shape[k + 1 :]),
    )
    width = WIDTH[output.dtype.itemsize]
    kernel = LoopKernel(gather_rows, (width, indices.dtype.name, width), 5, 0)
    operands = (Operand("input", 0), Operand("input", 1), Operand("output", 0))
    return Launches((Launch(kernel, operands, words, cost=10 + 2 * indices.size + output.nbytes // 8),))


def _gather_kernel(context: KernelContext) -> Compute:
    batch_dims = context.attrs.get("batch_dims", 0)

    def compute(params: Array, indices: Array, axis: Array | None = None) -> Array:
        return _gather(params, indices, 0 if axis is None else int(axis), batch_dims)

    return compute


def _bind_gather(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    params, indices = inputs[:2]
    axis = 0
    if len(inputs) == 3:
        if inputs[2].value is None:
            return None
        axis = int(inputs[2].value)
    batch = attrs.get("batch_dims", 0)
    return gather_launch(
        params, indices, outputs[0], axis, batch % len(indices.shape) if batch < 0 else batch
    )


def _rows_gradient(params: Tensor, indices: Tensor, dy: Tensor) -> IndexedSlices:
    """Return the gradient of a gather along dimension 0: the rows of dy as IndexedSlices of `params`."""
    shape = apply_op("Shape", params, out_type=dtypes.int32)
    count = apply_op("ExpandDims", apply_op("Size", indices), convert_to_tensor(0, dtypes.int32))
    tail = apply_op("StridedSlice", shape, *(constant(n, dtypes.int32, [1]) for n in (1, 0, 1)), end_mask=1)
    values_shape = apply_op("ConcatV2", [count, tail], convert_to_tensor(0, dtypes.int32))
    values = apply_op("Reshape", dy, values_shape)
    return IndexedSlices(values, apply_op("Reshape", indices, count), shape)


def _gather_v2_gradient(op: Operation, dy: Tensor) -> list[Any]:
    params, indices, axis = op.inputs
    known, batch = constant_value(axis), op.attrs["batch_dims"]
    if known is not None and known == 0 and batch == 0:
        return [_rows_gradient(params, indices, dy), None, None]
    first = (
        batch + (apply_op("Rank", indices) if indices.dims is None else len(indices.dims))
        if batch < 0
        else batch
    )
    return [_gradient_along(params, indices, dy, axis if known is None else int(known), first), None, None]


def _gradient_along(params: Tensor, indices: Tensor, dy: Tensor, axis: Any, batch: Any) -> Tensor:
    """Return the gradient of a gather along `axis`: move it behind the batch dimensions, sum the rows per index, move it back.

    `axis` and `batch` are ints, or tensors if not static. The shapes are flattened to five sizes: the batch dimensions, those
    before the axis, the axis, the indices, and those after the axis.
    """
    shape = apply_op("Shape", params)
    rank = apply_op("Size", shape) if params.dims is None else len(params.dims)
    k = (
        axis % rank
        if isinstance(axis, int) and isinstance(rank, int)
        else apply_op("FloorMod", _as_int32(axis), rank)
    )
    count, before, behind = (_product(shape, *bounds) for bounds in ((0, batch), (batch, k), (k + 1, rank)))
    size = apply_op("GatherV2", shape, k, _scalar(0))
    each = _product(apply_op("Shape", indices), batch, apply_op("Rank", indices))
    kind = indices.dtype.base_dtype
    begins = apply_op("Mul", apply_op("Range", _scalar(0), count, _scalar(1)), size)
    rows = apply_op("Reshape", indices, apply_op("Pack", [count, each]))
    rows = apply_op("AddV2", rows, apply_op("ExpandDims", apply_op("Cast", begins, DstT=kind), _scalar(1)))
    parts = apply_op("Reshape", dy, apply_op("Pack", [count, before, each, behind]))
    moved = apply_op("Transpose", parts, _vector([0, 2, 1, 3]))
    flat = apply_op("Reshape", moved, apply_op("Pack", [count * each, before, behind]))
    summed = apply_op("UnsortedSegmentSum", flat, apply_op("Reshape", rows, _vector([-1])), count * size)
    split = apply_op("Reshape", summed, apply_op("Pack", [count, size, before, behind]))
    return apply_op("Reshape", apply_op("Transpose", split, _vector([0, 2, 1, 3])), shape)


def _as_int32(axis: Any) -> Any:
    return apply_op("Cast", axis, DstT=dtypes.int32) if isinstance(axis, Tensor) else axis


def _product(shape: Tensor, begin: Any, end: Any) -> Tensor:
    """Return the number of elements of a range of dimensions."""
    part = apply_op("StridedSlice", shape, [begin], [end], _vector([1]))
    return apply_op("Prod", part, _vector([0]))


def _scalar(value: int) -> Tensor:
    return convert_to_tensor(value, dtypes.int32)


def _vector(values: Sequence[int]) -> Tensor:
    return convert_to_tensor(np.array(values, np.int32))


register(
    "Gather(params:Tparams, indices:Tindices) -> (output:Tparams) "
    "[validate_indices:bool=true; Tparams:type; Tindices:type{int32|int64}]",
    shape=lambda context: [gathered(context.inputs[0], context.inputs[1], 0, 0)],
    kernel=_gather_kernel,
    gradient=lambda op, dy: [_rows_gradient(op.inputs[0], op.inputs[1], dy), None],
    native=Native(_bind_gather, statuses=OUTSIDE),
)


def _gather_v2_shape(context: ShapeContext) -> Sequence[Dims]:
    params, indices, _ = context.inputs
    shapes.with_rank(context.inputs[2], 0)
    axis, batch = context.value(2), context.attrs["batch_dims"]
    if axis is None and params is not None and indices is not None and batch >= 0:
        return [(None,) * (len(params) - 1 + len(indices) - batch)]
    return [gathered(params, indices, None if axis is None else int(axis), batch)]


register(
    "GatherV2(params:Tparams, indices:Tindices, axis:Taxis) -> (output:Tparams) "
    "[batch_dims:int=0; Tparams:type; Tindices:type{int16|int32|int64}; Taxis:type{int32|int64}]",
    shape=_gather_v2_shape,
    kernel=_gather_kernel,
    gradient=_gather_v2_gradient,
    native=Native(_bind_gather, statuses=OUTSIDE),
    shape_operands=(2,),
)

# By coordinates


def _gather_nd_shape(context: ShapeContext) -> Sequence[Dims]:
    params, indices = context.inputs
    if params is None or not indices or indices[-1] is None:
        return [None]
    if indices[-1] > len(params):
        raise GraphValueError(
            f"index innermost dimension length must be <= params rank; saw: {indices[-1]} vs. {len(params)}"
        )
    return [(*indices[:-1], *params[indices[-1] :])]


BAD_INDICES_POLICIES = {"": False, "DEFAULT": False, "ERROR": False, "IGNORE": True}
"""For each `bad_indices_policy`: whether coordinates out of bounds are ignored."""


def ignores_bad_indices(context: KernelContext) -> bool:
    policy = context.attrs["bad_indices_policy"]
    if policy not in BAD_INDICES_POLICIES:
        raise InvalidArgumentError(f"Unknown bad indices handling attribute: {policy}")
    return BAD_INDICES_POLICIES[policy]


def _outside(indices: Array, dims: Sequence[int]) -> Array:
    return np.asarray(((indices < 0) | (indices >= np.array(dims, np.int64))).any(-1))


def flat_indices(indices: Array, dims: Sequence[int]) -> Array:
    """Convert coordinates into the leading dimensions to row numbers.

    Raises:
        InvalidArgumentError: a coordinate is out of bounds.
    """
    bad = _outside(indices, dims)
    if bad.any():
        place = tuple(int(k) for k in np.argwhere(bad)[0])
        where = f"indices{shown(place)}" if place else "indices"
        raise InvalidArgumentError(f"{where} = {shown(indices[place])} does not index into {shown(dims)}")
    flat = np.zeros(indices.shape[:-1], np.int64)
    for column, dim in enumerate(dims):
        flat = flat * dim + indices[..., column]
    return flat


def _gather_nd(params: Array, indices: Array, ignores: bool) -> Array:
    if not indices.ndim:
        raise InvalidArgumentError("indices must be at least a vector, got a scalar")
    depth = indices.shape[-1]
    if depth > params.ndim:
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. {params.ndim}"
        )
    rows = params.reshape(prod(params.shape[:depth]), *params.shape[depth:])
    if not ignores:
        return rows[flat_indices(indices, params.shape[:depth])]
    inside = ~_outside(indices, params.shape[:depth])
    empty = b"" if params.dtype == object else np.zeros((), params.dtype)
    result = np.full((*indices.shape[:-1], *params.shape[depth:]), empty, params.dtype)
    result[inside] = rows[flat_indices(indices[inside], params.shape[:depth])]
    return result


def _gather_nd_kernel(context: KernelContext) -> Compute:
    return partial(_gather_nd, ignores=ignores_bad_indices(context))


def _flattening(indices: Spec, position: int, dims: Sequence[int]) -> list[Launch]:
    """Return launches that convert the coordinates of an input to row numbers (int64) in scratch 0."""
    depth = len(dims)
    count = prod(indices.shape[:-1])
    flat = Operand("scratch", 0)
    rows = [Launch(LoopKernel(clear, ("int64",), 1, 0), (flat,), (count,), cost=10 + count)]
    kernel = LoopKernel(flatten_indices, (indices.dtype.name, "int64"), 4, 0)
    for column, dim in enumerate(dims):
        words = (count, depth, column, dim)
        rows.append(Launch(kernel, (Operand("input", position), flat), words, cost=10 + 2 * count))
    return rows


def _bind_gather_nd(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    params, indices = inputs
    (output,) = outputs
    if (
        not movable(output)
        or not indices.shape
        or BAD_INDICES_POLICIES.get(attrs["bad_indices_policy"], True)
    ):
        return None
    if output.size == 0:
        return Launches(()) if indices.size == 0 else None
    depth = indices.shape[-1]
    count, limit = prod(indices.shape[:-1]), prod(params.shape[:depth])
    width = WIDTH[output.dtype.itemsize]
    kernel = LoopKernel(gather_rows, (width, "int64", width), 5, 0)
    operands = (Operand("input", 0), Operand("scratch", 0), Operand("output", 0))
    words = (1, 1, limit, count, prod(params.shape[depth:]))
    final = Launch(kernel, operands, words, cost=10 + 2 * count + output.nbytes // 8)
    return Launches((*_flattening(indices, 1, params.shape[:depth]), final), scratch=(8 * count,))


def _gather_nd_gradient(op: Operation, dy: Tensor) -> list[Any]:
    params, indices = op.inputs
    shape = apply_op("Shape", params, out_type=indices.dtype.base_dtype)
    if indices.dims is not None and len(indices.dims) == 2 and indices.dims[-1] == 1:
        return [IndexedSlices(dy, apply_op("Squeeze", indices, squeeze_dims=(-1,)), shape), None]
    return [apply_op("ScatterNd", indices, dy, shape), None]


register(
    "GatherNd(params:Tparams, indices:Tindices) -> (output:Tparams) "
    "[Tparams:type; Tindices:type{int16|int32|int64}; bad_indices_policy:string='']",
    shape=_gather_nd_shape,
    kernel=_gather_nd_kernel,
    gradient=_gather_nd_gradient,
    native=Native(_bind_gather_nd, statuses=OUTSIDE),
)


def _scatter_nd_shape(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.inputs[:2]:
        shapes.with_rank_at_least(dims, 1)
    return [dims_operand(context, 2)]


def _scatter_nd(indices: Array, updates: Array, shape: Array, ignores: bool) -> Array:
    dims = shape_from(shape)
    depth = indices.shape[-1] if indices.ndim else 1
    wanted = (*indices.shape[:-1], *dims[depth:])
    if depth > len(dims):
        raise InvalidArgumentError(f"indices of {depth} coordinates for the shape {shown(dims)}")
    if updates.shape != wanted:
        raise InvalidArgumentError(
            f"updates must have shape {shown(wanted)} for these indices, got {shown(updates.shape)}"
        )
    if ignores:
        inside = ~_outside(indices, dims[:depth])
        indices, updates = indices[inside], updates[inside]
    flat = flat_indices(indices, dims[:depth])
    result = np.zeros((prod(dims[:depth]), *dims[depth:]), updates.dtype)
    if updates.size:
        np.add.at(result, flat.reshape(-1), updates.reshape(-1, *dims[depth:]))
    return result.reshape(dims)


def _scatter_nd_kernel(context: KernelContext) -> Compute:
    return partial(_scatter_nd, ignores=ignores_bad_indices(context))


def _bind_scatter_nd(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    indices, updates, _ = inputs
    (output,) = outputs
    if output.dtype.name not in NUMBERS or (output.size == 0 and indices.size):
        return None
    if BAD_INDICES_POLICIES.get(attrs["bad_indices_policy"], True):
        return None
    depth, count = indices.shape[-1], prod(indices.shape[:-1])
    if depth > len(output.shape) or updates.shape != (*indices.shape[:-1], *output.shape[depth:]):
        return None  # the reference kernel raises the error
    rows = [zeros_launch(output)]
    if updates.size:
        rows += _flattening(indices, 0, output.shape[:depth])
        words = (prod(output.shape[:depth]), count, prod(output.shape[depth:]), 0)
        rows.append(adding_launch(Operand("scratch", 0), "int64", 1, output, words))
    return Launches(tuple(row for row in rows if row is not None), scratch=(8 * count,))


def zeros_launch(output: Spec) -> Launch | None:
    """Return a launch that fills an output with zeros; None if it has no elements."""
    strides = c_strides(output.shape, output.dtype.itemsize)
    return fill_launch(0, Operand("output", 0), strides, output.shape, output.dtype.name)


def adding_launch(indices: Operand, kind: str, updates: int, output: Spec, words: tuple[int, ...]) -> Launch:
    """Return a launch that adds the rows of an input to the rows of an output selected by `indices`."""
    name = output.dtype.name
    kernel = LoopKernel(scatter_add_rows, (kind, name, name), 4, 0)
    operands = (indices, Operand("input", updates), Operand("output", 0))
    return Launch(kernel, operands, words, cost=10 + words[1] * (2 + words[2]))


register(
    "ScatterNd(indices:Tindices, updates:T, shape:Tindices) -> (output:T) "
    "[T:type; Tindices:type{int16|int32|int64}; bad_indices_policy:string='']",
    shape=_scatter_nd_shape,
    kernel=_scatter_nd_kernel,
    gradient=lambda op, dy: [None, apply_op("GatherNd", dy, op.inputs[0]), None],
    native=Native(_bind_scatter_nd, frozenset(NUMBERS), OUTSIDE),
    shape_operands=(2,),
)

# Functions


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """Gather the slices of `params` along `axis` (by default `batch_dims`) at `indices`."""
    if axis is None:
        axis = batch_dims
    if isinstance(axis, int) and axis == batch_dims == 0 and hasattr(params, "sparse_read"):
        rows: Tensor = params.sparse_read(indices, name=name)  # of a resource variable only these are read
        return rows
    tensor = convert_to_tensor(params, name="params")
    return apply_op("GatherV2", tensor, indices, axis, name=name, batch_dims=batch_dims)


def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Tensor:
    """Gather the slices of `params` at the coordinates in the last dimension of `indices`.

    Args:
        batch_dims: the number of leading dimensions that both have in common: each slice comes from its own batch.

    Raises:
        GraphValueError: `indices` has no more than `batch_dims` dimensions, or an unknown number.
    """
    if batch_dims:
        with op_scope(name, "gather_nd", params, indices):
            positions = convert_to_tensor(indices, name="indices")
            rank = 0 if positions.dims is None else len(positions.dims)
            if not 0 < batch_dims < rank:
                raise GraphValueError(
                    f"gather_nd: batch_dims {batch_dims} for indices of shape {positions.shape}"
                )
            indices = apply_op("ConcatV2", [*batch_coordinates(positions, batch_dims), positions], -1)
    return apply_op("GatherNd", params, indices, name=name)


def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Tensor:
    """Create zeros of a shape and add the updates at the coordinates in `indices`."""
    positions = convert_to_tensor(indices)
    return apply_op("ScatterNd", positions, updates, convert_to_tensor(shape, positions.dtype), name=name)


def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: int | None = None) -> Tensor:
    """Select the elements of `tensor`, or its slices from dimension `axis` on, where `mask` is true.

    Raises:
        GraphValueError: the mask is a scalar or of unknown rank, or does not fit the tensor.
    """
    with op_scope(name, "boolean_mask", tensor, mask):
        values, chosen = convert_to_tensor(tensor), convert_to_tensor(mask)
        if not chosen.dims:
            raise GraphValueError(
                f"boolean_mask: the mask must have a known rank and not be a scalar, got {chosen!r}"
            )
        start, depth = axis or 0, len(chosen.dims)
        if values.dims is not None and not shapes.compatible(values.dims[start : start + depth], chosen.dims):
            raise GraphValueError(
                f"boolean_mask: a mask of shape {chosen.shape} does not fit a tensor of {values.shape}"
            )
        shape = apply_op("Shape", values)
        bounds = [convert_to_tensor([n], dtypes.int32) for n in (0, start, start + depth, 1)]
        head = apply_op("StridedSlice", shape, bounds[0], bounds[1], bounds[3])
        tail = apply_op("StridedSlice", shape, bounds[2], bounds[0], bounds[3], end_mask=1)
        flat = apply_op("Reshape", values, apply_op("ConcatV2", [head, _vector([-1]), tail], _scalar(0)))
        where = apply_op("Where", apply_op("Reshape", chosen, _vector([-1])))
        places = apply_op("Reshape", where, _vector([-1]))
        return apply_op("GatherV2", flat, places, _scalar(start))
