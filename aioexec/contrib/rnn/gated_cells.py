"""Cells with gates of other kinds: neural architecture search, update gates, intersections, simple recurrent units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.contrib.rnn.linear import Linear
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.layers.arguments import initializer_of
from aioexec.ops.array.joining import concat, split
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.nn.activations import relu
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.initializers import constant_initializer, zeros_initializer
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from aioexec.recurrent.basic_cells import UnitsCell, depth_of
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.lstm_cells import LSTMStateTuple

Activation = Callable[[Any], Any]


def input_depth(inputs: Any) -> int:
    """Return the depth of inputs, a matrix.

    Raises:
        GraphValueError: it is unknown.
    """
    depth: int | None = inputs.shape.with_rank(2)[1].value
    if depth is None:
        raise GraphValueError("Could not infer input size from inputs.get_shape()[-1]")
    return depth


class NASCell(RNNCell):
    """The cell that a neural architecture search has found: a tree of sums and products of eight projections.

    Variables: `recurrent_kernel`, `[size of outputs, 8 * num_units]`; `kernel`, `[depth of inputs, 8 * num_units]`; with biases
    `bias`, zeros at first; with a projection `projection_weights`, `[num_units, num_proj]`.

    Args:
        num_units: size of `c`, and of output and `h` unless they are projected.
        num_proj: size of output and `h` after a projection.
        use_biases: add a bias to the projections.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: (in a call) the depth of the inputs is unknown.
    """

    def __init__(
        self, num_units: int, num_proj: int | None = None, use_biases: bool = False, reuse: Any = None
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._num_proj = num_proj
        self._use_biases = use_biases

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._num_units if self._num_proj is None else self._num_proj

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, m = state
        width, dtype = 8 * self._num_units, inputs.dtype
        recurrent = get_variable("recurrent_kernel", [self.output_size, width], dtype)
        kernel = get_variable("kernel", [input_depth(inputs), width], dtype)
        of_state, of_inputs = matmul(m, recurrent), matmul(inputs, kernel)
        if self._use_biases:
            of_state = bias_add(of_state, get_variable("bias", [width], dtype, zeros_initializer()))
        h, x = split(of_state, 8, axis=1), split(of_inputs, 8, axis=1)
        one = tanh(sigmoid(x[0] + h[0]) * relu(x[1] + h[1]))
        other = tanh(sigmoid(x[2] + h[2]) + relu(x[3] * h[3]))
        third = tanh(tanh(x[4] + h[4]) * sigmoid(x[5] + h[5]))
        fourth = sigmoid(tanh(x[6] + h[6]) + sigmoid(x[7] + h[7]))
        new_c = tanh(one + c) * other
        new_m = tanh(new_c * tanh(third + fourth))
        if self._num_proj is not None:
            new_m = matmul(
                new_m, get_variable("projection_weights", [self._num_units, self._num_proj], dtype)
            )
        return new_m, LSTMStateTuple(new_c, new_m)


class UGRNNCell(RNNCell):
    """The cell with one gate, the update gate.

    With `g, c` the parts of `[inputs, state] @ kernel + bias`, output and new state are `s * state + (1 - s) * activation(c)`,
    `s = sigmoid(g + forget_bias)`.

    Variables: `kernel`, `[depth of inputs + num_units, 2 * num_units]`; `bias`, zeros at first.

    Args:
        num_units: size of output and state.
        initializer: initializer of the kernel, by default that of the scope.
        forget_bias: number added to the input of the gate.
        activation: the activation function.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: (in a call) the depth of the inputs is unknown.
    """

    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Activation = tanh,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation
        self._linear: Linear | None = None

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        input_depth(inputs)
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            joined = concat([inputs, state], 1)
            if self._linear is None:
                self._linear = Linear(joined, 2 * self._num_units, True)
            gate, candidate = split(self._linear(joined), 2, axis=1)
        g = sigmoid(gate + self._forget_bias)
        new_state = g * state + (1.0 - g) * self._activation(candidate)
        return new_state, new_state


class IntersectionRNNCell(RNNCell):
    """The cell with a gate through time and a gate through depth.

    With `g, h, d, y` the parts of `[inputs, state] @ kernel + bias`: the new state is `s * state + (1 - s) * tanh(h)`,
    `s = sigmoid(g + forget_bias)`; the output is `t * inputs + (1 - t) * y_activation(y)`, `t = sigmoid(d + forget_bias)`.

    Variables: `kernel`, `[2 * num_units, 4 * num_units]`; `bias`, zeros at first; for inputs of another depth
    `in_projection/kernel` and `in_projection/bias`.

    Args:
        num_units: size of inputs, output and state.
        num_in_proj: if set, inputs of another depth are projected.
        initializer: initializer of the kernels, by default that of the scope.
        forget_bias: number added to the inputs of both gates.
        y_activation: the activation function through depth.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: (in a call) the depth of the inputs is unknown, or is another one without a projection.
    """

    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Activation = relu,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._num_in_proj = num_in_proj
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._y_activation = y_activation
        self._projection: Linear | None = None
        self._linear: Linear | None = None

    @property
    def state_size(self) -> Any:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            if input_depth(inputs) != self._num_units:
                inputs = self._projected(inputs)
            joined = concat([inputs, state], 1)
            if self._linear is None:
                self._linear = Linear(joined, 4 * self._num_units, True)
            gate, h, depth_gate, y = split(self._linear(joined), 4, axis=1)
        g, d = sigmoid(gate + self._forget_bias), sigmoid(depth_gate + self._forget_bias)
        new_state = g * state + (1.0 - g) * tanh(h)
        return d * inputs + (1.0 - d) * self._y_activation(y), new_state

    def _projected(self, inputs: Any) -> Tensor:
        if not self._num_in_proj:
            raise GraphValueError(
                "Must have input size == output size for Intersection RNN. "
                "To fix, num_in_proj should be set to num_units at cell init."
            )
        with variable_scope("in_projection"):
            if self._projection is None:
                self._projection = Linear(inputs, self._num_units, True)
            return self._projection(inputs)


class SRUCell(UnitsCell):
    """The simple recurrent unit: gates and candidates depend on the inputs only.

    With `x, f, r, t` the parts of `inputs @ kernel`: the new state is `c = s * state + (1 - s) * x`, `s = sigmoid(f + bias)`;
    the output is `u * activation(c) + (1 - u) * t`, `u = sigmoid(r + bias)`.

    Variables: `kernel`, `[depth of inputs, 4 * num_units]`; `bias`, `[2 * num_units]`, zeros at first.

    Args:
        num_units: size of output and state.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        name: name of the variable scope, by default `sru_cell`.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, kwargs.pop("dtype", None), **kwargs)

    def build(self, input_shape: Any) -> None:
        units = self._num_units
        self._kernel = self.add_variable("kernel", [depth_of(input_shape), 4 * units])
        self._bias = self.add_variable("bias", [2 * units], initializer=constant_initializer(0.0))
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        x, f, r, t = split(matmul(inputs, self._kernel), 4, axis=1)
        gates = sigmoid(bias_add(concat([f, r], 1), self._bias))
        f, r = split(gates, 2, axis=1)
        c = f * state + (1.0 - f) * x
        return r * self._activation(c) + (1.0 - r) * t, c


