"""Optionals in graphs: values, and gradients of first and second order."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_list_op, apply_op
from tests.ops.evaluate import evaluate
from tests.tiers import Tier, tier as tier

X = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.fixture
def x():
    with ax.Graph().as_default():
        yield ax.placeholder(ax.float32, X.shape)


def value_of(optional):
    return apply_list_op("OptionalGetValue", optional, output_types=[ax.float32], output_shapes=[[3]])[0]


def test_gradients_go_through_twice(x):
    cube = value_of(apply_op("OptionalFromValue", [x * x * x]))

    (dx,) = ax.gradients(cube, x)
    (dxx,) = ax.gradients(value_of(apply_op("OptionalFromValue", [dx])), x)

    np.testing.assert_allclose(evaluate(dx, {x: X}), 3 * X**2)
    np.testing.assert_allclose(evaluate(dxx, {x: X}), 6 * X)


def test_gradients_of_an_optional_that_is_used_twice_add_up(x):
    optional = apply_op("OptionalFromValue", [x * x])

    (dx,) = ax.gradients([value_of(optional), 2 * value_of(optional)], x)

    np.testing.assert_allclose(evaluate(dx, {x: X}), 6 * X)


async def test_a_conditional_passes_what_only_one_branch_has(tier: Tier, x):
    pred = ax.placeholder(ax.bool, [])
    optional = ax.cond(
        pred, lambda: apply_op("OptionalFromValue", [x + 1.0]), lambda: apply_op("OptionalNone")
    )
    has_value, value = apply_op("OptionalHasValue", optional), value_of(optional)

    async with tier.session(x.graph) as session:
        for _ in range(3):
            assert await session.run(has_value, {pred: True, x: X})
            np.testing.assert_array_equal(await session.run(value, {pred: True, x: X}), X + 1)
            assert not await session.run(has_value, {pred: False, x: X})
            with pytest.raises(InvalidArgumentError, match="The given optional does not have a value"):
                await session.run(value, {pred: False, x: X})
