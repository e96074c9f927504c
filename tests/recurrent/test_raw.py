"""`raw_rnn`: outputs and states of rows that end at different times, what is emitted, loop states, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.recurrent.networks import close, drawn, lstm_step, results, unrolled, weights

BATCH, STEPS, DEPTH, UNITS = 3, 4, 2, 3
X = drawn(1, BATCH, STEPS, DEPTH)
LENGTHS = [2, 4, 0]
ZERO = np.zeros((BATCH, UNITS), np.float32)
LSTM = weights({"kernel": (DEPTH + UNITS, 4 * UNITS), "bias": (4 * UNITS,)})
cells = ax.nn.rnn_cell
WRONG: Any = 3


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


class Loop:
    """A loop function over the steps of X; it emits `emit(output)`, of the structure `first`."""

    def __init__(self, emit: Any = lambda output: output, first: Any = None, state: Any = None) -> None:
        self.rows = ax.TensorArray(ax.float32, STEPS, clear_after_read=False).unstack(
            ax.constant(X.swapaxes(0, 1))
        )
        self.emit, self.first, self.state = emit, first, state

    def __call__(self, time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        finished = time >= ax.constant(LENGTHS)
        following = self.rows.read(ax.minimum(time, STEPS - 1))
        if output is None:
            zero = cells.BasicLSTMCell(UNITS).zero_state(BATCH, ax.float32)
            return finished, following, zero, self.first, self.state
        return finished, following, state, self.emit(output), None if self.state is None else loop_state + 1


async def test_rows_that_have_ended_emit_zeros_and_keep_their_state():
    emitted, state, loop_state = ax.nn.raw_rnn(cells.BasicLSTMCell(UNITS), Loop())

    outputs, found = await results([emitted.stack(), state], LSTM)

    expected, expected_state = unrolled(lstm_step(LSTM), X, (ZERO, ZERO), LENGTHS)
    assert loop_state is None
    assert ax.trainable_variables()[0].op.name == "rnn/basic_lstm_cell/kernel"
    assert close(outputs.swapaxes(0, 1), expected)
    assert close(tuple(found), expected_state)


async def test_another_structure_may_be_emitted_and_a_loop_state_is_passed_on():
    def emit(output: Any) -> Any:
        return output[:, :1], ax.cast(output[:, 1] * 100, ax.int32)

    first = ax.zeros([1]), ax.zeros([], ax.int32)
    (left, right), _, count = ax.nn.raw_rnn(cells.BasicLSTMCell(UNITS), Loop(emit, first, ax.constant(5)))

    one, two, rounds = await results([left.stack(), right.stack(), count], LSTM)

    expected = unrolled(lstm_step(LSTM), X, (ZERO, ZERO), LENGTHS)[0].swapaxes(0, 1)
    assert close(one, expected[:, :, :1])
    assert (two.dtype, two.tolist()) == (np.int32, (expected[:, :, 1] * 100).astype(np.int32).tolist())
    assert rounds == 5 + STEPS


async def test_a_loop_state_may_be_an_array():
    written = ax.TensorArray(ax.int32, size=STEPS)
    loop = Loop()

    def with_array(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        *others, _ = loop(time, output, state, loop_state)
        return (*others, written if output is None else loop_state.write(time - 1, time))

    _, _, found = ax.nn.raw_rnn(cells.BasicLSTMCell(UNITS), with_array)

    assert (await results(found.stack(), LSTM)).tolist() == [1, 2, 3, 4]


def test_what_is_wrong_is_said():
    with pytest.raises(GraphTypeError, match="is not an RNNCell"):
        ax.nn.raw_rnn(3, Loop())
    with pytest.raises(GraphTypeError, match="loop_fn must be a callable"):
        ax.nn.raw_rnn(cells.BasicLSTMCell(UNITS), WRONG)
    with pytest.raises(GraphValueError, match="don't have the same nested structure"):
        ax.nn.raw_rnn(cells.GRUCell(UNITS), Loop())
    with pytest.raises(GraphValueError, match="don't have the same nested structure"):
        ax.nn.raw_rnn(cells.BasicLSTMCell(UNITS), Loop(lambda output: (output, output)))
