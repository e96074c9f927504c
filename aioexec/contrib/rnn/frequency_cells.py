"""LSTM cells over time and frequency: one step runs over windows of the inputs, from low to high frequencies."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from aioexec.contrib.rnn.gated_cells import input_depth
from aioexec.contrib.rnn.normalized_cells import sharded_variable
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import zeros_like
from aioexec.ops.array.joining import concat, split
from aioexec.ops.array.padding import pad
from aioexec.ops.array.slicing import slice_
from aioexec.ops.linalg.products import matmul
from aioexec.ops.math.extremes import clip_by_value
from aioexec.ops.math.math_functions import sigmoid, tanh
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.state.initializers import zeros_initializer
from aioexec.ops.state.variable_scope import get_variable, variable_scope
from aioexec.recurrent.cell import RNNCell


def _clipped(value: Any, bound: float | None) -> Any:
    return value if bound is None else clip_by_value(value, -bound, bound)


class TimeFreqLSTMCell(RNNCell):
    """An LSTM cell that runs over windows of the inputs; each window sees its own state and the output of the window before.

    The state is `c` and `m` of each window, joined: `[batch, 2 * num_units * windows]`. As in TensorFlow `state_size` is that
    of one window.

    Variables: `W_k`, the parts of `[feature_size + 2 * num_units, 4 * num_units]`; `B`, zeros at first; with peepholes
    `W_F_diag`, `W_I_diag`, `W_O_diag`.

    Args:
        num_units: size of `c` and `m` of a window.
        use_peepholes: add the peepholes.
        cell_clip: largest magnitude of an element of a new memory.
        initializer: ignored, as in TensorFlow: the initializer is that of the scope.
        num_unit_shards: number of parts of the kernel.
        forget_bias: number added to the input of the forget gate.
        feature_size: size of a window.
        frequency_skip: distance from a window to the next.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: (in a call) the depth of the inputs is unknown.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int = 1,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._cell_clip = cell_clip
        self._num_unit_shards = num_unit_shards
        self._forget_bias = forget_bias
        self._feature_size = feature_size
        self._frequency_skip = frequency_skip

    @property
    def state_size(self) -> Any:
        return 2 * self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        units, dtype = self._num_units, inputs.dtype
        windows = _windows(inputs, 0, input_depth(inputs), self._feature_size, self._frequency_skip)
        rows = int(windows[0].shape[1]) + 2 * units
        kernel = sharded_variable("W", [rows, 4 * units], dtype, self._num_unit_shards)
        bias = get_variable("B", [4 * units], dtype, zeros_initializer())
        peepholes: dict[str, Any] = dict.fromkeys("FIO")
        if self._use_peepholes:
            peepholes = {gate: get_variable(f"W_{gate}_diag", [units], dtype) for gate in "FIO"}
        outputs: list[Any] = []
        states: list[Any] = []
        below: Any = None
        for k, window in enumerate(windows):
            c, m = (slice_(state, [0, (2 * k + part) * units], [-1, units]) for part in (0, 1))
            below = zeros_like(m) if below is None else below
            product = bias_add(matmul(concat([window, m, below], 1), kernel), bias)
            i, j, f, o = split(product, 4, axis=1)
            f = _with_peephole(f + self._forget_bias, peepholes["F"], c)
            i = _with_peephole(i, peepholes["I"], c)
            c = _clipped(sigmoid(f) * c + sigmoid(i) * tanh(j), self._cell_clip)
            below = sigmoid(_with_peephole(o, peepholes["O"], c)) * tanh(c)
            outputs.append(below)
            states += [c, below]
        return concat(outputs, 1), concat(states, 1)


def _with_peephole(gate: Any, weights: Any, memory: Any) -> Any:
    return gate if weights is None else gate + weights * memory


def _windows(inputs: Any, start: int, size: int, width: int | None, skip: int | None) -> list[Tensor]:
    """Return the windows of `size` columns from `start` on."""
    if not width or not skip:
        raise GraphValueError("feature_size and frequency_skip must be given")
    count = (size - width) // skip + 1
    return [slice_(inputs, [0, start + k * skip], [-1, width]) for k in range(count)]


@dataclass(frozen=True, slots=True)
class _Direction:
    """The variables of one direction, time or frequency: a product with a bias, and peepholes for both memories by the gate."""

    kernel: Any
    bias: Any
    peepholes: dict[str, tuple[Any, Any]]

    def seen(self, gate: str, value: Any, c_freq: Any, c_time: Any) -> Any:
        """Return the input of a gate with its peepholes."""
        if gate not in self.peepholes:
            return value
        of_freq, of_time = self.peepholes[gate]
        return value + of_freq * c_freq + of_time * c_time


