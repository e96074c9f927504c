"""`static_rnn` and its kin against NumPy, and their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.recurrent.networks import basic_step, beside, close, drawn, results, unrolled, weights

BATCH, STEPS, DEPTH, UNITS = 3, 4, 2, 3
X = drawn(1, BATCH, STEPS, DEPTH)
LENGTHS = [2, 3, 0]
ZERO = np.zeros((BATCH, UNITS), np.float32)
GIVEN = weights({"kernel": (DEPTH + UNITS, UNITS), "bias": (UNITS,)})
cells = ax.nn.rnn_cell
WRONG: Any = 3


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def steps() -> list[Any]:
    return ax.unstack(ax.constant(X), axis=1)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
async def test_a_cell_runs_over_a_list(lengths):
    found = ax.nn.static_rnn(cells.BasicRNNCell(UNITS), steps(), dtype=ax.float32, sequence_length=lengths)

    outputs, state = await results(found, GIVEN)

    expected, expected_state = unrolled(basic_step(GIVEN), X, ZERO, lengths)
    assert [variable.op.name for variable in ax.trainable_variables()] == [
        "rnn/basic_rnn_cell/kernel",
        "rnn/basic_rnn_cell/bias",
    ]
    assert close(np.stack(outputs, axis=1), expected)
    assert close(state, expected_state)


async def test_the_batch_size_may_be_unknown():
    x = ax.placeholder(ax.float32, [None, DEPTH])
    outputs, state = ax.nn.static_rnn(cells.BasicRNNCell(UNITS), [x, x], dtype=ax.float32)

    found = await results(outputs[-1], GIVEN, {x: X[:, 0]})

    assert state.shape.as_list() == [None, UNITS]
    assert close(found, unrolled(basic_step(GIVEN), X[:, [0, 0]], ZERO)[0][:, -1])


@pytest.mark.parametrize("lengths", [None, LENGTHS])
async def test_two_directions_are_concatenated(lengths):
    outputs, forward, backward = ax.nn.static_bidirectional_rnn(
        cells.BasicRNNCell(UNITS),
        cells.BasicRNNCell(UNITS),
        steps(),
        dtype=ax.float32,
        sequence_length=lengths,
    )
    other = {name: -value for name, value in GIVEN.items()}
    given = {f"fw/basic_rnn_cell/{k}": v for k, v in GIVEN.items()}
    given |= {f"bw/basic_rnn_cell/{k}": v for k, v in other.items()}

    found, states = await results([outputs, [forward, backward]], given)

    ends = [STEPS] * BATCH if lengths is None else lengths
    turned = np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(X, ends, strict=True)])
    one, one_state = unrolled(basic_step(GIVEN), X, ZERO, ends)
    two, two_state = unrolled(basic_step(other), turned, ZERO, ends)
    two = np.stack([np.concatenate([row[:n][::-1], row[n:]]) for row, n in zip(two, ends, strict=True)])
    assert close(np.stack(found, axis=1), np.concatenate([one, two], axis=2))
    assert close(states[0], one_state)
    assert close(states[1], two_state)


class Saver:
    """Keeps states in variables."""

    def __init__(self, *names: str) -> None:
        self.held = {
            name: ax.get_variable(name, [BATCH, UNITS], initializer=ax.zeros_initializer(), trainable=False)
            for name in names
        }

    def state(self, name: str) -> Any:
        return self.held[name].read_value()

    def save_state(self, name: str, value: Any) -> Any:
        return ax.assign(self.held[name], value)


async def test_a_saved_state_is_where_the_next_run_begins():
    x = ax.placeholder(ax.float32, [BATCH, 2, DEPTH])
    outputs, _ = ax.nn.static_state_saving_rnn(
        cells.BasicRNNCell(UNITS), ax.unstack(x, axis=1), Saver("held"), "held"
    )

    async with ax.Session() as session:
        for variable in ax.global_variables():
            name = variable.op.name.rpartition("/")[2]
            await session.run(variable.assign(GIVEN.get(name, ZERO)))
        halves = [await session.run(outputs, {x: half}) for half in (X[:, :2], X[:, 2:])]

    expected, _ = unrolled(basic_step(GIVEN), X, ZERO)
    assert close(np.stack([*halves[0], *halves[1]][:3], axis=1), expected[:, :3])
    assert close(halves[1][1], expected[:, 3])


async def test_each_part_of_a_state_is_saved_by_its_name():
    outputs, state = ax.nn.static_state_saving_rnn(
        cells.BasicLSTMCell(UNITS), steps(), Saver("c", "h"), ("c", "h")
    )
    lstm = weights({"kernel": (DEPTH + UNITS, 4 * UNITS), "bias": (4 * UNITS,)})
    async with ax.Session() as session:
        for variable in ax.global_variables():
            name = variable.op.name.rpartition("/")[2]
            await session.run(variable.assign(lstm.get(name, ZERO)))
        found = await session.run(state)
        held = await session.run([each for each in ax.global_variables() if each.op.name in "ch"])

    assert isinstance(state, cells.LSTMStateTuple)
    assert len(outputs) == STEPS
    assert close(tuple(held), tuple(found))


def run(inputs: Any, **arguments: Any) -> Any:
    return ax.nn.static_rnn(cells.BasicRNNCell(UNITS), inputs, **{"dtype": ax.float32, **arguments})


def save(cell: Any, names: Any) -> Any:
    return ax.nn.static_state_saving_rnn(cell, steps(), Saver("held"), names)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: run(ax.constant(X)), GraphTypeError, "inputs must be a sequence"),
        (lambda: run([]), GraphValueError, "inputs must not be empty"),
        (lambda: run(steps(), dtype=None), GraphValueError, "dtype must be specified"),
        (
            lambda: run([ax.placeholder(ax.float32, [2, None])]),
            GraphValueError,
            r"Input size \(dimension 0 of inputs\) must be accessible via shape inference",
        ),
        (lambda: run([ax.zeros([2, 2]), ax.zeros([3, 2])]), GraphValueError, "not compatible"),
        (
            lambda: run(steps(), sequence_length=[[1]]),
            GraphValueError,
            "sequence_length must be a vector of length batch_size",
        ),
        (
            lambda: save(cells.BasicLSTMCell(UNITS), "held"),
            GraphValueError,
            "state_name should be the same type as cell.state_size",
        ),
        (
            lambda: save(cells.BasicLSTMCell(UNITS), ("held",)),
            GraphValueError,
            r"#elems\(state_name\) != #elems\(state_size\): 1 vs. 2",
        ),
        (
            lambda: ax.nn.static_bidirectional_rnn(
                cells.GRUCell(2), cells.GRUCell(2), WRONG, dtype=ax.float32
            ),
            GraphTypeError,
            "inputs must be a sequence",
        ),
        (
            lambda: ax.nn.static_bidirectional_rnn(cells.GRUCell(2), cells.GRUCell(2), [], dtype=ax.float32),
            GraphValueError,
            "inputs must not be empty",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()


async def test_inputs_may_be_vectors_of_a_batch():
    class Adding(cells.RNNCell):
        state_size = output_size = ax.TensorShape([])

        def call(self, inputs: Any, state: Any) -> Any:
            return inputs + state, inputs + state

    vectors = [ax.constant([1.0, 2.0]), ax.constant([3.0, 4.0])]
    outputs, state = ax.nn.static_rnn(Adding(), vectors, dtype=ax.float32)

    found = await results([outputs, state], {})

    assert close(beside(*(each[None] for each in found[0])), [[1, 2, 4, 6]])
    assert close(found[1], [4, 6])
