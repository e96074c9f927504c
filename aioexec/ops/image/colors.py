"""Colour ops: conversion between RGB and HSV, adjustment of contrast, hue and saturation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.errors import FailedPreconditionError, GraphValueError, InvalidArgumentError, OpError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import constant
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import in_float32
from aioexec.shapes import Dims, with_rank_at_least

Array = np.ndarray[Any, Any]

# Values


def to_hsv(rgb: Array) -> Array:
    red, green, blue = (rgb[..., k] for k in range(3))
    value = np.max(rgb, axis=-1)
    spread = value - np.min(rgb, axis=-1)
    with np.errstate(all="ignore"):
        saturation = np.where(value > 0, spread / value, 0)
        norm = rgb.dtype.type(1 / 6) / spread
        third = rgb.dtype.type(2 / 6)
        of_blue = norm * (red - green) + third + third
        of_green = norm * (blue - red) + third
        hue = np.where(red == value, norm * (green - blue), np.where(green == value, of_green, of_blue))
    hue = np.where(spread > 0, hue, 0)
    return np.stack([np.where(hue < 0, hue + 1, hue), saturation, value], axis=-1).astype(rgb.dtype)


def to_rgb(hsv: Array) -> Array:
    hue, saturation, value = (hsv[..., k] for k in range(3))
    six = hue * 6
    shares = (abs(six - 3) - 1, 2 - abs(six - 2), 2 - abs(six - 4))
    parts = [((1 - saturation) + saturation * np.clip(share, 0, 1)) * value for share in shares]
    return np.stack(parts, axis=-1).astype(hsv.dtype)


def with_contrast(images: Array, factor: Array) -> Array:
    mean = np.mean(images, axis=(-3, -2), keepdims=True, dtype=np.float64).astype(images.dtype)
    return np.asarray((images - mean) * factor.astype(images.dtype) + mean)


def with_hue(images: Array, delta: Array) -> Array:
    hsv = to_hsv(images)
    hsv[..., 0] = np.mod(hsv[..., 0] + delta, 1)
    return to_rgb(hsv)


def with_saturation(images: Array, scale: Array) -> Array:
    hsv = to_hsv(images)
    hsv[..., 1] = np.clip(hsv[..., 1] * scale, 0, 1)
    return to_rgb(hsv)


# Kernels


def check_channels(images: Array, error: type[OpError] = InvalidArgumentError) -> None:
    if images.ndim < 1:
        raise InvalidArgumentError("input must be at least 1-D, got shape []")
    if images.shape[-1] != 3:
        raise error(f"input must have 3 channels but instead has {images.shape[-1]} channels")


def conversion(compute: Callable[[Array], Array]) -> Reference:
    def checked(images: Array) -> Array:
        check_channels(images, FailedPreconditionError)
        result: Array = in_float32(compute)(images)
        return result

    return plain(checked)


def adjustment(compute: Callable[[Array, Array], Array], *, coloured: bool) -> Reference:
    def bind(context: KernelContext) -> Compute:
        def checked(images: Array, amount: Array) -> Array:
            if images.ndim < 3:
                raise InvalidArgumentError(f"input must be at least 3-D, got shape {list(images.shape)}")
            if amount.ndim:
                raise InvalidArgumentError(f"the amount must be a scalar, got shape {list(amount.shape)}")
            if coloured:
                check_channels(images)
            if images.size == 0:
                return images
            wide = images.astype(np.float32)
            return np.ascontiguousarray(compute(wide, amount)).astype(images.dtype, copy=False)

        return checked

    return bind


# Gradient of the conversion to hue, saturation and value


def _where(condition: Any, chosen: Any) -> Any:
    return apply_op("SelectV2", condition, chosen, apply_op("ZerosLike", chosen))


def _and(first: Any, second: Any) -> Any:
    return apply_op("LogicalAnd", first, second)


def _hsv_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    """Select the formula by the largest and the smallest channel; ties count the first as largest, the last as smallest."""
    red, green, blue = apply_list_op("Unpack", op.inputs[0], num=3, axis=-1)
    d_hue, d_saturation, d_value = apply_list_op("Unpack", dy, num=3, axis=-1)
    at_least = {"rg": red >= green, "rb": red >= blue, "gb": green >= blue}
    no = {key: apply_op("LogicalNot", each) for key, each in at_least.items()}
    largest = [_and(at_least["rg"], at_least["rb"]), _and(no["rg"], at_least["gb"]), _and(no["rb"], no["gb"])]
    smallest = [
        _and(no["rg"], no["rb"]),
        _and(at_least["rg"], no["gb"]),
        _and(at_least["rb"], at_least["gb"]),
    ]
    greatest, least = op.outputs[0], apply_op("Min", op.inputs[0], constant(np.array(-1, np.int32)))
    value = apply_list_op("Unpack", greatest, num=3, axis=-1)[2]
    spread = value - least

    def over(dividend: Any, divisor: Any) -> Any:
        return apply_op("DivNoNan", dividend, divisor)

    by_value = d_value + d_saturation * over(least, value * value)
    by_least = apply_op("Neg", over(d_saturation, value))
    channels = (red, green, blue)
    gradients = []
    turned = over(d_hue, spread * constant(6, dy.dtype.base_dtype))
    bend = over(d_hue, spread * spread * constant(6, dy.dtype.base_dtype))
    for k in range(3):
        total = _where(largest[k], by_value) + _where(smallest[k], by_least)
        for first in range(3):  # for the largest channel, hue = (next - one after) / (6 spread) + constant
            following, last = (first + 1) % 3, (first + 2) % 3
            if k == following:
                total = total + _where(largest[first], turned)
            if k == last:
                total = total - _where(largest[first], turned)
            difference = channels[following] - channels[last]
            by_spread = difference * bend
            if k == first:
                total = total - _where(largest[first], by_spread)
            total = total + _where(_and(largest[first], smallest[k]), by_spread)
        gradients.append(total)
    return (apply_op("Pack", gradients, axis=-1),)


# Rows


def coloured_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = with_rank_at_least(context.inputs[0], 1)
    if dims is None:
        return [None]
    if dims[-1] not in (None, 3):
        raise GraphValueError(f"Dimension must be 3 but is {dims[-1]}")
    return [(*dims[:-1], 3)]


def image_shape(context: ShapeContext) -> Sequence[Dims]:
    return [with_rank_at_least(context.inputs[0], 3)]


_FLOAT = "T:type{half|bfloat16|float|double}=float"

register(
    f"RGBToHSV(images:T) -> (output:T) [{_FLOAT}]",
    shape=coloured_shape,
    kernel=conversion(to_hsv),
    gradient=_hsv_gradient,
)
register(
    f"HSVToRGB(images:T) -> (output:T) [{_FLOAT}]",
    shape=coloured_shape,
    kernel=conversion(to_rgb),
    gradient=NOT_DIFFERENTIABLE,
)
for _name, _amount, _compute, _coloured in (
    ("AdjustContrastv2", "contrast_factor", with_contrast, False),
    ("AdjustHue", "delta", with_hue, True),
    ("AdjustSaturation", "scale", with_saturation, True),
):
    register(
        f"{_name}(images:T, {_amount}:float) -> (output:T) [T:type{{half|float}}=float]",
        shape=image_shape,
        kernel=adjustment(_compute, coloured=_coloured),
        gradient=undefined_gradient,
    )
