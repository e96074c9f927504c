"""Maximum and minimum of two tensors, and clipping to a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels.launches import expression
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import register
from aioexec.ops.common.elementwise import Array, binary, fitting, function_of_two, op_scope, reduced


def _extreme_gradient(selector: str) -> Any:
    def gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
        x, y = op.inputs
        chosen = apply_op(selector, x, y)
        zeros = apply_op("ZerosLike", dz)
        return reduced(op, apply_op("SelectV2", chosen, dz, zeros), apply_op("SelectV2", chosen, zeros, dz))

    return gradient


binary(
    "Maximum(x:T, y:T) -> (z:T) [T:type@22]",
    numpy=np.maximum,
    native="x, y: maximum(x, y)",
    gradient=_extreme_gradient("GreaterEqual"),
)
binary(
    "Minimum(x:T, y:T) -> (z:T) [T:type@22]",
    numpy=np.minimum,
    native="x, y: minimum(x, y)",
    gradient=_extreme_gradient("LessEqual"),
)


def _clip_shape(context: Any) -> Any:
    x, low, high = context.inputs
    for bound in (low, high):
        if bound != () and not shapes.compatible(x, bound):
            raise GraphValueError(
                f"bounds of shape {shapes.describe(bound)} for a tensor of shape {shapes.describe(x)}"
            )
    return [x]


def _clip(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _clip_gradient(op: Operation, dz: Tensor) -> Sequence[Any]:
    x, low, high = op.inputs
    zeros = apply_op("ZerosLike", dz)
    under, over = apply_op("Less", x, low), apply_op("Greater", x, high)
    inside = apply_op("LogicalNot", apply_op("LogicalOr", under, over))

    def bound(mask: Tensor, tensor: Tensor) -> Tensor:
        part = apply_op("SelectV2", mask, dz, zeros)
        rank = apply_op("Rank", part)
        if tensor.dims == ():
            part = apply_op("Sum", part, apply_op("Range", _int32(0), rank, _int32(1)))
        return part

    return [apply_op("SelectV2", inside, dz, zeros), bound(under, low), bound(over, high)]


def _int32(value: int) -> Tensor:
    return convert_to_tensor(value, dtypes.int32)


register(
    "ClipByValue(t:T, clip_value_min:T, clip_value_max:T) -> (output:T) [T:type@6]",
    shape=_clip_shape,
    kernel=fitting(_clip),
    gradient=_clip_gradient,
    native=expression("t, low, high: minimum(maximum(t, low), high)"),
)

# Functions


maximum = function_of_two("Maximum", "Return the larger element element-wise; NaN if either is NaN")
minimum = function_of_two("Minimum", "Return the smaller element element-wise; NaN if either is NaN")


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """Clip t to a range; of IndexedSlices, the values."""
    if isinstance(t, IndexedSlices):
        return IndexedSlices(
            clip_by_value(t.values, clip_value_min, clip_value_max, name), t.indices, t.dense_shape
        )
    with op_scope(name, "clip_by_value", t) as scope:
        values = convert_to_tensor(t, name="t")
        lowered = apply_op("Minimum", values, clip_value_max)
        clipped = apply_op("Maximum", lowered, clip_value_min, name=scope)
        clipped.set_shape(values.dims)
        return clipped
