"""Max and average pooling of images, with their gradients.

As in TensorFlow, a maximum starts from the smallest number, so NaN never wins; the gradient of a window goes to its first
maximum; an average counts only what lies in the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernel import Attrs, Compute, KernelContext, Native
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
from aioexec.ops import pool_loops
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


def _window(attrs: Attrs) -> tuple[int, int]:
    height, width = SPATIAL[attrs["data_format"]]
    return attrs["ksize"][height], attrs["ksize"][width]


def _pool_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    image = with_rank(context.inputs[0], 4)
    assert image is not None
    return [
        infer_windows(
            context.attrs, image, _window(context.attrs), image[DEPTH[context.attrs["data_format"]]]
        )
    ]


def _image_shape(context: ShapeContext) -> Sequence[Dims]:
    """The shape of the image, which is input 0."""
    check_attrs(context.attrs)
    pooled = merge(with_rank(context.inputs[1], 4), context.inputs[2])
    image = with_rank(context.inputs[0], 4)
    assert pooled is not None
    assert image is not None
    return [(_agreed(image[0], pooled[0]), *image[1:])]


def _agreed(size: int | None, other: int | None) -> int | None:
    return other if size is None else size


def _pooled_shape(context: ShapeContext) -> Sequence[Dims]:
    """The shape of what came out of the pool, which is input 1."""
    check_attrs(context.attrs)
    return [with_rank(context.inputs[1], 4)]


def _given_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    with_rank(context.inputs[1], 4)
    merge(context.inputs[0], (4,))
    return [merge(context.partial(0), (None,) * 4)]


# Reference kernels, on images as batch, height, width, channels


def lowest(dtype: np.dtype[Any]) -> Any:
    """The smallest finite number of a dtype."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]  # knows bfloat16, has no types


