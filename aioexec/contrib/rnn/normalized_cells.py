"""LSTM cells with normalized gates, and with coupled gates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.contrib.rnn.gated_cells import input_depth
from aioexec.contrib.rnn.linear import Linear
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat, split
from aioexec.ops.array.slicing import slice_
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.extremes import clip_by_value
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.nn.nn_ops import bias_add, l2_normalize
from aioexec.ops.normalization.functions import batch_normalization
from aioexec.ops.random.random_ops import dropout
from aioexec.ops.reduction.statistics import moments
from aioexec.ops.state.initializers import constant_initializer, zeros_initializer
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from aioexec.recurrent.basic_cells import activation_of
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.lstm_cells import LSTMStateTuple

Activation = Callable[[Any], Any]
_EPSILON = 1e-12
_WEIGHT_NORM = "wn_lstm_cell"


def layer_normalized(x: Tensor, scope: str, gain: float, shift: float) -> Tensor:
    """Return the rows of a matrix with mean 0 and variance 1, times `gamma`, plus `beta`, variables of the scope.

    Args:
        gain, shift: `gamma` and `beta` at first.
    """
    size, dtype = x.shape[-1:], x.dtype
    with variable_scope(scope):
        gamma = get_variable("gamma", size, dtype, constant_initializer(gain))
        beta = get_variable("beta", size, dtype, constant_initializer(shift))
    mean, variance = moments(x, [1], keepdims=True)
    return batch_normalization(x, mean, variance, beta, gamma, _EPSILON)


class LayerNormBasicLSTMCell(RNNCell):
    """`BasicLSTMCell` with layer normalization of the gates and the memory, and dropout of the new input.

    Variables: `kernel`, `[depth of inputs + num_units, 4 * num_units]`; `gamma` and `beta`, `[num_units]`, in the scopes
    `input`, `transform`, `forget`, `output` and `state`; without normalization in their place `bias`, `[4 * num_units]`.

    Args:
        num_units: size of output, `c` and `h`.
        forget_bias: number added to the input of the forget gate.
        input_size: ignored, as in TensorFlow.
        activation: the activation function.
        layer_norm: whether to normalize.
        norm_gain, norm_shift: `gamma` and `beta` at first.
        dropout_keep_prob: probability to keep an element of the new input, a number or scalar tensor.
        dropout_prob_seed: seed of the dropout.
        reuse: whether the variables must exist already.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Activation = tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._activation = activation
        self._forget_bias = forget_bias
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, h = state
        parts = split(self._product(concat([inputs, h], 1)), 4, axis=1)
        scopes = ("input", "transform", "forget", "output")
        i, j, f, o = [self._normalized(part, scope) for part, scope in zip(parts, scopes, strict=True)]
        new_input = self._activation(j)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            new_input = dropout(new_input, self._keep_prob, seed=self._seed)
        new_c = c * sigmoid(f + self._forget_bias) + sigmoid(i) * new_input
        new_c = self._normalized(new_c, "state")
        new_h = self._activation(new_c) * sigmoid(o)
        return new_h, LSTMStateTuple(new_c, new_h)

    def _product(self, joined: Tensor) -> Tensor:
        width = 4 * self._num_units
        product: Tensor = matmul(joined, get_variable("kernel", [joined.shape[-1], width], joined.dtype))
        return product if self._layer_norm else bias_add(product, get_variable("bias", [width], joined.dtype))

    def _normalized(self, x: Tensor, scope: str) -> Tensor:
        return layer_normalized(x, scope, self._norm_gain, self._norm_shift) if self._layer_norm else x


