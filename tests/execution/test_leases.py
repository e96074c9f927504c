"""Leases exclude writers, one after another, and no wake-up is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.execution.programs.leases import lease, release
from aioexec.resources.variable import Variable
from aioexec.testing.tasks import all_tasks_blocked


def variables(count: int) -> list[Variable]:
    return [Variable(f"v{k}", dtypes.float32, ()) for k in range(count)]


async def test_a_free_variable_is_leased_without_waiting():
    (v,) = variables(1)

    await lease([v])

    assert v.leased
    release([v])
    assert not v.leased


async def test_nothing_to_write_needs_no_lease():
    await lease([])
    release([])


async def test_who_waits_gets_the_lease_in_the_order_of_asking():
    (v,) = variables(1)
    order: list[int] = []

    async def writer(k: int) -> None:
        await lease([v])
        order.append(k)
        await asyncio.sleep(0)
        release([v])

    await lease([v])
    writers = [asyncio.create_task(writer(k)) for k in range(5)]
    await all_tasks_blocked()
    assert order == []
    release([v])
    await asyncio.gather(*writers)

    assert order == list(range(5))
    assert not v.waiters


async def test_a_waiter_that_is_cancelled_does_not_take_the_lease_with_it():
    (v,) = variables(1)
    await lease([v])
    waiting = [asyncio.create_task(lease([v])) for _ in range(3)]
    await all_tasks_blocked()

    waiting[0].cancel()  # before it is woken
    release([v])  # wakes the second, which is cancelled before it runs
    waiting[1].cancel()
    await all_tasks_blocked()

    assert [task.cancelled() for task in waiting] == [True, True, False]
    assert v.leased
    assert waiting[2].done()
    release([v])
    assert not v.leased


async def test_a_waiter_that_needs_another_variable_too_passes_its_turn_on():
    a, b = variables(2)
    await lease([a])
    await lease([b])
    both = asyncio.create_task(lease([a, b]))
    await all_tasks_blocked()
    only_a = asyncio.create_task(lease([a]))
    await all_tasks_blocked()

    release([a])
    await all_tasks_blocked()

    assert only_a.done()
    assert not both.done()
    release([a])
    release([b])
    await both
    assert a.leased
    assert b.leased


Ask = tuple[tuple[int, ...], int, bool]


@given(
    asks=st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True).map(
                lambda each: tuple(sorted(each))
            ),
            st.integers(0, 3),
            st.booleans(),
        ),
        max_size=25,
    ),
    cancels=st.lists(st.integers(0, 24), max_size=8),
)
def test_in_any_order_of_requests_and_cancellations_leases_are_exclusive_and_all_steps_finish(
    asks: Sequence[Ask], cancels: Sequence[int]
):
    async def scenario() -> None:
        held = variables(4)
        writers: dict[int, int] = dict.fromkeys(range(4), 0)

        async def step(needs: tuple[int, ...], pauses: int) -> None:
            mine = [held[k] for k in needs]
            await lease(mine)
            try:
                for k in needs:
                    writers[k] += 1
                    assert writers[k] == 1
                for _ in range(pauses):
                    await asyncio.sleep(0)
                for k in needs:
                    writers[k] -= 1
            finally:
                for k in needs:
                    writers[k] = 0
                release(mine)

        tasks = []
        for needs, pauses, wait in asks:
            tasks.append(asyncio.create_task(step(needs, pauses)))
            if wait:
                await asyncio.sleep(0)
        for k in cancels:
            if k < len(tasks):
                tasks[k].cancel()
                await asyncio.sleep(0)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results), (
            results
        )
        assert not any(variable.leased or variable.waiters for variable in held)

    async def limited() -> None:
        async with asyncio.timeout(10):
            await scenario()

    asyncio.run(limited())
