"""`assert_gradients` accepts right gradients and names the tensor of a wrong one."""

import pytest

import aioexec as ax
from aioexec.testing import assert_gradients


@ax.custom_gradient
def wrong_square(x):
    return x * x, lambda dy: dy * x  # without the factor 2


async def test_right_gradients_pass_for_every_tensor(ax_session):
    x = ax.placeholder(ax.float32, [2, 2])
    scale = ax.placeholder(ax.float32, [])
    y = ax.tanh(ax.matmul(x, x)) * scale

    await assert_gradients(y, {x: [[0.1, 0.2], [0.3, 0.4]], scale: 1.5})


async def test_a_wrong_gradient_fails_and_names_the_tensor(ax_session):
    x = ax.placeholder(ax.float64, [2], name="x")
    y = ax.identity(wrong_square(x), name="y")

    with pytest.raises(AssertionError, match=r"gradient of y:0 with respect to x:0 .* in 2 of 4 numbers: "):
        await assert_gradients(y, {x: [1.0, 2.0]}, delta=1e-6)


async def test_without_a_session_that_is_the_error():
    with ax.Graph().as_default():
        x = ax.placeholder(ax.float32, [1])

        with pytest.raises(ax.errors.OpError, match="there is no default session"):
            await assert_gradients(x * 2.0, {x: [1.0]})
