"""The order in which a partial step runs its items, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec.errors import AbortedError, CancelledError, InvalidArgumentError, OpError
from aioexec.execution.budget import TICK_NS
from aioexec.execution.step import Step
from aioexec.testing import all_tasks_blocked
from tests.execution.steps import stepping
from tests.tiers import constant, feed, graph, op


def number(value: float) -> Any:
    return np.array(value, np.float32)


def products() -> tuple[Any, list[Any], list[Any]]:
    """Feeds a, b; fetches -a, -a * b."""
    with graph() as g:
        a, b = feeds = [feed([]) for _ in range(2)]
        negative = op("Neg", a)
        return g, feeds, [negative, op("Mul", negative, b)]


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_program_waits_for_all_of_its_feeds_and_for_programs_before_it(jit: Any):
    g, feeds, fetches = products()

    async with stepping(g, jit) as made:
        for _ in range(3):
            step = made.open(fetches, feeds)
            step.feed(1, number(5))
            assert step.fetch_nowait([1]) is None
            step.feed(0, number(2))
            assert await step.fetch([1, 0]) == [-10, -2]
            await step.finish()


async def test_what_is_too_much_for_a_tick_is_done_in_the_next_one():
    g, feeds, fetches = products()

    async with stepping(g) as made:
        step = made.open(fetches, feeds)
        budget = made.engine.budget
        budget.charge(0, TICK_NS + 1)
        step.feed(0, number(2))
        step.feed(1, number(5))
        assert step.fetch_nowait([0]) is None
        assert not step.is_over

        assert await step.fetch([0, 1]) == [-2, -10]
        await step.finish()


async def test_a_step_that_is_cancelled_before_its_turn_computes_nothing():
    g, feeds, fetches = products()

    async with stepping(g) as made:
        step = made.open(fetches, feeds)
        made.engine.budget.charge(0, TICK_NS + 1)
        step.feed(0, number(2))
        await step.cancel(CancelledError("enough"))
        await all_tasks_blocked()

        assert step.is_over
        with pytest.raises(CancelledError, match="enough"):
            step.fetch_nowait([0])


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_a_program_that_fails_ends_the_step_for_all_who_wait(jit: Any):
    with graph() as g:
        x, y = feed(None), feed([])
        fetches = [op("MatMul", x, constant([[1.0], [2.0]])), op("Neg", y)]

    async with stepping(g, jit) as made:
        step = made.open(fetches, [x, y])
        waiting = [asyncio.create_task(step.fetch([k])) for k in range(2)]
        await all_tasks_blocked()
        step.feed(0, np.ones((1, 3), np.float32))

        for each in waiting:
            with pytest.raises(InvalidArgumentError, match="MatMul"):
                await each
        assert isinstance(step.error, OpError)
        await step.cancel(step.error)
        assert step.is_over


async def test_a_rendezvous_that_is_first_asked_for_after_the_step_has_failed_has_failed_too():
    g, _, _ = products()

    async with stepping(g) as made:
        step = Step(made.engine)
        error = AbortedError("enough")
        step.fail(error)

        assert step.rendezvous.error is error
        step.close()
