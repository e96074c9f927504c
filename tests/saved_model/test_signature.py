"""A signature runs a step by the names of its inputs and outputs, and says in them what does not fit."""

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.saved_model.signature import Signature


@pytest.fixture
async def signature():
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        scale = ax.placeholder(ax.float32, [], name="scale")
        outputs = {"scaled": x * scale, "total": ax.reduce_sum(x)}
    inputs = {"x": x, "scale": scale}
    async with ax.Session(graph=graph) as session:
        yield Signature("serving_default", inputs, outputs, session, defaults={"scale": 2.0})


async def test_a_call_returns_all_outputs_and_a_run_the_chosen_ones(signature):
    answers = await signature(x=[[1, 2]], scale=3)

    np.testing.assert_array_equal(answers["scaled"], np.array([[3, 6]], np.float32))
    np.testing.assert_array_equal(answers["total"], np.float32(3))
    assert await signature.run({"x": [[1, 2]], "scale": 1}, ["total"]) == {"total": 3}


async def test_an_input_with_a_default_may_be_left_out(signature):
    answers = await signature(x=np.ones((2, 2), np.float32))

    np.testing.assert_array_equal(answers["scaled"], np.full((2, 2), 2, np.float32))


async def test_a_large_input_of_another_dtype_is_converted(signature):
    answers = await signature(x=np.ones((10_000, 2), np.int16))

    np.testing.assert_array_equal(answers["total"], np.float32(20_000))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"expected inputs \['scale', 'x'\], got \[\]: missing \['x'\]"),
        ({"x": [[1, 2]], "y": 1}, r"got \['x', 'y'\]: unknown \['y'\]"),
        ({"x": [1, 2]}, r"input 'x': expected x: float32 \(\?, 2\): .* shape \(2,\)"),
        ({"x": [["a", "b"]]}, r"input 'x': expected x: float32 \(\?, 2\): .* got 'a'"),
        ({"x": [[1, 2]], "scale": [1]}, r"input 'scale': expected scale: float32 \(\)"),
    ],
)
async def test_what_does_not_fit_is_named_as_in_the_signature(signature, inputs, message):
    with pytest.raises(InvalidArgumentError, match=f"signature 'serving_default'.*{message}"):
        await signature.run(inputs)


async def test_an_unknown_output_is_an_error(signature):
    with pytest.raises(
        InvalidArgumentError, match=r"expected outputs among \['scaled', 'total'\], got \['z'\]"
    ):
        await signature.run({"x": [[1, 2]]}, ["z"])
