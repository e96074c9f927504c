"""Networks of several layers over whole sequences, in one or both directions, with the interface of those that cuDNN computes.

They run on any device. TensorFlow keeps all weights in one variable, in cuDNN's layout, and saves them in the layout and under
the names of plain cells. Here the variables have that layout and these names, so checkpoints are the same.
"""

from __future__ import annotations

from typing import Any, Final

from aioexec import dtypes
from aioexec.contrib.cudnn_rnn.cells import CudnnCompatibleGRUCell
from aioexec.contrib.rnn.block_cells import with_values
from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.base import Layer
from aioexec.layers.input_spec import InputSpec
from aioexec.ops.array.arrays import transpose
from aioexec.ops.array.filling import zeros
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.nn.activations import relu
from aioexec.ops.random.random_ops import dropout
from aioexec.ops.state.initializers import constant_initializer, glorot_uniform_initializer
from aioexec.recurrent.basic_cells import BasicRNNCell
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.dynamic import bidirectional_dynamic_rnn, dynamic_rnn
from aioexec.recurrent.lstm_cells import LSTMCell, LSTMStateTuple
from aioexec.recurrent.states import transpose_batch_time
from aioexec.shapes import TensorShape

CUDNN_RNN_UNIDIRECTION: Final = "unidirectional"
CUDNN_RNN_BIDIRECTION: Final = "bidirectional"
CUDNN_INPUT_LINEAR_MODE: Final = "linear_input"
CUDNN_INPUT_SKIP_MODE: Final = "skip_input"
CUDNN_INPUT_AUTO_MODE: Final = "auto_select"


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A variable of a layer: its name, the attribute of the cell, and how many gates it has.

    `of_inputs` and `of_state`: whether a kernel has rows for them; a bias has neither.
    """

    name: str
    attribute: str
    gates: int
    of_inputs: bool = False
    of_state: bool = False


def _plain(gates: int) -> tuple[_Parameter, ...]:
    kernel = _Parameter("kernel", "_kernel", gates, of_inputs=True, of_state=True)
    return kernel, _Parameter("bias", "_bias", gates)


class CudnnRNN(Layer):
    """The base of the networks; subclasses define the cell.

    Variables: those of the cells, under `rnn/multi_rnn_cell/cell_K/CELL` for the layer K, or, in both directions,
    `stack_bidirectional_rnn/cell_K/bidirectional_rnn/fw/CELL` and `.../bw/CELL`.

    Args:
        num_layers: number of layers.
        num_units: size of the outputs of a layer in one direction.
        input_mode: "linear_input": the inputs are multiplied by a kernel. The other modes of cuDNN are not offered.
        direction: "unidirectional" or "bidirectional".
        dropout: probability to set an element of the inputs of a layer to zero in training, but for the first one.
        seed: seed of the dropout and of the initializer.
        dtype: float16, float32 or float64.
        kernel_initializer: initializer of the part of a kernel for one gate, transposed; by default Glorot's, uniform.
        bias_initializer: initializer of biases, zeros by default.
        name: name of the variable scope.

    Raises:
        GraphValueError: the mode, the direction or the dtype are not offered.
    """

    rnn_mode: str
    _cell_name: str
    _parameters: tuple[_Parameter, ...]

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = CUDNN_INPUT_LINEAR_MODE,
        direction: str = CUDNN_RNN_UNIDIRECTION,
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: Any = dtypes.float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=dtype, name=name)
        if direction not in (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION):
            raise GraphValueError(
                f"Invalid rnn direction: {direction!r}. Expecting {CUDNN_RNN_UNIDIRECTION} or {CUDNN_RNN_BIDIRECTION}"
            )
        if input_mode != CUDNN_INPUT_LINEAR_MODE:
            raise GraphValueError(
                f"input_mode {input_mode!r} is not offered, only {CUDNN_INPUT_LINEAR_MODE!r}"
            )
        if dtypes.as_dtype(dtype) not in (dtypes.float16, dtypes.float32, dtypes.float64):
            raise GraphValueError(f"Only support float16, float32, float64, provided {dtype}")
        self.num_layers = num_layers
        self.num_units = num_units
        self.input_mode = input_mode
        self.direction = direction
        self._dropout = dropout
        self._seed = seed
        self._kernel_initializer = kernel_initializer or glorot_uniform_initializer(seed=seed)
        self._bias_initializer = bias_initializer or constant_initializer(0.0)
        self._input_size: int | None = None

    @property
    def num_dirs(self) -> int:
        """The number of directions."""
        return 1 if self.direction == CUDNN_RNN_UNIDIRECTION else 2

    @property
    def input_size(self) -> int:
        """The depth of the inputs.

        Raises:
            GraphValueError: the layer has not been built.
        """
        if self._input_size is None:
            raise GraphValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    def state_shape(self, batch_size: Any) -> tuple[list[Any], ...]:
        """Return the shapes of the parts of the state, `[num_layers * num_dirs, batch_size, num_units]` each."""
        return ([self.num_layers * self.num_dirs, batch_size, self.num_units],)

    def build(self, input_shape: Any) -> None:
        known = TensorShape(input_shape)
        if known.ndims != 3:
            raise GraphValueError(f"Expecting input_shape with 3 dims, got {known.ndims}")
        if known[-1].value is None:
            raise GraphValueError(
                "The last dimension of the inputs to `CudnnRNN` should be defined. Found `None`."
            )
        self._input_size = int(known[-1])
        self.input_spec = InputSpec(ndim=3, axes={-1: self._input_size})
        self._held = [
            [self._variables_of(layer, direction) for direction in ("fw", "bw")[: self.num_dirs]]
            for layer in range(self.num_layers)
        ]
        self.built = True

    def _variables_of(self, layer: int, direction: str) -> dict[str, Any]:
        """Create the variables of one cell, by the attributes of the cell."""
        prefix = f"rnn/multi_rnn_cell/cell_{layer}"
        if self.num_dirs == 2:
            prefix = f"stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{direction}"
        depth = self.num_dirs * self.num_units if layer else self.input_size
        return {
            each.attribute: self._variable(f"{prefix}/{self._cell_name}/{each.name}", each, depth)
            for each in self._parameters
        }

    def _variable(self, name: str, parameter: _Parameter, depth: int) -> Any:
        units, gates = self.num_units, parameter.gates
        rows = [depth] * parameter.of_inputs + [units] * parameter.of_state
        if not rows:
            return self.add_variable(name, [gates * units], initializer=self._bias_initializer)

        def initial(shape: Any, dtype: Any = None, partition_info: Any = None) -> Tensor:
            columns = [
                concat([transpose(self._kernel_initializer([units, part], dtype=dtype)) for part in rows], 0)
                for _ in range(gates)
            ]
            return concat(columns, 1)

        return self.add_variable(name, [sum(rows), gates * units], initializer=initial)

    def call(
        self,
        inputs: Any,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: bool = True,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run the network.

        Args:
            inputs: `[steps, batch, depth]`, or `[batch, steps, depth]` if not `time_major`.
            initial_state: a tuple of the parts of the state, `[num_layers * num_dirs, batch, num_units]` each, or with the
                first two dimensions swapped if not `time_major`; `(h, c)` for an LSTM, else `(h,)`. Zeros by default.
            sequence_lengths: integer vector of the batch. Past the end of a sequence its outputs are zero, and its state is
                that at its end.
            time_major: the first two dimensions of inputs, outputs and states are steps, batch.
            training: apply dropout.

        Returns:
            The outputs, with `num_dirs * num_units` columns, and the last state.

        Raises:
            GraphTypeError: the state is no tuple.
        """
        if initial_state is not None and not isinstance(initial_state, tuple):
            raise GraphTypeError(f"Invalid initial_state type: {initial_state}, expecting tuple.")
        x = convert_to_tensor(inputs)
        if not time_major:
            x = transpose_batch_time(x)
        parts = self._state_parts(initial_state, x, time_major)
        ends: list[Any] = []
        for layer in range(self.num_layers):
            if layer and training and self._dropout:
                x = dropout(x, rate=self._dropout, seed=self._seed)
            first = layer * self.num_dirs
            starts = [self._state_of(parts, first + way) for way in range(self.num_dirs)]
            x, states = self._layer(layer, x, starts, sequence_lengths)
            ends += states
        last = tuple(stack(list(part)) for part in zip(*map(self._parts_of, ends), strict=True))
        if time_major:
            return x, last
        return transpose_batch_time(x), tuple(map(transpose_batch_time, last))

    def _state_parts(self, given: Any, x: Tensor, time_major: bool) -> list[Tensor]:
        if given is None:
            return [zeros(stack(dims), x.dtype) for dims in self.state_shape(shape(x)[1])]
        found = [convert_to_tensor(part, x.dtype) for part in given]
        return found if time_major else [transpose_batch_time(part) for part in found]

    def _layer(self, layer: int, x: Tensor, starts: list[Any], lengths: Any) -> tuple[Tensor, list[Any]]:
        """Run a layer; return its outputs and the last state of each direction."""
        cells = [
            with_values(self._cell(), {name: identity(value) for name, value in held.items()})
            for held in self._held[layer]
        ]
        if len(cells) == 1:
            outputs, state = dynamic_rnn(cells[0], x, lengths, starts[0], time_major=True)
            return outputs, [state]
        outputs, states = bidirectional_dynamic_rnn(
            cells[0], cells[1], x, lengths, starts[0], starts[1], time_major=True
        )
        return concat(list(outputs), 2), list(states)

    def _cell(self) -> RNNCell:
        """Return a cell without variables; abstract."""
        raise NotImplementedError("Abstract method")

    def _state_of(self, parts: list[Tensor], index: int) -> Any:
        """Return the state of a cell, from the parts of the state of the network."""
        return parts[0][index]

    def _parts_of(self, state: Any) -> tuple[Any, ...]:
        """Return the state of a cell as parts."""
        return (state,)


