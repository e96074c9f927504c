"""Cells in which each unit sees only some units of the state: those of its group, or only itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.contrib.rnn.gated_cells import input_depth
from aioexec.contrib.rnn.linear import Linear
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import tile
from aioexec.ops.array.joining import concat, split
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.initializers import (
    constant_initializer,
    random_uniform_initializer,
    zeros_initializer,
)
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from aioexec.recurrent.basic_cells import BasicRNNCell, GRUCell, UnitsCell, depth_of
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.lstm_cells import LSTMStateTuple


class GLSTMCell(RNNCell):
    """An LSTM cell for each group of the inputs and of the state.

    Variables: `groupK/kernel` for the group K, without bias; `bias_i`, `bias_j`, `bias_f`, `bias_o`, `[num_units]`, zeros at
    first; with a projection `projection/kernel`, `[num_units, num_proj]`.

    Args:
        num_units: size of `c`, and of output and `h` unless they are projected.
        initializer: initializer of the kernels, by default that of the scope.
        num_proj: size of output and `h` after a projection.
        number_of_groups: number of groups.
        forget_bias: number added to the input of the forget gate.
        activation: the activation function of the outputs.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: a size is not divisible by the number of groups.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        num_proj: int | None = None,
        number_of_groups: int = 1,
        forget_bias: float = 1.0,
        activation: Callable[[Any], Any] = tanh,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        for what, size in (("num_units", num_units), ("num_proj", num_proj or 0)):
            if size % number_of_groups:
                raise GraphValueError(f"{what} must be divisible by number_of_groups")
        self._num_units = num_units
        self._initializer = initializer
        self._num_proj = num_proj
        self._groups = number_of_groups
        self._forget_bias = forget_bias
        self._activation = activation
        self._linears: dict[int, Linear] = {}
        self._projection: Linear | None = None

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, h = state
        depth = input_depth(inputs)
        if depth % self._groups:
            raise GraphValueError(
                f"input size ({depth}) must be divisible by number_of_groups ({self._groups})"
            )
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            i, j, f, o = self._gates(inputs, h)
        new_c = sigmoid(f + self._forget_bias) * c + sigmoid(i) * tanh(j)
        new_h: Any = sigmoid(o) * self._activation(new_c)
        if self._num_proj is not None:
            with variable_scope("projection"):
                if self._projection is None:
                    self._projection = Linear(new_h, self._num_proj, False)
                new_h = self._projection(new_h)
        return new_h, LSTMStateTuple(new_c, new_h)

    def _gates(self, inputs: Any, h: Any) -> list[Any]:
        """Return the inputs of the gates, each of those of all groups."""
        parts = []
        pairs = zip(split(inputs, self._groups, 1), split(h, self._groups, 1), strict=True)
        for k, pair in enumerate(pairs):
            with variable_scope(f"group{k}"):
                joined = concat(list(pair), 1)
                if k not in self._linears:
                    self._linears[k] = Linear(joined, 4 * self._num_units // self._groups, False)
                parts.append(split(self._linears[k](joined), 4, 1))
        zero = constant_initializer(0.0)
        return [
            bias_add(
                concat(list(gate), 1), get_variable(f"bias_{name}", [self._num_units], inputs.dtype, zero)
            )
            for name, gate in zip("ijfo", zip(*parts, strict=True), strict=True)
        ]


class IndRNNCell(BasicRNNCell):
    """`BasicRNNCell` whose state is multiplied by a vector: `activation(inputs @ w + state * u + bias)`.

    Variables: `kernel_w`, `[depth of inputs, num_units]`; `kernel_u`, `[1, num_units]`, uniform in [-1, 1) at first; `bias`,
    zeros at first.

    Args:
        num_units: size of output and state.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        name: name of the variable scope, by default `ind_rnn_cell`.
        dtype: dtype of the variables, by default that of the inputs.
    """

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        self._w = self.add_variable("kernel_w", [depth_of(input_shape), units])
        self._u = _diagonal(self, "kernel_u", units)
        self._bias = self.add_variable("bias", [units], initializer=zeros_initializer(dtype=self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        output = self._activation(bias_add(matmul(inputs, self._w) + state * self._u, self._bias))
        return output, output


def _diagonal(cell: UnitsCell, name: str, width: int) -> Any:
    initial = random_uniform_initializer(-1, 1, dtype=cell.dtype)
    return cell.add_variable(name, [1, width], initializer=initial)


class IndyGRUCell(GRUCell):
    """`GRUCell` whose state is multiplied by vectors.

    Variables: `gates/kernel_w`, `[depth of inputs, 2 * num_units]`, `gates/kernel_u`, `[1, 2 * num_units]`, `gates/bias`, ones
    at first; `candidate/kernel_w`, `candidate/kernel_u`, `candidate/bias`, zeros at first. The vectors are uniform in [-1, 1)
    at first.

    Args:
        num_units, activation, reuse, kernel_initializer, bias_initializer, name, dtype: as for `GRUCell`; the name is
            `indy_gru_cell` by default.
    """

    def build(self, input_shape: Any) -> None:
        self._depth = depth_of(input_shape)
        one, zero = (
            constant_initializer(1.0, dtype=self.dtype),
            zeros_initializer(dtype=self.dtype),
        )
        self._gates = self._vectors("gates", 2 * self._num_units, one)
        self._candidate = self._vectors("candidate", self._num_units, zero)
        self.built = True

    def _vectors(self, prefix: str, width: int, bias: Any) -> tuple[Any, Any, Any]:
        w = self.add_variable(
            f"{prefix}/kernel_w", [self._depth, width], initializer=self._kernel_initializer
        )
        u = _diagonal(self, f"{prefix}/kernel_u", width)
        chosen = bias if self._bias_initializer is None else self._bias_initializer
        return w, u, self.add_variable(f"{prefix}/bias", [width], initializer=chosen)

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        r, u = split(sigmoid(_independent(inputs, tile(state, [1, 2]), *self._gates)), 2, axis=1)
        candidate = self._activation(_independent(inputs, r * state, *self._candidate))
        output = u * state + (1 - u) * candidate
        return output, output


def _independent(inputs: Any, state: Any, w: Any, u: Any, bias: Any) -> Tensor:
    return bias_add(matmul(inputs, w) + state * u, bias)


class IndyLSTMCell(UnitsCell):
    """`BasicLSTMCell` whose state is multiplied by vectors.

    Variables: `kernel_w`, `[depth of inputs, 4 * num_units]`; `kernel_u`, `[1, 4 * num_units]`, uniform in [-1, 1) at first;
    `bias`, zeros at first.

    Args:
        num_units: size of output, `c` and `h`.
        forget_bias: number added to the input of the forget gate.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        kernel_initializer: initializer of `kernel_w`, by default that of the scope.
        bias_initializer: initializer of the bias.
        name: name of the variable scope, by default `indy_lstm_cell`.
        dtype: dtype of the variables, by default that of the inputs.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype)
        self._forget_bias = forget_bias
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    def build(self, input_shape: Any) -> None:
        width = 4 * self._num_units
        self._w = self.add_variable(
            "kernel_w", [depth_of(input_shape), width], initializer=self._kernel_initializer
        )
        self._u = _diagonal(self, "kernel_u", width)
        initial = self._bias_initializer or zeros_initializer(dtype=self.dtype)
        self._bias = self.add_variable("bias", [width], initializer=initial)
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, h = state
        gates = _independent(inputs, tile(h, [1, 4]), self._w, self._u, self._bias)
        i, j, f, o = split(gates, 4, axis=1)
        new_c = c * sigmoid(f + self._forget_bias) + sigmoid(i) * self._activation(j)
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)
