"""Convolution over 1, 2 or 3 spatial axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import (
    ZEROS,
    activation_of,
    by_axis,
    data_format_of,
    initializer_of,
    layout,
    padding_of,
    sizes,
    to_channels_first,
    to_channels_last,
)
from aioexec.layers.base import Layer, apply_once, constructor_arguments
from aioexec.layers.input_spec import InputSpec
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.shapes import TensorShape

Function = Callable[[Any], Any]


class Convolution(Layer):
    """The base of convolutions of inputs [batch, ..., channels], or [batch, channels, ...] for channels_first.

    Variables: `kernel` [*kernel_size, channels, filters], and `bias` [filters] if `use_bias`.

    Args:
        kernel_size, strides, dilation_rate: one integer, or one for each spatial axis.
        padding: valid or same; in one dimension also causal, which pads at the start only.
        activation: a function or the name of one; None for none.

    Raises:
        GraphValueError: an argument does not fit; at a call: the number of channels is not known, or the rank is wrong.
    """

    rank: int
    """Number of spatial axes."""
    paddings: tuple[str, ...] = ("valid", "same")

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        kernel_regularizer: Function | None = None,
        bias_regularizer: Function | None = None,
        activity_regularizer: Function | None = None,
        kernel_constraint: Function | None = None,
        bias_constraint: Function | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable, name, activity_regularizer=activity_regularizer, **kwargs)
        self.filters = int(filters)
        if self.filters <= 0:
            raise GraphValueError(
                f"Invalid value for argument `filters`. Expected a strictly positive value. Received: {filters!r}"
            )
        self.kernel_size = sizes(kernel_size, self.rank, "kernel_size")
        self.strides = sizes(strides, self.rank, "strides")
        self.padding = padding_of(padding, self.paddings)
        self.data_format = data_format_of(data_format)
        self.dilation_rate = sizes(dilation_rate, self.rank, "dilation_rate")
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise GraphValueError(
                "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
                f"Received: strides={self.strides!r} and dilation_rate={self.dilation_rate!r}"
            )
        self.activation = activation_of(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializer_of(kernel_initializer)
        self.bias_initializer = initializer_of(bias_initializer)
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _channel_axis(self) -> int:
        return 1 if self.data_format == "channels_first" else -1

    def _channels(self, input_shape: Any) -> int:
        """The number of channels, which all later inputs must have.

        Raises:
            GraphValueError: it is not known.
        """
        axis = self._channel_axis()
        channels = TensorShape(input_shape).as_list()[axis]
        if channels is None:
            raise GraphValueError(
                "The channel dimension of the inputs should be defined. "
                f"The input_shape received is {input_shape}, where axis {axis} is the channel dimension, which is `None`"
            )
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={axis: channels})
        return channels

    def build(self, input_shape: Any) -> None:
        self.kernel = self._kernel(
            "kernel",
            self._kernel_shape(self._channels(input_shape)),
            self.kernel_initializer,
            self.kernel_regularizer,
            self.kernel_constraint,
        )
        self._build_bias()
        super().build(input_shape)

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, channels, self.filters]

    def _kernel(
        self, name: str, shape: list[int], initializer: Any, regularizer: Any, constraint: Any
    ) -> Any:
        return self.add_weight(
            name, shape, initializer=initializer, regularizer=regularizer, constraint=constraint
        )

    def _build_bias(self) -> None:
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.filters],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def call(self, inputs: Any) -> Tensor:
        if self.padding == "causal":
            inputs = self._padded_before(inputs)
        if self.rank == 3 and self.data_format == "channels_first":
            outputs = to_channels_first(self._convolved(to_channels_last(inputs)))
        else:
            outputs = self._convolved(inputs)
        return self._activated(self._biased(outputs))

    def _attrs(self, spatial_strides: tuple[int, ...], dilations: tuple[int, ...]) -> dict[str, Any]:
        """The attributes of an op with as many spatial axes as there are strides; those on volumes have channels last."""
        data_format = "channels_last" if len(spatial_strides) == 3 else self.data_format
        return {
            "strides": by_axis(spatial_strides, data_format),
            "padding": "SAME" if self.padding == "same" else "VALID",
            "data_format": layout(data_format, len(spatial_strides)),
            "dilations": by_axis(dilations, data_format),
        }

    def _convolved(self, inputs: Tensor) -> Tensor:
        op_type = f"Conv{self.rank}D"
        if self.rank > 1:
            return apply_op(op_type, inputs, self.kernel, **self._attrs(self.strides, self.dilation_rate))
        with get_default_graph().name_scope(op_type) as scope:
            axis = 1 if self.data_format == "channels_last" else 2
            attrs = self._attrs((1, *self.strides), (1, *self.dilation_rate))
            image = apply_op("ExpandDims", inputs, axis)
            kernel = apply_op("ExpandDims", self.kernel, 0)
            return apply_op(
                "Squeeze", apply_op("Conv2D", image, kernel, name=scope, **attrs), squeeze_dims=[axis]
            )

    def _padded_before(self, inputs: Tensor) -> Tensor:
        """The inputs with zeros before the first place, so that no output depends on later places."""
        before = [self.dilation_rate[0] * (self.kernel_size[0] - 1), 0]
        places = [before, [0, 0]] if self.data_format == "channels_last" else [[0, 0], before]
        return apply_op("Pad", inputs, [[0, 0], *places])

    def _activated(self, outputs: Tensor) -> Tensor:
        return outputs if self.activation is None else self.activation(outputs)

    def _biased(self, outputs: Tensor) -> Tensor:
        """The outputs with the bias, if there is one."""
        if not self.use_bias:
            return outputs
        if self.data_format == "channels_last":
            return bias_add(outputs, self.bias)
        if len(outputs.dims or ()) == 3:
            return apply_op(
                "AddV2", outputs, apply_op("Reshape", self.bias, [1, self.filters, 1]), name="add"
            )
        return bias_add(outputs, self.bias, data_format="NCHW")

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        first = 1 if self.data_format == "channels_last" else 2
        return TensorShape(self._output_dims(TensorShape(input_shape).as_list(), first))

    def _output_dims(self, dims: list[Any], first: int) -> list[Any]:
        """The sizes of the outputs for those of the inputs, whose first spatial axis is `first`: 1, or 2 after the channels."""
        spatial = [self._length(size, axis) for axis, size in enumerate(dims[first : first + self.rank])]
        return [dims[0], *spatial, self.filters] if first == 1 else [dims[0], self.filters, *spatial]

    def _length(self, size: int | None, axis: int) -> int | None:
        """The size of a spatial axis of the outputs."""
        if size is None:
            return None
        if self.padding == "valid":
            size -= self.dilation_rate[axis] * (self.kernel_size[axis] - 1)
        return -(-size // self.strides[axis])


class Conv1D(Convolution):
    """Convolution of inputs [batch, length, channels], or [batch, channels, length] for channels_first."""

    rank = 1
    paddings = ("valid", "same", "causal")


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = "channels_last",
    dilation_rate: Any = 1,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    kernel_regularizer: Function | None = None,
    bias_regularizer: Function | None = None,
    activity_regularizer: Function | None = None,
    kernel_constraint: Function | None = None,
    bias_constraint: Function | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply a new `Conv1D` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(Conv1D, locals())


class Conv2D(Convolution):
    """Convolution of inputs [batch, height, width, channels], or [batch, channels, height, width] for channels_first."""

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = (1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        kernel_regularizer: Function | None = None,
        bias_regularizer: Function | None = None,
        activity_regularizer: Function | None = None,
        kernel_constraint: Function | None = None,
        bias_constraint: Function | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**constructor_arguments(locals()))


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    kernel_regularizer: Function | None = None,
    bias_regularizer: Function | None = None,
    activity_regularizer: Function | None = None,
    kernel_constraint: Function | None = None,
    bias_constraint: Function | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply a new `Conv2D` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(Conv2D, locals())


class Conv3D(Convolution):
    """Convolution of inputs [batch, depth, height, width, channels]; for channels_first [batch, channels, depth, …]."""

    rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        data_format: str | None = "channels_last",
        dilation_rate: Any = (1, 1, 1),
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        kernel_regularizer: Function | None = None,
        bias_regularizer: Function | None = None,
        activity_regularizer: Function | None = None,
        kernel_constraint: Function | None = None,
        bias_constraint: Function | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**constructor_arguments(locals()))


def conv3d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = "channels_last",
    dilation_rate: Any = (1, 1, 1),
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    kernel_regularizer: Function | None = None,
    bias_regularizer: Function | None = None,
    activity_regularizer: Function | None = None,
    kernel_constraint: Function | None = None,
    bias_constraint: Function | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Tensor:
    """Apply a new `Conv3D` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(Conv3D, locals())
