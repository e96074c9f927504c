"""The wrappers of `ax.contrib.rnn` that embed and project: values by NumPy, names of variables, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.recurrent.networks import basic_step, close, drawn, results, weights

BATCH, STEPS, DEPTH, UNITS = 2, 3, 4, 3
X = drawn(1, BATCH, STEPS, DEPTH)
ZERO = np.zeros((BATCH, UNITS), np.float32)


@pytest.fixture(autouse=True)
def own_graph():
    with ax.Graph().as_default():
        yield


def variables():
    return {variable.op.name: tuple(variable.shape.as_list()) for variable in ax.trainable_variables()}


async def test_inputs_are_projected():
    cell = ax.contrib.rnn.InputProjectionWrapper(ax.nn.rnn_cell.BasicRNNCell(UNITS), 5, ax.nn.relu)
    shapes = {
        "rnn/input_projection_wrapper/kernel": (DEPTH, 5),
        "rnn/input_projection_wrapper/bias": (5,),
        "rnn/input_projection_wrapper/basic_rnn_cell/kernel": (5 + UNITS, UNITS),
        "rnn/input_projection_wrapper/basic_rnn_cell/bias": (UNITS,),
    }
    given = weights(shapes)
    outputs, _ = ax.nn.static_rnn(cell, list(X.swapaxes(0, 1)), dtype=ax.float32)

    found = await results(outputs, given)

    kernel, bias, inner, inner_bias = [given[name] for name in shapes]
    step, state, expected = basic_step({"kernel": inner, "bias": inner_bias}), ZERO, []
    for each in X.swapaxes(0, 1):
        output, state = step(np.maximum(each @ kernel + bias, 0), state)
        expected.append(output)
    assert variables() == shapes
    assert close(tuple(found), tuple(expected))


async def test_outputs_are_projected_in_a_loop():
    cell = ax.contrib.rnn.OutputProjectionWrapper(ax.nn.rnn_cell.BasicRNNCell(UNITS), 5, ax.tanh)
    outputs, state = ax.nn.dynamic_rnn(cell, ax.constant(X), dtype=ax.float32)
    given = weights(variables())

    found, last = await results((outputs, state), given)

    scope = "rnn/output_projection_wrapper"
    inner = {part: given[f"{scope}/basic_rnn_cell/{part}"] for part in ("kernel", "bias")}
    step, state, expected = basic_step(inner), ZERO, []
    for each in X.swapaxes(0, 1):
        output, state = step(each, state)
        expected.append(np.tanh(output @ given[f"{scope}/kernel"] + given[f"{scope}/bias"]))
    assert set(given) == {
        f"{prefix}/{part}" for prefix in (scope, f"{scope}/basic_rnn_cell") for part in inner
    }
    assert (cell.output_size, cell.state_size) == (5, UNITS)
    assert close(found, np.stack(expected, 1))
    assert close(last, state)


async def test_symbols_are_embedded_between_minus_and_plus_the_root_of_three():
    cell = ax.contrib.rnn.EmbeddingWrapper(ax.nn.rnn_cell.BasicRNNCell(UNITS), 1000, DEPTH)
    ax.nn.static_rnn(cell, [ax.constant([0, 1])], dtype=ax.float32)
    (embedding,) = [each for each in ax.trainable_variables() if "embedding:" in each.name]

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        drawn_numbers = await session.run(embedding)

    assert embedding.op.name == "rnn/embedding_wrapper/embedding"
    assert 0.9 * math.sqrt(3) < abs(drawn_numbers).max() <= math.sqrt(3)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda cell: ax.contrib.rnn.EmbeddingWrapper(cell, 0, 3), GraphValueError, "must be > 0: 0, 3"),
        (lambda cell: ax.contrib.rnn.OutputProjectionWrapper(cell, 0), GraphValueError, "must be > 0: 0"),
        (lambda cell: ax.contrib.rnn.InputProjectionWrapper(3, 2), GraphTypeError, "is not an RNNCell"),
        (
            lambda cell: ax.contrib.rnn.InputProjectionWrapper(cell, 2)(ax.zeros([2, 3, 4]), ZERO),
            GraphValueError,
            "linear is expecting 2D arguments",
        ),
        (
            lambda cell: ax.contrib.rnn.InputProjectionWrapper(cell, 2)(
                ax.placeholder(ax.float32, [2, None]), ZERO
            ),
            GraphValueError,
            r"linear expects shape\[1\] to be provided",
        ),
    ],
)
def test_what_is_wrong_is_said(make, error, text):
    with pytest.raises(error, match=text):
        make(ax.nn.rnn_cell.BasicRNNCell(UNITS))
