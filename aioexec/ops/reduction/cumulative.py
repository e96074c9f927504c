"""Cumulative sums, products and log-sum-exp along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Reference,
    Spec,
)
from aioexec.graph.kernels.loop_language import Pointer
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]


def same_shape(context: ShapeContext) -> Sequence[Dims]:
    return [context.inputs[0]]


def reference(accumulate: Callable[..., Any], neutral: float) -> Reference:
    """Return the kernel for `accumulate(x, axis=, dtype=)`; 16-bit floats are computed in float32."""

    def bind(context: KernelContext) -> Compute:
        exclusive, reverse = bool(context.attrs["exclusive"]), bool(context.attrs["reverse"])

        def kernel(x: Array, axis_value: Array) -> Array:
            axis = int(axis_value)
            if not -x.ndim <= axis < x.ndim:
                raise InvalidArgumentError(
                    f"Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {axis}"
                )
            wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
            turned = np.flip(wide, axis) if reverse else wide
            result: Array = accumulate(turned, axis=axis, dtype=wide.dtype)
            if exclusive:
                result = np.roll(result, 1, axis)
                result[(slice(None),) * (axis % x.ndim) + (slice(0, 1),)] = neutral
            return (np.flip(result, axis) if reverse else result).astype(x.dtype, copy=False)

        return kernel

    return bind


def scan_sum(x: Pointer, y: Pointer, outer: int, n: int, inner: int, exclusive: int, reverse: int) -> int:
    """y[o, k, i] = sum of x[o, j, i] over j up to k, from the end if `reverse`, without k itself if `exclusive`."""
    step = -inner if reverse else inner
    for o in range(outer):
        first = o * n * inner + (n - 1) * inner if reverse else o * n * inner
        for i in range(inner):
            y[first + i] = 0 if exclusive else x[first + i]
        for k in range(1, n):
            here = first + k * step
            added = here - step if exclusive else here
            for i in range(inner):
                y[here + i] = y[here - step + i] + x[added + i]
    return 0


def scan_product(x: Pointer, y: Pointer, outer: int, n: int, inner: int, exclusive: int, reverse: int) -> int:
    """As `scan_sum`, of products."""
    step = -inner if reverse else inner
    for o in range(outer):
        first = o * n * inner + (n - 1) * inner if reverse else o * n * inner
        for i in range(inner):
            y[first + i] = 1 if exclusive else x[first + i]
        for k in range(1, n):
            here = first + k * step
            added = here - step if exclusive else here
            for i in range(inner):
                y[here + i] = y[here - step + i] * x[added + i]
    return 0


def native(body: Callable[..., int]) -> Native:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        x, axis_spec = inputs
        rank = len(x.shape)
        if (
            axis_spec.value is None
            or axis_spec.shape
            or x.dtype.name not in ("float32", "float64", "int32", "int64")
        ):
            return None
        if not -rank <= int(axis_spec.value) < rank:
            return None
        if x.size == 0:
            return Launches(())
        axis = int(axis_spec.value) % rank
        outer, n, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        kernel = LoopKernel(body, (x.dtype.name, x.dtype.name), 5, 0)
        words = (outer, n, inner, int(attrs["exclusive"]), int(attrs["reverse"]))
        row = Launch(kernel, (Operand("input", 0), Operand("output", 0)), words, cost=10 + int(1.5 * x.size))
        return Launches((row,))

    return Native(bind)


def sum_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    exclusive, reverse = op.attrs["exclusive"], op.attrs["reverse"]
    return apply_op("Cumsum", dy, op.inputs[1], exclusive=exclusive, reverse=not reverse), None


def product_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    """Return the gradient of Cumprod; as in TensorFlow, wrong where an element is zero, since it divides by the elements."""
    x, axis = op.inputs
    exclusive, reverse = op.attrs["exclusive"], op.attrs["reverse"]
    product = apply_op("Cumprod", x, axis, exclusive=exclusive, reverse=reverse)
    total = apply_op("Cumsum", apply_op("Mul", product, dy), axis, exclusive=exclusive, reverse=not reverse)
    return apply_op("RealDiv", total, x), None


_SIGNATURE = (
    "{}(x:T, axis:Tidx) -> (out:T) "
    "[exclusive:bool=false; reverse:bool=false; T:type@6; Tidx:type{{int32|int64}}=int32]"
)

register(
    _SIGNATURE.format("Cumsum"),
    shape=same_shape,
    kernel=reference(np.cumsum, 0),
    native=native(scan_sum),
    gradient=sum_gradient,
    shape_operands=(1,),
)
register(
    _SIGNATURE.format("Cumprod"),
    shape=same_shape,
    kernel=reference(np.cumprod, 1),
    native=native(scan_product),
    gradient=product_gradient,
    shape_operands=(1,),
)


def logsumexp_gradient(op: Operation, dy: Tensor) -> tuple[Tensor, None]:
    """Return the sum over later k of dy[k] exp(x - y[k]), by logarithms of the positive and the negative dy."""
    (x, axis), (y,) = op.inputs, op.outputs
    attrs = {"exclusive": op.attrs["exclusive"], "reverse": not op.attrs["reverse"]}
    zero = convert_to_tensor(0, dy.dtype.base_dtype)
    nothing = convert_to_tensor(dy.dtype.base_dtype.min, dy.dtype.base_dtype)

    def part(values: Tensor) -> Tensor:
        logs = apply_op("SelectV2", apply_op("Greater", values, zero), apply_op("Log", values), nothing)
        summed = apply_op("CumulativeLogsumexp", logs - y, axis, **attrs)
        return apply_op("Exp", summed + x)

    return part(dy) - part(-dy), None


register(
    "CumulativeLogsumexp(x:T, axis:Tidx) -> (out:T) "
    "[exclusive:bool=false; reverse:bool=false; T:type{bfloat16|half|float|double}; Tidx:type{int32|int64}=int32]",
    shape=same_shape,
    kernel=reference(np.logaddexp.accumulate, -np.inf),
    gradient=logsumexp_gradient,
)


def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Return the cumulative log(sum(exp(x))) along `axis`, as `cumsum`."""
    return apply_op("CumulativeLogsumexp", x, axis, name=name, exclusive=exclusive, reverse=reverse)


def cumsum(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Return cumulative sums along `axis`: [a, a + b, a + b + c]; `exclusive` [0, a, a + b]; `reverse` from the other end."""
    return apply_op("Cumsum", x, axis, name=name, exclusive=exclusive, reverse=reverse)


def cumprod(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Return cumulative products along `axis`, as `cumsum`."""
    return apply_op("Cumprod", x, axis, name=name, exclusive=exclusive, reverse=reverse)
