"""Local response normalisation: divides each element by a power of the sum of squares of its neighbours in depth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.shapes import Dims, merge, with_rank

Array = np.ndarray[Any, Any]
_NAMES = ("depth_radius", "bias", "alpha", "beta")
_LARGEST_RADIUS = 2**31 - 1


def neighbours(values: Array, radius: int) -> Array:
    """Sum over each element and its neighbours in depth."""
    depth = values.shape[-1]
    result = np.zeros_like(values)
    for step in range(-min(radius, depth), min(radius, depth) + 1):
        result[..., max(-step, 0) : depth - max(step, 0)] += values[..., max(step, 0) : depth + min(step, 0)]
    return result


def _norm(attrs: Attrs, x: Array) -> Array:
    return np.float32(attrs["bias"]) + np.float32(attrs["alpha"]) * neighbours(
        np.square(x), attrs["depth_radius"]
    )


def _check(x: Array) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"in must be 4-dimensional, got shape {list(x.shape)}")


def _checked_attrs(context: KernelContext) -> Attrs:
    radius = context.attrs["depth_radius"]
    if not 0 <= radius < _LARGEST_RADIUS:
        raise InvalidArgumentError(f"depth_radius = {radius} is not in [0, {_LARGEST_RADIUS})")
    return context.attrs


def _forward(context: KernelContext) -> Compute:
    attrs = _checked_attrs(context)

    def compute(x: Array) -> Array:
        _check(x)
        wide = x.astype(np.float32)
        return (wide * _norm(attrs, wide) ** np.float32(-attrs["beta"])).astype(x.dtype)

    return compute


def _backward(context: KernelContext) -> Compute:
    attrs = _checked_attrs(context)
    factor = np.float32(-2.0 * attrs["alpha"] * attrs["beta"])

    def compute(dy: Array, x: Array, y: Array) -> Array:
        _check(x)
        if not dy.shape == x.shape == y.shape:
            raise InvalidArgumentError(
                "input_grads, input_image, and output_image should have the same shape, "
                f"got {list(dy.shape)}, {list(x.shape)}, {list(y.shape)}"
            )
        above, wide, result = (each.astype(np.float32) for each in (dy, x, y))
        norm = _norm(attrs, wide)
        through = neighbours(above * result / norm, attrs["depth_radius"])
        dx = above * norm ** np.float32(-attrs["beta"]) + factor * wide * through
        return dx.astype(dy.dtype)

    return compute


def _forward_shape(context: ShapeContext) -> Sequence[Dims]:
    return [with_rank(context.inputs[0], 4)]


def _backward_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank(context.inputs[0], 4)
    for other in context.inputs[1:]:
        dims = merge(dims, other)
    return [dims]


def _gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    same = {name: op.attrs[name] for name in _NAMES}
    return (apply_op("LRNGrad", dy, op.inputs[0], op.outputs[0], **same),)


_ATTRS = (
    "depth_radius:int=5; bias:float=1.0; alpha:float=1.0; beta:float=0.5; T:type{half|bfloat16|float}=float"
)

register(f"LRN(input:T) -> (output:T) [{_ATTRS}]", shape=_forward_shape, kernel=_forward, gradient=_gradient)
register(
    f"LRNGrad(input_grads:T, input_image:T, output_image:T) -> (output:T) [{_ATTRS}]",
    shape=_backward_shape,
    kernel=_backward,
    gradient=undefined_gradient,
)


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Return input / (bias + alpha * sum of squares of neighbours in depth) ** beta."""
    attrs = {"depth_radius": depth_radius, "bias": bias, "alpha": alpha, "beta": beta}
    return apply_op("LRN", input, name=name, **attrs)


lrn = local_response_normalization
