"""Separable convolution: a depthwise convolution, then a convolution of size 1 that mixes the channels."""

from __future__ import annotations

from typing import Any

from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS, initializer_of
from aioexec.layers.base import apply_once, constructor_arguments
from aioexec.layers.convolutional import Convolution, Function
from aioexec.ops.convolution.depthwise import separable_conv2d as separate


class SeparableConvolution(Convolution):
    """The base of separable convolutions over one or two axes; see `Convolution`.

    Variables: `depthwise_kernel` [*kernel_size, channels, depth_multiplier], `pointwise_kernel`
    [1, ..., channels * depth_multiplier, filters], and `bias` [filters] if `use_bias`.

    Args:
        depth_multiplier: number of outputs of the depthwise convolution for each channel.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        depthwise_regularizer: Function | None = None,
        pointwise_regularizer: Function | None = None,
        depthwise_constraint: Function | None = None,
        pointwise_constraint: Function | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, **kwargs)
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = initializer_of(depthwise_initializer)
        self.pointwise_initializer = initializer_of(pointwise_initializer)
        self.depthwise_regularizer = depthwise_regularizer
        self.pointwise_regularizer = pointwise_regularizer
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        self.depthwise_kernel = self._kernel(
            "depthwise_kernel",
            [*self.kernel_size, channels, self.depth_multiplier],
            self.depthwise_initializer,
            self.depthwise_regularizer,
            self.depthwise_constraint,
        )
        self.pointwise_kernel = self._kernel(
            "pointwise_kernel",
            [*(1,) * self.rank, channels * self.depth_multiplier, self.filters],
            self.pointwise_initializer,
            self.pointwise_regularizer,
            self.pointwise_constraint,
        )
        self._build_bias()
        self.built = True

    def _separated(self, images: Tensor, depthwise: Any, pointwise: Any) -> Tensor:
        """The separable convolution of images; a stride is that of both axes, as the depthwise op requires."""
        attrs = self._attrs((self.strides * 2)[:2], (1, 1))
        return separate(
            images,
            depthwise,
            pointwise,
            attrs["strides"],
            attrs["padding"],
            rate=((1,) * (2 - self.rank)) + self.dilation_rate,
            data_format=attrs["data_format"],
        )


class SeparableConv1D(SeparableConvolution):
    """Separable convolution of inputs [batch, length, channels]; for channels_first [batch, channels, length]."""

    rank = 1
    paddings = ("valid", "same", "causal")

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        depthwise_regularizer: Function | None = None,
        pointwise_regularizer: Function | None = None,
        bias_regularizer: Function | None = None,
        activity_regularizer: Function | None = None,
        depthwise_constraint: Function | None = None,
        pointwise_constraint: Function | None = None,
        bias_constraint: Function | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**constructor_arguments(locals()))

    def call(self, inputs: Any) -> Tensor:
        axis = 1 if self.data_format == "channels_last" else 2
        if self.padding == "causal":
            inputs = self._padded_before(inputs)
        image = apply_op("ExpandDims", inputs, axis)
        kernels = [apply_op("ExpandDims", each, 0) for each in (self.depthwise_kernel, self.pointwise_kernel)]
        outputs = self._biased(self._separated(image, *kernels))
        return self._activated(apply_op("Squeeze", outputs, squeeze_dims=[axis]))


def separable_conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    dilation_rate: Any = 1,
    depth_multiplier: int = 1,
    activation: Any = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    depthwise_regularizer: Function | None = None,
    pointwise_regularizer: Function | None = None,
    bias_regularizer: Function | None = None,
    activity_regularizer: Function | None = None,
    depthwise_constraint: Function | None = None,
    pointwise_constraint: Function | None = None,
    bias_constraint: Function | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply a new `SeparableConv1D` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(SeparableConv1D, locals())


class SeparableConv2D(SeparableConvolution):
    """Separable convolution of inputs [batch, height, width, channels]; for channels_first [batch, channels, height, width]."""

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = (1, 1),
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        depthwise_regularizer: Function | None = None,
        pointwise_regularizer: Function | None = None,
        bias_regularizer: Function | None = None,
        activity_regularizer: Function | None = None,
        depthwise_constraint: Function | None = None,
        pointwise_constraint: Function | None = None,
        bias_constraint: Function | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**constructor_arguments(locals()))

    def _convolved(self, inputs: Tensor) -> Tensor:
        return self._separated(inputs, self.depthwise_kernel, self.pointwise_kernel)


def separable_conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = "channels_last",
    dilation_rate: Any = (1, 1),
    depth_multiplier: int = 1,
    activation: Any = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    depthwise_regularizer: Function | None = None,
    pointwise_regularizer: Function | None = None,
    bias_regularizer: Function | None = None,
    activity_regularizer: Function | None = None,
    depthwise_constraint: Function | None = None,
    pointwise_constraint: Function | None = None,
    bias_constraint: Function | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply a new `SeparableConv2D` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(SeparableConv2D, locals())
