"""Cells: one step against NumPy, their variables, sizes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.recurrent.networks import (
    basic_step,
    beside,
    close,
    drawn,
    gru_step,
    lstm_step,
    results,
    sigmoid,
    weights,
)

BATCH, DEPTH, UNITS = 2, 3, 4
X, C, H = drawn(1, BATCH, DEPTH), drawn(2, BATCH, UNITS), drawn(3, BATCH, UNITS)
LSTM = {"kernel": (DEPTH + UNITS, 4 * UNITS), "bias": (4 * UNITS,)}
GRU = {
    "gates/kernel": (DEPTH + UNITS, 2 * UNITS),
    "gates/bias": (2 * UNITS,),
    "candidate/kernel": (DEPTH + UNITS, UNITS),
    "candidate/bias": (UNITS,),
}
cells = ax.nn.rnn_cell
WRONG: Any = 3


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def names() -> list[str]:
    return [variable.op.name for variable in ax.trainable_variables()]


async def test_the_basic_cell_is_one_product():
    given = weights({"kernel": (DEPTH + UNITS, UNITS), "bias": (UNITS,)})
    output, state = cells.BasicRNNCell(UNITS)(ax.constant(X), ax.constant(H))

    found = await results([output, state], given)

    assert names() == ["basic_rnn_cell/kernel", "basic_rnn_cell/bias"]
    assert close(found[0], basic_step(given)(X, H)[0])
    assert close(found[1], found[0])


async def test_the_gated_recurrent_unit_mixes_state_and_candidate():
    given = weights(GRU)
    output, _ = cells.GRUCell(UNITS)(ax.constant(X), ax.constant(H))

    assert names() == [f"gru_cell/{name}" for name in GRU]
    assert close(await results(output, given), gru_step(given)(X, H)[0])


async def test_the_basic_lstm_cell_returns_its_state_as_a_named_tuple():
    given = weights(LSTM)
    state = cells.LSTMStateTuple(ax.constant(C), ax.constant(H))
    output, new = cells.BasicLSTMCell(UNITS, forget_bias=0.5)(ax.constant(X), state)

    found_output, found = await results([output, new], given)

    assert names() == ["basic_lstm_cell/kernel", "basic_lstm_cell/bias"]
    expected, expected_state = lstm_step(given, 0.5)(X, (C, H))
    assert isinstance(new, cells.LSTMStateTuple)
    assert close(found_output, expected)
    assert close(tuple(found), expected_state)


async def test_a_state_without_tuple_is_memory_beside_output():
    given = weights(LSTM)
    _, new = cells.BasicLSTMCell(UNITS, state_is_tuple=False)(ax.constant(X), ax.constant(beside(C, H)))

    assert close(await results(new, given), beside(*lstm_step(given)(X, (C, H))[1]))


async def test_peepholes_clips_and_projection_follow_the_formula():
    size = 2
    given = weights(
        {
            "lstm_cell/kernel": (DEPTH + size, 4 * UNITS),
            "bias": (4 * UNITS,),
            "w_f_diag": (UNITS,),
            "w_i_diag": (UNITS,),
            "w_o_diag": (UNITS,),
            "projection/kernel": (UNITS, size),
        }
    )
    h = H[:, :size]
    cell = cells.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.4, num_proj=size, proj_clip=0.2)
    output, new = cell(ax.constant(X), (ax.constant(C), ax.constant(h)))

    found_output, found = await results([output, new], given)

    i, j, f, o = np.split(beside(X, h) @ given["lstm_cell/kernel"] + given["bias"], 4, axis=1)
    c = sigmoid(f + 1 + given["w_f_diag"] * C) * C + sigmoid(i + given["w_i_diag"] * C) * np.tanh(j)
    c = np.clip(c, -0.4, 0.4)
    m = np.clip(sigmoid(o + given["w_o_diag"] * c) * np.tanh(c) @ given["projection/kernel"], -0.2, 0.2)
    assert (cell.state_size, cell.output_size) == (cells.LSTMStateTuple(UNITS, size), size)
    assert close(found_output, m)
    assert close(tuple(found), (c, m))


def test_shards_partition_the_kernel():
    cell = cells.LSTMCell(UNITS, num_unit_shards=2)
    cell(ax.constant(X), cell.zero_state(BATCH, ax.float32))

    assert names() == ["lstm_cell/kernel/part_0", "lstm_cell/kernel/part_1", "lstm_cell/bias"]


def test_a_cell_called_twice_shares_its_variables():
    cell = cells.GRUCell(UNITS)
    _, state = cell(ax.constant(X), ax.constant(H))
    cell(ax.constant(X), state)

    assert len(names()) == 4
    assert [variable.op.name for variable in cell.trainable_weights] == names()


def test_two_cells_of_one_scope_have_variables_of_their_own():
    for _ in range(2):
        cells.BasicRNNCell(UNITS)(ax.constant(X), ax.constant(H))

    assert names() == [f"basic_rnn_cell{n}/{name}" for n in ("", "_1") for name in ("kernel", "bias")]


def test_the_state_of_a_stack_is_a_tuple_of_the_cells_states():
    stack = cells.MultiRNNCell([cells.BasicLSTMCell(UNITS), cells.GRUCell(5)])
    state = stack.zero_state(BATCH, ax.float32)
    output, _ = stack(ax.constant(X), state)

    assert stack.state_size == (cells.LSTMStateTuple(UNITS, UNITS), 5)
    assert (state[0].c.shape.as_list(), state[1].shape.as_list()) == ([BATCH, UNITS], [BATCH, 5])
    assert output.shape.as_list() == [BATCH, 5]
    assert names()[0] == "multi_rnn_cell/cell_0/basic_lstm_cell/kernel"
    assert names()[2] == "multi_rnn_cell/cell_1/gru_cell/gates/kernel"


async def test_zero_states_may_have_a_batch_size_that_is_a_tensor():
    size = ax.placeholder(ax.int32, [])
    state = cells.BasicLSTMCell(UNITS).zero_state(size, ax.float64)

    found = await results(state.c, {}, {size: 3})

    assert state.c.shape.as_list() == [None, UNITS]
    assert close(found, np.zeros((3, UNITS)))
    assert found.dtype == np.float64


def test_the_initial_state_takes_batch_and_dtype_from_inputs():
    cell = cells.BasicRNNCell(UNITS)

    state = cell.get_initial_state(inputs=ax.constant(X))

    assert (state.shape.as_list(), state.dtype) == ([BATCH, UNITS], ax.float32)
    with pytest.raises(GraphValueError, match="batch size from input tensor is different"):
        cell.get_initial_state(inputs=ax.constant(X), batch_size=BATCH + 1)
    with pytest.raises(GraphValueError, match="cannot be None while constructing initial state"):
        cell.get_initial_state(batch_size=BATCH)


class Counter(ax.nn.rnn_cell.RNNCell):
    """Adds inputs up; its variable is created by get_variable."""

    state_size = output_size = DEPTH

    def call(self, inputs: Any, state: Any) -> Any:
        scale = ax.get_variable("scale", [], initializer=ax.ones_initializer())
        return scale * (inputs + state), inputs + state


async def test_a_cell_of_ones_own_creates_variables_when_called():
    cell = Counter(name="counter")
    output, state = cell(ax.constant(X), ax.zeros([BATCH, DEPTH]))
    output, state = cell(ax.constant(X), state)

    assert names() == ["counter/scale"]
    assert cell.trainable_weights == ax.trainable_variables()
    assert close(await results(output, {"scale": 3.0}), 6 * X)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: cells.MultiRNNCell([]), GraphValueError, "Must specify at least one cell"),
        (lambda: cells.MultiRNNCell(WRONG), GraphTypeError, "cells must be a list or tuple"),
        (lambda: cells.MultiRNNCell([3]), GraphTypeError, "is not an RNNCell"),
        (
            lambda: cells.MultiRNNCell([cells.BasicLSTMCell(2)], state_is_tuple=False),
            GraphValueError,
            "Some cells return tuples of states",
        ),
        (
            lambda: cells.MultiRNNCell([cells.GRUCell(2)])(ax.constant(X), ax.constant(X)),
            GraphValueError,
            "Expected state to be a tuple of length 1",
        ),
        (
            lambda: cells.GRUCell(2)(ax.placeholder(ax.float32, [2, None]), ax.constant(X)),
            GraphValueError,
            "to be known, saw shape",
        ),
        (lambda: cells.BasicRNNCell(2, activation="no such"), GraphValueError, "Unknown activation function"),
        (lambda: cells.BasicRNNCell(2, activation=3), GraphTypeError, "Could not interpret activation"),
        (
            lambda: cells.LSTMStateTuple(ax.constant(1.0), ax.constant(1)).dtype,
            GraphTypeError,
            "Inconsistent internal state",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_the_base_of_cells_has_no_sizes():
    with pytest.raises(NotImplementedError):
        cells.RNNCell().state_size
    with pytest.raises(NotImplementedError):
        cells.RNNCell().output_size