def maximum(image: Array, axes: Axes) -> Array:
    """The largest element of each window."""
    vertical, horizontal = axes
    start = lowest(image.dtype)
    padded = pad(image, axes, start)
    result = np.full((len(image), vertical.count, horizontal.count, image.shape[3]), start, image.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            seen = padded[:, vertical.tap(i), horizontal.tap(j)]
            np.copyto(result, seen, where=seen > result)
    return result


def first_maximum(image: Array, axes: Axes) -> Array:
    """The tap (numbered along rows) of each window where its first maximum is; NaN is passed over unless it comes first."""
    vertical, horizontal = axes
    padded = pad(image, axes)
    shape = (len(image), vertical.count, horizontal.count, image.shape[3])
    best, tap = np.zeros(shape, image.dtype), np.full(shape, -1)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            seen = padded[:, vertical.tap(i), horizontal.tap(j)]
            inside = np.logical_and.outer(vertical.inside(i), horizontal.inside(j))[None, :, :, None]
            better = inside & ((tap < 0) | (seen > best))
            np.copyto(best, seen, where=better)
            np.copyto(tap, i * horizontal.window + j, where=better)
    return tap


def return_to(dy: Array, tap: Array, axes: Axes) -> Array:
    """Give each window's `dy` to the element at `tap`."""
    vertical, horizontal = axes
    padded = np.zeros(padded_shape(len(dy), axes, dy.shape[3]), dy.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            chosen = np.where(tap == i * horizontal.window + j, dy, np.zeros((), dy.dtype))
            padded[:, vertical.tap(i), horizontal.tap(j)] += chosen
    return crop(padded, axes)


def take_from(image: Array, tap: Array, axes: Axes) -> Array:
    """The element of each window at `tap`: the adjoint of `return_to`."""
    vertical, horizontal = axes
    padded = pad(image, axes)
    result = np.zeros(tap.shape, image.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            seen = padded[:, vertical.tap(i), horizontal.tap(j)]
            np.copyto(result, seen, where=tap == i * horizontal.window + j)
    return result


def inside_count(axes: Axes) -> Array:
    """How many elements of each window lie in the image."""
    along = [np.sum([axis.inside(tap) for tap in range(axis.window)], axis=0) for axis in axes]
    return np.multiply.outer(*along)[None, :, :, None]  # type: ignore[no-any-return]


def average(image: Array, axes: Axes) -> Array:
    """The mean of each window."""
    vertical, horizontal = axes
    padded = pad(image, axes)
    total = np.zeros((len(image), vertical.count, horizontal.count, image.shape[3]), image.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            total += padded[:, vertical.tap(i), horizontal.tap(j)]
    return total / inside_count(axes).astype(image.dtype)  # type: ignore[no-any-return]


def average_adjoint(dy: Array, axes: Axes) -> Array:
    """Adjoint of `average`."""
    vertical, horizontal = axes
    share = dy / inside_count(axes).astype(dy.dtype)
    padded = np.zeros(padded_shape(len(dy), axes, dy.shape[3]), dy.dtype)
    for i in range(vertical.window):
        for j in range(horizontal.window):
            padded[:, vertical.tap(i), horizontal.tap(j)] += share
    return crop(padded, axes)


def _finish(attrs: Attrs, result: Array, dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(as_given(attrs, result)).astype(dtype, copy=False)


def _wide(attrs: Attrs, value: Array) -> Array:
    """An image as batch, height, width, channels, in a dtype to add up in."""
    value = channels_last(attrs, value)
    return value.astype(np.float32) if value.dtype.kind not in "iu" and value.dtype.itemsize < 4 else value


def _axes(attrs: Attrs, image: Sequence[int]) -> Axes:
    if len(image) != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, got shape {tuple(image)}")
    return make_axes(attrs, image, _window(attrs))


def _check_shape(what: str, attrs: Attrs, value: Array, image: Sequence[int], axes: Axes) -> None:
    """Refuse a value that is not one element a window."""
    depth = DEPTH[attrs["data_format"]]
    expected = list(image)
    for axis, along in zip(SPATIAL[attrs["data_format"]], axes, strict=True):
        expected[axis] = along.count
    if list(value.shape) != expected:
        raise InvalidArgumentError(
            f"{what} has shape {value.shape}, expected {tuple(expected)} for images {tuple(image)} of depth {image[depth]}"
        )


def _max_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array) -> Array:
        return _finish(attrs, maximum(channels_last(attrs, image), _axes(attrs, image.shape)), image.dtype)

    return compute


def _max_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array, pooled: Array, dy: Array) -> Array:
        axes = _axes(attrs, image.shape)
        _check_shape("orig_output", attrs, pooled, image.shape, axes)
        _check_shape("grad", attrs, dy, image.shape, axes)
        tap = first_maximum(channels_last(attrs, image), axes)
        return _finish(attrs, return_to(_wide(attrs, dy), tap, axes), dy.dtype)

    return compute


def _max_grad_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array, pooled: Array, ddx: Array) -> Array:
        axes = _axes(attrs, image.shape)
        _check_shape("orig_output", attrs, pooled, image.shape, axes)
        if ddx.shape != image.shape:
            raise InvalidArgumentError(
                f"grad has shape {ddx.shape}, expected that of orig_input, {image.shape}"
            )
        tap = first_maximum(channels_last(attrs, image), axes)
        return _finish(attrs, take_from(channels_last(attrs, ddx), tap, axes), ddx.dtype)

    return compute


def _average_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array) -> Array:
        return _finish(attrs, average(_wide(attrs, image), _axes(attrs, image.shape)), image.dtype)

    return compute


def _average_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(sizes: Array, dy: Array) -> Array:
        image = tuple(int(size) for size in sizes)
        if sizes.shape != (4,) or min(image) < 0:
            raise InvalidArgumentError(
                f"orig_input_shape must hold 4 sizes of at least 0, got {sizes.tolist()}"
            )
        axes = _axes(attrs, image)
        _check_shape("grad", attrs, dy, image, axes)
        return _finish(attrs, average_adjoint(_wide(attrs, dy), axes), dy.dtype)

    return compute


# Gradients


def _same(op: Operation) -> dict[str, Any]:
    names = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
    return {name: op.attrs[name] for name in names if op.attrs.get(name)}


def _max_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    return (apply_op("MaxPoolGrad", op.inputs[0], op.outputs[0], dy, **_same(op)),)


def _zeros(op: Operation) -> tuple[Tensor, Tensor]:
    return apply_op("ZerosLike", op.inputs[0]), apply_op("ZerosLike", op.inputs[1])


def _max_grad_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor]:
    return (*_zeros(op), apply_op("MaxPoolGradGrad", op.inputs[0], op.inputs[1], ddx, **_same(op)))


