"""3-D convolution and its gradients, in all versions of the ops; the kernels are those of `conv`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.convolution.conv import (
    conv_gradient,
    conv_kernel,
    conv_shape,
    filter_gradient,
    filter_kernel,
    given_shape,
    input_gradient,
    input_kernel,
)
from aioexec.ops.convolution.windows import Array, format_name, padding_attrs, per_axis
from aioexec.shapes import Dims, with_rank

_FLOAT = "T:type{half|bfloat16|float|double}"
_BEFORE = "strides:list(int)>=5; padding:string{SAME|VALID}"
_FORMAT = "data_format:string{NDHWC|NCDHW}='NDHWC'"
_AFTER = "dilations:list(int)=[1, 1, 1, 1, 1]"

register(
    f"Conv3D(input:T, filter:T) -> (output:T) [{_FLOAT}; {_BEFORE}; {_FORMAT}; {_AFTER}]",
    shape=conv_shape,
    kernel=conv_kernel,
    gradient=conv_gradient,
)
register(
    f"Conv3DBackpropInputV2(input_sizes:Tshape, filter:T, out_backprop:T) -> (output:T) [{_FLOAT}; {_BEFORE}; {_FORMAT}; "
    f"{_AFTER}; Tshape:type{{int32|int64}}=int32]",
    shape=given_shape(0, 1),
    kernel=input_kernel,
    gradient=input_gradient,
    shape_operands=(0,),
)
register(
    "Conv3DBackpropFilterV2(input:T, filter_sizes:int32, out_backprop:T) -> (output:T) "
    f"[{_FLOAT}; {_BEFORE}; {_FORMAT}; {_AFTER}]",
    shape=given_shape(1, 0),
    kernel=filter_kernel,
    gradient=filter_gradient,
    shape_operands=(1,),
)

# The ops of version 1 take the tensor to differentiate by instead of its shape


class _ChannelsLast:
    """A kernel context with data_format NDHWC, for ops without that attribute."""

    def __init__(self, context: KernelContext) -> None:
        self._context = context
        self.attrs = {**context.attrs, "data_format": "NDHWC"}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _of_shape(kernel: Any, operand: int) -> Any:
    def bind(context: KernelContext) -> Compute:
        compute = kernel(_ChannelsLast(context))

        def of_shape(*inputs: Array) -> Array:
            given = list(inputs)
            given[operand] = np.array(inputs[operand].shape, np.int32)
            result: Array = compute(*given)
            return result

        return of_shape

    return bind


def _shape_of(operand: int) -> Any:
    return lambda context: _same_as(context, operand)


def _same_as(context: ShapeContext, operand: int) -> Sequence[Dims]:
    return [with_rank(context.inputs[operand], 5)]


for _name, _operand, _kernel in (
    ("Conv3DBackpropInput", 0, input_kernel),
    ("Conv3DBackpropFilter", 1, filter_kernel),
):
    register(
        f"{_name}(input:T, filter:T, out_backprop:T) -> (output:T) [T:type{{half|float|double}}; {_BEFORE}; {_AFTER}]",
        shape=_shape_of(_operand),
        kernel=_of_shape(_kernel, _operand),
        gradient=undefined_gradient,
    )

# Public functions


def _attrs(strides: Any, padding: Any, data_format: str | None, dilations: Any) -> dict[str, Any]:
    order = format_name(data_format, "NDHWC")
    return {
        "strides": per_axis(strides, "strides", order),
        "dilations": per_axis(1 if dilations is None else dilations, "dilations", order),
        "data_format": order,
        **padding_attrs(padding),
    }


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Tensor:
    """Convolve volumes [batch, depth, height, width, channels] with filters [depth, height, width, channels, out_channels].

    Raises:
        GraphValueError: shapes or arguments do not fit.
    """
    given = filter if filters is None else filters
    attrs = _attrs(1 if strides is None else strides, padding, data_format, dilations)
    return apply_op("Conv3D", input, given, name=name, **attrs)


def conv3d_backprop_filter_v2(
    input: Any,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the gradient of `conv3d` with respect to its filter, of shape `filter_sizes`."""
    attrs = _attrs(strides, padding, data_format, dilations)
    return apply_op("Conv3DBackpropFilterV2", input, filter_sizes, out_backprop, name=name, **attrs)


def conv3d_transpose(
    value: Any,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: Any = "SAME",
    data_format: str | None = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """Apply the transpose of `conv3d`; filters are [depth, height, width, out_channels, in_channels]."""
    above, given = value if input is None else input, filter if filters is None else filters
    attrs = _attrs(1 if strides is None else strides, padding, data_format, dilations)
    return apply_op(
        "Conv3DBackpropInputV2", output_shape, given, above, name=name or "conv3d_transpose", **attrs
    )
