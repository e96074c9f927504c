"""Fake quantisation: rounds floats to the values of a quantised dtype; gradients pass through (straight-through estimator)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_any_op, apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.shapes import Dims, merge, with_rank, with_rank_at_least

Array = np.ndarray[Any, Any]


def levels(attrs: Attrs) -> tuple[np.float32, np.float32]:
    """Return the lowest and highest level of the quantised range."""
    bits = attrs["num_bits"]
    if not 2 <= bits <= 16:
        raise InvalidArgumentError(f"num_bits must be between 2 and 16, inclusive, got {bits}")
    return np.float32(1 if attrs["narrow_range"] else 0), np.float32((1 << bits) - 1)


def nudged(attrs: Attrs, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return the range shifted so that 0 is a level, and the step between levels."""
    least, greatest = levels(attrs)
    step = (high - low) / (greatest - least)
    with np.errstate(all="ignore"):
        zero = least - low / step
    zero = np.where(
        zero < least, least, np.where(zero > greatest, greatest, np.floor(zero + np.float32(0.5)))
    )
    return (least - zero) * step, (greatest - zero) * step, step


def quantized(attrs: Attrs, x: Array, low: Array, high: Array) -> Array:
    begin, end, step = nudged(attrs, low, high)
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / step
        zero = np.floor(-begin * inverse + np.float32(0.5))
        clamped = np.maximum(np.minimum(x, end), begin)
        result = np.floor((clamped - begin) * inverse - zero + np.float32(0.5)) * step
    return np.where((low == 0) & (high == 0), np.float32(0), result).astype(np.float32)


