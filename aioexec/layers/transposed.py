"""Transposed convolution: the gradient of a convolution in its inputs, as a layer that enlarges them."""

from __future__ import annotations

from typing import Any

from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import ZEROS
from aioexec.layers.base import apply_once, constructor_arguments
from aioexec.layers.convolutional import Convolution, Function
from aioexec.shapes import TensorShape


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
        dims = list(inputs.dims or ())
        target = [
            None if size is None else self._longer(size, axis)
            for axis, size in enumerate(dims[first : first + self.rank])
        ]
        target = [dims[0], *target, self.filters] if first == 1 else [dims[0], self.filters, *target]
        name = f"conv{self.rank}d_transpose"
        outputs = apply_op(
            self.op_type, self._known(target, inputs, first), self.kernel, inputs, name=name, **attrs
        )
        outputs.set_shape(target)
        return outputs

    def _known(self, target: list[int | None], inputs: Tensor, first: int) -> Tensor:
        """The shape of the outputs as a tensor; what follows from unknown sizes of the inputs is read when the graph runs.

        `first` is the first spatial axis.
        """
        if None not in target:
            return convert_to_tensor(target, name="stack")
        shape = apply_op("Shape", inputs)
        sizes: list[Any] = [shape[0] if target[0] is None else target[0], *target[1:]]
        for axis in range(self.rank):
            if sizes[first + axis] is None:
                sizes[first + axis] = self._longer(shape[first + axis], axis)
        return convert_to_tensor(sizes, name="stack")

    def _longer(self, size: Any, axis: int) -> Any:
        """The size of a spatial axis of the outputs, for an integer or a tensor."""
        stride, window = self.strides[axis], self.kernel_size[axis]
        longer = size * stride
        return longer + max(window - stride, 0) if self.padding == "valid" else longer

    def compute_output_shape(self, input_shape: Any) -> TensorShape:
        dims = TensorShape(input_shape).as_list()
        first = 1 if self.data_format == "channels_last" else 2
        spatial = [
            None if size is None else self._longer(size, axis)
            for axis, size in enumerate(dims[first : first + self.rank])
        ]
        if self.data_format == "channels_last":
            return TensorShape([dims[0], *spatial, self.filters])
        return TensorShape([dims[0], self.filters, *spatial])


class Conv2DTranspose(TransposedConvolution):
    """Transposed convolution of inputs [batch, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "Conv2DBackpropInput"

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
        super().__init__(2, **constructor_arguments(locals()))


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
    convolved: Tensor = apply_once(Conv2DTranspose, locals())
    return convolved


class Conv3DTranspose(TransposedConvolution):
    """Transposed convolution of inputs [batch, depth, height, width, channels]; for channels_first [batch, channels, …]."""

    op_type = "Conv3DBackpropInputV2"

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
        super().__init__(3, **constructor_arguments(locals()))


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
    convolved: Tensor = apply_once(Conv3DTranspose, locals())
    return convolved
