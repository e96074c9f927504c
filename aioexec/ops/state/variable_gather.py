"""ResourceGather and ResourceGatherNd: read rows or slices of resource variables without copying the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
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
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.graph.static_values import variable_dims
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.strided_copies import movable
from aioexec.ops.state.row_loops import gather_rows
from aioexec.ops.state.sparse_updates import OUTSIDE
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

ALL = frozenset({"float32", "float64", "int32", "int64", "bool"})
SAME_WIDTH = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}
"""The dtype as which elements are moved: only the width matters."""


def check_indices(indices: Array, rows: int) -> None:
    """Raise InvalidArgumentError at the first index that is not in [0, rows)."""
    bad = np.argwhere((indices < 0) | (indices >= rows))
    if len(bad):
        place = tuple(bad[0])
        where = f"[{','.join(map(str, place))}]" if place else ""
        raise InvalidArgumentError(f"indices{where} = {indices[place]} is not in [0, {rows})")


def content_of(context: KernelContext) -> Callable[[Variable], Array]:
    """Return the content of a variable, which must have the dtype of the output."""
    dtype = context.output_dtypes[0]

    def content(variable: Variable) -> Array:
        if variable.dtype != dtype:
            raise InvalidArgumentError(
                f"Trying to read variable {variable.name!r} with wrong dtype. Expected {variable.dtype.name} got {dtype.name}"
            )
        return variable.require()

    return content


# Rows


def _gathered(context: KernelContext) -> Compute:
    batch: int = context.attrs["batch_dims"]
    content = content_of(context)

    def gather(variable: Variable, indices: Array) -> Array:
        params = content(variable)
        if params.ndim <= batch or indices.ndim < batch or params.shape[:batch] != indices.shape[:batch]:
            raise InvalidArgumentError(
                f"params must be at least {batch + 1} dimensional and share {batch} dimensions with the indices: "
                f"{variable.name!r} has shape {shown(params.shape)}, the indices {shown(indices.shape)}"
            )
        check_indices(indices, params.shape[batch])
        places = np.indices(indices.shape, sparse=True)[:batch]
        return np.asarray(params[(*places, indices)])

    return gather


def _gather_shape(context: ShapeContext) -> Sequence[Dims]:
    batch: int = context.attrs["batch_dims"]
    if batch < 0:
        raise GraphValueError(f"batch_dims must be >= 0, got {batch}")
    params = shapes.with_rank_at_least(context.variable(0), batch + 1)
    indices = shapes.with_rank_at_least(context.inputs[1], batch)
    if params is None or indices is None:
        return [None]
    shared = shapes.merge(params[:batch], indices[:batch]) or ()
    return [(*shared, *indices[batch:], *params[batch + 1 :])]


def _bind_gather(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    params, indices = inputs
    if attrs["batch_dims"] or not params.shape or not movable(params) or params.dtype != outputs[0].dtype:
        return None
    dtype = SAME_WIDTH[params.dtype.itemsize]
    kernel = LoopKernel(gather_rows, (dtype, indices.dtype.name, dtype), 3, 0)
    words = (indices.size, prod(params.shape[1:]), params.shape[0])
    operands = (Operand("input", 0), Operand("input", 1), Operand("output", 0))
    return Launches((Launch(kernel, operands, words, cost=10 + outputs[0].nbytes // 8),))


def _gather_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    """Return the gradient as IndexedSlices, without allocating the size of the variable."""
    handle, indices = op.inputs
    if op.attrs["batch_dims"]:
        raise GraphValueError(f"gradient of {op.name!r}: batch_dims must be 0, got {op.attrs['batch_dims']}")
    dims = variable_dims(handle)
    shape: Any = dims if shapes.is_fully_defined(dims) else apply_op("VariableShape", handle)
    count = apply_op("ExpandDims", apply_op("Size", indices), 0)
    if isinstance(shape, tuple):
        rest: Any = np.array(shape[1:], np.int32)
        dense_shape = apply_op("Const", value=np.array(shape, np.int32), dtype=dtypes.int32)
    else:
        rest, dense_shape = shape[1:], shape
    values = apply_op("Reshape", dy, apply_op("ConcatV2", [count, rest], 0))
    return [IndexedSlices(values, apply_op("Reshape", indices, count), dense_shape), None]


register(
    "ResourceGather(resource:resource, indices:Tindices) -> (output:dtype)"
    " [batch_dims:int=0; validate_indices:bool=true; dtype:type; Tindices:type{int32|int64}] {stateful}",
    shape=_gather_shape,
    kernel=_gathered,
    gradient=_gather_gradient,
    native=Native(_bind_gather, ALL, OUTSIDE),
    reads=(0,),
)

# Coordinates


def _gathered_at(context: KernelContext) -> Compute:
    content = content_of(context)
    return lambda variable, indices: _slices_at(content(variable), indices)


def _slices_at(params: Array, indices: Array) -> Array:
    depth = indices.shape[-1] if indices.ndim else 0
    if params.ndim == 0 or indices.ndim == 0:
        raise InvalidArgumentError(
            f"params and indices must be at least vectors: {shown(params.shape)} and {shown(indices.shape)}"
        )
    if depth > params.ndim:
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. {params.ndim}"
        )
    bad = np.argwhere(((indices < 0) | (indices >= np.array(params.shape[:depth], np.int64))).any(-1))
    if len(bad):
        place = tuple(bad[0])
        raise InvalidArgumentError(
            f"indices{shown(place)} = {shown(indices[place])} does not index into param shape {shown(params.shape)}"
        )
    return np.array(params[tuple(np.moveaxis(indices, -1, 0))] if depth else _repeated(params, indices))


def _repeated(params: Array, indices: Array) -> Array:
    """Coordinates of length 0: repeat the whole for each index."""
    return np.broadcast_to(params, (*indices.shape[:-1], *params.shape))


def _at_shape(context: ShapeContext) -> Sequence[Dims]:
    params, indices = context.variable(0), shapes.with_rank_at_least(context.inputs[1], 1)
    if params is None or indices is None or indices[-1] is None:
        return [None]
    if indices[-1] > len(params):
        raise GraphValueError(
            f"indices.shape[-1] must be <= params.rank, but saw indices.shape[-1] {indices[-1]} and params.rank {len(params)}"
        )
    return [(*indices[:-1], *params[indices[-1] :])]


def _at_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    handle, indices = op.inputs
    shape = apply_op("VariableShape", handle, out_type=indices.dtype.base_dtype)
    dims = indices.dims
    if dims is not None and len(dims) == 2 and dims[-1] == 1:
        return [IndexedSlices(dy, apply_op("Squeeze", indices, squeeze_dims=(-1,)), shape), None]
    return [apply_op("ScatterNd", indices, dy, shape), None]


register(
    "ResourceGatherNd(resource:resource, indices:Tindices) -> (output:dtype)"
    " [dtype:type; Tindices:type{int32|int64}] {stateful}",
    shape=_at_shape,
    kernel=_gathered_at,
    gradient=_at_gradient,
    reads=(0,),
)


def resource_gather(resource: Tensor, indices: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Return rows of a resource variable."""
    return apply_op("ResourceGather", resource, indices, dtype=dtypes.as_dtype(dtype), name=name)
