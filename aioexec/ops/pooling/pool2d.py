"""2-D max and average pooling with gradients; 3-D pooling is in `pool3d`.

As in TensorFlow, a maximum starts from the lowest finite number, so NaN is never a maximum; the gradient of a window goes to
its first maximum; an average excludes padding.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, Native
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register
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
    inside,
    make_axes,
    pad,
    padded_shape,
    padding_attrs,
    per_axis,
    renamed,
    seen_by,
    taps,
)
from aioexec.ops.pooling import loops
from aioexec.shapes import Dims, merge, with_rank

# Shapes


def window_of(attrs: Attrs) -> tuple[int, ...]:
    return tuple(attrs["ksize"][axis] for axis in SPATIAL[attrs["data_format"]])


def rank_of(context: ShapeContext) -> int:
    return len(context.attrs["data_format"])


def pool_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    image = with_rank(context.inputs[0], rank_of(context))
    assert image is not None
    return [
        infer_windows(
            context.attrs, image, window_of(context.attrs), image[DEPTH[context.attrs["data_format"]]]
        )
    ]


def image_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the shape of the image, input 0."""
    check_attrs(context.attrs)
    pooled = merge(with_rank(context.inputs[1], rank_of(context)), context.inputs[2])
    image = with_rank(context.inputs[0], rank_of(context))
    assert pooled is not None
    assert image is not None
    return [(_agreed(image[0], pooled[0]), *image[1:])]


def _agreed(size: int | None, other: int | None) -> int | None:
    return other if size is None else size


def pooled_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the shape of the pooled image, input 1."""
    check_attrs(context.attrs)
    merge(with_rank(context.inputs[0], rank_of(context)), context.inputs[2])
    return [with_rank(context.inputs[1], rank_of(context))]


def given_shape(context: ShapeContext) -> Sequence[Dims]:
    check_attrs(context.attrs)
    with_rank(context.inputs[1], rank_of(context))
    merge(context.inputs[0], (rank_of(context),))
    return [merge(context.partial(0), (None,) * rank_of(context))]


# Reference kernels, on images [batch, height, width, channels]


def lowest(dtype: np.dtype[Any]) -> Any:
    """Return the lowest finite number of a dtype."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]  # knows bfloat16, has no types


def maximum(image: Array, axes: Axes) -> Array:
    """Return the maximum of each window."""
    start = lowest(image.dtype)
    padded = pad(image, axes, start)
    result = np.full((len(image), *counts(axes), image.shape[-1]), start, image.dtype)
    if not result.size:  # NumPy's copyto reads an element even of empty bfloat16 arrays
        return result
    for tap in taps(axes):
        seen = padded[seen_by(axes, tap)]
        np.copyto(result, seen, where=seen > result)
    return result


def first_maximum(image: Array, axes: Axes) -> Array:
    """Return the tap of the first maximum of each window; NaN is skipped unless it is first."""
    padded = pad(image, axes)
    shape = (len(image), *counts(axes), image.shape[-1])
    best, found = np.zeros(shape, image.dtype), np.full(shape, -1)
    if not found.size:
        return found
    for number, tap in enumerate(taps(axes)):
        seen = padded[seen_by(axes, tap)]
        better = inside(axes, tap) & ((found < 0) | (seen > best))
        np.copyto(best, seen, where=better)
        np.copyto(found, number, where=better)
    return found


def return_to(dy: Array, chosen: Array, axes: Axes) -> Array:
    """Add each window's `dy` to the element at its tap."""
    padded = np.zeros(padded_shape(len(dy), axes, dy.shape[-1]), dy.dtype)
    for number, tap in enumerate(taps(axes)):
        padded[seen_by(axes, tap)] += np.where(chosen == number, dy, np.zeros((), dy.dtype))
    return crop(padded, axes)


def take_from(image: Array, chosen: Array, axes: Axes) -> Array:
    """Return the element at the tap of each window, the adjoint of `return_to`."""
    padded = pad(image, axes)
    result = np.zeros(chosen.shape, image.dtype)
    if not result.size:
        return result
    for number, tap in enumerate(taps(axes)):
        np.copyto(result, padded[seen_by(axes, tap)], where=chosen == number)
    return result


