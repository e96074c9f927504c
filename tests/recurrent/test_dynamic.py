"""`dynamic_rnn` and `bidirectional_dynamic_rnn` against NumPy, their static shapes, errors, and how they run."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from tests.recurrent.networks import close, drawn, gru_step, lstm_step, results, unrolled, weights

BATCH, STEPS, DEPTH, UNITS = 3, 4, 2, 3
X = drawn(1, BATCH, STEPS, DEPTH)
LENGTHS = [2, 4, 0]
ZERO = np.zeros((BATCH, UNITS), np.float32)
LSTM = weights({"kernel": (DEPTH + UNITS, 4 * UNITS), "bias": (4 * UNITS,)})
GRU = weights(
    {
        "gates/kernel": (DEPTH + UNITS, 2 * UNITS),
        "gates/bias": (2 * UNITS,),
        "candidate/kernel": (DEPTH + UNITS, UNITS),
        "candidate/bias": (UNITS,),
    }
)
cells = ax.nn.rnn_cell


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


async def test_a_cell_runs_over_all_steps():
    found = ax.nn.dynamic_rnn(cells.BasicLSTMCell(UNITS), ax.constant(X), dtype=ax.float32)

    outputs, state = await results(found, LSTM)

    expected, expected_state = unrolled(lstm_step(LSTM), X, (ZERO, ZERO))
    assert [variable.op.name for variable in ax.trainable_variables()] == [
        "rnn/basic_lstm_cell/kernel",
        "rnn/basic_lstm_cell/bias",
    ]
    assert close(outputs, expected)
    assert close(tuple(state), expected_state)


@pytest.mark.parametrize("time_major", [False, True])
async def test_past_its_end_a_sequence_has_zero_outputs_and_keeps_its_state(time_major):
    x = X.swapaxes(0, 1) if time_major else X
    found = ax.nn.dynamic_rnn(
        cells.GRUCell(UNITS), ax.constant(x), LENGTHS, dtype=ax.float32, time_major=time_major
    )

    outputs, state = await results(found, GRU)

    expected, expected_state = unrolled(gru_step(GRU), X, ZERO, LENGTHS)
    assert close(outputs.swapaxes(0, 1) if time_major else outputs, expected)
    assert close(state, expected_state)
    assert (outputs == 0).any()


async def test_steps_past_the_longest_sequence_do_not_run():
    runs = []

    def counted(x):
        runs.append(1)
        return x

    class Cell(cells.RNNCell):
        state_size = output_size = DEPTH

        def call(self, inputs, state):
            seen = ax.py_func(counted, [inputs], ax.float32)
            seen.set_shape(inputs.shape)
            return seen, seen

    outputs, _ = ax.nn.dynamic_rnn(Cell(), ax.constant(X), [1, 2, 2], dtype=ax.float32)

    found = await results(outputs, {})

    assert len(runs) == 2
    assert close(found[:, 2:], np.zeros((BATCH, 2, DEPTH)))


async def test_an_initial_state_takes_the_place_of_zeros():
    start = drawn(9, BATCH, UNITS)
    _, state = ax.nn.dynamic_rnn(cells.GRUCell(UNITS), ax.constant(X), initial_state=ax.constant(start))

    assert close(await results(state, GRU), unrolled(gru_step(GRU), X, start)[1])


async def test_each_direction_has_variables_of_its_own():
    found = ax.nn.bidirectional_dynamic_rnn(
        cells.BasicLSTMCell(UNITS), cells.GRUCell(UNITS), ax.constant(X), LENGTHS, dtype=ax.float32
    )

    (forward, backward), states = await results(
        found, {f"fw/basic_lstm_cell/{k}": v for k, v in LSTM.items()} | GRU
    )

    def reversed_rows(x):
        return np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(x, LENGTHS, strict=True)])

    expected, expected_state = unrolled(gru_step(GRU), reversed_rows(X), ZERO, LENGTHS)
    assert {variable.op.name.rsplit("/", 2)[0] for variable in ax.trainable_variables()} == {
        "bidirectional_rnn/fw",
        "bidirectional_rnn/bw/gru_cell",
    }
    assert close(forward, unrolled(lstm_step(LSTM), X, (ZERO, ZERO), LENGTHS)[0])
    assert close(backward, reversed_rows(expected))
    assert close(states[1], expected_state)


async def test_without_lengths_the_whole_sequence_is_reversed():
    (_, backward), _ = ax.nn.bidirectional_dynamic_rnn(
        cells.BasicLSTMCell(UNITS), cells.GRUCell(UNITS), ax.constant(X), dtype=ax.float32
    )

    found = await results(backward, {f"fw/basic_lstm_cell/{k}": v for k, v in LSTM.items()} | GRU)

    assert close(found, unrolled(gru_step(GRU), X[:, ::-1], ZERO)[0][:, ::-1])


@pytest.mark.parametrize(("batch", "steps"), [(BATCH, STEPS), (None, STEPS), (BATCH, None), (None, None)])
def test_static_sizes_of_inputs_are_those_of_outputs(batch, steps):
    x = ax.placeholder(ax.float32, [batch, steps, DEPTH])
    lengths = ax.placeholder(ax.int32, [None])
    outputs, state = ax.nn.dynamic_rnn(cells.BasicLSTMCell(UNITS), x, lengths, dtype=ax.float32)

    assert outputs.shape.as_list() == [batch, steps, UNITS]
    assert state.c.shape.as_list() == [batch, UNITS]


@pytest.mark.parametrize("lengths", [None, LENGTHS])
async def test_a_training_step_is_one_native_item(lengths):
    given = None if lengths is None else ax.placeholder(ax.int32, [BATCH])
    cell = cells.MultiRNNCell([cells.BasicLSTMCell(UNITS), cells.GRUCell(UNITS)])
    outputs, _ = ax.nn.dynamic_rnn(cell, ax.constant(X), given, dtype=ax.float32)
    loss = ax.reduce_sum(ax.square(outputs))
    train = ax.train.GradientDescentOptimizer(0.01).minimize(loss)
    feeds = {} if given is None else {given: lengths}
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"

    async with ax.Session(config=config) as session:
        await session.run(ax.global_variables_initializer())
        losses = [(await session.run([loss, train], feeds))[0] for _ in range(4)]
        report = await session.describe([loss, train], feeds)

    assert losses == sorted(losses, reverse=True)
    assert [len(partition.items) for partition in report.partitions] == [1]
    assert set(report.breaks_by_op) <= {"Assert"}
    assert report.native_share > 0.99


async def test_a_run_fails_if_there_is_not_one_length_per_row():
    lengths = ax.placeholder(ax.int32, [None])
    outputs, _ = ax.nn.dynamic_rnn(cells.GRUCell(UNITS), ax.constant(X), lengths, dtype=ax.float32)

    with pytest.raises(InvalidArgumentError, match="Expected shape for Tensor rnn/sequence_length:0 is"):
        await results(outputs, GRU, {lengths: [1, 2]})


def run(x, cell=None, **arguments):
    return ax.nn.dynamic_rnn(cell or cells.GRUCell(UNITS), x, **{"dtype": ax.float32, **arguments})


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (
            lambda: run(ax.constant(X), cell="cell"),
            GraphTypeError,
            "The argument 'cell' .* is not an RNNCell",
        ),
        (
            lambda: run(ax.constant(X), dtype=None),
            GraphValueError,
            "If there is no initial_state, you must give a dtype",
        ),
        (
            lambda: run(ax.constant(X), sequence_length=[[1]]),
            GraphValueError,
            "sequence_length must be a vector of length batch_size",
        ),
        (
            lambda: run(ax.placeholder(ax.float32, [2, 3, None])),
            GraphValueError,
            "must be accessible via shape inference",
        ),
        (lambda: run(ax.constant(X[:, 0])), GraphValueError, "rank at least 3"),
        (
            lambda: run((ax.constant(X), ax.constant(X[:, 1:]))),
            GraphValueError,
            "Time steps is not the same for all the elements",
        ),
        (
            lambda: run((ax.constant(X), ax.constant(X[1:]))),
            GraphValueError,
            "Batch_size is not the same for all the elements",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
