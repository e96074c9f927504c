"""2-D convolution and its gradients (adjoints) in the input and in the filters; shared with 3-D convolution.

The three ops are bilinear and closed under differentiation: the gradient of each consists of the other two. The reference
kernels sum one matrix product per filter tap; the native forms are in `convolution.launches`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Native
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops.convolution.filter_gradients import bind_filter
from aioexec.ops.convolution.input_gradients import bind_input
from aioexec.ops.convolution.launches import bind_forward
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
    make_axes,
    pad,
    padded_shape,
    padding_attrs,
    per_axis,
    renamed,
    seen_by,
    sees_all,
    taps,
)
from aioexec.shapes import Dims, merge, with_rank

# Shapes


def conv_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    rank = len(context.attrs["data_format"])
    image, filters = with_rank(context.inputs[0], rank), with_rank(context.inputs[1], rank)
    assert image is not None
    assert filters is not None
    channels, taken = image[DEPTH[context.attrs["data_format"]]], filters[-2]
    is_empty = channels is not None and taken is not None and (taken == 0) != (channels == 0)
    if is_empty or (channels and taken and channels % taken):
        raise GraphValueError(
            f"Depth of input ({channels}) is not a multiple of input depth of filter ({taken})"
        )
    return [infer_windows(context.attrs, image, filters[:-2], filters[-1])]


def given_shape(operand: int, other: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        """Shape rule: the output has the shape in the vector input `operand`; inputs `other` and 2 have as many dimensions."""
        check_attrs(context.attrs)
        rank = len(context.attrs["data_format"])
        with_rank(context.inputs[other], rank)
        above = with_rank(context.inputs[2], rank)
        merge(context.inputs[operand], (rank,))
        given = merge(context.partial(operand), (None,) * rank)
        assert above is not None
        assert given is not None
        if operand == 0 and rank == 4 and given[0] is None:
            given = (above[0], *given[1:])
        return [given]

    return rule


# Reference kernels, on images [batch, height, width, channels]


def wide(value: Array) -> Array:
    """Convert to the dtype of accumulation."""
    return value.astype(np.float32) if value.dtype.itemsize < 4 else value


def correlate(image: Array, filters: Array, axes: Axes) -> Array:
    """Cross-correlate the image with the filters."""
    padded = pad(image, axes)
    result = np.zeros((len(image), *counts(axes), filters.shape[-1]), image.dtype)
    for tap in taps(axes):
        result += padded[seen_by(axes, tap)] @ filters[tap]
    return result


def spread(filters: Array, dy: Array, axes: Axes) -> Array:
    """Adjoint of `correlate` with respect to the image."""
    padded = np.zeros(padded_shape(len(dy), axes, filters.shape[-2]), dy.dtype)
    for tap in taps(axes):
        padded[seen_by(axes, tap)] += dy @ filters[tap].T
    return crop(padded, axes)


def compare(image: Array, dy: Array, axes: Axes) -> Array:
    """Adjoint of `correlate` with respect to the filters."""
    padded = pad(image, axes)
    result = np.empty((*(axis.window for axis in axes), image.shape[-1], dy.shape[-1]), image.dtype)
    places = list(range(image.ndim - 1))
    if not sees_all(axes):
        result[...] = np.sum(np.zeros_like(dy) * dy, axis=tuple(places))  # taps of padding: 0, or NaN
    for tap in taps(axes, seen=True):
        result[tap] = np.tensordot(padded[seen_by(axes, tap)], dy, axes=(places, places))
    return result


def _groups(channels: int, filters: Sequence[int]) -> int:
    """Return the number of channel groups (grouped convolution); each uses an equal part of the filters."""
    taken, made = filters[-2], filters[-1]
    if taken == 0 or channels == 0 or channels % taken:
        if channels == taken:
            return 1
        raise InvalidArgumentError(
            f"input depth must be evenly divisible by filter depth: {channels} vs {taken}"
        )
    groups = channels // taken
    if made % groups:
        raise InvalidArgumentError(
            f"output depth must be evenly divisible by number of groups: {made} vs {groups}"
        )
    return groups


def _by_group(
    compute: Callable[..., Array], first: Array, second: Array, axes: Axes, groups: int, joined: int
) -> Array:
    """Apply to each group of channels and concatenate; `first` and `second` are split along their last axis."""
    if groups == 1:
        return compute(first, second, axes)
    parts = zip(np.split(first, groups, axis=-1), np.split(second, groups, axis=-1), strict=True)
    return np.concatenate([compute(one, other, axes) for one, other in parts], axis=joined)


def axes_of(attrs: Attrs, image: Sequence[int], filters: Sequence[int]) -> Axes:
    """Return the windows along the spatial axes, after checking the ranks."""
    rank = len(attrs["data_format"])
    if len(image) != rank or len(filters) != rank:
        raise InvalidArgumentError(
            f"input and filter must be {rank}-dimensional, got shapes {list(image)} and {list(filters)}"
        )
    return make_axes(attrs, image, filters)


def conv_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides", "dilations"))

    def compute(image: Array, filters: Array) -> Array:
        axes = axes_of(attrs, image.shape, filters.shape)
        seen = wide(channels_last(attrs, image))
        groups = _groups(seen.shape[-1], filters.shape)
        return finish(attrs, _by_group(correlate, seen, wide(filters), axes, groups, -1), image.dtype)

    return compute


def shape_in(attrs: Attrs, name: str, value: Array) -> tuple[int, ...]:
    """Return the shape in a vector operand."""
    rank = len(attrs["data_format"])
    if value.shape != (rank,):
        raise InvalidArgumentError(
            f"{name} must be a vector of {rank} elements, got shape {list(value.shape)}"
        )
    if value.min() < 0:
        raise InvalidArgumentError(f"{name} must not be negative, got {value.tolist()}")
    return tuple(int(size) for size in value)


def check_dy(
    attrs: Attrs, dy: Array, image: Sequence[int], filters: Sequence[int], axes: Axes, depth: int
) -> None:
    """Check that `dy` has one element of `depth` channels per window."""
    data_format = attrs["data_format"]
    expected = [image[0], *counts(axes), depth]
    order = (0, *SPATIAL[data_format], DEPTH[data_format])
    got = [int(dy.shape[axis]) for axis in order] if dy.ndim == len(order) else list(dy.shape)
    if got != expected:
        raise InvalidArgumentError(
            f"out_backprop has batch, places, depth {got}, expected {expected} for input {list(image)} "
            f"and filter {list(filters)}"
        )


def input_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides", "dilations"))

    def compute(sizes: Array, filters: Array, dy: Array) -> Array:
        shape = shape_in(attrs, "input_sizes", sizes)
        axes = axes_of(attrs, shape, filters.shape)
        check_dy(attrs, dy, shape, filters.shape, axes, filters.shape[-1])
        groups = _groups(shape[DEPTH[attrs["data_format"]]], filters.shape)
        above = wide(channels_last(attrs, dy))
        return finish(attrs, _by_group(spread, wide(filters), above, axes, groups, -1), dy.dtype)

    return compute


def filter_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides", "dilations"))

    def compute(image: Array, sizes: Array, dy: Array) -> Array:
        shape = shape_in(attrs, "filter_sizes", sizes)
        axes = axes_of(attrs, image.shape, shape)
        check_dy(attrs, dy, image.shape, shape, axes, shape[-1])
        seen, above = wide(channels_last(attrs, image)), wide(channels_last(attrs, dy))
        groups = _groups(seen.shape[-1], shape)
        return _by_group(compare, seen, above, axes, groups, -1).astype(image.dtype, copy=False)

    return compute


# Gradients


_ADJOINTS = {
    "Conv2D": ("Conv2DBackpropInput", "Conv2DBackpropFilter"),
    "Conv3D": ("Conv3DBackpropInputV2", "Conv3DBackpropFilterV2"),
    "DepthwiseConv2dNative": ("DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter"),
}


def _family(op: Operation) -> tuple[str, str, str]:
    """Return the forward op of this op, and its backprop ops for input and filter."""
    forward = op.type.partition("Backprop")[0]
    return forward, *_ADJOINTS[forward]


def same_attrs(op: Operation) -> dict[str, Any]:
    names = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")
    return {name: op.attrs[name] for name in names if name in op.attrs}


def conv_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    image, filters = op.inputs
    _, by_input, by_filter = _family(op)
    image_shape, filters_shape = apply_list_op("ShapeN", [image, filters])
    return (
        apply_op(by_input, image_shape, filters, dy, **same_attrs(op)),
        apply_op(by_filter, image, filters_shape, dy, **same_attrs(op)),
    )


def input_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor | None]:
    _, filters, dy = op.inputs
    forward, _, by_filter = _family(op)
    return (
        None,
        apply_op(by_filter, ddx, apply_op("Shape", filters), dy, **same_attrs(op)),
        apply_op(forward, ddx, filters, **same_attrs(op)),
    )


def filter_gradient(op: Operation, ddw: Tensor) -> Sequence[Tensor | None]:
    image, _, dy = op.inputs
    forward, by_input, _ = _family(op)
    return (
        apply_op(by_input, apply_op("Shape", image), ddw, dy, **same_attrs(op)),
        None,
        apply_op(forward, image, ddw, **same_attrs(op)),
    )


# Rows

_ATTRS = (
    "strides:list(int); use_cudnn_on_gpu:bool=true; padding:string{SAME|VALID|EXPLICIT}; "
    "explicit_paddings:list(int)=[]; data_format:string{NHWC|NCHW}='NHWC'; dilations:list(int)=[1, 1, 1, 1]"
)
_REAL = frozenset({"float32", "float64"})

register(
    f"Conv2D(input:T, filter:T) -> (output:T) [T:type@11; {_ATTRS}]",
    shape=conv_shape,
    kernel=conv_kernel,
    gradient=conv_gradient,
    native=Native(either_layout(bind_forward, images=(0,)), _REAL),
)
register(
    f"Conv2DBackpropInput(input_sizes:int32, filter:T, out_backprop:T) -> (output:T) [T:type@11; {_ATTRS}]",
    shape=given_shape(0, 1),
    kernel=input_kernel,
    gradient=input_gradient,
    native=Native(either_layout(bind_input, images=(2,)), _REAL),
    shape_operands=(0,),
)
register(
    f"Conv2DBackpropFilter(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) "
    f"[T:type{{half|bfloat16|float|double}}; {_ATTRS}]",
    shape=given_shape(1, 0),
    kernel=filter_kernel,
    gradient=filter_gradient,
    native=Native(either_layout(bind_filter, images=(0, 2), makes_image=False), _REAL),
    shape_operands=(1,),
)

# Public functions


def _attrs(
    strides: Any, padding: Any, data_format: Any, dilations: Any, use_cudnn_on_gpu: bool = True
) -> dict[str, Any]:
    order = format_name(data_format)
    return {
        "strides": per_axis(1 if strides is None else strides, "strides", order),
        "dilations": per_axis(1 if dilations is None else dilations, "dilations", order),
        "data_format": order,
        "use_cudnn_on_gpu": use_cudnn_on_gpu,
        **padding_attrs(padding),
    }


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Convolve images [batch, height, width, in_channels] with filters [height, width, in_channels, out_channels].

    Args:
        strides, dilations: an int, or 1, 2 or 4 of them.
        padding: "SAME", "VALID", or four pairs (before, after).

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    filters = renamed(filter, filters, "filter", "filters")
    attrs = _attrs(strides, padding, data_format, dilations, use_cudnn_on_gpu)
    return apply_op("Conv2D", input, filters, name=name, **attrs)


def conv2d_backprop_input(
    input_sizes: Any,
    filter: Any = None,
    out_backprop: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Return the gradient of `conv2d` with respect to its input, of shape `input_sizes`."""
    filters = renamed(filter, filters, "filter", "filters")
    attrs = _attrs(strides, padding, data_format, dilations, use_cudnn_on_gpu)
    return apply_op("Conv2DBackpropInput", input_sizes, filters, out_backprop, name=name, **attrs)


def conv2d_backprop_filter(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    use_cudnn_on_gpu: bool = True,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `conv2d` with respect to its filter, of shape `filter_sizes`."""
    attrs = _attrs(strides, padding, data_format, dilations, use_cudnn_on_gpu)
    return apply_op("Conv2DBackpropFilter", input, filter_sizes, out_backprop, name=name, **attrs)


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Apply the transpose of `conv2d`; filters are [height, width, out_channels, in_channels]."""
    value = renamed(value, input, "value", "input")
    filters = renamed(filter, filters, "filter", "filters")
    attrs = _attrs(strides, padding, data_format, dilations)
    return apply_op(
        "Conv2DBackpropInput", output_shape, filters, value, name=name or "conv2d_transpose", **attrs
    )


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """Convolve with filter taps `rate` elements apart (atrous convolution)."""
    return conv2d(value, filters, 1, padding, dilations=rate, name=name)