def inside_count(axes: Axes) -> Array:
    """Return the number of elements of each window that are in the image."""
    along = [np.sum([axis.inside(tap) for tap in range(axis.window)], axis=0) for axis in axes]
    count: Array = functools.reduce(np.multiply.outer, along)
    return count[None, ..., None]


def average(image: Array, axes: Axes) -> Array:
    """Return the mean of each window."""
    padded = pad(image, axes)
    total = np.zeros((len(image), *counts(axes), image.shape[-1]), image.dtype)
    for tap in taps(axes):
        total += padded[seen_by(axes, tap)]
    mean: Array = total / inside_count(axes).astype(image.dtype)
    return mean


def average_adjoint(dy: Array, axes: Axes) -> Array:
    """Adjoint of `average`."""
    share = dy / inside_count(axes).astype(dy.dtype)
    padded = np.zeros(padded_shape(len(dy), axes, dy.shape[-1]), dy.dtype)
    for tap in taps(axes):
        padded[seen_by(axes, tap)] += share
    return crop(padded, axes)


def _wide(attrs: Attrs, value: Array) -> Array:
    """Convert to [batch, height, width, channels] and the dtype of accumulation."""
    value = channels_last(attrs, value)
    return value.astype(np.float32) if value.dtype.kind not in "iu" and value.dtype.itemsize < 4 else value


def axes_of(attrs: Attrs, image: Sequence[int]) -> Axes:
    rank = len(attrs["data_format"])
    if len(image) != rank:
        raise InvalidArgumentError(f"input must be {rank}-dimensional, got shape {tuple(image)}")
    return tuple(axis.seen() for axis in make_axes(attrs, image, window_of(attrs)))


def check_shape(what: str, attrs: Attrs, value: Array, image: Sequence[int], axes: Axes) -> None:
    """Check that a value has one element per window."""
    depth = DEPTH[attrs["data_format"]]
    expected = list(image)
    for axis, along in zip(SPATIAL[attrs["data_format"]], axes, strict=True):
        expected[axis] = along.count
    if list(value.shape) != expected:
        raise InvalidArgumentError(
            f"{what} has shape {value.shape}, expected {tuple(expected)} for images {tuple(image)} of depth {image[depth]}"
        )


def max_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array) -> Array:
        return finish(attrs, maximum(channels_last(attrs, image), axes_of(attrs, image.shape)), image.dtype)

    return compute


def max_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array, pooled: Array, dy: Array) -> Array:
        axes = axes_of(attrs, image.shape)
        check_shape("orig_output", attrs, pooled, image.shape, axes)
        check_shape("grad", attrs, dy, image.shape, axes)
        tap = first_maximum(channels_last(attrs, image), axes)
        return finish(attrs, return_to(_wide(attrs, dy), tap, axes), dy.dtype)

    return compute


def max_grad_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array, pooled: Array, ddx: Array) -> Array:
        axes = axes_of(attrs, image.shape)
        check_shape("orig_output", attrs, pooled, image.shape, axes)
        if ddx.shape != image.shape:
            raise InvalidArgumentError(
                f"grad has shape {ddx.shape}, expected that of orig_input, {image.shape}"
            )
        tap = first_maximum(channels_last(attrs, image), axes)
        return finish(attrs, take_from(channels_last(attrs, ddx), tap, axes), ddx.dtype)

    return compute


def average_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array) -> Array:
        return finish(attrs, average(_wide(attrs, image), axes_of(attrs, image.shape)), image.dtype)

    return compute


def average_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(sizes: Array, dy: Array) -> Array:
        if sizes.shape != (len(attrs["data_format"]),) or sizes.min() < 0:
            raise InvalidArgumentError(
                f"orig_input_shape must hold {len(attrs['data_format'])} sizes of at least 0, got {sizes.tolist()}"
            )
        image = tuple(int(size) for size in sizes)
        axes = axes_of(attrs, image)
        check_shape("grad", attrs, dy, image, axes)
        return finish(attrs, average_adjoint(_wide(attrs, dy), axes), dy.dtype)

    return compute


# Gradients


