"""Wrappers of cells: attention over the last outputs, highway connections, and compilation."""

from __future__ import annotations

from typing import Any

from aioexec.contrib.rnn.linear import Linear
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import expand_dims, reshape
from aioexec.ops.array.joining import concat
from aioexec.ops.array.slicing import slice_
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, is_sequence, pack_sequence_as
from aioexec.ops.convolution.conv import conv2d
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.nn.nn_ops import xw_plus_b
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.state.initializers import constant_initializer
from aioexec.ops.state.variable_scope import get_variable, variable_scope
from aioexec.recurrent.wrappers import CellWrapper


class AttentionCellWrapper(CellWrapper):
    """A cell that attends to its own last outputs: the state holds `attn_length` of them.

    Variables: `kernel` and `bias` for the inputs of the cell; `attention/attn_w`, `[1, 1, attn_size, attn_vec_size]`,
    `attention/attn_v`, `attention/kernel` and `attention/bias`; `attn_output_projection/kernel` and
    `attn_output_projection/bias` for the outputs.

    Args:
        cell: the cell.
        attn_length: number of outputs to attend to.
        attn_size: size of the outputs, by default that of the cell's.
        attn_vec_size: size of the compared vectors, by default `attn_size`.
        input_size: depth of the cell's inputs, by default that of the inputs.
        state_is_tuple: the state is a tuple of the cell's state, what was read last, and the last outputs; else these are
            concatenated along the second dimension.
        reuse: whether the variables must exist already.

    Raises:
        GraphTypeError: `cell` is no cell.
        GraphValueError: the cell's state is a tuple but `state_is_tuple` is not set, or `attn_length` is not positive.
    """

    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        super().__init__(cell, _reuse=reuse)
        if is_sequence(cell.state_size) and not state_is_tuple:
            raise GraphValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. "
                f"State size is: {cell.state_size}"
            )
        if attn_length <= 0:
            raise GraphValueError(f"attn_length should be greater than zero, got {attn_length}")
        self._size: int = cell.output_size if attn_size is None else attn_size
        self._vector_size = self._size if attn_vec_size is None else attn_vec_size
        self._length = attn_length
        self._input_size = input_size
        self._state_is_tuple = state_is_tuple
        self._linears: dict[str, Linear] = {}

    @property
    def state_size(self) -> Any:
        sizes = (self.cell.state_size, self._size, self._size * self._length)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:
        return self._size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return a state of zeros; see `RNNCell.zero_state`."""
        return super(CellWrapper, self).zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        cell_state, read, history = state if self._state_is_tuple else self._parts(state)
        history = reshape(history, [-1, self._length, self._size])
        depth = inputs.shape[1].value if self._input_size is None else self._input_size
        cell_inputs = self._linear("inputs", [inputs, read], depth)
        output, cell_state = self.cell(cell_inputs, cell_state)
        query = concat(flatten(cell_state), 1) if self._state_is_tuple else cell_state
        read, kept = self._attend(query, history)
        with variable_scope("attn_output_projection"):
            output = self._linear("output", [output, read], self._size)
        history = concat([kept, expand_dims(output, 1)], 1)
        new_state = (cell_state, read, reshape(history, [-1, self._length * self._size]))
        return output, new_state if self._state_is_tuple else concat(list(new_state), 1)

    def _linear(self, key: str, arguments: Any, size: int) -> Tensor:
        if key not in self._linears:
            self._linears[key] = Linear(arguments, size, True)
        return self._linears[key](arguments)

    def _parts(self, state: Any) -> list[Tensor]:
        found, first = [], 0
        for size in (self.cell.state_size, self._size, self._size * self._length):
            found.append(slice_(state, [0, first], [-1, size]))
            first += size
        return found

    def _attend(self, query: Any, history: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is read, `[batch, size]`, and the outputs without the first one."""
        with variable_scope("attention"):
            kernel = get_variable("attn_w", [1, 1, self._size, self._vector_size])
            v = get_variable("attn_v", [self._vector_size])
            hidden = reshape(history, [-1, self._length, 1, self._size])
            features = conv2d(hidden, kernel, [1, 1, 1, 1], "SAME")
            y = reshape(self._linear("query", query, self._vector_size), [-1, 1, 1, self._vector_size])
            weights = softmax(reduce_sum(v * tanh(features + y), [2, 3]))
            read = reduce_sum(reshape(weights, [-1, self._length, 1, 1]) * hidden, [1, 2])
            return reshape(read, [-1, self._size]), slice_(history, [0, 1, 0], [-1, -1, -1])


class HighwayWrapper(CellWrapper):
    """Mixes the outputs of a cell with its inputs: `inputs * carry + outputs * transform`, in each part.

    Variables, in the current scope: `carry_w`, `[depth, depth]`, and `carry_b`, of `carry = sigmoid(inputs @ w + b)`; unless
    the gates are coupled also `transform_w` and `transform_b`.

    Args:
        cell: the cell, with outputs like its inputs.
        couple_carry_transform_gates: the transform gate is one minus the carry gate.
        carry_bias_init: `carry_b` at first, and minus `transform_b`.

    Raises:
        GraphTypeError: `cell` is no cell.
        GraphValueError: (in a call) inputs and outputs have different structures or shapes.
    """

    def __init__(
        self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0
    ) -> None:
        super().__init__(cell)
        self._couples = couple_carry_transform_gates
        self._carry_bias_init = carry_bias_init

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        outputs, new_state = self.cell(inputs, state, scope=scope)
        assert_same_structure(inputs, outputs)
        mixed = []
        for one, other in zip(flatten(inputs), flatten(outputs), strict=True):
            one.shape.assert_is_compatible_with(other.shape)
            mixed.append(self._mixed(one, other))
        return pack_sequence_as(outputs, mixed), new_state

    def _mixed(self, inputs: Any, outputs: Any) -> Any:
        carry = self._gate("carry", inputs, self._carry_bias_init)
        transform = 1 - carry if self._couples else self._gate("transform", inputs, -self._carry_bias_init)
        return inputs * carry + outputs * transform

    @staticmethod
    def _gate(name: str, inputs: Any, bias: float) -> Any:
        depth = inputs.shape.with_rank(2)[1].value
        kernel = get_variable(f"{name}_w", [depth, depth])
        return sigmoid(
            xw_plus_b(inputs, kernel, get_variable(f"{name}_b", [depth], None, constant_initializer(bias)))
        )


class CompiledWrapper(CellWrapper):
    """A cell as it is: here all cells are compiled.

    Args:
        cell: the cell.
        compile_stateful: ignored.

    Raises:
        GraphTypeError: `cell` is no cell.
    """

    def __init__(self, cell: Any, compile_stateful: bool = False) -> None:
        super().__init__(cell)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self.cell(inputs, state, scope=scope)
        return found