def passed(attrs: Attrs, dy: Array, x: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return the gradients of values inside of the range, below it, and above it."""
    if dy.shape != x.shape:
        raise InvalidArgumentError(
            f"gradient and input must be the same size, got {list(dy.shape)} and {list(x.shape)}"
        )
    begin, end, _ = nudged(attrs, low, high)
    is_empty = (low == 0) & (high == 0)
    zero = np.float32(0)
    below = np.where(~is_empty & (x < begin), dy, zero)
    above = np.where(~is_empty & (x > end), dy, zero)
    return np.where(is_empty | ((x >= begin) & (x <= end)), dy, zero), below, above


def arguments(attrs: Attrs) -> tuple[Array, Array]:
    low, high = np.asarray(attrs["min"], np.float32), np.asarray(attrs["max"], np.float32)
    if not low < high:
        raise InvalidArgumentError(f"min has to be smaller than max, was: {low} >= {high}")
    return low, high


def args_kernel(context: KernelContext) -> Compute:
    levels(context.attrs)
    low, high = arguments(context.attrs)
    return lambda x: quantized(context.attrs, x, low, high)


def args_gradient_kernel(context: KernelContext) -> Compute:
    levels(context.attrs)
    low, high = arguments(context.attrs)
    return lambda dy, x: passed(context.attrs, dy, x, low, high)[0]


def check_range(x: Array, low: Array, high: Array, per_channel: bool) -> None:
    if per_channel and x.ndim == 0:
        raise InvalidArgumentError("inputs must have at least one dimension")
    expected = x.shape[-1:] if per_channel else ()
    for name, value in (("min", low), ("max", high)):
        if value.shape != expected:
            raise InvalidArgumentError(f"{name} must have shape {list(expected)}, got {list(value.shape)}")


def vars_kernel(per_channel: bool) -> Any:
    def bind(context: KernelContext) -> Compute:
        levels(context.attrs)

        def compute(x: Array, low: Array, high: Array) -> Array:
            check_range(x, low, high, per_channel)
            return quantized(context.attrs, x, low, high)

        return compute

    return bind


def vars_gradient_kernel(per_channel: bool) -> Any:
    def bind(context: KernelContext) -> Compute:
        levels(context.attrs)

        def compute(dy: Array, x: Array, low: Array, high: Array) -> tuple[Array, ...]:
            check_range(x, low, high, per_channel)
            inside, below, above = passed(context.attrs, dy, x, low, high)
            over = tuple(range(x.ndim - 1)) if per_channel else None
            sums = (
                np.asarray(np.sum(each, axis=over, dtype=np.float64), np.float32) for each in (below, above)
            )
            return (inside, *sums)

        return compute

    return bind


# Rows


def args_shape(context: ShapeContext) -> Sequence[Dims]:
    return [context.inputs[0]]


def both_shape(context: ShapeContext) -> Sequence[Dims]:
    return [merge(*context.inputs)]


def range_dims(context: ShapeContext, image: Dims, first: int, per_channel: bool) -> tuple[Dims, Dims]:
    """Shape rule: the shape of the images; bounds are scalars, or one per channel."""
    if not per_channel:
        for bound in context.inputs[first:]:
            with_rank(bound, 0)
        return image, ()
    known = with_rank_at_least(image, 1)
    channels: Dims = (None,) if known is None else known[-1:]
    for bound in context.inputs[first:]:
        channels = merge(channels, with_rank(bound, 1))
    assert channels is not None
    return (None if known is None else known[:-1] + channels), channels


def vars_shape(per_channel: bool) -> Any:
    return lambda context: [range_dims(context, context.inputs[0], 1, per_channel)[0]]


def vars_gradient_shape(per_channel: bool) -> Any:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        image, bound = range_dims(context, merge(*context.inputs[:2]), 2, per_channel)
        return [image, bound, bound]

    return rule


_LEVELS = "num_bits:int=8; narrow_range:bool=false"


def _same(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("min", "max", "num_bits", "narrow_range") if name in op.attrs}


def _gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    found = apply_any_op(f"{op.type}Gradient", dy, *op.inputs, **_same(op))
    return (found,) if isinstance(found, Tensor) else tuple(found)


register(
    f"FakeQuantWithMinMaxArgs(inputs:float) -> (outputs:float) [min:float=-6.0; max:float=6.0; {_LEVELS}]",
    shape=args_shape,
    kernel=args_kernel,
    gradient=_gradient,
)
register(
    "FakeQuantWithMinMaxArgsGradient(gradients:float, inputs:float) -> (backprops:float) "
    f"[min:float=-6.0; max:float=6.0; {_LEVELS}]",
    shape=both_shape,
    kernel=args_gradient_kernel,
    gradient=NOT_DIFFERENTIABLE,
)
for _name, _per_channel in (("FakeQuantWithMinMaxVars", False), ("FakeQuantWithMinMaxVarsPerChannel", True)):
    register(
        f"{_name}(inputs:float, min:float, max:float) -> (outputs:float) [{_LEVELS}]",
        shape=vars_shape(_per_channel),
        kernel=vars_kernel(_per_channel),
        gradient=_gradient,
    )
    register(
        f"{_name}Gradient(gradients:float, inputs:float, min:float, max:float) -> "
        f"(backprops_wrt_input:float, backprop_wrt_min:float, backprop_wrt_max:float) [{_LEVELS}]",
        shape=vars_gradient_shape(_per_channel),
        kernel=vars_gradient_kernel(_per_channel),
        gradient=NOT_DIFFERENTIABLE,
    )

# Public functions


def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Quantise and dequantise `inputs` to `num_bits` in a constant range."""
    attrs = {"min": float(min), "max": float(max), "num_bits": num_bits, "narrow_range": narrow_range}
    return apply_op("FakeQuantWithMinMaxArgs", inputs, name=name, **attrs)


def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Quantise and dequantise `inputs` to `num_bits` in a range given as tensors, which can be trained."""
    attrs = {"num_bits": num_bits, "narrow_range": narrow_range}
    return apply_op("FakeQuantWithMinMaxVars", inputs, min, max, name=name, **attrs)


def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """As `fake_quant_with_min_max_vars`, with a range for each element of the last dimension."""
    attrs = {"num_bits": num_bits, "narrow_range": narrow_range}
    return apply_op("FakeQuantWithMinMaxVarsPerChannel", inputs, min, max, name=name, **attrs)