def _same(op: Operation) -> dict[str, Any]:
    names = ("ksize", "strides", "padding", "explicit_paddings", "data_format")
    return {name: op.attrs[name] for name in names if op.attrs.get(name)}


def max_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    return (apply_op(f"{op.type}Grad", op.inputs[0], op.outputs[0], dy, **_same(op)),)


def zeros_like_inputs(op: Operation) -> tuple[Tensor, Tensor]:
    return apply_op("ZerosLike", op.inputs[0]), apply_op("ZerosLike", op.inputs[1])


def max_grad_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor]:
    return (*zeros_like_inputs(op), apply_op(f"{op.type}Grad", op.inputs[0], op.inputs[1], ddx, **_same(op)))


def max_grad_grad_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    return (
        *zeros_like_inputs(op),
        apply_op(op.type.removesuffix("Grad"), op.inputs[0], op.inputs[1], dy, **_same(op)),
    )


def average_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    return (apply_op(f"{op.type}Grad", apply_op("Shape", op.inputs[0]), dy, **_same(op)),)


def average_grad_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor | None]:
    return (None, apply_op(op.type.removesuffix("Grad"), ddx, **_same(op)))


# Rows

_SIZES = "ksize:list(int)>=4; strides:list(int)>=4"
_EXPLICIT = "padding:string{SAME|VALID|EXPLICIT}; explicit_paddings:list(int)=[]"
_FORMAT = "data_format:string{NHWC|NCHW}='NHWC'"
_REAL = frozenset({"float32", "float64"})
_MAX_NATIVE = frozenset({"float32", "float64", "int32", "int64"})

register(
    f"MaxPool(input:T) -> (output:T) [T:type@21=float; {_SIZES}; {_EXPLICIT}; "
    "data_format:string{NHWC|NCHW|NCHW_VECT_C}='NHWC']",
    shape=pool_shape,
    kernel=max_kernel,
    gradient=max_gradient,
    native=Native(either_layout(loops.bind_max, images=(0,)), _MAX_NATIVE),
)
register(
    "MaxPoolGrad(orig_input:T, orig_output:T, grad:T) -> (output:T) "
    f"[{_SIZES}; {_EXPLICIT}; {_FORMAT}; T:type@12=float]",
    shape=image_shape,
    kernel=max_grad_kernel,
    gradient=max_grad_gradient,
    native=Native(either_layout(loops.bind_max_grad, images=(0, 1, 2)), _MAX_NATIVE),
)
register(
    "MaxPoolGradGrad(orig_input:T, orig_output:T, grad:T) -> (output:T) "
    f"[{_SIZES}; padding:string{{SAME|VALID}}; {_FORMAT}; T:type@12]",
    shape=pooled_shape,
    kernel=max_grad_grad_kernel,
    gradient=max_grad_grad_gradient,
)
register(
    f"AvgPool(value:T) -> (output:T) [{_SIZES}; padding:string{{SAME|VALID}}; {_FORMAT}; T:type{{half|bfloat16|float|double}}]",
    shape=pool_shape,
    kernel=average_kernel,
    gradient=average_gradient,
    native=Native(either_layout(loops.bind_average, images=(0,)), _REAL),
)
register(
    "AvgPoolGrad(orig_input_shape:int32, grad:T) -> (output:T) "
    f"[{_SIZES}; padding:string{{SAME|VALID}}; {_FORMAT}; T:type{{half|bfloat16|float|double}}]",
    shape=given_shape,
    kernel=average_grad_kernel,
    gradient=average_grad_gradient,
    native=Native(either_layout(loops.bind_average_grad, images=(1,)), _REAL),
    shape_operands=(0,),
)

# Public functions


def _attrs(ksize: Any, strides: Any, padding: Any, data_format: str | None) -> dict[str, Any]:
    order = format_name(data_format)
    return {
        "ksize": per_axis(ksize, "ksize", order),
        "strides": per_axis(strides, "strides", order),
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
    return apply_op("MaxPool", value, name=name, **_attrs(ksize, strides, padding, data_format))


def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Tensor:
    """Take the mean of each window of images [batch, height, width, channels], excluding padding.

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    value = renamed(value, input, "value", "input")
    return apply_op("AvgPool", value, name=name, **_attrs(ksize, strides, padding, data_format))
