"""Cells that compute what the networks of this package do, with the same variables."""

from __future__ import annotations

from typing import Any

from aioexec.contrib.rnn.block_cells import LSTMBlockCell
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import split
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.math_functions import sigmoid
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.initializers import constant_initializer, zeros_initializer
from aioexec.recurrent.basic_cells import GRUCell, affine, depth_of


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """`LSTMBlockCell` without a number added to the forget gate; its variables are those of a layer of `CudnnLSTM`.

    Args:
        num_units: size of output, `c` and `h`.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth; or the state is no pair.
    """

    def __init__(self, num_units: int, reuse: Any = None) -> None:
        super().__init__(num_units, forget_bias=0, reuse=reuse, name="cudnn_compatible_lstm_cell")


class CudnnCompatibleGRUCell(GRUCell):
    """`GRUCell` whose reset gate multiplies the product of the state; its variables are those of a layer of `CudnnGRU`.

    With `r, u` as in `GRUCell` and `c = activation(inputs @ W + b + r * (state @ R + d))`, output and new state are
    `u * state + (1 - u) * c`.

    Variables: `gates/kernel`, `gates/bias`, ones at first; `candidate/input_projection/kernel` and
    `candidate/input_projection/bias`, W and b; `candidate/hidden_projection/kernel` and `candidate/hidden_projection/bias`, R
    and d, zeros at first.

    Args:
        num_units: size of output and state.
        reuse: whether the variables must exist already.
        kernel_initializer: initializer of the kernels, by default that of the scope.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(self, num_units: int, reuse: Any = None, kernel_initializer: Any = None) -> None:
        super().__init__(num_units, reuse=reuse, kernel_initializer=kernel_initializer)

    def build(self, input_shape: Any) -> None:
        depth, units = depth_of(input_shape), self._num_units
        one, zero = constant_initializer(1.0), zeros_initializer()
        self._gate_kernel, self._gate_bias = self._parameters("gates", [depth + units, 2 * units], one)
        self._input_kernel, self._input_bias = self._parameters(
            "candidate/input_projection", [depth, units], zero
        )
        self._hidden_kernel, self._hidden_bias = self._parameters(
            "candidate/hidden_projection", [units, units], zero
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        r, u = split(sigmoid(affine(inputs, state, self._gate_kernel, self._gate_bias)), 2, axis=1)
        of_inputs = bias_add(matmul(inputs, self._input_kernel), self._input_bias)
        of_state = bias_add(matmul(state, self._hidden_kernel), self._hidden_bias)
        candidate = self._activation(of_inputs + r * of_state)
        output = u * state + (1 - u) * candidate
        return output, output
