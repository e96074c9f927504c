"""Two-dimensional convolution and its two adjoints.

The three ops are linear in both operands, and closed under differentiation: the gradient of each is made of the other two.
The reference kernels add up one product for each tap of the filter; the native ones are in `conv_launches`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernel import Attrs, Compute, KernelContext, Native
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops import conv_launches
from aioexec.ops.layouts import either_layout
from aioexec.ops.windows import (
    DEPTH,
    SPATIAL,
    Array,
    Axis,
    as_given,
    channels_last,
    check_attrs,
    check_spatial_only,
    crop,
    format_name,
    four,
    infer_windows,
    make_axes,
    pad,
    padded_shape,
    padding_attrs,
    renamed,
)
from aioexec.shapes import Dims, merge, with_rank

Axes = tuple[Axis, Axis]

# Shapes


def _conv_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    image, filters = with_rank(context.inputs[0], 4), with_rank(context.inputs[1], 4)
    assert image is not None
    assert filters is not None
    channels, taken = image[DEPTH[context.attrs["data_format"]]], filters[2]
    if channels is not None and taken is not None and (taken == 0) != (channels == 0):
        raise GraphValueError(
            f"Depth of input ({channels}) is not a multiple of input depth of filter ({taken})"
        )
    if channels and taken and channels % taken:
        raise GraphValueError(
            f"Depth of input ({channels}) is not a multiple of input depth of filter ({taken})"
        )
    return [infer_windows(context.attrs, image, filters[:2], filters[3])]


def _given_shape(operand: int, other: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        """The shape that the vector input `operand` holds; the image-like inputs `other` and 2 have rank 4."""
        check_attrs(context.attrs)
        with_rank(context.inputs[other], 4)
        with_rank(context.inputs[2], 4)
        lengths = merge(context.inputs[operand], (4,))
        assert lengths is not None
        return [merge(context.partial(operand), (None,) * 4)]

    return rule


# Reference kernels, on images as batch, height, width, channels


def _wide(value: Array) -> Array:
    """The dtype to add up in."""
    return value.astype(np.float32) if value.dtype.itemsize < 4 else value


def correlate(image: Array, filters: Array, axes: Axes) -> Array:
    """Slide the filters over the image."""
    vertical, horizontal = axes
    padded = pad(image, axes)
    result = np.zeros((len(image), vertical.count, horizontal.count, filters.shape[3]), image.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            result += padded[:, vertical.tap(i), horizontal.tap(j)] @ filters[i, j]
    return result


def spread(filters: Array, dy: Array, axes: Axes) -> Array:
    """Adjoint of `correlate` in the image."""
    vertical, horizontal = axes
    padded = np.zeros(padded_shape(len(dy), axes, filters.shape[2]), dy.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            padded[:, vertical.tap(i), horizontal.tap(j)] += dy @ filters[i, j].T
    return crop(padded, axes)


def compare(image: Array, dy: Array, axes: Axes) -> Array:
    """Adjoint of `correlate` in the filters."""
    vertical, horizontal = axes
    padded = pad(image, axes)
    result = np.zeros((vertical.window, horizontal.window, image.shape[3], dy.shape[3]), image.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            seen = padded[:, vertical.tap(i), horizontal.tap(j)]
            result[i, j] = np.tensordot(seen, dy, axes=([0, 1, 2], [0, 1, 2]))
    return result


def _groups(channels: int, filters: Sequence[int]) -> int:
    """Into how many parts the channels fall; each has its share of the filters."""
    taken, made = filters[2], filters[3]
    if taken == 0 or channels % taken:
        if channels == taken:
            return 1
        raise InvalidArgumentError(
            f"input depth must be evenly divisible by filter depth: {channels} vs {taken}"
        )
    groups = channels // taken
    if groups and made % groups:
        raise InvalidArgumentError(
            f"output depth must be evenly divisible by number of groups: {made} vs {groups}"
        )
    return max(groups, 1)


def _by_group(
    compute: Callable[..., Array], first: Array, second: Array, axes: Axes, groups: int, joined: int
) -> Array:
    """Apply to each group of channels and join the results; `first` and `second` are split along their last axis."""
    if groups == 1:
        return compute(first, second, axes)
    parts = zip(np.split(first, groups, axis=-1), np.split(second, groups, axis=-1), strict=True)
    return np.concatenate([compute(one, other, axes) for one, other in parts], axis=joined)


def _finish(attrs: Attrs, result: Array, dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(as_given(attrs, result)).astype(dtype, copy=False)


def _conv_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides", "dilations"))

    def compute(image: Array, filters: Array) -> Array:
        axes = make_axes(attrs, image.shape, filters.shape)
        seen = _wide(channels_last(attrs, image))
        groups = _groups(seen.shape[3], filters.shape)
        return _finish(attrs, _by_group(correlate, seen, _wide(filters), axes, groups, -1), image.dtype)

    return compute


def _sizes(name: str, value: Array) -> tuple[int, int, int, int]:
    if value.shape != (4,):
        raise InvalidArgumentError(f"{name} must be a vector of 4 elements, got shape {value.shape}")
    if value.min() < 0:
        raise InvalidArgumentError(f"{name} must not be negative, got {value.tolist()}")
    batch, second, third, fourth = (int(size) for size in value)
    return batch, second, third, fourth


def _check_dy(attrs: Attrs, dy: Array, image: Sequence[int], filters: Sequence[int], axes: Axes) -> None:
    expected: list[int] = [image[0], axes[0].count, axes[1].count, filters[3]]
    got = [int(dy.shape[axis]) for axis in (0, *SPATIAL[attrs["data_format"]], DEPTH[attrs["data_format"]])]
    if got != expected:
        raise InvalidArgumentError(
            f"out_backprop has batch, height, width, depth {got}, expected {expected} for input {list(image)} "
            f"and filter {list(filters)}"
        )


def _input_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides", "dilations"))

    def compute(sizes: Array, filters: Array, dy: Array) -> Array:
        shape = _sizes("input_sizes", sizes)
        axes = make_axes(attrs, shape, filters.shape)
        _check_dy(attrs, dy, shape, filters.shape, axes)
        groups = _groups(shape[DEPTH[attrs["data_format"]]], filters.shape)
        above = _wide(channels_last(attrs, dy))
        return _finish(attrs, _by_group(spread, _wide(filters), above, axes, groups, -1), dy.dtype)

    return compute


def _filter_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("strides", "dilations"))

    def compute(image: Array, sizes: Array, dy: Array) -> Array:
        shape = _sizes("filter_sizes", sizes)
        axes = make_axes(attrs, image.shape, shape)
        _check_dy(attrs, dy, image.shape, shape, axes)
        seen, above = _wide(channels_last(attrs, image)), _wide(channels_last(attrs, dy))
        groups = _groups(seen.shape[3], shape)
        return _by_group(compare, seen, above, axes, groups, -1).astype(image.dtype, copy=False)

    return compute


# Gradients


def _same(op: Operation) -> dict[str, Any]:
    names = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")
    return {name: op.attrs[name] for name in names}


def _conv_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    image, filters = op.inputs
    image_shape, filters_shape = apply_op("ShapeN", [image, filters])
    return (
        apply_op("Conv2DBackpropInput", image_shape, filters, dy, **_same(op)),
        apply_op("Conv2DBackpropFilter", image, filters_shape, dy, **_same(op)),
    )


def _input_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor | None]:
    _, filters, dy = op.inputs
    return (
        None,
        apply_op("Conv2DBackpropFilter", ddx, apply_op("Shape", filters), dy, **_same(op)),
        apply_op("Conv2D", ddx, filters, **_same(op)),
    )


def _filter_gradient(op: Operation, ddw: Tensor) -> Sequence[Tensor | None]:
    image, _, dy = op.inputs
    return (
        apply_op("Conv2DBackpropInput", apply_op("Shape", image), ddw, dy, **_same(op)),
        None,
        apply_op("Conv2D", image, ddw, **_same(op)),
    )


# Rows

_ATTRS = (
    "strides:list(int); use_cudnn_on_gpu:bool=true; padding:string{SAME|VALID|EXPLICIT}; "
    "explicit_paddings:list(int)=[]; data_format:string{NHWC|NCHW}='NHWC'; dilations:list(int)=[1, 1, 1, 1]"
)
_REAL = frozenset({"float32", "float64"})

register(
    f"Conv2D(input:T, filter:T) -> (output:T) [T:type@11; {_ATTRS}]",
    shape=_conv_shape,
    kernel=_conv_kernel,
    gradient=_conv_gradient,
    native=Native(either_layout(conv_launches.bind_forward, images=(0,)), _REAL),
)
register(
    f"Conv2DBackpropInput(input_sizes:int32, filter:T, out_backprop:T) -> (output:T) [T:type@11; {_ATTRS}]",
    shape=_given_shape(0, 1),
    kernel=_input_kernel,
    gradient=_input_gradient,
    native=Native(either_layout(conv_launches.bind_input, images=(2,)), _REAL),
    shape_operands=(0,),
)
register(
    f"Conv2DBackpropFilter(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) "
    f"[T:type{{half|bfloat16|float|double}}; {_ATTRS}]",
    shape=_given_shape(1, 0),
    kernel=_filter_kernel,
    gradient=_filter_gradient,
    native=Native(either_layout(conv_launches.bind_filter, images=(0, 2), makes_image=False), _REAL),
    shape_operands=(1,),
)

# Public functions


def _attrs(
    strides: Any, padding: Any, data_format: Any, dilations: Any, use_cudnn_on_gpu: bool = True
) -> dict[str, Any]:
    order = format_name(data_format)
    return {
        "strides": four(1 if strides is None else strides, "strides", order),
        "dilations": four(1 if dilations is None else dilations, "dilations", order),
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
    """Convolve images [batch, height, width, channels] with filters [height, width, channels, output channels].

    Args:
        strides, dilations: an int, or 1, 2 or 4 of them.
        padding: "SAME", "VALID", or four pairs (before, after).

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    filters = renamed(filter, filters, "filter", "filters")
    attrs = _attrs(strides, padding, data_format, dilations, use_cudnn_on_gpu)
    return apply_op("Conv2D", input, filters, name=name, **attrs)  # type: ignore[no-any-return]


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
    """The gradient of `conv2d` in its input, whose shape is `input_sizes`."""
    filters = renamed(filter, filters, "filter", "filters")
    attrs = _attrs(strides, padding, data_format, dilations, use_cudnn_on_gpu)
    return apply_op("Conv2DBackpropInput", input_sizes, filters, out_backprop, name=name, **attrs)  # type: ignore[no-any-return]


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
    """The gradient of `conv2d` in its filter, whose shape is `filter_sizes`."""
    attrs = _attrs(strides, padding, data_format, dilations, use_cudnn_on_gpu)
    return apply_op("Conv2DBackpropFilter", input, filter_sizes, out_backprop, name=name, **attrs)  # type: ignore[no-any-return]


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
    """Apply the transpose of `conv2d`; filters are [height, width, output channels, channels of `value`]."""
    value = renamed(value, input, "value", "input")
    filters = renamed(filter, filters, "filter", "filters")
    attrs = _attrs(strides, padding, data_format, dilations)
    return apply_op(  # type: ignore[no-any-return]
        "Conv2DBackpropInput", output_shape, filters, value, name=name or "conv2d_transpose", **attrs
    )


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: str, name: str | None = None) -> Tensor:
    """Convolve with taps `rate` elements apart."""
    return conv2d(value, filters, 1, padding, dilations=rate, name=name)
