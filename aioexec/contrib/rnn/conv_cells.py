"""LSTM cells whose products are convolutions, for inputs and states with spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat, split
from aioexec.ops.convolution.conv import conv2d
from aioexec.ops.convolution.conv3d import conv3d
from aioexec.ops.convolution.functions import conv1d
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.state.initializers import constant_initializer
from aioexec.ops.state.variable_scope import get_variable
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.lstm_cells import LSTMStateTuple
from aioexec.shapes import TensorShape


class ConvLSTMCell(RNNCell):
    """The LSTM cell with convolutions of inputs and state, padded to their size.

    Variables: `kernel`, `[*kernel_shape, channels of inputs + output_channels, 4 * output_channels]`; `biases`, zeros at first.

    Args:
        conv_ndims: number of spatial dimensions, 1 to 3.
        input_shape: shape of the inputs without the batch: the spatial dimensions, then the channels.
        output_channels: channels of `c` and `h`.
        kernel_shape: spatial dimensions of the kernel.
        use_bias: add the biases.
        skip_connection: join the inputs to the outputs. As in TensorFlow, they are in `h` too, so such a cell runs for one
            step.
        forget_bias: number added to the input of the forget gate.
        initializers: ignored, as in TensorFlow.
        name: name of the variable scope.

    Raises:
        GraphValueError: `input_shape` has another number of dimensions.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise GraphValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._ndims = conv_ndims
        self._input_shape = list(input_shape)
        self._output_channels = output_channels
        self._kernel_shape = list(kernel_shape)
        self._use_bias = use_bias
        self._skip_connection = skip_connection
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> Any:
        size = TensorShape([*self._input_shape[:-1], self._output_channels])
        return LSTMStateTuple(size, size)

    @property
    def output_size(self) -> Any:
        more = self._input_shape[-1] if self._skip_connection else 0
        return TensorShape([*self._input_shape[:-1], self._output_channels + more])

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, h = state
        i, j, f, o = split(self._product([inputs, h]), 4, axis=self._ndims + 1)
        new_c = sigmoid(f + self._forget_bias) * c + sigmoid(i) * tanh(j)
        output = tanh(new_c) * sigmoid(o)
        if self._skip_connection:
            output = concat([output, inputs], -1)
        return output, LSTMStateTuple(new_c, output)

    def _product(self, parts: list[Any]) -> Any:
        """Return the convolution of the parts, joined along the channels."""
        joined, dtype = concat(parts, self._ndims + 1), parts[0].dtype
        depth, width = sum(int(part.shape[-1]) for part in parts), 4 * self._output_channels
        kernel = get_variable("kernel", [*self._kernel_shape, depth, width], dtype)
        if self._ndims == 1:
            product: Any = conv1d(joined, kernel, 1, "SAME")
        else:
            convolve = conv2d if self._ndims == 2 else conv3d
            product = convolve(joined, kernel, [1] * (self._ndims + 2), "SAME")
        if not self._use_bias:
            return product
        return product + get_variable("biases", [width], dtype, constant_initializer(0.0))


class Conv1DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` with one spatial dimension; the other arguments are its."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` with two spatial dimensions; the other arguments are its."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """`ConvLSTMCell` with three spatial dimensions; the other arguments are its."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)
