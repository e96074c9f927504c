"""3-D max and average pooling with gradients; the kernels are those of `pool2d`.

Except one: as in TensorFlow, the gradient of a window goes to all elements equal to its maximum, not only to the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import register
from aioexec.ops.convolution.windows import (
    Axes,
    as_given,
    channels_last,
    check_spatial_only,
    crop,
    format_name,
    inside,
    pad,
    padded_shape,
    padding_attrs,
    per_axis,
    seen_by,
    taps,
)
from aioexec.ops.pooling import pool2d

Array = np.ndarray[Any, Any]


def give_to_equals(image: Array, pooled: Array, dy: Array, axes: Axes) -> Array:
    """Add each window's `dy` to all elements equal to its maximum."""
    seen, wide = pad(image, axes), dy.astype(np.float32)
    padded = np.zeros(padded_shape(len(dy), axes, dy.shape[-1]), np.float32)
    for tap in taps(axes):
        place = seen_by(axes, tap)
        chosen = (seen[place] == pooled) & inside(axes, tap)
        padded[place] += np.where(chosen, wide, np.float32(0))
    return crop(padded, axes)


def max_grad_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    check_spatial_only(attrs, ("ksize", "strides"))

    def compute(image: Array, pooled: Array, dy: Array) -> Array:
        axes = pool2d.axes_of(attrs, image.shape)
        pool2d.check_shape("orig_output", attrs, pooled, image.shape, axes)
        pool2d.check_shape("grad", attrs, dy, image.shape, axes)
        seen, maxima, above = (channels_last(attrs, each) for each in (image, pooled, dy))
        result = as_given(attrs, give_to_equals(seen, maxima, above, axes))
        return np.ascontiguousarray(result).astype(dy.dtype, copy=False)

    return compute


_ATTRS = (
    "ksize:list(int)>=5; strides:list(int)>=5; padding:string{SAME|VALID}; "
    "data_format:string{NDHWC|NCDHW}='NDHWC'"
)
_SHORT = "type{half|bfloat16|float}"
_FLOAT = "T:type{half|bfloat16|float|double}"

register(
    f"MaxPool3D(input:T) -> (output:T) [{_ATTRS}; T:{_SHORT}]",
    shape=pool2d.pool_shape,
    kernel=pool2d.max_kernel,
    gradient=pool2d.max_gradient,
)
register(
    "MaxPool3DGrad(orig_input:TInput, orig_output:TInput, grad:T) -> (output:T) "
    f"[{_ATTRS}; T:{_SHORT}=float; TInput:{_SHORT}=float]",
    shape=pool2d.image_shape,
    kernel=max_grad_kernel,
    gradient=pool2d.max_grad_gradient,
)
register(
    f"MaxPool3DGradGrad(orig_input:T, orig_output:T, grad:T) -> (output:T) [{_ATTRS}; T:type@12]",
    shape=pool2d.pooled_shape,
    kernel=pool2d.max_grad_grad_kernel,
    gradient=pool2d.max_grad_grad_gradient,
)
register(
    f"AvgPool3D(input:T) -> (output:T) [{_ATTRS}; {_FLOAT}]",
    shape=pool2d.pool_shape,
    kernel=pool2d.average_kernel,
    gradient=pool2d.average_gradient,
)
register(
    f"AvgPool3DGrad(orig_input_shape:int32, grad:T) -> (output:T) [{_ATTRS}; {_FLOAT}]",
    shape=pool2d.given_shape,
    kernel=pool2d.average_grad_kernel,
    gradient=pool2d.average_grad_gradient,
    shape_operands=(0,),
)


def _pool(
    op_type: str,
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
) -> Tensor:
    order = format_name(data_format, "NDHWC")
    sizes = {"ksize": per_axis(ksize, "ksize", order), "strides": per_axis(strides, "strides", order)}
    return apply_op(op_type, value, name=name, data_format=order, **sizes, **padding_attrs(padding))


def max_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Take the maximum of each window of volumes [batch, depth, height, width, channels]."""
    return _pool("MaxPool3D", input, ksize, strides, padding, data_format, name)


def avg_pool3d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    name: str | None = None,
) -> Tensor:
    """Take the mean of each window of volumes [batch, depth, height, width, channels], excluding padding."""
    return _pool("AvgPool3D", input, ksize, strides, padding, data_format, name)
