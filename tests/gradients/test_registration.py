"""Gradient rules registered by programs, and second derivatives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.gradients.registration import get_gradient_function

NAMES = (f"TestGradient{k}" for k in itertools.count())


@pytest.fixture
def x():
    with ax.Graph().as_default():
        yield ax.placeholder(ax.float64, [2], name="x")


async def value(tensor: Any, x: Any) -> Any:
    async with ax.Session() as session:
        return (await session.run(tensor, {x: [0.5, 2.0]})).tolist()


async def test_nodes_made_under_a_map_use_the_named_rule(x: Any):
    name = next(NAMES)

    @ax.RegisterGradient(name)
    def rule(op: Any, dy: Any) -> Any:
        return 10.0 * dy

    with x.graph.gradient_override_map({"Square": name}):
        y = ax.square(x)
    z = ax.square(x)

    assert await value(ax.gradients(y, [x])[0], x) == [10.0, 10.0]
    assert await value(ax.gradients(z, [x])[0], x) == [1.0, 4.0]
    assert get_gradient_function(y.op) is rule


def test_a_name_is_registered_once(x: Any):
    name = next(NAMES)
    ax.NotDifferentiable(name)

    with pytest.raises(KeyError, match="Registering two gradient with name"):
        ax.RegisterGradient(name)(lambda op, dy: dy)


def test_a_named_rule_may_be_that_there_is_none(x: Any):
    name = next(NAMES)
    ax.NoGradient(name)
    with x.graph.gradient_override_map({"Square": name}):
        y = ax.square(x)

    assert ax.gradients(y, [x]) == [None]
    assert get_gradient_function(y.op) is None


def test_a_name_that_is_not_registered_is_refused(x: Any):
    with x.graph.gradient_override_map({"Square": "NobodyRegisteredThis"}):
        y = ax.square(x)

    with pytest.raises(LookupError, match=r"No gradient defined for operation 'Square'"):
        ax.gradients(y, [x])


async def test_a_function_may_bring_its_gradient(x: Any):
    @ax.custom_gradient
    def stable(a: Any) -> Any:
        return ax.exp(a), lambda dy: dy * 3.0

    y = stable(x) * x

    result = await value(ax.gradients(y, [x])[0], x)
    np.testing.assert_allclose(result, np.exp([0.5, 2.0]) + 3.0 * np.array([0.5, 2.0]))


async def test_a_custom_gradient_serves_in_a_loop(x: Any):
    @ax.custom_gradient
    def doubled(a: Any) -> Any:
        return a * 2.0, lambda dy: dy * 3.0

    y = ax.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, doubled(a)), [0, x])[1]

    assert await value(ax.gradients(y, [x])[0], x) == [27.0, 27.0]


async def test_hessians_are_second_derivatives(x: Any):
    y = ax.reduce_sum(x * x * x) + x[0] * x[1]

    (hessian,) = ax.hessians(y, x)

    assert await value(hessian, x) == [[3.0, 1.0], [1.0, 12.0]]
