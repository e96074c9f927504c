"""Transposed convolution: the gradient of a convolution in its inputs, as a layer that enlarges them."""

from __future__ import annotations

from typing import Any

from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS
from aioexec.layers.base import apply_once, constructor_arguments
from aioexec.layers.convolutional import Convolution, Function


class TransposedConvolution(Convolution):
    """The base of transposed convolutions; see `Convolution`. `kernel` is [*kernel_size, filters, channels].

    A spatial axis of n places becomes n * stride for same padding, else n * stride + max(kernel_size - stride, 0).
    """

    op_type: str

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, self.filters, channels]

    def _convolved(self, inputs: Tensor) -> Tensor:
        attrs = self._attrs(self.strides, self.dilation_rate)
        first = 1 if attrs["data_format"].endswith("C") else 2
        target = self._output_dims(list(inputs.dims or ()), first)
        name = f"conv{self.rank}d_transpose"
        outputs = apply_op(
            self.op_type, self._shape_tensor(target, inputs, first), self.kernel, inputs, name=name, **attrs
        )
        outputs.set_shape(target)
        return outputs

    def _shape_tensor(self, target: list[int | None], inputs: Tensor, first: int) -> Tensor:
        """The shape of the outputs as a tensor; unknown sizes follow from the inputs' when the graph runs."""
        sizes: list[Any] = target
        if None in target:
            shape = apply_op("Shape", inputs)
            sizes = [shape[axis] if size is None else size for axis, size in enumerate(inputs.dims or ())]
            sizes = self._output_dims(sizes, first)
        return convert_to_tensor(sizes, name="stack")

    def _length(self, size: Any, axis: int) -> Any:
        """The size of a spatial axis of the outputs, for an integer, None or a tensor."""
        if size is None:
            return None
        stride, window = self.strides[axis], self.kernel_size[axis]
        longer = size * stride
        return longer + max(window - stride, 0) if self.padding == "valid" else longer


class Conv2DTranspose(TransposedConvolution):
    """Transposed convolution of inputs [batch, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "Conv2DBackpropInput"
    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: str = "valid",
        data_format: str | None = "channels_last",
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


def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = "channels_last",
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
    """Apply a new `Conv2DTranspose` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(Conv2DTranspose, locals())


class Conv3DTranspose(TransposedConvolution):
    """Transposed convolution of inputs [batch, depth, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "Conv3DBackpropInputV2"
    rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: str = "valid",
        data_format: str | None = "channels_last",
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


def conv3d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = "channels_last",
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
    """Apply a new `Conv3DTranspose` layer; `reuse`: use the variables of an earlier one of that name."""
    return apply_once(Conv3DTranspose, locals())
