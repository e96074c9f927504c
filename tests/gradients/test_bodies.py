"""Gradients of calls, and of conditionals and loops whose branches are functions, against finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.ops.functions.call_functions import If
from aioexec.ops.functions.defun import Defun
from tests.gradients.body_programs import PROGRAMS
from tests.gradients.numeric import check_program
from tests.gradients.programs import Program


@pytest.fixture
def x():
    with ax.Graph().as_default():
        yield ax.placeholder(ax.float64, [2], name="x")


@pytest.mark.parametrize("build", [pytest.param(build, id=build.__name__) for build in PROGRAMS])
async def test_gradients_are_what_differences_say(x: Any, build: Program):
    await check_program(build, x, order=1)


@pytest.mark.slow
@pytest.mark.parametrize("build", [pytest.param(build, id=build.__name__) for build in PROGRAMS])
async def test_gradients_of_gradients_are_what_differences_say(x: Any, build: Program):
    await check_program(build, x, order=2)


async def test_what_is_random_in_a_body_is_drawn_once(x: Any):
    @Defun(ax.float64)
    def noisy(a: Any) -> Any:
        return a * ax.random_uniform([2], dtype=ax.float64)

    @Defun(ax.float64)
    def quiet(a: Any) -> Any:
        return a

    y = If(ax.reduce_sum(x) > 1.0, [x], noisy, quiet)
    (gradient,) = ax.gradients(y, [x])

    async with ax.Session() as session:
        value, slope = await session.run([y[0] if isinstance(y, list) else y, gradient], {x: [2.0, 4.0]})
    np.testing.assert_allclose(slope, value / [2.0, 4.0])


def test_a_call_comes_to_return_what_its_gradient_needs(x: Any):
    @Defun(ax.float64)
    def cube(a: Any) -> Any:
        return ax.square(a) * a

    y = cube(x)

    ax.gradients(y, [x])

    assert [tensor.shape.as_list() for tensor in y.op.outputs] == [[2], [2]]  # and the square


def test_what_a_call_returns_anyway_is_not_returned_twice(x: Any):
    @Defun(ax.float64)
    def bounded(a: Any) -> Any:
        return ax.tanh(a)

    y = bounded(x)

    ax.gradients(y, [x])

    assert len(y.op.outputs) == 1