class CudnnLSTM(CudnnRNN):
    """A network of `CudnnCompatibleLSTMCell`s; the state is a pair `(h, c)`. The arguments are those of `CudnnRNN`."""

    rnn_mode = "lstm"
    _cell_name = "cudnn_compatible_lstm_cell"
    _parameters = _plain(4)

    def state_shape(self, batch_size: Any) -> tuple[list[Any], ...]:
        """Return the shapes of `h` and `c`, `[num_layers * num_dirs, batch_size, num_units]`."""
        return super().state_shape(batch_size) * 2

    def _cell(self) -> RNNCell:
        return LSTMCell(self.num_units, forget_bias=0)

    def _state_of(self, parts: list[Tensor], index: int) -> Any:
        return LSTMStateTuple(parts[1][index], parts[0][index])

    def _parts_of(self, state: Any) -> tuple[Any, ...]:
        return state.h, state.c


class CudnnGRU(CudnnRNN):
    """A network of `CudnnCompatibleGRUCell`s. The arguments are those of `CudnnRNN`."""

    rnn_mode = "gru"
    _cell_name = "cudnn_compatible_gru_cell"
    _parameters = (
        _Parameter("gates/kernel", "_gate_kernel", 2, of_inputs=True, of_state=True),
        _Parameter("gates/bias", "_gate_bias", 2),
        _Parameter("candidate/input_projection/kernel", "_input_kernel", 1, of_inputs=True),
        _Parameter("candidate/input_projection/bias", "_input_bias", 1),
        _Parameter("candidate/hidden_projection/kernel", "_hidden_kernel", 1, of_state=True),
        _Parameter("candidate/hidden_projection/bias", "_hidden_bias", 1),
    )

    def _cell(self) -> RNNCell:
        return CudnnCompatibleGRUCell(self.num_units)


class CudnnRNNTanh(CudnnRNN):
    """A network of `BasicRNNCell`s. The arguments are those of `CudnnRNN`."""

    rnn_mode = "rnn_tanh"
    _cell_name = "basic_rnn_cell"
    _parameters = _plain(1)

    def _cell(self) -> RNNCell:
        return BasicRNNCell(self.num_units)


class CudnnRNNRelu(CudnnRNN):
    """A network of `BasicRNNCell`s with the activation relu. The arguments are those of `CudnnRNN`."""

    rnn_mode = "rnn_relu"
    _cell_name = "basic_rnn_cell"
    _parameters = _plain(1)

    def _cell(self) -> RNNCell:
        return BasicRNNCell(self.num_units, activation=relu)