class GridLSTMCell(RNNCell):
    """An LSTM cell over blocks of windows of the inputs, with a memory through time and a memory through frequencies.

    The outputs are, for each window, the output through time beside that through frequencies.

    Variables for the block B: `W_f_B_k` and `W_t_B_k`, the parts of the kernels through frequencies and time; `B_f_B` and
    `B_t_B`, zeros at first; with peepholes `W_G_diag_freqf_B`, `W_G_diag_freqt_B`, `W_G_diag_timef_B` and `W_G_diag_timet_B`
    for the gates G, of F, I and O.

    Args:
        num_units: size of a memory of a window.
        use_peepholes: add the peepholes.
        share_time_frequency_weights: both directions have the same variables.
        cell_clip: largest magnitude of an element of a new memory.
        initializer: ignored, as in TensorFlow: the initializer is that of the scope.
        num_unit_shards: number of parts of a kernel.
        forget_bias: number added to the input of the forget gates.
        feature_size: size of a window.
        frequency_skip: distance from a window to the next.
        num_frequency_blocks: number of windows of each block.
        start_freqindex_list, end_freqindex_list: first column of each block, and the column after its last; by default there is
            one block of all columns.
        couple_input_forget_gates: the forget gates are one minus the input gates.
        state_is_tuple: the state is a named tuple of `c` and `m` of all windows; else these are joined along the second
            dimension.
        reuse: whether the variables must exist already.

    Raises:
        GraphValueError: the numbers of blocks are not given; or (in a call) they do not fit the inputs.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int | None = None,
        num_frequency_blocks: Sequence[int] | None = None,
        start_freqindex_list: Sequence[int] | None = None,
        end_freqindex_list: Sequence[int] | None = None,
        couple_input_forget_gates: bool = False,
        state_is_tuple: bool = True,
        reuse: Any = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        if num_frequency_blocks is None:
            raise GraphValueError("Must specify num_frequency_blocks")
        self._num_units = num_units
        self._use_peepholes = use_peepholes
        self._shares = share_time_frequency_weights
        self._cell_clip = cell_clip
        self._num_unit_shards = num_unit_shards
        self._forget_bias = forget_bias
        self._feature_size = feature_size
        self._frequency_skip = frequency_skip
        self._counts = [int(count) for count in num_frequency_blocks]
        self._starts = start_freqindex_list
        self._ends = end_freqindex_list
        self._couples = couple_input_forget_gates
        self._state_tuple_type: Any = None
        if state_is_tuple:
            self._state_tuple_type = self._tuple_type("GridLSTMStateTuple", ["state"])

    def _tuple_type(self, name: str, prefixes: Sequence[str]) -> Any:
        fields = [
            f"{prefix}_f{k:02d}_b{block:02d}_{part}"
            for prefix in prefixes
            for block, count in enumerate(self._counts)
            for k in range(count)
            for part in "cm"
        ]
        return namedtuple(name, fields)

    @property
    def state_tuple_type(self) -> Any:
        """The type of the state; None if it is no tuple."""
        return self._state_tuple_type

    @property
    def state_size(self) -> Any:
        if self._state_tuple_type is None:
            return 2 * self._num_units * sum(self._counts)
        return self._state_tuple_type(*[self._num_units] * len(self._state_tuple_type._fields))

    @property
    def output_size(self) -> int:
        return 2 * self._num_units * sum(self._counts)

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        outputs, states = self._run(self._blocks(inputs), state, "state")
        new_state = concat(states, 1) if self._state_tuple_type is None else self._state_tuple_type(*states)
        return concat(outputs, 1), new_state

    def _run(self, blocks: list[list[Tensor]], state: Any, prefix: str) -> tuple[list[Any], list[Any]]:
        """Return the outputs and the new states of all windows."""
        outputs: list[Any] = []
        states: list[Any] = []
        for block, windows in enumerate(blocks):
            by_frequency, by_time = self._directions(block, int(windows[0].shape[1]), windows[0].dtype)
            c_freq: Any = None
            m_freq: Any = None
            for k, window in enumerate(windows):
                c_time, m_time = self._held(state, f"{prefix}_f{k:02d}_b{block:02d}", k)
                if c_freq is None:
                    c_freq = m_freq = zeros_like(c_time)
                joined = concat([window, m_time, m_freq], 1)
                memories = c_freq, c_time
                c_freq, o_freq = self._memory(by_frequency, joined, c_freq, memories)
                c_time, o_time = self._memory(by_time, joined, c_time, memories)
                m_freq = sigmoid(by_frequency.seen("O", o_freq, c_freq, c_time)) * tanh(c_freq)
                m_time = sigmoid(by_time.seen("O", o_time, c_freq, c_time)) * tanh(c_time)
                outputs += [m_time, m_freq]
                states += [c_time, m_time]
        return outputs, states

    def _held(self, state: Any, name: str, k: int) -> tuple[Any, Any]:
        if self._state_tuple_type is not None:
            return getattr(state, f"{name}_c"), getattr(state, f"{name}_m")
        units = self._num_units
        return slice_(state, [0, 2 * k * units], [-1, units]), slice_(
            state, [0, (2 * k + 1) * units], [-1, units]
        )

    def _memory(
        self, direction: _Direction, joined: Any, held: Any, memories: tuple[Any, Any]
    ) -> tuple[Any, Any]:
        """Return the new memory of a direction, and the input of its output gate."""
        product = bias_add(matmul(joined, direction.kernel), direction.bias)
        gates = split(product, 3 if self._couples else 4, axis=1)
        i = sigmoid(direction.seen("I", gates[0], *memories))
        if self._couples:
            f: Any = 1.0 - i
        else:
            f = sigmoid(direction.seen("F", gates[2] + self._forget_bias, *memories))
        return _clipped(f * held + i * tanh(gates[1]), self._cell_clip), gates[-1]

    def _directions(self, block: int, width: int, dtype: Any) -> tuple[_Direction, _Direction]:
        """Create the variables of a block, through frequencies and through time."""
        shape = [width + 2 * self._num_units, (3 if self._couples else 4) * self._num_units]
        products = [
            (
                sharded_variable(f"W_{letter}_{block}", shape, dtype, self._num_unit_shards),
                get_variable(f"B_{letter}_{block}", shape[1:], dtype, zeros_initializer()),
            )
            for letter in ("f" if self._shares else "ft")
        ]
        found = [
            _Direction(*product, self._peepholes(name, block, dtype))
            for product, name in zip(products, ("freq", "time"), strict=False)
        ]
        return found[0], found[-1]

    def _peepholes(self, name: str, block: int, dtype: Any) -> dict[str, tuple[Any, Any]]:
        if not self._use_peepholes:
            return {}
        found = {}
        for gate in "IO" if self._couples else "FIO":
            of_freq, of_time = [
                get_variable(f"W_{gate}_diag_{name}{letter}_{block}", [self._num_units], dtype)
                for letter in "ft"
            ]
            found[gate] = of_freq, of_time
        return found

    def _blocks(self, inputs: Any, offset: int = 0) -> list[list[Tensor]]:
        """Return the windows of each block; with an offset they begin that many columns later, in inputs padded with zeros."""
        depth = input_depth(inputs)
        if offset:
            inputs = pad(inputs, [[0, 0], [0, offset] if offset > 0 else [-offset, 0]])
        starts, ends = self._starts or [0], self._ends or [depth]
        if not len(starts) == len(ends) == len(self._counts):
            raise GraphValueError(
                "Length of num_frequency_blocks is not equal to those of start and end freqindex_list: "
                f"{len(self._counts)}, {len(starts)}, {len(ends)}"
            )
        blocks = [
            _windows(inputs, start + max(offset, 0), end - start, self._feature_size, self._frequency_skip)
            for start, end in zip(starts, ends, strict=True)
        ]
        for count, windows in zip(self._counts, blocks, strict=True):
            if count != len(windows):
                raise GraphValueError(
                    f"Invalid num_frequency_blocks, requires {count} but gets {len(windows)}, "
                    "please check the input size and filter config are correct."
                )
        return blocks


class BidirectionalGridLSTMCell(GridLSTMCell):
    """`GridLSTMCell` in both directions of the frequencies, with variables in the scopes `fwd` and `bwd`.

    Args:
        backward_slice_offset: number of columns by which the windows of the backward direction begin later; the other arguments
            are `GridLSTMCell`'s.

    Raises:
        GraphValueError: as `GridLSTMCell`.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int | None = None,
        num_frequency_blocks: Sequence[int] | None = None,
        start_freqindex_list: Sequence[int] | None = None,
        end_freqindex_list: Sequence[int] | None = None,
        couple_input_forget_gates: bool = False,
        backward_slice_offset: int = 0,
        reuse: Any = None,
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes,
            share_time_frequency_weights,
            cell_clip,
            initializer,
            num_unit_shards,
            forget_bias,
            feature_size,
            frequency_skip,
            num_frequency_blocks,
            start_freqindex_list,
            end_freqindex_list,
            couple_input_forget_gates,
            True,
            reuse,
        )
        self._offset = int(backward_slice_offset)
        self._state_tuple_type = self._tuple_type(
            "BidirectionalGridLSTMStateTuple", ["fwd_state", "bwd_state"]
        )

    @property
    def output_size(self) -> int:
        return 2 * super().output_size

    def call(self, inputs: Any, state: Any) -> tuple[Tensor, Any]:
        with variable_scope("fwd"):
            outputs, states = self._run(self._blocks(inputs), state, "fwd_state")
        with variable_scope("bwd"):
            backwards = [windows[::-1] for windows in self._blocks(inputs, self._offset)]
            more, more_states = self._run(backwards, state, "bwd_state")
        return concat(outputs + more, 1), self._state_tuple_type(*states, *more_states)
