"""Steps whose feeds arrive one after another: fetches in any order, until everything is done or the step is cancelled."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import AbortedError, CancelledError, InvalidArgumentError
from aioexec.testing import all_tasks_blocked
from tests.execution.parking import Parking, cancelled
from tests.execution.steps import on_cpu, stepping
from tests.tiers import Ops, constant, feed, graph, op


@pytest.fixture
async def parking(ops: Ops) -> Parking:
    return Parking(ops)


def number(value: float) -> Any:
    return np.array(value, np.float32)


def sums() -> tuple[Any, list[Any], list[Any]]:
    """Feeds a, b, c; fetches a + b, (a + b) * c, -c."""
    with graph() as g:
        a, b, c = feeds = [feed([]) for _ in range(3)]
        total = op("Add", a, b)
        return g, feeds, [total, op("Mul", total, c), op("Neg", c)]


EXPECTED = [3, 15, -5]


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_feeds_and_fetches_come_in_any_order(jit: Any):
    g, feeds, fetches = sums()

    async with stepping(g, jit) as made:
        for order in itertools.permutations(range(3)):
            for last in itertools.permutations(range(3)):
                step = made.open(fetches, feeds)
                for position in order:
                    assert not step.is_over
                    step.feed(position, number([1, 2, 5][position]))
                for position in last:
                    assert await step.fetch([position]) == [EXPECTED[position]]
                await step.finish()
                assert step.is_over
                assert step.error is None


async def test_a_fetch_is_there_as_soon_as_what_it_needs_has_come():
    g, feeds, fetches = sums()

    async with stepping(g) as made:
        step = made.open(fetches, feeds)
        step.feed(2, number(5))
        assert await step.fetch([2]) == [-5]
        step.feed(0, number(1))
        step.feed(1, number(2))
        assert await step.fetch([1, 0]) == [15, 3]
        assert await step.fetch([2]) == [-5]
        await step.finish()


async def test_fetches_wait_at_the_same_time():
    g, feeds, fetches = sums()

    async with stepping(g) as made:
        step = made.open(fetches, feeds)
        waiting = [asyncio.create_task(step.fetch([k])) for k in (1, 0, 1, 2)]
        await all_tasks_blocked()
        step.feed(0, number(1))
        step.feed(1, number(2))
        await all_tasks_blocked()
        assert [task.done() for task in waiting] == [False, True, False, False]
        step.feed(2, number(5))

        assert await asyncio.gather(*waiting) == [[15], [3], [15], [-5]]
        await step.finish()


async def test_a_fed_tensor_is_fetched_as_the_object_it_is():
    with graph() as g:
        x = feed([2])
        y = op("Neg", x)
    array = np.ones(2, np.float32)

    async with stepping(g) as made:
        step = made.open([x, y], [x])
        waiting = asyncio.create_task(step.fetch([0, 1]))
        await all_tasks_blocked()
        assert not waiting.done()
        step.feed(0, array)

        same, result = await waiting
        assert same is array
        np.testing.assert_array_equal(result, -array)
        await step.finish()


async def test_what_is_fetched_twice_is_not_shared():
    with graph() as g:
        x = feed([2])
        y = op("Neg", x)

    async with stepping(g, "eager") as made:
        step = made.open([y], [x])
        step.feed(0, np.ones(2, np.float32))
        ((first,), (second,)) = await step.fetch([0]), await step.fetch([0])
        first.fill(7)

        np.testing.assert_array_equal(second, [-1, -1])
        await step.finish()


async def test_constants_are_fetched_before_anything_is_fed():
    with graph() as g:
        x = feed([])
        fetches = [constant(3.0), op("Neg", x)]

    async with stepping(g) as made:
        step = made.open(fetches, [x])
        assert await step.fetch([0]) == [3]
        await step.cancel(CancelledError("enough"))


async def test_a_feed_that_no_fetch_needs_must_arrive_too():
    with graph() as g:
        x, y = feed([]), feed([])
        z = op("Neg", x)

    async with stepping(g) as made:
        step = made.open([z], [x, y])
        step.feed(0, number(1))
        assert await step.fetch([0]) == [-1]
        assert not step.is_over
        step.feed(1, number(2))
        await step.finish()
        assert step.is_over


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_the_result_of_a_loop_is_fetched_when_the_loop_is_over(parking: Parking, jit: Any):
    """Its Exit has run before, dead: once in each iteration."""
    with graph() as g:
        x = feed([])
        result = ax.while_loop(lambda value: value < 10, lambda value: op("Park", value) * 2, [x])

    async with stepping(g, jit) as made:
        step = made.open([result], [x])
        waiting = asyncio.create_task(step.fetch([0]))
        step.feed(0, number(3))
        for _ in range(2):
            await parking.came.wait()
            await all_tasks_blocked()
            assert not waiting.done()
            parking.came.clear()
            parking.let_go()

        assert await waiting == [12]
        await step.finish()


@pytest.mark.parametrize("taken", [False, True])
async def test_a_fetch_on_a_branch_that_was_not_taken_says_so(taken: bool):
    with graph() as g:
        p, x = feed([], "bool"), feed([])
        outputs = g.create_op("Switch", [x, p]).outputs
        fetches = [op("Neg", output) for output in outputs]

    async with stepping(g) as made:
        step = made.open(fetches, [p, x])
        step.feed(1, number(2))
        waiting = [asyncio.create_task(step.fetch([k])) for k in (taken, not taken)]
        await all_tasks_blocked()
        step.feed(0, np.array(taken))

        assert await waiting[0] == [-2]
        with pytest.raises(InvalidArgumentError, match="does not have value"):
            await waiting[1]
        await step.finish()


async def test_a_cancelled_fetch_leaves_the_step_and_other_fetches_alone():
    g, feeds, fetches = sums()

    async with stepping(g) as made:
        step = made.open(fetches, feeds)
        first, second = (asyncio.create_task(step.fetch([1])) for _ in range(2))
        await all_tasks_blocked()
        first.cancel()
        assert await cancelled(first)
        for position, value in enumerate((1, 2, 5)):
            step.feed(position, number(value))

        assert await second == [15]
        assert await step.fetch([0]) == [3]
        await step.finish()


async def test_a_cancelled_step_ends_with_the_error_it_was_given(parking: Parking):
    with graph() as g:
        x, y = feed([]), feed([])
        fetches = [op("Park", x), op("Neg", y)]

    async with stepping(g) as made:
        step = made.open(fetches, [x, y])
        step.feed(0, number(1))
        waiting = [asyncio.create_task(step.fetch([k])) for k in range(2)]
        await parking.all_waiting()
        error = AbortedError("given up")
        await step.cancel(error)

        assert step.is_over
        assert step.error is error
        assert parking.parked[0].cancelled()
        for task in waiting:
            with pytest.raises(AbortedError, match="given up"):
                await task
        with pytest.raises(AbortedError, match="given up"):
            await step.fetch([0])
        with pytest.raises(AbortedError, match="given up"):
            await step.finish()
        await step.cancel(CancelledError("again"))
        assert step.error is error


@pytest.mark.parametrize("times", [1, 3])
async def test_cancel_waits_for_kernels_that_cannot_stop_even_if_it_is_cancelled(
    parking: Parking, times: int
):
    with graph() as g:
        x = feed([])
        y = op("Toil", x)

    async with stepping(g) as made:
        step = made.open([y], [x])
        step.feed(0, number(1))
        await parking.entered.wait()
        ending = asyncio.create_task(step.cancel(AbortedError("given up")))
        await all_tasks_blocked()
        for _ in range(times):
            ending.cancel()
            await all_tasks_blocked()
        assert not ending.done()
        parking.let_go()

        assert await cancelled(ending)
        assert step.is_over
        assert not parking.on_worker


async def test_an_error_ends_the_step_and_reaches_all_who_wait(parking: Parking):
    with graph() as g:
        x, y = feed([]), feed([])
        fetches = [op("Park", x, name="culprit"), op("Neg", y), op("Park", x)]

    async with stepping(g) as made:
        step = made.open(fetches, [x, y])
        waiting = [asyncio.create_task(step.fetch([k])) for k in range(3)]
        step.feed(0, number(1))
        await parking.all_waiting(2)
        parking.parked[0].set_exception(InvalidArgumentError("no"))

        for task in waiting:
            with pytest.raises(InvalidArgumentError, match=r"culprit.*no"):
                await task
        with pytest.raises(InvalidArgumentError, match="no"):
            await step.finish()
        assert isinstance(step.error, InvalidArgumentError)
        assert parking.parked[1].cancelled()


async def test_finish_waits_for_all_that_runs(parking: Parking):
    with graph() as g:
        x = feed([])
        fetches = [op("Neg", x), op("Park", x)]

    async with stepping(g) as made:
        step = made.open(fetches, [x])
        step.feed(0, number(1))
        assert await step.fetch([0]) == [-1]
        ending = asyncio.create_task(step.finish())
        await parking.all_waiting()
        assert not ending.done()
        parking.let_go()

        await ending
        assert step.is_over


async def test_a_partial_step_over_two_devices(parking: Parking):
    with graph() as g:
        x, y = feed([]), feed([])
        with g.device(on_cpu(1)):
            there = op("Park", op("Add", x, constant(1.0)))
        fetches = [op("Mul", there, y), op("Neg", y)]

    async with stepping(g, CPU=2) as made:
        step = made.open(fetches, [x, y])
        step.feed(1, number(3))
        assert await step.fetch([1]) == [-3]
        step.feed(0, number(1))
        waiting = asyncio.create_task(step.fetch([0]))
        await parking.all_waiting()
        parking.let_go()
        assert await waiting == [6]
        await step.finish()

        step = made.open(fetches, [x, y])
        step.feed(0, number(1))
        await parking.all_waiting()
        await step.cancel(AbortedError("given up"))
        assert parking.parked[-1].cancelled()


async def test_many_partial_steps_of_one_plan_at_a_time():
    g, feeds, fetches = sums()

    async with stepping(g) as made:
        steps = [made.open(fetches, feeds) for _ in range(50)]
        for position in (2, 0, 1):
            for k, step in enumerate(steps):
                step.feed(position, number(k + position))
        results = [await step.fetch([0, 1]) for step in reversed(steps)]
        for step in steps:
            await step.finish()

    assert results == [[2 * k + 1, (2 * k + 1) * (k + 2)] for k in reversed(range(50))]
