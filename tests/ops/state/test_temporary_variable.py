"""Variables of one step."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError
from aioexec.ops.state.temporary_variable import destroy_temporary_variable, temporary_variable


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


async def test_each_step_has_a_variable_of_its_own():
    reference = temporary_variable([2], ax.float32, "sum")
    added = ax.assign_add(ax.assign(reference, [1.0, 2.0]), [0.5, 0.5])
    result = destroy_temporary_variable(added, "sum")

    async with ax.Session() as session:
        runs = [await session.run(result) for _ in range(2)]

    np.testing.assert_array_equal(runs, [[1.5, 2.5]] * 2)


async def test_what_is_not_destroyed_goes_with_its_step():
    assigned = ax.assign(temporary_variable([1], ax.float32, "left"), [4.0])

    async with ax.Session() as session:
        for _ in range(2):
            np.testing.assert_array_equal(await session.run(assigned), [4.0])


async def test_destroying_what_is_not_there_fails():
    result = destroy_temporary_variable(temporary_variable([1], ax.float32, "here"), "elsewhere")

    async with ax.Session() as session:
        with pytest.raises(NotFoundError, match="elsewhere"):
            await session.run(result)


async def test_two_of_one_name_in_a_step_fail():
    both = [temporary_variable([1], ax.float32, "same") for _ in range(2)]

    async with ax.Session() as session:
        with pytest.raises(AlreadyExistsError, match="same"):
            await session.run(both)


async def test_the_shape_must_be_known():
    reference = temporary_variable([None], ax.float32)

    async with ax.Session() as session:
        with pytest.raises(InvalidArgumentError, match="not fully defined"):
            await session.run(reference)
