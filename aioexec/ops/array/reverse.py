"""ReverseV2: reverses elements along given axes. Reversal by a mask and of sequences is in `ordering`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Alias, Attrs, Launches, Native, Spec, plain
from aioexec.graph.kernels.launches import c_strides
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.array.arrays import axis_of, run_time, shape_argument
from aioexec.ops.common.elementwise import Array
from aioexec.ops.common.strided_copies import Piece, views
from aioexec.shapes import Dims


@run_time
def _reverse(x: Array, axes: Array) -> Array:
    return np.flip(x, reversed_axes(axes, x.ndim) if x.ndim and x.size else ())


def reversed_axes(axes: Array, rank: int) -> tuple[int, ...]:
    if axes.ndim != 1:
        raise GraphValueError(f"axis must be 1-dimensional, got shape {list(axes.shape)}")
    found = tuple(axis_of(axis, rank) for axis in axes.tolist())
    if len(set(found)) < len(found):
        raise GraphValueError(f"axis {axes.tolist()} names a dimension twice")
    return found


def _bind_reverse(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | Alias | None:
    x, axes = inputs
    if axes.value is None or x.size == 0:
        return None if x.size else Launches(())
    strides, offset = list(c_strides(x.shape, x.dtype.itemsize)), 0
    for axis in reversed_axes(axes.value, len(x.shape)) if x.shape else ():
        offset += strides[axis] * (x.shape[axis] - 1)
        strides[axis] = -strides[axis]
    return views([Piece(0, offset, tuple(strides), x.shape)], outputs)


def _reversed_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 1)
    dims, axes = context.inputs[0], context.value(1)
    if dims and 0 not in dims and axes is not None:
        reversed_axes(axes, len(dims))
    return [dims]


register(
    "ReverseV2(tensor:T, axis:Tidx) -> (output:T) [Tidx:type{int32|int64}=int32; T:type@30]",
    shape=_reversed_shape,
    kernel=plain(_reverse),
    gradient=lambda op, dy: [apply_op("ReverseV2", dy, op.inputs[1]), None],
    native=Native(_bind_reverse),
    shape_operands=(1,),
)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverse the elements of `tensor` along each of `axis`."""
    return apply_op("ReverseV2", tensor, shape_argument(axis), name=name)


reverse_v2 = reverse
