"""Cells whose step, or whole sequence, TensorFlow computes by one op; here they are made of the ops of the plain cells.

Their variables have the names of the plain cells, so checkpoints of these restore them; but for `GRUBlockCell`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.layers.base import Layer
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import stack, unstack
from aioexec.ops.state.initializers import constant_initializer
from aioexec.recurrent.basic_cells import GRUCell, depth_of
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.dynamic import dynamic_rnn
from aioexec.recurrent.lstm_cells import GATES, LSTMCell, LSTMStateTuple


class LSTMBlockCell(LSTMCell):
    """`LSTMCell` without projection, with tanh and a state that is a tuple.

    Variables: `kernel`, `[depth of inputs + num_units, 4 * num_units]`; `bias`, zeros at first; with peepholes `w_i_diag`,
    `w_f_diag`, `w_o_diag`, `[num_units]`.

    Args:
        num_units: size of output, `c` and `h`.
        forget_bias: number added to the input of the forget gate.
        cell_clip: largest magnitude of an element of the new memory; None or a negative number for none.
        use_peephole: add the peepholes.
        dtype: dtype of the variables, by default that of the inputs.
        reuse: whether the variables must exist already.
        name: name of the variable scope.

    Raises:
        GraphValueError: (in a call) the inputs are no matrix, or have an unknown depth; or the state is no pair.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Any = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes=use_peephole,
            cell_clip=_clip_of(cell_clip),
            forget_bias=forget_bias,
            reuse=reuse,
            name=name,
            dtype=dtype,
        )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if len(state) != 2:
            raise GraphValueError("Expecting state to be a tuple with length 2.")
        return super().call(inputs, state)


def _clip_of(cell_clip: float | None) -> float | None:
    return None if cell_clip is None or cell_clip <= 0 else cell_clip


class LSTMBlockWrapper(Layer):
    """The base of LSTMs that run over whole sequences; subclasses define `num_units` and `step_cell()`.

    `step_cell()` returns a cell for the steps, which reads the variables of the layer; it is called outside of the loop.
    """

    @property
    def num_units(self) -> int:
        """The size of the outputs; abstract, as in TensorFlow."""
        raise NotImplementedError("Abstract method")

    def step_cell(self) -> Any:
        """Return the cell of the steps; abstract."""
        raise NotImplementedError("Abstract method")

    def call(
        self, inputs: Any, initial_state: Any = None, dtype: Any = None, sequence_length: Any = None
    ) -> tuple[Any, Any]:
        """Run over sequences.

        Args:
            inputs: `[steps, batch, depth]`, or a list of `[batch, depth]` for each step.
            initial_state: a pair `(c, h)`; zeros by default.
            dtype: dtype of the zeros; required without `initial_state`.
            sequence_length: integer vector of the batch. Past the end of a sequence its outputs are zero, and its state is that
                at its end.

        Returns:
            The outputs in the form of the inputs, and an LSTMStateTuple.

        Raises:
            GraphValueError: there is neither a state nor a dtype, the state is no pair, or the depth is unknown.
        """
        if initial_state is None and dtype is None:
            raise GraphValueError("Either initial_state or dtype needs to be specified")
        if initial_state is not None and len(initial_state) != 2:
            raise GraphValueError("Expecting initial_state to be a tuple with length 2 or None")
        is_list = isinstance(inputs, list)
        outputs, state = dynamic_rnn(
            self.step_cell(),
            stack(inputs) if is_list else inputs,
            sequence_length,
            None if initial_state is None else LSTMStateTuple(*initial_state),
            dtype,
            time_major=True,
        )
        return unstack(outputs) if is_list else outputs, state


def with_values(cell: RNNCell, values: Mapping[str, Any]) -> RNNCell:
    """Return a cell that reads its variables, the attributes of these names, from tensors; it creates none."""
    vars(cell).update(values)
    cell.built = True
    return cell


class LSTMBlockFusedCell(LSTMBlockWrapper):
    """An LSTM over whole sequences, time-major; the arguments of a call are those of `LSTMBlockWrapper.call`.

    Variables: those of `LSTMBlockCell`.

    Args:
        num_units, forget_bias, cell_clip, use_peephole, reuse, dtype: as for `LSTMBlockCell`.
        name: name of the variable scope.

    Raises:
        GraphValueError: (in a call) there is neither a state nor a dtype, the state is no pair, or the depth is unknown.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        super().__init__(_reuse=reuse, name=name, dtype=dtype)
        self._num_units = num_units
        self._options: dict[str, Any] = {
            "forget_bias": forget_bias,
            "cell_clip": _clip_of(cell_clip),
            "use_peepholes": use_peephole,
        }

    @property
    def num_units(self) -> int:
        return self._num_units

    def build(self, input_shape: Any) -> None:
        # Of a list of inputs, the shape is a list of those of all steps.
        depth = depth_of(input_shape[0] if isinstance(input_shape, list) else input_shape)
        units = self._num_units
        self._held = {
            "_kernel": self.add_variable("kernel", [depth + units, GATES * units]),
            "_bias": self.add_variable("bias", [GATES * units], initializer=constant_initializer(0.0)),
        }
        if self._options["use_peepholes"]:
            for gate in "ifo":
                self._held[f"_w_{gate}_diag"] = self.add_variable(f"w_{gate}_diag", [units])
        self.built = True

    def step_cell(self) -> Any:
        """Return the cell of the steps."""
        values = {name: identity(variable) for name, variable in self._held.items()}
        return with_values(LSTMCell(self._num_units, **self._options), values)


class GRUBlockCell(GRUCell):
    """`GRUCell` with tanh and other names.

    Variables: `w_ru`, `[depth of inputs + num_units, 2 * num_units]`; `b_ru`, ones at first; `w_c`,
    `[depth of inputs + num_units, num_units]`; `b_c`, zeros at first.

    Args:
        num_units: size of output and state.
        cell_size: the older name of `num_units`.
        reuse: whether the variables must exist already.
        name: name of the variable scope.

    Raises:
        GraphValueError: not exactly one of the sizes is given; or (in a call) the inputs are no matrix or of unknown depth.
    """

    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: Any = None,
        name: str = "gru_cell",
    ) -> None:
        if (cell_size is None) == (num_units is None):
            raise GraphValueError("Exactly one of num_units or cell_size must be provided.")
        super().__init__(num_units or cell_size or 0, reuse=reuse, name=name)

    def build(self, input_shape: Any) -> None:
        rows, units = depth_of(input_shape) + self._num_units, self._num_units
        one, zero = constant_initializer(1.0), constant_initializer(0.0)
        self._gate_kernel = self.add_variable("w_ru", [rows, 2 * units])
        self._gate_bias = self.add_variable("b_ru", [2 * units], initializer=one)
        self._candidate_kernel = self.add_variable("w_c", [rows, units])
        self._candidate_bias = self.add_variable("b_c", [units], initializer=zero)
        self.built = True


class GRUBlockCellV2(GRUBlockCell):
    """`GRUBlockCell` with the names of the variables of `GRUCell`; the arguments are those of `GRUBlockCell`."""

    def build(self, input_shape: Any) -> None:
        GRUCell.build(self, input_shape)
