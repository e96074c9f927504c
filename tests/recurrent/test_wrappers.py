"""Wrappers of cells: dropout, residual connections, devices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.recurrent.networks import close, drawn, results

BATCH, STEPS, UNITS = 2, 5, 40
cells = ax.nn.rnn_cell
WRONG: Any = 3


class Passing(cells.RNNCell):
    """Outputs its inputs, and keeps the sum of inputs and state."""

    state_size = output_size = UNITS

    def call(self, inputs: Any, state: Any) -> Any:
        return inputs, inputs + state


class Remembering(cells.RNNCell):
    """Has a state of two parts, both of ones."""

    state_size = cells.LSTMStateTuple(UNITS, UNITS)
    output_size = UNITS

    def call(self, inputs: Any, state: Any) -> Any:
        ones = ax.ones_like(inputs)
        return inputs, cells.LSTMStateTuple(ones, ones)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def ones() -> Any:
    return ax.ones([BATCH, STEPS, UNITS])


@pytest.mark.parametrize("kind", ["input_keep_prob", "output_keep_prob"])
async def test_elements_are_dropped_or_scaled_anew_in_each_step(kind):
    keep: dict[str, Any] = {kind: 0.5}
    cell = cells.DropoutWrapper(Passing(), **keep, seed=1)
    outputs, _ = ax.nn.dynamic_rnn(cell, ones(), dtype=ax.float32)

    found = await results(outputs, {})

    assert set(np.unique(found)) == {0.0, 2.0}
    assert 0.3 < (found == 0).mean() < 0.7
    assert not close(found[:, 0], found[:, 1])


async def test_variational_dropout_decides_once_for_all_steps_and_rows():
    cell = cells.DropoutWrapper(
        Passing(),
        input_keep_prob=0.5,
        variational_recurrent=True,
        input_size=UNITS,
        dtype=ax.float32,
        seed=1,
    )
    outputs, _ = ax.nn.dynamic_rnn(cell, ones(), dtype=ax.float32)

    found = await results(outputs, {})

    assert set(np.unique(found)) == {0.0, 2.0}
    assert close(found, np.broadcast_to(found[0, 0], found.shape))


async def test_the_memory_of_a_state_is_not_dropped():
    cell = cells.DropoutWrapper(Remembering(), state_keep_prob=0.5, seed=1)
    _, state = cell(ax.ones([BATCH, UNITS]), cell.zero_state(BATCH, ax.float32))

    c, h = await results(state, {})

    assert close(c, np.ones((BATCH, UNITS)))
    assert set(np.unique(h)) == {0.0, 2.0}


@pytest.mark.parametrize(
    "visitor", [lambda state: not hasattr(state, "c"), lambda state: cells.LSTMStateTuple(False, False)]
)
async def test_a_visitor_leaves_parts_of_the_state_alone(visitor):
    cell = cells.DropoutWrapper(
        Remembering(), state_keep_prob=0.5, seed=1, dropout_state_filter_visitor=visitor
    )
    _, state = cell(ax.ones([BATCH, UNITS]), cell.zero_state(BATCH, ax.float32))

    assert close(tuple(await results(state, {})), (np.ones((BATCH, UNITS)),) * 2)


async def test_a_keep_probability_may_be_fed():
    keep = ax.placeholder(ax.float32, [])
    cell = cells.DropoutWrapper(Passing(), output_keep_prob=keep, seed=1)
    outputs, _ = ax.nn.dynamic_rnn(cell, ones(), dtype=ax.float32)

    kept, dropped = [await results(outputs, {}, {keep: each}) for each in (1.0, 0.25)]

    assert close(kept, np.ones((BATCH, STEPS, UNITS)))
    assert set(np.unique(dropped)) == {0.0, 4.0}


def test_a_keep_probability_of_one_adds_no_nodes():
    cell = cells.DropoutWrapper(Passing(), 1.0, 1, ax.constant(1.0))
    inputs, state = ax.ones([BATCH, UNITS]), ax.zeros([BATCH, UNITS])

    assert cell(inputs, state)[0].op.type == "Const"


async def test_residual_connections_add_the_inputs():
    x = drawn(1, BATCH, STEPS, UNITS)
    by_sum, _ = ax.nn.dynamic_rnn(cells.ResidualWrapper(Passing()), ax.constant(x), dtype=ax.float32)
    by_function, _ = ax.nn.dynamic_rnn(
        cells.ResidualWrapper(Passing(), lambda inputs, outputs: inputs * outputs),
        ax.constant(x),
        dtype=ax.float32,
    )

    found = await results([by_sum, by_function], {})

    assert close(found[0], 2 * x)
    assert close(found[1], x * x)


def test_a_device_wrapper_places_the_nodes_of_a_cell():
    cell = cells.DeviceWrapper(cells.GRUCell(3), "/cpu:0")
    state = cell.zero_state(BATCH, ax.float32)
    output, _ = cell(ax.ones([BATCH, 2]), state)

    assert {state.op.device, output.op.device, ax.trainable_variables()[0].op.device} == {"/device:CPU:0"}


def test_a_wrapper_has_the_sizes_and_weights_of_its_cell_and_no_scope():
    inner = cells.GRUCell(3)
    cell = cells.DropoutWrapper(cells.ResidualWrapper(inner), 0.5)
    cell(ax.ones([BATCH, 3]), ax.zeros([BATCH, 3]))

    assert (cell.state_size, cell.output_size, cell.wrapped_cell.wrapped_cell) == (3, 3, inner)
    assert cell.trainable_weights == ax.trainable_variables()
    assert ax.trainable_variables()[0].op.name == "gru_cell/gates/kernel"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: cells.DropoutWrapper(3), GraphTypeError, "is not an RNNCell"),
        (lambda: cells.ResidualWrapper(3), GraphTypeError, "is not an RNNCell"),
        (
            lambda: cells.DropoutWrapper(Passing(), input_keep_prob=1.5),
            GraphValueError,
            "Parameter input_keep_prob must be between 0 and 1",
        ),
        (
            lambda: cells.DropoutWrapper(Passing(), dropout_state_filter_visitor=WRONG),
            GraphTypeError,
            "dropout_state_filter_visitor must be callable",
        ),
        (
            lambda: cells.DropoutWrapper(Passing(), variational_recurrent=True),
            GraphValueError,
            "When variational_recurrent=True, dtype must be provided",
        ),
        (
            lambda: cells.DropoutWrapper(Passing(), 0.5, variational_recurrent=True, dtype=ax.float32),
            GraphValueError,
            "input_size must be provided",
        ),
        (
            lambda: cells.DropoutWrapper(
                Passing(), state_keep_prob=0.5, dropout_state_filter_visitor=lambda state: 3
            )(ax.ones([BATCH, UNITS]), ax.zeros([BATCH, UNITS])),
            GraphTypeError,
            "depth=1 structure of bools",
        ),
        (
            lambda: cells.ResidualWrapper(cells.GRUCell(3))(ax.ones([BATCH, 2]), ax.zeros([BATCH, 3])),
            GraphValueError,
            "incompatible",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make()