class MinimalRNNCell(UnitsCell):
    """The cell that mixes projected inputs and state by one gate.

    With `z = activation(inputs @ W)` and `u = sigmoid([z, state] @ V + bias)`, output and new state are `u * state + (1 - u) *
    z`.

    Variables: `kernel`, W above V, `[depth of inputs + 2 * units, units]`; `bias`, ones at first.

    Args:
        units: size of output and state.
        activation: a function or its name.
        kernel_initializer, bias_initializer: an initializer or its name.
        name: name of the variable scope, by default `minimal_rnn_cell`.
        dtype: dtype of the variables, by default that of the inputs.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "ones",
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, kwargs.pop("_reuse", None), name, dtype, **kwargs)
        self._kernel_initializer = initializer_of(kernel_initializer)
        self._bias_initializer = initializer_of(bias_initializer)

    def build(self, input_shape: Any) -> None:
        self._depth, units = depth_of(input_shape), self._num_units
        shape = [self._depth + 2 * units, units]
        self._kernel = self.add_variable("kernel", shape, initializer=self._kernel_initializer)
        self._bias = self.add_variable("bias", [units], initializer=self._bias_initializer)
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        w, v = split(self._kernel, [self._depth, 2 * self._num_units], 0)
        z = self._activation(matmul(inputs, w))
        u = sigmoid(bias_add(matmul(concat([z, state], 1), v), self._bias))
        output = u * state + (1 - u) * z
        return output, output


class CFNCell(UnitsCell):
    """The chaos-free network: the state shrinks, and the inputs are added to it.

    With `t, e` the parts of `sigmoid(inputs @ V + state @ recurrent_kernel + bias)`, output and new state are
    `t * activation(state) + (1 - e) * activation(inputs @ W)`.

    Variables: `kernel`, V beside W, `[depth of inputs, 3 * units]`; `recurrent_kernel`, `[units, 2 * units]`; `bias`, ones at
    first.

    Args:
        units, activation, kernel_initializer, bias_initializer, name, dtype: as for `MinimalRNNCell`; the name is `cfn_cell` by
            default.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "ones",
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(units, activation, kwargs.pop("_reuse", None), name, dtype, **kwargs)
        self._kernel_initializer = initializer_of(kernel_initializer)
        self._bias_initializer = initializer_of(bias_initializer)

    def build(self, input_shape: Any) -> None:
        units, initial = self._num_units, self._kernel_initializer
        self._kernel = self.add_variable("kernel", [depth_of(input_shape), 3 * units], initializer=initial)
        self._recurrent = self.add_variable("recurrent_kernel", [units, 2 * units], initializer=initial)
        self._bias = self.add_variable("bias", [2 * units], initializer=self._bias_initializer)
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        v, w = split(self._kernel, [2 * self._num_units, self._num_units], 1)
        gates = bias_add(matmul(state, self._recurrent) + matmul(inputs, v), self._bias)
        t, e = split(sigmoid(gates), 2, 1)
        output = t * self._activation(state) + (1 - e) * self._activation(matmul(inputs, w))
        return output, output
