"""Ops named after in-place updates: Empty, InplaceUpdate and its like, and ParallelConcat.

Values are never modified in place here: each op creates a new tensor, which no program can distinguish.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_n_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.array.filling import dims_operand, shape_from
from aioexec.ops.common.elementwise import Array, op_scope, same_shape, shown
from aioexec.shapes import Dims


def _empty(context: KernelContext) -> Compute:
    dtype = context.attrs["dtype"].base_dtype

    def compute(shape: Array) -> Array:
        dims = shape_from(shape)
        return np.full(dims, b"") if dtype is dtypes.string else np.zeros(dims, dtype.numpy)

    return compute


register(
    "Empty(shape:int32) -> (output:dtype) [dtype:type; init:bool=false] {stateful}",
    shape=lambda context: [dims_operand(context, 0)],
    kernel=_empty,
    gradient=undefined_gradient,
    shape_operands=(0,),
)
register(
    "DeepCopy(x:T) -> (y:T) [T:type] {stateful}",
    shape=same_shape,
    kernel=plain(lambda x: x.copy()),
    gradient=undefined_gradient,
)

# Rows


def _updated(change: Callable[[Array, Array, Array], None]) -> Any:
    def compute(x: Array, rows: Array, values: Array) -> Array:
        if not x.ndim or rows.ndim != 1:
            raise InvalidArgumentError(
                f"i must be a vector and x have rows, got {shown(rows.shape)} and {shown(x.shape)}"
            )
        if values.shape != (rows.size, *x.shape[1:]):
            raise InvalidArgumentError(
                f"expected v of shape {shown((rows.size, *x.shape[1:]))}, got {shown(values.shape)}"
            )
        result = x.copy()
        if len(x):
            change(result, rows % len(x), values)
        return result

    return plain(compute)


def _replace(x: Array, rows: Array, values: Array) -> None:
    x[rows] = values


_CHANGES: tuple[tuple[str, Callable[[Array, Array, Array], None]], ...] = (
    ("Update", _replace),
    ("Add", np.add.at),
    ("Sub", np.subtract.at),
)

for _name, _change in _CHANGES:
    register(
        f"Inplace{_name}(x:T, i:int32, v:T) -> (y:T) [T:type]",
        shape=same_shape,
        kernel=_updated(_change),
        gradient=undefined_gradient,
    )

# Joining


def _parallel_shape(context: ShapeContext) -> Sequence[Dims]:
    wanted = context.attrs["shape"]
    for dims in context.inputs:
        merged = shapes.merge(shapes.with_rank_at_least(dims, 1), context.inputs[0])
        shapes.merge((1, *(merged[1:] if merged else ())) if merged else None, dims)
    return [wanted]


def _parallel_concat(context: KernelContext) -> Compute:
    wanted = context.attrs["shape"]

    def compute(*values: Array) -> Array:
        if not shapes.compatible(wanted, (len(values), *values[0].shape[1:])) or any(
            value.shape != (1, *values[0].shape[1:]) for value in values
        ):
            raise InvalidArgumentError(
                f"expected {len(values)} values of one row, together of shape {wanted}, got {shown(values[0].shape)}"
            )
        return np.concatenate(values)

    return compute


register(
    "ParallelConcat(values:N*T) -> (output:T) [N:int>=1; T:type; shape:shape]",
    shape=_parallel_shape,
    kernel=_parallel_concat,
    gradient=undefined_gradient,
)

# Functions


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    """Stack tensors of one fully defined shape along a new first dimension; not differentiable, unlike `stack`."""
    with op_scope(name, "parallel_stack", values):
        tensors = convert_n_to_tensor(values)
        dims = (len(tensors), *(tensors[0].dims or ()))
        rows = [apply_op("ExpandDims", tensor, 0) for tensor in tensors]
        return apply_op("ParallelConcat", rows, shape=shapes.TensorShape(dims))