class CoupledInputForgetGateLSTMCell(RNNCell):
    """The LSTM cell whose input gate is one minus the forget gate, with optional peepholes, projection and normalization.

    Variables: `W_k`, the parts of the kernel `[depth of inputs + size of outputs, 3 * num_units]` along the first dimension;
    `B`, zeros at first; with peepholes `W_F_diag` and `W_O_diag`; with a projection `W_P_k`, the parts of
    `[num_units, num_proj]`; with normalization `gamma` and `beta` in the scopes `transform`, `forget`, `output` and `state`.

    Args:
        num_units: size of `c`, and of output and `h` unless they are projected.
        use_peepholes: add the peepholes.
        initializer: ignored, as in TensorFlow: the initializer is that of the scope.
        num_proj: size of output and `h` after a projection.
        proj_clip: largest magnitude of an element of a projected output.
        num_unit_shards, num_proj_shards: number of parts of the kernel and of the projection.
        forget_bias: number added to the input of the forget gate.
        state_is_tuple: the state is an LSTMStateTuple; else `c` and `h` are concatenated along the second dimension.
        activation: the activation function.
        reuse: whether the variables must exist already.
        layer_norm: whether to normalize the gates and the memory; then `B` is not added.
        norm_gain, norm_shift: `gamma` and `beta` at first.

    Raises:
        GraphValueError: (in a call) the depth of the inputs is unknown.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation = tanh,
        reuse: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple
        self._activation = activation
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift

    @property
    def state_size(self) -> Any:
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sizes.c + sizes.h

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        units, dtype = self._num_units, inputs.dtype
        c, h = state if self._state_is_tuple else self._parts(state)
        rows = input_depth(inputs) + self.output_size
        kernel = sharded_variable("W", [rows, 3 * units], dtype, self._num_unit_shards)
        bias = get_variable("B", [3 * units], dtype, zeros_initializer())
        product = matmul(concat([inputs, h], 1), kernel)
        if not self._layer_norm:
            product = bias_add(product, bias)
        j, f, o = split(product, 3, axis=1)
        j, f, o = [
            self._normalized(part, scope) for part, scope in ((j, "transform"), (f, "forget"), (o, "output"))
        ]
        f = f + self._forget_bias
        if self._use_peepholes:
            f = f + get_variable("W_F_diag", [units], dtype) * c
            output_peephole = get_variable("W_O_diag", [units], dtype)
        kept = sigmoid(f)
        new_c = self._normalized(kept * c + (1 - kept) * self._activation(j), "state")
        if self._use_peepholes:
            o = o + output_peephole * new_c
        new_h = self._projected(sigmoid(o) * self._activation(new_c))
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else concat([new_c, new_h], 1)

    def _parts(self, state: Any) -> tuple[Tensor, Tensor]:
        units = self._num_units
        return slice_(state, [0, 0], [-1, units]), slice_(state, [0, units], [-1, self.output_size])

    def _normalized(self, x: Tensor, scope: str) -> Tensor:
        return layer_normalized(x, scope, self._norm_gain, self._norm_shift) if self._layer_norm else x

    def _projected(self, output: Any) -> Any:
        if self._num_proj is None:
            return output
        kernel = sharded_variable(
            "W_P", [self._num_units, self._num_proj], output.dtype, self._num_proj_shards
        )
        output = matmul(output, kernel)
        return output if self._proj_clip is None else clip_by_value(output, -self._proj_clip, self._proj_clip)


def sharded_variable(name: str, shape: list[int], dtype: Any, count: int) -> Any:
    """Return a matrix whose parts along the first dimension are variables `name_k`; the first parts may have one row more."""
    rows, more = divmod(shape[0], count)
    parts = [get_variable(f"{name}_{k}", [rows + (k < more), *shape[1:]], dtype=dtype) for k in range(count)]
    return parts[0] if count == 1 else concat(parts, 0)


class WeightNormLSTMCell(RNNCell):
    """`LSTMCell` whose kernels have columns of learned norms.

    Variables: `kernel`, `[depth of inputs + size of outputs, 4 * num_units]`; `bias`, zeros at first; with normalization the
    norms of the columns `norm_0` for the part of the inputs, `norm_1` for that of the outputs; with peepholes `w_f_diag`,
    `w_i_diag`, `w_o_diag`; with a projection `projection/kernel` and its norms `projection/norm_0`. As in TensorFlow they are
    in the scope `wn_lstm_cell` of the cell's scope `wn_lstm_cell`.

    Args:
        num_units: size of `c`, and of output and `h` unless they are projected.
        norm: whether to normalize.
        use_peepholes: add the peepholes.
        cell_clip: largest magnitude of an element of the new memory.
        initializer: initializer of kernels, norms and peepholes, by default that of the scope.
        num_proj: size of output and `h` after a projection.
        proj_clip: largest magnitude of an element of a projected output.
        forget_bias: number added to the input of the forget gate.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
    """

    def __init__(
        self,
        num_units: int,
        norm: bool = True,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse, name=_WEIGHT_NORM)
        self._num_units = num_units
        self._norm = norm
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, h = state
        units, dtype = self._num_units, inputs.dtype
        with variable_scope(_WEIGHT_NORM, initializer=self._initializer):
            bias = get_variable("bias", [4 * units], dtype, constant_initializer(0.0))
            i, j, f, o = split(bias_add(self._product([inputs, h], 4 * units), bias), 4, axis=1)
            f = f + self._forget_bias
            if self._use_peepholes:
                w_f, w_i, w_o = [get_variable(f"w_{gate}_diag", [units], dtype) for gate in "fio"]
                f, i = f + w_f * c, i + w_i * c
            new_c = sigmoid(f) * c + sigmoid(i) * self._activation(j)
            if self._cell_clip is not None:
                new_c = clip_by_value(new_c, -self._cell_clip, self._cell_clip)
            if self._use_peepholes:
                o = o + w_o * new_c
            new_h = self._projected(sigmoid(o) * self._activation(new_c))
        return new_h, LSTMStateTuple(new_c, new_h)

    def _projected(self, output: Any) -> Any:
        if self._num_proj is None:
            return output
        with variable_scope("projection"):
            output = self._product([output], self._num_proj)
        return output if self._proj_clip is None else clip_by_value(output, -self._proj_clip, self._proj_clip)

    def _product(self, parts: list[Any], width: int) -> Tensor:
        """Return `concat(parts, 1) @ kernel`; the columns for each part have the norms of a variable of their own."""
        depths = [input_depth(part) for part in parts]
        dtype = parts[0].dtype
        kernel = get_variable("kernel", [sum(depths), width], dtype)
        if self._norm:
            kernel = concat(
                [
                    l2_normalize(rows, 0) * get_variable(f"norm_{k}", [width], dtype)
                    for k, rows in enumerate(split(kernel, depths, 0))
                ],
                0,
            )
        joined = parts[0] if len(parts) == 1 else concat(parts, 1)
        product: Tensor = matmul(joined, kernel)
        return product


class LayerNormLSTMCell(RNNCell):
    """`LSTMCell` with optional layer normalization of the gates and the memory.

    Variables: `kernel`, `[depth of inputs + size of outputs, 4 * num_units]`; `bias`, zeros at first; with peepholes
    `w_f_diag`, `w_i_diag`, `w_o_diag`; with a projection `projection/kernel`; with normalization `gamma` and `beta` in the
    scopes `input`, `transform`, `forget`, `output` and `state`, and the bias is not added.

    Args:
        num_units, use_peepholes, cell_clip, initializer, num_proj, proj_clip, forget_bias, activation, reuse: as for
            `LSTMCell`.
        layer_norm: whether to normalize.
        norm_gain, norm_shift: `gamma` and `beta` at first.

    Raises:
        GraphValueError: (in a call) the depth of the inputs is unknown.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1.0,
        activation: Any = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._layer_norm = layer_norm
        self._norm_gain = norm_gain
        self._norm_shift = norm_shift

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._num_units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        c, h = state
        input_depth(inputs)
        with variable_scope(get_variable_scope(), initializer=self._initializer):
            i, j, f, o = self._gates([inputs, h])
            f = f + self._forget_bias
            if self._use_peepholes:
                w_f, w_i, w_o = [
                    get_variable(f"w_{gate}_diag", [self._num_units], inputs.dtype) for gate in "fio"
                ]
                f, i = f + w_f * c, i + w_i * c
            new_c = self._normalized(sigmoid(f) * c + sigmoid(i) * self._activation(j), "state")
            if self._cell_clip is not None:
                new_c = clip_by_value(new_c, -self._cell_clip, self._cell_clip)
            if self._use_peepholes:
                o = o + w_o * new_c
            new_h = self._projected(sigmoid(o) * self._activation(new_c))
        return new_h, LSTMStateTuple(new_c, new_h)

    def _gates(self, parts: list[Any]) -> list[Tensor]:
        width = 4 * self._num_units
        linear = Linear(parts, width, False)
        product = linear(parts)
        bias = get_variable("bias", [width], parts[0].dtype, constant_initializer(0.0))
        if not self._layer_norm:
            product = bias_add(product, bias)
        scopes = ("input", "transform", "forget", "output")
        gates = split(product, 4, axis=1)
        return [self._normalized(gate, scope) for gate, scope in zip(gates, scopes, strict=True)]

    def _normalized(self, x: Any, scope: str) -> Any:
        return layer_normalized(x, scope, self._norm_gain, self._norm_shift) if self._layer_norm else x

    def _projected(self, output: Any) -> Any:
        if self._num_proj is None:
            return output
        with variable_scope("projection"):
            output = Linear(output, self._num_proj, False)(output)
        return output if self._proj_clip is None else clip_by_value(output, -self._proj_clip, self._proj_clip)
