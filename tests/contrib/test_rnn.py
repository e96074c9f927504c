"""The networks of `ax.contrib.rnn`: the scopes of their variables, and their values by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.recurrent.networks import basic_step, drawn, results, weights

STEPS, BATCH, SIZE, UNITS = 3, 2, 2, 2


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def cells() -> list[Any]:
    return [ax.contrib.rnn.BasicRNNCell(UNITS) for _ in range(2)]


def expected(x: Any, given: dict[str, Any]) -> tuple[Any, list[Any], list[Any]]:
    """The outputs [steps, batch, 2 * units] and final states of two layers, for inputs [steps, batch, size]."""
    states: dict[str, list[Any]] = {"fw": [], "bw": []}
    for layer in range(2):
        outputs = {}
        for way in ("fw", "bw"):
            prefix = f"cell_{layer}/bidirectional_rnn/{way}/basic_rnn_cell"
            step = basic_step({part: given[f"{prefix}/{part}"] for part in ("kernel", "bias")})
            state = np.zeros((BATCH, UNITS), np.float32)
            found = []
            for each in x if way == "fw" else x[::-1]:
                output, state = step(each, state)
                found.append(output)
            outputs[way] = np.stack(found if way == "fw" else found[::-1])
            states[way].append(state)
        x = np.concatenate([outputs["fw"], outputs["bw"]], axis=2)
    return x, states["fw"], states["bw"]


def given_weights() -> dict[str, Any]:
    shapes = {}
    for variable in ax.trainable_variables():
        scope, _, name = variable.op.name.partition("/")
        assert scope == "stack_bidirectional_rnn"
        shapes[name] = variable.shape.as_list()
    return weights(shapes)


async def test_a_stack_of_networks_over_a_list():
    x = drawn(0, STEPS, BATCH, SIZE)
    found = ax.contrib.rnn.stack_bidirectional_rnn(cells(), cells(), list(x), dtype=ax.float32)
    given = given_weights()
    outputs, forward, backward = await results(found, given)

    for ours, theirs in zip((np.stack(outputs), *forward, *backward), flat(expected(x, given)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


async def test_a_stack_of_networks_over_a_tensor():
    x = drawn(0, STEPS, BATCH, SIZE)
    found = ax.contrib.rnn.stack_bidirectional_dynamic_rnn(
        cells(), cells(), x, dtype=ax.float32, time_major=True
    )
    given = given_weights()
    outputs, forward, backward = await results(found, given)

    for ours, theirs in zip((outputs, *forward, *backward), flat(expected(x, given)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def flat(parts: tuple[Any, list[Any], list[Any]]) -> list[Any]:
    outputs, forward, backward = parts
    return [outputs, *forward, *backward]


@pytest.mark.parametrize("stack", ["stack_bidirectional_rnn", "stack_bidirectional_dynamic_rnn"])
def test_stacks_need_as_many_cells_in_both_directions(stack: str):
    make = getattr(ax.contrib.rnn, stack)

    with pytest.raises(GraphValueError, match="one per layer"):
        make([], [], [])
    with pytest.raises(GraphValueError, match="same depth"):
        make(cells(), cells()[:1], [])
    with pytest.raises(GraphValueError, match="initial_states_fw"):
        make(cells(), cells(), [], initial_states_fw=[1])
