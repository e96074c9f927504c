"""Max pooling that returns the position of each maximum, and max pooling with windows given as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Alias, Attrs, Compute, KernelContext, Launches, Native, Spec
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.convolution.layouts import either_layout
from aioexec.ops.convolution.windows import (
    DEPTH,
    Array,
    check_attrs,
    check_spatial_only,
    counts,
    format_name,
    padding_attrs,
    per_axis,
)
from aioexec.ops.pooling import loops, pool2d
from aioexec.shapes import Dims, merge, with_rank

# Positions of the maxima: flat indices into an image (or the batch), channels last


def _checked(context: KernelContext) -> dict[str, Any]:
    attrs = _channels_last(context.attrs)
    check_attrs(attrs)
    check_spatial_only(attrs, ("ksize", "strides"))
    return attrs


def _channels_last(attrs: Attrs) -> dict[str, Any]:
    """Return the attributes with data_format NHWC, which these ops imply."""
    return {**attrs, "data_format": "NHWC"}


def _argmax_shape(context: ShapeContext) -> Sequence[Dims]:
    (pooled,) = pool2d.pool_shape(_with_attrs(context, _channels_last(context.attrs)))
    return [pooled, pooled]


def _with_attrs(context: ShapeContext, attrs: Attrs) -> ShapeContext:
    return ShapeContext(attrs, context.inputs, context.value, context.partial, context.variable)


def _flat_indices(found: Array, image: Array, axes: Any, with_batch: bool) -> Array:
    """Return the flat index of the element at the tap of each window."""
    batch, height, width, depth = image.shape
    vertical, horizontal = axes
    rows = np.arange(vertical.count) * vertical.stride - vertical.before
    columns = np.arange(horizontal.count) * horizontal.stride - horizontal.before
    row = rows[:, None, None] + found // horizontal.window
    column = columns[:, None] + found % horizontal.window
    numbers = (row * width + column) * depth + np.arange(depth)
    if with_batch:
        numbers = numbers + (np.arange(batch) * height * width * depth)[:, None, None, None]
    return np.asarray(numbers)


def _argmax_kernel(context: KernelContext) -> Compute:
    attrs = _channels_last(context.attrs)
    dtype, with_batch = context.output_dtypes[1].numpy, attrs["include_batch_in_index"]
    maximum = pool2d.max_kernel(_with_context_attrs(context, attrs))

    def compute(image: Array) -> tuple[Array, Array]:
        pooled = maximum(image)
        axes = pool2d.axes_of(attrs, image.shape)
        found = pool2d.first_maximum(image, axes)
        return pooled, _flat_indices(found, image, axes, with_batch).astype(dtype)

    return compute


def _with_context_attrs(context: KernelContext, attrs: Attrs) -> Any:
    """Return a kernel context with other attributes, for the kernel of another op."""
    return SimpleNamespace(node_name=context.node_name, attrs=attrs)


def _flat_numbers(image: Array, argmax: Array, with_batch: bool) -> Array:
    """Return flat indices into the batch; raises InvalidArgumentError for those out of range."""
    numbers = argmax.astype(np.int64)
    if not with_batch:
        numbers = numbers + (
            np.arange(len(image)) * image[0].size if len(image) else np.zeros(0, int)
        ).reshape(-1, 1, 1, 1)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= image.size):
        raise InvalidArgumentError(
            f"invalid index in argmax: outside of the {image.size} elements of the input"
        )
    return numbers


def _check_windows(attrs: Attrs, image: Array, **values: Array) -> None:
    expected = (len(image), *counts(pool2d.axes_of(attrs, image.shape)), image.shape[3])
    for name, value in values.items():
        if value.shape != expected:
            raise InvalidArgumentError(
                f"Expected {name} shape to be {list(expected)}, but got {list(value.shape)}"
            )


def _scatter_kernel(context: KernelContext) -> Compute:
    attrs = _checked(context)

    def compute(image: Array, dy: Array, argmax: Array) -> Array:
        _check_windows(attrs, image, grad=dy, argmax=argmax)
        wide = dy.astype(np.float32) if dy.dtype.kind not in "iu" and dy.dtype.itemsize < 4 else dy
        dx = np.zeros(image.size, wide.dtype)
        np.add.at(dx, _flat_numbers(image, argmax, attrs["include_batch_in_index"]), wide)
        return dx.reshape(image.shape).astype(dy.dtype, copy=False)

    return compute


def _gather_kernel(context: KernelContext) -> Compute:
    attrs = _checked(context)

    def compute(image: Array, ddx: Array, argmax: Array) -> Array:
        if ddx.shape != image.shape:
            raise InvalidArgumentError(
                f"Expected grad shape to be {list(image.shape)}, but got {list(ddx.shape)}"
            )
        _check_windows(attrs, image, argmax=argmax)
        return ddx.reshape(-1)[_flat_numbers(image, argmax, attrs["include_batch_in_index"])]

    return compute


def _argmax_gradient(op: Operation, dy: Tensor, _: Any) -> Sequence[Tensor]:
    names = ("ksize", "strides", "padding", "include_batch_in_index")
    same = {name: op.attrs[name] for name in names}
    return (apply_op("MaxPoolGradWithArgmax", op.inputs[0], dy, op.outputs[1], **same),)


_SIZES = "ksize:list(int)>=4; strides:list(int)>=4; padding:string{SAME|VALID}"
_INDEX = "include_batch_in_index:bool=false"

register(
    "MaxPoolWithArgmax(input:T) -> (output:T, argmax:Targmax) "
    f"[{_SIZES.replace('; padding', '; Targmax:type{int32|int64}=int64; padding')}; {_INDEX}; T:type@12]",
    shape=_argmax_shape,
    kernel=_argmax_kernel,
    gradient=_argmax_gradient,
)
for _name, _kernel, _shape in (
    ("MaxPoolGradWithArgmax", _scatter_kernel, lambda context: [with_rank(context.inputs[0], 4)]),
    ("MaxPoolGradGradWithArgmax", _gather_kernel, lambda context: [with_rank(context.inputs[2], 4)]),
):
    register(
        f"{_name}(input:T, grad:T, argmax:Targmax) -> (output:T) [{_SIZES}; {_INDEX}; Targmax:type{{int32|int64}}; T:type@12]",
        shape=_shape,
        kernel=_kernel,
        gradient=undefined_gradient,
    )

# Windows as tensors: the last two inputs are `ksize` and `strides`


def _given_windows(attrs: Attrs, ksize: Any, strides: Any) -> dict[str, Any]:
    if attrs["data_format"] not in DEPTH:
        raise InvalidArgumentError(f"data_format {attrs['data_format']!r} is not supported on this device")
    given = {
        name: tuple(int(each) for each in value.reshape(-1))
        for name, value in (("ksize", ksize), ("strides", strides))
    }
    for name, values in given.items():
        if len(values) != 4:
            raise InvalidArgumentError(
                f"Sliding window {name} field must specify 4 dimensions, got {list(values)}"
            )
        if min(values) <= 0:
            raise InvalidArgumentError(f"Sliding window {name} must be positive, got {list(values)}")
    return {**attrs, **given}


def _kernel_of(kernel: Callable[[KernelContext], Compute]) -> Callable[[KernelContext], Compute]:
    """Return a kernel for windows that are given at run time."""

    def bind(context: KernelContext) -> Compute:
        def compute(*inputs: Array) -> Any:
            *values, ksize, strides = inputs
            return kernel(_with_context_attrs(context, _given_windows(context.attrs, ksize, strides)))(
                *values
            )

        return compute

    return bind


def _shape_with(
    rule: Callable[[ShapeContext], Sequence[Dims]], unknown: Callable[[ShapeContext], Dims]
) -> Callable[[ShapeContext], Sequence[Dims]]:
    def infer(context: ShapeContext) -> Sequence[Dims]:
        count = len(context.inputs)
        for vector in context.inputs[-2:]:
            merge(vector, (4,))
        ksize, strides = context.value(count - 2), context.value(count - 1)
        if ksize is None or strides is None:
            return [unknown(context)]
        return rule(_with_attrs(context, _given_windows(context.attrs, ksize, strides)))

    return infer


def _native_of(bind: Any, dtypes: frozenset[str], images: tuple[int, ...]) -> Native:
    either = either_layout(bind, images=images)

    def with_windows(
        attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> Launches | Alias | None:
        *values, ksize, strides = inputs
        if ksize.value is None or strides.value is None:
            return None
        return either(_given_windows(attrs, ksize.value, strides.value), values, outputs)

    return Native(with_windows, dtypes)


def _v2_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor | None]:
    return (
        apply_op("MaxPoolGradV2", op.inputs[0], op.outputs[0], dy, *op.inputs[1:], **_same(op)),
        None,
        None,
    )


def _v2_grad_gradient(op: Operation, ddx: Tensor) -> Sequence[Tensor | None]:
    zeros = pool2d.zeros_like_inputs(op)
    return (
        *zeros,
        apply_op("MaxPoolGradGradV2", *op.inputs[:2], ddx, *op.inputs[3:], **_same(op)),
        None,
        None,
    )


def _same(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("padding", "data_format")}


_PADDING = "padding:string{SAME|VALID}"
_FORMAT = "data_format:string{NHWC|NCHW}='NHWC'"
_NUMBERS = frozenset({"float32", "float64", "int32", "int64"})
_THREE = "orig_input:T, orig_output:T, grad:T, ksize:int32, strides:int32"

register(
    f"MaxPoolV2(input:T, ksize:int32, strides:int32) -> (output:T) [T:type@21=float; {_PADDING}; "
    "data_format:string{NHWC|NCHW|NCHW_VECT_C}='NHWC']",
    shape=_shape_with(pool2d.pool_shape, lambda context: None),
    kernel=_kernel_of(pool2d.max_kernel),
    gradient=_v2_gradient,
    native=_native_of(loops.bind_max, _NUMBERS, (0,)),
    shape_operands=(1, 2),
)
register(
    f"MaxPoolGradV2({_THREE}) -> (output:T) [{_PADDING}; {_FORMAT}; T:type@12=float]",
    shape=_shape_with(pool2d.image_shape, lambda context: with_rank(context.inputs[0], 4)),
    kernel=_kernel_of(pool2d.max_grad_kernel),
    gradient=_v2_grad_gradient,
    native=_native_of(loops.bind_max_grad, _NUMBERS, (0, 1, 2)),
    shape_operands=(3, 4),
)
register(
    f"MaxPoolGradGradV2({_THREE}) -> (output:T) [{_PADDING}; {_FORMAT}; T:type@12]",
    shape=_shape_with(pool2d.pooled_shape, lambda context: None),
    kernel=_kernel_of(pool2d.max_grad_grad_kernel),
    gradient=undefined_gradient,
    shape_operands=(3, 4),
)


# Public functions


def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window of images [batch, height, width, channels], and its flat index in the image."""
    order = format_name(data_format)
    wanted = Targmax if output_dtype is None else output_dtype
    output, index = apply_tuple_op(
        "MaxPoolWithArgmax",
        input,
        name=name,
        ksize=per_axis(ksize, "ksize", order),
        strides=per_axis(strides, "strides", order),
        Targmax=wanted,
        include_batch_in_index=include_batch_in_index,
        **padding_attrs(padding),
    )
    return output, index
