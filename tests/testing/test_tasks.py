"""`all_tasks_blocked` returns when all runnable tasks have run, and no sooner."""

import asyncio

import pytest

from aioexec.testing import all_tasks_blocked

pytestmark = pytest.mark.both_loops


async def test_a_new_task_has_run_up_to_its_first_wait():
    event = asyncio.Event()
    seen = []

    async def work() -> None:
        seen.append("started")
        await event.wait()
        seen.append("woken")

    task = asyncio.create_task(work())
    await all_tasks_blocked()
    assert seen == ["started"]

    event.set()
    await all_tasks_blocked()
    assert seen == ["started", "woken"]
    assert task.done()


async def test_many_short_hops_all_happen():
    hops = 0

    async def hop() -> None:
        nonlocal hops
        for _ in range(500):
            await asyncio.sleep(0)
            hops += 1

    task = asyncio.create_task(hop())
    await all_tasks_blocked()

    assert hops == 500
    assert task.done()


async def test_a_result_travels_through_nested_gathers():
    future = asyncio.get_running_loop().create_future()
    outer = asyncio.gather(asyncio.gather(asyncio.gather(future)))
    waiting = asyncio.ensure_future(outer)
    await all_tasks_blocked()

    future.set_result(7)
    await all_tasks_blocked()

    assert waiting.done()
    assert await waiting == [[[7]]]


async def test_a_chain_of_callbacks_runs_to_its_end():
    """Each callback schedules the next one; no task is runnable meanwhile."""
    loop = asyncio.get_running_loop()
    left = 24

    def advance() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(advance)

    loop.call_soon(advance)
    await all_tasks_blocked()

    assert left == 0


async def test_timers_do_not_fire():
    sleeper = asyncio.create_task(asyncio.sleep(60))

    await all_tasks_blocked()

    assert not sleeper.done()
    sleeper.cancel()
    await all_tasks_blocked()
    assert sleeper.cancelled()


async def test_two_that_wait_for_quiet_do_not_wait_for_each_other():
    async with asyncio.TaskGroup() as group:
        group.create_task(all_tasks_blocked())
        group.create_task(all_tasks_blocked())


async def test_a_task_that_never_waits_is_named():
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    spinner = asyncio.create_task(spin(), name="spinner")

    with pytest.raises(RuntimeError, match="these tasks still run: spinner"):
        await all_tasks_blocked(max_passes=50)

    spinner.cancel()
    await asyncio.wait([spinner])
