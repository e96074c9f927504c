"""The cells with long short-term memory: the basic one, and the one with peepholes, projection and clipping."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from aioexec.errors import GraphTypeError
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat, split
from aioexec.ops.array.slicing import slice_
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.arithmetic import add, multiply
from aioexec.ops.math.extremes import clip_by_value
from aioexec.ops.math.math_functions import sigmoid
from aioexec.ops.state.initializers import zeros_initializer
from aioexec.ops.state.partitioned_variables import fixed_size_partitioner
from aioexec.recurrent.basic_cells import BIAS, KERNEL, UnitsCell, affine, depth_of

GATES: Final = 4
"""The parts of the product of inputs and state, in this order: input gate, new input, forget gate, output gate."""


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM cell: the memory `c` and the last output `h`, or the sizes of both."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        """The dtype of both.

        Raises:
            GraphTypeError: they differ.
        """
        if self.c.dtype != self.h.dtype:
            raise GraphTypeError(f"Inconsistent internal state: {self.c.dtype} vs {self.h.dtype}")
        return self.c.dtype


class BasicLSTMCell(UnitsCell):
    """The LSTM cell without peepholes, projection and clipping.

    With `i, j, f, o` the parts of `[inputs, h] @ kernel + bias`:
    `new_c = c * sigmoid(f + forget_bias) + sigmoid(i) * activation(j)`, `new_h = activation(new_c) * sigmoid(o)`. The output is
    `new_h`.

    Variables: `kernel`, `[depth of inputs + num_units, 4 * num_units]`; `bias`, `[4 * num_units]`, zeros at first.

    Args:
        num_units: size of output, `c` and `h`.
        forget_bias: number added to the input of the forget gate.
        state_is_tuple: the state is an LSTMStateTuple; else `c` and `h` are concatenated along the second dimension.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        name: name of the variable scope, by default `basic_lstm_cell`.
        dtype: dtype of the variables, by default that of the inputs.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        return (
            LSTMStateTuple(self._num_units, self._num_units) if self._state_is_tuple else 2 * self._num_units
        )

    def build(self, input_shape: Any) -> None:
        width = GATES * self._num_units
        self._kernel = self.add_variable(KERNEL, shape=[depth_of(input_shape) + self._num_units, width])
        self._bias = self.add_variable(BIAS, shape=[width], initializer=zeros_initializer(dtype=self.dtype))
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        c, h = state if self._state_is_tuple else split(state, 2, axis=1)
        gates = affine(inputs, h, self._kernel, self._bias)
        i, j, f, o = split(gates, GATES, axis=1)
        kept = multiply(c, sigmoid(add(f, self._forget_bias)))
        new_c = add(kept, multiply(sigmoid(i), self._activation(j)))
        new_h = multiply(self._activation(new_c), sigmoid(o))
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else concat([new_c, new_h], 1)


class LSTMCell(UnitsCell):
    """The LSTM cell with optional peepholes, projection and clipping.

    As `BasicLSTMCell`; with peepholes the gates have added inputs: the input and forget gates the old `c`, the output gate the
    new one, each times a vector. The memory is clipped, then the output is projected, then clipped.

    Variables: `kernel`, `[depth of inputs + size of outputs, 4 * num_units]`; `bias`, `[4 * num_units]`, zeros at first; with
    peepholes `w_f_diag`, `w_i_diag`, `w_o_diag`, `[num_units]`; with a projection `projection/kernel`, `[num_units, num_proj]`.

    Args:
        num_units: size of `c`, and of output and `h` unless they are projected.
        use_peepholes: add the peepholes.
        cell_clip: largest magnitude of an element of the new memory.
        initializer: initializer of kernels and peepholes, by default that of the scope.
        num_proj: size of output and `h` after a projection.
        proj_clip: largest magnitude of an element of a projected output.
        num_unit_shards: number of partitions of the kernel.
        num_proj_shards: number of partitions of the projection.
        forget_bias: number added to the input of the forget gate.
        state_is_tuple: the state is an LSTMStateTuple; else `c` and `h` are concatenated along the second dimension.
        activation: a function or its name, by default tanh.
        reuse: whether the variables must exist already.
        name: name of the variable scope, by default `lstm_cell`.
        dtype: dtype of the variables, by default that of the inputs.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_units, activation, reuse, name, dtype, **kwargs)
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._initializer = initializer
        self._num_proj = num_proj
        self._proj_clip = proj_clip
        self._num_unit_shards = num_unit_shards
        self._num_proj_shards = num_proj_shards
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = LSTMStateTuple(self._num_units, self.output_size)
        return sizes if self._state_is_tuple else sizes.c + sizes.h

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def build(self, input_shape: Any) -> None:
        units, width = self._num_units, GATES * self._num_units
        self._kernel = self.add_variable(
            KERNEL,
            shape=[depth_of(input_shape) + self.output_size, width],
            initializer=self._initializer,
            partitioner=_partitioner(self._num_unit_shards),
        )
        zeros = zeros_initializer() if self.dtype is None else zeros_initializer(dtype=self.dtype)
        self._bias = self.add_variable(BIAS, shape=[width], initializer=zeros)
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = [
                self.add_variable(f"w_{gate}_diag", shape=[units], initializer=self._initializer)
                for gate in "fio"
            ]
        if self._num_proj is not None:
            self._projection = self.add_variable(
                f"projection/{KERNEL}",
                shape=[units, self._num_proj],
                initializer=self._initializer,
                partitioner=_partitioner(self._num_proj_shards),
            )
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        c, h = state if self._state_is_tuple else self._parts(state)
        gates = affine(inputs, h, self._kernel, self._bias)
        i, j, f, o = split(gates, GATES, axis=1)
        f = f + self._forget_bias
        if self._use_peepholes:
            f, i = f + self._w_f_diag * c, i + self._w_i_diag * c
        new_c = sigmoid(f) * c + sigmoid(i) * self._activation(j)
        if self._cell_clip is not None:
            new_c = clip_by_value(new_c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._w_o_diag * new_c
        new_h = self._projected(sigmoid(o) * self._activation(new_c))
        return new_h, LSTMStateTuple(new_c, new_h) if self._state_is_tuple else concat([new_c, new_h], 1)

    def _parts(self, state: Any) -> tuple[Tensor, Tensor]:
        """Return memory and last output from their concatenation."""
        units = self._num_units
        return slice_(state, [0, 0], [-1, units]), slice_(state, [0, units], [-1, self.output_size])

    def _projected(self, output: Any) -> Any:
        if self._num_proj is None:
            return output
        output = matmul(output, self._projection)
        if self._proj_clip is not None:
            output = clip_by_value(output, -self._proj_clip, self._proj_clip)
        return output


def _partitioner(count: int | None) -> Any:
    return None if count is None else fixed_size_partitioner(count)
