"""Moving averages: values, names, initial values. Against TensorFlow: the interop suite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError
from aioexec.train.optimizers.moving_averages import assign_moving_average, weighted_moving_average

VALUES = [1.0, -2.0, 4.0]
KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def each(tensor: Any, x: Any) -> list[Any]:
    init = ax.global_variables_initializer()
    async with ax.Session() as session:
        await session.run(init)
        return [await session.run(tensor, {x: value}) for value in VALUES]


@KINDS
async def test_an_average_follows_what_its_variable_is_after_the_step(use_resource: bool):
    x = ax.placeholder(ax.float32, [])
    variable = ax.get_variable("v", initializer=10.0, use_resource=use_resource)
    averages = ax.train.ExponentialMovingAverage(0.75)
    with ax.control_dependencies([variable.assign(x).op]):
        update = averages.apply([variable])
    with ax.control_dependencies([update]):
        now = averages.average(variable).read_value() + 0.0

    expected, average = [], 10.0
    for value in VALUES:
        average = 0.75 * average + 0.25 * value
        expected.append(average)
    np.testing.assert_allclose(await each(now, x), expected, rtol=1e-6)
    assert averages.average_name(variable) == "v/ExponentialMovingAverage"
    assert ax.moving_average_variables() == [variable]


async def test_a_count_of_updates_makes_the_beginning_fast():
    x = ax.placeholder(ax.float32, [])
    variable = ax.get_variable("v", initializer=0.0)
    averages = ax.train.ExponentialMovingAverage(0.99, num_updates=ax.constant(8))
    with ax.control_dependencies([variable.assign(x).op]), ax.control_dependencies([averages.apply()]):
        now = averages.average(variable).read_value() + 0.0

    assert (await each(now, x))[0] == pytest.approx((1 - 9 / 18) * VALUES[0])


async def test_without_bias_the_first_average_is_the_first_value():
    x = ax.placeholder(ax.float32, [])
    variable = ax.get_variable("v", initializer=0.0, trainable=False)
    found = await each(ax.convert_to_tensor(assign_moving_average(variable, x, 0.9)), x)

    weights = [0.9**k for k in (2, 1, 0)]
    assert found[0] == pytest.approx(VALUES[0])
    assert found[2] == pytest.approx(np.dot(weights, VALUES) / np.sum(weights))


async def test_a_weighted_average_weighs():
    x = ax.placeholder(ax.float32, [])
    mean = weighted_moving_average(x, 0.5, ax.abs(x))

    weights = np.abs(VALUES) * [0.25, 0.5, 1]
    assert (await each(mean, x))[-1] == pytest.approx(np.dot(weights, VALUES) / np.sum(weights))


def test_averages_are_restored_into_their_variables_and_the_rest_by_name():
    one, other = ax.get_variable("one", initializer=1.0), ax.get_variable("other", initializer=1.0)
    count = ax.get_variable("count", initializer=0, trainable=False)
    averages = ax.train.ExponentialMovingAverage(0.9)
    averages.apply([one])

    by_name = averages.variables_to_restore()

    assert by_name["one/ExponentialMovingAverage"] is one
    assert by_name["other/ExponentialMovingAverage"] is other
    assert by_name["count"] is count


def test_integers_have_no_average():
    with pytest.raises(GraphTypeError, match="half, float, or double"):
        ax.train.ExponentialMovingAverage(0.9).apply([ax.Variable(1)])
