"""compute_gradient: both Jacobians of functions with known derivatives, and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.testing import compute_gradient, compute_gradient_error

AT = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest_asyncio.fixture
async def session() -> AsyncIterator[ax.Session]:
    with ax.Graph().as_default():
        async with ax.Session() as session:
            yield session


async def test_both_jacobians_are_the_derivative(session: ax.Session):
    x = ax.placeholder(ax.float64, [2, 2])
    with session.as_default():
        by_gradient, by_differences = await compute_gradient(x, [2, 2], x * x * [1.0, 10.0], [2, 2], AT)

    expected = np.diag((2 * AT * [1, 10]).ravel())
    np.testing.assert_allclose(by_gradient, expected)
    np.testing.assert_allclose(by_differences, expected, atol=1e-6)


async def test_a_gradient_of_slices_is_whole(session: ax.Session):
    x = ax.placeholder(ax.float64, [2, 2])
    with session.as_default():
        error = await compute_gradient_error(x, [2, 2], ax.gather(x, [1, 1, 0]) ** 2.0, [3, 2], AT)

    assert error < 1e-6


async def test_several_inputs_have_a_pair_each(session: ax.Session):
    inputs = [ax.placeholder(ax.float64, [2]) for _ in range(2)]
    y = inputs[0] * inputs[1]
    with session.as_default():
        found = await compute_gradient(
            inputs, [[2], [2]], y, [2], extra_feed_dict={each: [2.0, 3.0] for each in inputs}
        )

    np.testing.assert_allclose([pair[0] for pair in found], [np.diag([2, 3])] * 2)
    np.testing.assert_allclose([pair[1] for pair in found], [np.diag([2, 3])] * 2, atol=1e-6)


async def test_a_complex_number_is_two(session: ax.Session):
    x = ax.placeholder(ax.complex128, [1])
    with session.as_default():
        by_gradient, by_differences = await compute_gradient(x, [1], x * 2j, [1])

    np.testing.assert_allclose(by_gradient, by_differences, atol=1e-6)
    assert by_gradient.shape == (2, 2)


async def test_a_wrong_gradient_is_told(session: ax.Session):
    @ax.custom_gradient
    def wrong(x: Any) -> Any:
        return x * 3.0, lambda dy: dy * 4.0

    x = ax.placeholder(ax.float64, [2])
    with session.as_default():
        assert await compute_gradient_error(x, [2], wrong(x), [2]) == pytest.approx(1)


async def test_mistakes_are_refused(session: ax.Session):
    x, whole = ax.placeholder(ax.float32, [2]), ax.placeholder(ax.int32, [2])
    with session.as_default():
        with pytest.raises(GraphValueError, match="init_data shape"):
            await compute_gradient(x, [2], x * 2.0, [2], np.zeros(3))
        with pytest.raises(GraphValueError, match="tensor of floats"):
            await compute_gradient(whole, [2], x, [2])
        with pytest.raises(GraphValueError, match="does not depend"):
            await compute_gradient(x, [2], ax.constant([1.0, 2.0]), [2])


async def test_without_a_default_session_it_says_so():
    with ax.Graph().as_default():
        x = ax.placeholder(ax.float32, [2])
        with pytest.raises(GraphValueError, match="no default session"):
            await compute_gradient(x, [2], x * 2.0, [2])
