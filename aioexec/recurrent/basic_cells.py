"""The cells without a memory cell: the basic recurrent cell and the gated recurrent unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.node import Tensor
from aioexec.layers import arguments as layers
from aioexec.layers.input_spec import InputSpec
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat, split
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.initializers import constant_initializer, zeros_initializer
from aioexec.recurrent.cell import LayerRNNCell
from aioexec.shapes import TensorShape

KERNEL: Final = "kernel"
BIAS: Final = "bias"


def activation_of(activation: Any) -> Callable[[Any], Any]:
    """Return an activation function by itself or by its name, by default tanh.

    Raises:
        GraphValueError: there is no activation of this name.
        GraphTypeError: it is neither a name nor callable.
    """
    if not activation:
        return tanh
    if not isinstance(activation, str) and not callable(activation):
        raise GraphTypeError(f"Could not interpret activation function identifier: {activation!r}")
    return layers.activation_of(activation) or identity


def depth_of(input_shape: Any) -> int:
    """Return the last dimension of the shape of inputs.

    Raises:
        GraphValueError: it is unknown.
    """
    known = TensorShape(input_shape)
    depth = None if known.rank in (None, 0) else known[-1].value
    if depth is None:
        raise GraphValueError(f"Expected inputs.shape[-1] to be known, saw shape: {known}")
    return depth


def affine(inputs: Any, state: Any, kernel: Any, bias: Any) -> Tensor:
    """Return `[inputs, state] @ kernel + bias`."""
    return bias_add(matmul(concat([inputs, state], 1), kernel), bias)


class UnitsCell(LayerRNNCell):
    """The base of cells with an activation whose inputs are matrices; output and state have the size `num_units` by default."""

    def __init__(
        self, num_units: int, activation: Any, reuse: Any, name: str | None, dtype: Any, **kwargs: Any
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype, **kwargs)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = activation_of(activation)

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units


class BasicRNNCell(UnitsCell):
    """The basic cell: `output = new_state = activation([inputs, state] @ kernel + bias)`.

    Variables: `kernel`, `[depth of inputs + num_units, num_units]`; `bias`, `[num_units]`, zeros at first.

    Args:
        num_units: size of output and state.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        name: name of the variable scope, by default `basic_rnn_cell`.
        dtype: dtype of the variables, by default that of the inputs.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)

    def build(self, input_shape: Any) -> None:
        shape = [depth_of(input_shape) + self._num_units, self._num_units]
        self._kernel = self.add_variable(KERNEL, shape=shape)
        self._bias = self.add_variable(
            BIAS, shape=[self._num_units], initializer=zeros_initializer(dtype=self.dtype)
        )
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        output = self._activation(affine(inputs, state, self._kernel, self._bias))
        return output, output


class GRUCell(UnitsCell):
    """The gated recurrent unit.

    With `r, u = sigmoid([inputs, state] @ gates/kernel + gates/bias)` and
    `c = activation([inputs, r * state] @ candidate/kernel + candidate/bias)`, output and new state are
    `u * state + (1 - u) * c`.

    Variables: `gates/kernel`, `[depth of inputs + num_units, 2 * num_units]`; `gates/bias`, ones at first; `candidate/kernel`,
    `[depth of inputs + num_units, num_units]`; `candidate/bias`, zeros at first.

    Args:
        num_units: size of output and state.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        kernel_initializer: initializer of both kernels, by default that of the scope.
        bias_initializer: initializer of both biases.
        name: name of the variable scope, by default `gru_cell`.
        dtype: dtype of the variables, by default that of the inputs.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    def build(self, input_shape: Any) -> None:
        rows, units = depth_of(input_shape) + self._num_units, self._num_units
        one = constant_initializer(1.0, dtype=self.dtype)
        self._gate_kernel, self._gate_bias = self._parameters("gates", [rows, 2 * units], one)
        zero = zeros_initializer(dtype=self.dtype)
        self._candidate_kernel, self._candidate_bias = self._parameters("candidate", [rows, units], zero)
        self.built = True

    def _parameters(self, prefix: str, shape: list[int], bias_initializer: Any) -> tuple[Any, Any]:
        """Create the kernel and the bias of one product."""
        kernel = self.add_variable(f"{prefix}/{KERNEL}", shape=shape, initializer=self._kernel_initializer)
        chosen = bias_initializer if self._bias_initializer is None else self._bias_initializer
        return kernel, self.add_variable(f"{prefix}/{BIAS}", shape=shape[1:], initializer=chosen)

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        gates = sigmoid(affine(inputs, state, self._gate_kernel, self._gate_bias))
        r, u = split(gates, 2, axis=1)
        product = affine(inputs, r * state, self._candidate_kernel, self._candidate_bias)
        candidate = self._activation(product)
        output = u * state + (1 - u) * candidate
        return output, output
