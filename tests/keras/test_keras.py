"""Regularizers by NumPy, and the defaults of initializers."""

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError

regularizers = ax.keras.regularizers
VALUE = np.array([[1.0, -2.0], [0.5, -0.5]], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize(
    ("regularizer", "expected"),
    [
        (regularizers.l1(0.5), 2.0),
        (regularizers.l2(0.5), 2.75),
        (regularizers.l2(l=2.0), 11.0),
        (regularizers.l1_l2(0.5, 0.5), 4.75),
        (regularizers.L1L2(), 0.0),
    ],
)
async def test_a_regularizer_is_a_loss_of_a_variable(regularizer: Any, expected: float):
    variable = ax.get_variable("v", initializer=VALUE, regularizer=regularizer)

    (loss,) = ax.get_collection(ax.GraphKeys.REGULARIZATION_LOSSES)

    assert loss.dtype == ax.float32
    async with ax.Session() as session:
        await session.run(variable.initializer)
        assert await session.run(loss) == expected


@pytest.mark.parametrize(
    "regularizer", [regularizers.L1(0.25), regularizers.L2(0.5), regularizers.L1L2(0.25, 0.5)]
)
def test_a_regularizer_is_equal_to_that_of_its_configuration(regularizer: Any):
    again = type(regularizer).from_config(regularizer.get_config())

    assert again.get_config() == regularizer.get_config()


def test_unknown_arguments_are_refused():
    with pytest.raises(GraphTypeError, match="not recognized"):
        regularizers.L1(factor=3)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("RandomNormal", {"mean": 0.0, "stddev": 0.05, "seed": None, "dtype": "float32"}),
        ("RandomUniform", {"minval": -0.05, "maxval": 0.05, "seed": None, "dtype": "float32"}),
        ("TruncatedNormal", {"mean": 0.0, "stddev": 0.05, "seed": None, "dtype": "float32"}),
    ],
)
def test_random_initializers_have_their_defaults(name: str, config: dict[str, Any]):
    assert getattr(ax.keras.initializers, name)().get_config() == config