def _max_grad_grad_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    return (*_zeros(op), apply_op("MaxPoolGrad", op.inputs[0], op.inputs[1], dy, **_same(op)))


def _average_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    return (apply_op("AvgPoolGrad", apply_op("Shape", op.inputs[0]), dy, **_same(op)),)


def _average_grad_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor | None]:
    return (None, apply_op("AvgPool", ddx, **_same(op)))


# Rows

_SIZES = "ksize:list(int)>=4; strides:list(int)>=4"
_EXPLICIT = "padding:string{SAME|VALID|EXPLICIT}; explicit_paddings:list(int)=[]"
_FORMAT = "data_format:string{NHWC|NCHW}='NHWC'"
_REAL = frozenset({"float32", "float64"})
_MAX_NATIVE = frozenset({"float32", "float64", "int32", "int64"})

register(
    f"MaxPool(input:T) -> (output:T) [T:type@21=float; {_SIZES}; {_EXPLICIT}; "
    "data_format:string{NHWC|NCHW|NCHW_VECT_C}='NHWC']",
    shape=_pool_shape,
    kernel=_max_kernel,
    gradient=_max_gradient,
    native=Native(either_layout(pool_loops.bind_max, images=(0,)), _MAX_NATIVE),
)
register(
    "MaxPoolGrad(orig_input:T, orig_output:T, grad:T) -> (output:T) "
    f"[{_SIZES}; {_EXPLICIT}; {_FORMAT}; T:type@12=float]",
    shape=_image_shape,
    kernel=_max_grad_kernel,
    gradient=_max_grad_gradient,
    native=Native(either_layout(pool_loops.bind_max_grad, images=(0, 1, 2)), _MAX_NATIVE),
)
register(
    "MaxPoolGradGrad(orig_input:T, orig_output:T, grad:T) -> (output:T) "
    f"[{_SIZES}; padding:string{{SAME|VALID}}; {_FORMAT}; T:type@12]",
    shape=_pooled_shape,
    kernel=_max_grad_grad_kernel,
    gradient=_max_grad_grad_gradient,
)
register(
    f"AvgPool(value:T) -> (output:T) [{_SIZES}; padding:string{{SAME|VALID}}; {_FORMAT}; T:type{{half|bfloat16|float|double}}]",
    shape=_pool_shape,
    kernel=_average_kernel,
    gradient=_average_gradient,
    native=Native(either_layout(pool_loops.bind_average, images=(0,)), _REAL),
)
register(
    "AvgPoolGrad(orig_input_shape:int32, grad:T) -> (output:T) "
    f"[{_SIZES}; padding:string{{SAME|VALID}}; {_FORMAT}; T:type{{half|bfloat16|float|double}}]",
    shape=_given_shape,
    kernel=_average_grad_kernel,
    gradient=_average_grad_gradient,
    native=Native(either_layout(pool_loops.bind_average_grad, images=(1,)), _REAL),
    shape_operands=(0,),
)

# Public functions


def _attrs(ksize: Any, strides: Any, padding: Any, data_format: str | None) -> dict[str, Any]:
    order = format_name(data_format)
    return {
        "ksize": four(ksize, "ksize", order),
        "strides": four(strides, "strides", order),
        "data_format": order,
        **padding_attrs(padding),
    }


def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Take the maximum of each window of images [batch, height, width, channels].

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    value = renamed(value, input, "value", "input")
    return apply_op("MaxPool", value, name=name, **_attrs(ksize, strides, padding, data_format))  # type: ignore[no-any-return]


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Take the mean of each window of images [batch, height, width, channels]; padding does not count.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    value = renamed(value, input, "value", "input")
    return apply_op("AvgPool", value, name=name, **_attrs(ksize, strides, padding, data_format))  # type: ignore[no-any-return]
