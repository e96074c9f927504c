"""Depthwise convolution and its gradients: each channel of an image is convolved with its own filters.

As in `conv`, the gradient of each of the three ops consists of the other two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Native
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.convolution import depthwise_launches
from aioexec.ops.convolution.conv import (
    axes_of,
    check_dy,
    filter_gradient,
    input_gradient,
    same_attrs,
    shape_in,
    wide,
)
from aioexec.ops.convolution.layouts import either_layout
from aioexec.ops.convolution.windows import (
    DEPTH,
    SPATIAL,
    Array,
    Axes,
    channels_last,
    check_attrs,
    check_spatial_only,
    counts,
    crop,
    finish,
    format_name,
    infer_windows,
    pad,
    padded_shape,
    padding_attrs,
    per_axis,
    seen_by,
    sees_all,
    taps,
)
from aioexec.shapes import Dims, merge, with_rank

# Shapes


def _forward_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    image, filters = with_rank(context.inputs[0], 4), with_rank(context.inputs[1], 4)
    assert image is not None
    assert filters is not None
    channels = merge((image[DEPTH[context.attrs["data_format"]]],), (filters[2],))
    assert channels is not None
    depth = None if channels[0] is None or filters[3] is None else channels[0] * filters[3]
    return [infer_windows(context.attrs, image, filters[:2], depth)]


def _given_shape(operand: int, other: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        """Shape rule: the output has the shape in the vector input `operand`; the inputs `other` and 2 have rank 4."""
        check_attrs(context.attrs)
        with_rank(context.inputs[other], 4)
        with_rank(context.inputs[2], 4)
        merge(context.inputs[operand], (4,))
        return [merge(context.partial(operand), (None,) * 4)]

    return rule


# Reference kernels, on images [batch, height, width, channels]


def correlate(image: Array, filters: Array, axes: Axes) -> Array:
    """Cross-correlate each channel with its filters."""
    padded = pad(image, axes)[..., None]
    channels, each = filters.shape[2:]
    result = np.zeros((len(image), *counts(axes), channels, each), image.dtype)
    for tap in taps(axes):
        result += padded[seen_by(axes, tap)] * filters[tap]
    return result.reshape(*result.shape[:3], channels * each)


def spread(filters: Array, dy: Array, axes: Axes) -> Array:
    """Adjoint of `correlate` with respect to the image."""
    above = dy.reshape(*dy.shape[:3], *filters.shape[2:])
    padded = np.zeros(padded_shape(len(dy), axes, filters.shape[2]), dy.dtype)
    for tap in taps(axes):
        padded[seen_by(axes, tap)] += np.sum(above * filters[tap], axis=-1)
    return crop(padded, axes)


def compare(image: Array, dy: Array, shape: Sequence[int], axes: Axes) -> Array:
    """Adjoint of `correlate` with respect to the filters, which have this shape."""
    padded = pad(image, axes)[..., None]
    above = dy.reshape(*dy.shape[:3], *shape[2:])
    result = np.empty(shape, image.dtype)
    if not sees_all(axes):
        result[...] = np.sum(np.zeros_like(above) * above, axis=(0, 1, 2))  # taps of padding: 0, or NaN
    for tap in taps(axes, seen=True):
        result[tap] = np.sum(padded[seen_by(axes, tap)] * above, axis=(0, 1, 2))
    return result


def _wide(attrs: Attrs, value: Array) -> Array:
    """Convert to [batch, height, width, channels] and the dtype of accumulation."""
    return wide(channels_last(attrs, value))


def _axes(attrs: Attrs, image: Sequence[int], filters: Sequence[int]) -> Axes:
    axes, depth = axes_of(attrs, image, filters), image[DEPTH[attrs["data_format"]]]
    if depth != filters[2]:
        raise InvalidArgumentError(f"input and filter must have the same depth: {depth} vs {filters[2]}")
    return axes


def _check_attrs(context: KernelContext) -> Attrs:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides",))
    height, width = (attrs["strides"][axis] for axis in SPATIAL[attrs["data_format"]])
    if height != width:
        raise InvalidArgumentError(
            "Current implementation only supports equal length strides in the row and column dimensions, "
            f"got {height} and {width}"
        )
    return attrs


def _forward_kernel(context: KernelContext) -> Compute:
    attrs = _check_attrs(context)
    dilations = attrs["dilations"]
    if dilations[0] != 1 or dilations[DEPTH[attrs["data_format"]]] != 1:  # the gradient ops ignore dilations
        raise InvalidArgumentError(
            f"dilations in the batch and channel dimensions must be 1, got {dilations!r}"
        )

    def compute(image: Array, filters: Array) -> Array:
        axes = _axes(attrs, image.shape, filters.shape)
        return finish(attrs, correlate(_wide(attrs, image), wide(filters), axes), image.dtype)

    return compute


def _input_kernel(context: KernelContext) -> Compute:
    attrs = _check_attrs(context)

    def compute(sizes: Array, filters: Array, dy: Array) -> Array:
        shape = shape_in(attrs, "input_sizes", sizes)
        axes = _axes(attrs, shape, filters.shape)
        check_dy(attrs, dy, shape, filters.shape, axes, math.prod(filters.shape[2:]))
        return finish(attrs, spread(wide(filters), _wide(attrs, dy), axes), dy.dtype)

    return compute


def _filter_kernel(context: KernelContext) -> Compute:
    attrs = _check_attrs(context)

    def compute(image: Array, sizes: Array, dy: Array) -> Array:
        shape = shape_in(attrs, "filter_sizes", sizes)
        axes = _axes(attrs, image.shape, shape)
        check_dy(attrs, dy, image.shape, shape, axes, math.prod(shape[2:]))
        result = compare(_wide(attrs, image), _wide(attrs, dy), shape, axes)
        return result.astype(image.dtype, copy=False)

    return compute


# Gradients

_FORWARD = "DepthwiseConv2dNative"
_INPUT, _FILTER = f"{_FORWARD}BackpropInput", f"{_FORWARD}BackpropFilter"


def _gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    image, filters = op.inputs
    return (
        apply_op(_INPUT, apply_op("Shape", image), filters, dy, **same_attrs(op)),
        apply_op(_FILTER, image, apply_op("Shape", filters), dy, **same_attrs(op)),
    )


# Rows

_ATTRS = (
    "T:type{half|bfloat16|float|double}; strides:list(int); padding:string{SAME|VALID|EXPLICIT}; "
    "explicit_paddings:list(int)=[]; data_format:string{NHWC|NCHW}='NHWC'; dilations:list(int)=[1, 1, 1, 1]"
)
_REAL = frozenset({"float32", "float64"})

register(
    f"{_FORWARD}(input:T, filter:T) -> (output:T) [{_ATTRS}]",
    shape=_forward_shape,
    kernel=_forward_kernel,
    gradient=_gradient,
    native=Native(either_layout(depthwise_launches.bind_forward, images=(0,)), _REAL),
)
register(
    f"{_INPUT}(input_sizes:int32, filter:T, out_backprop:T) -> (output:T) [{_ATTRS}]",
    shape=_given_shape(0, 1),
    kernel=_input_kernel,
    gradient=input_gradient,
    native=Native(either_layout(depthwise_launches.bind_input, images=(2,)), _REAL),
    shape_operands=(0,),
)
register(
    f"{_FILTER}(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) [{_ATTRS}]",
    shape=_given_shape(1, 0),
    kernel=_filter_kernel,
    gradient=filter_gradient,
    native=Native(either_layout(depthwise_launches.bind_filter, images=(0, 2), makes_image=False), _REAL),
    shape_operands=(1,),
)

# Public functions


def _arguments(strides: Any, padding: Any, data_format: str | None, dilations: Any) -> dict[str, Any]:
    order = format_name(data_format)
    return {
        "strides": per_axis(strides, "strides", order),
        "dilations": per_axis(1 if dilations is None else dilations, "dilations", order),
        "data_format": order,
        **padding_attrs(padding),
    }


def depthwise_conv2d_native(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Convolve each channel of images with filters [height, width, channels, multiplier].

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    attrs = _arguments(strides, padding, data_format, dilations)
    return apply_op(_FORWARD, input, filter, name=name, **attrs)


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """As `depthwise_conv2d_native`, with filter taps `rate` (or `dilations`) elements apart."""
    apart = rate if dilations is None else dilations
    return depthwise_conv2d_native(input, filter, strides, padding, data_format, apart, name or "depthwise")


def depthwise_conv2d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `depthwise_conv2d` with respect to its input, of shape `input_sizes`."""
    attrs = _arguments(strides, padding, data_format, dilations)
    return apply_op(_INPUT, input_sizes, filter, out_backprop, name=name, **attrs)


def depthwise_conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `depthwise_conv2d` with respect to its filter, of shape `filter_sizes`."""
    attrs = _arguments(strides, padding, data_format, dilations)
    return apply_op(_FILTER, input, filter_sizes, out_backprop, name=name, **attrs)


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Tensor:
    """Apply a depthwise convolution, then a 1 × 1 convolution with filters [1, 1, channels × multiplier, out_channels]."""
    order = format_name(data_format)
    with op_scope(name, "separable_conv2d", input, depthwise_filter, pointwise_filter) as scope:
        seen = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, None, data_format, dilations)
        attrs = {"strides": [1] * 4, "padding": "VALID", "data_format": order}
        return apply_op("Conv2D", seen, pointwise_filter, name=scope, **attrs)
