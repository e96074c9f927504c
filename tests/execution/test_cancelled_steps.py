"""A step whose caller is cancelled, at any wait: the await ends after all kernels have ended, and the executor stays usable."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest

from aioexec.devices.threads.workers import Workers
from aioexec.errors import InvalidArgumentError
from aioexec.execution.budget import TICK_NS, budget_of
from aioexec.execution.programs.leases import lease, release
from aioexec.execution.step import StepSettings
from aioexec.resources.variable import Variable
from aioexec.testing import LeakCheck, all_tasks_blocked
from tests.execution.parking import Parking, cancelled
from tests.execution.steps import Stepping, on_cpu, stepping
from tests.tiers import Ops, constant, feed, graph, op, read, resource

LARGE = np.ones(100_000, np.float32)
"""So large that NumPy's kernels, and copies, are made on a worker."""


@pytest.fixture
async def parking(ops: Ops) -> Parking:
    return Parking(ops)


@contextlib.asynccontextmanager
async def nothing_left(made: Stepping) -> AsyncIterator[None]:
    """Resources of a step are released at the end."""
    async with LeakCheck(threads=False):
        yield
    for device in made.devices.devices:
        for container, held in device.resources._containers.items():
            assert not container.startswith("__per_step_")
            for variable in (each for each in held.values() if isinstance(each, Variable)):
                assert not variable.leased
                assert not variable.waiters
                assert not variable.pins


async def cancel(task: asyncio.Task[Any], times: int) -> None:
    """Cancel a task several times; it takes notice of each."""
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)


TIMES = pytest.mark.parametrize("times", [1, 2, 3])


@TIMES
@pytest.mark.parametrize("kinds", [["Park"], ["Stroll"], ["Park", "Stroll", "Park"]])
async def test_cancelled_while_kernels_wait(parking: Parking, kinds: list[str], times: int):
    with graph() as g:
        x = feed([])
        fetches = [op("Neg", op(kind, x)) for kind in kinds]

    async with stepping(g) as made:
        async with nothing_left(made):
            running = asyncio.create_task(made.run(fetches, {x: 1}))
            await parking.all_waiting(len(kinds))
            await cancel(running, times)
            assert await cancelled(running)
            assert all(future.cancelled() for future in parking.parked)

        running = asyncio.create_task(made.run(fetches, {x: 1}))
        await parking.all_waiting(len(kinds))
        parking.let_go()
        assert await running == [-1] * len(kinds)


@TIMES
@pytest.mark.behaviour(41)
@pytest.mark.parametrize("kinds", [["Toil"], ["Plod"], ["Toil", "Park"], ["Plod", "Stroll"], ["Stubborn"]])
async def test_cancelled_while_a_kernel_cannot_stop(parking: Parking, kinds: list[str], times: int):
    """The await ends when the kernel has, however often it is cancelled."""
    with graph() as g:
        x = feed(LARGE.shape)
        fetches = [op("Neg", op(kind, x)) for kind in kinds]

    async with stepping(g) as made:
        async with nothing_left(made):
            running = asyncio.create_task(made.run(fetches, {x: LARGE}))
            if kinds != ["Stubborn"]:
                await parking.entered.wait()
            await all_tasks_blocked()
            await cancel(running, times)
            await all_tasks_blocked()
            assert not running.done()
            parking.let_go()
            assert await cancelled(running)
            assert not parking.on_worker
            assert not parking.waiting

        running = asyncio.create_task(made.run(fetches, {x: LARGE}))
        await all_tasks_blocked()
        parking.let_go()
        np.testing.assert_array_equal(await running, [-LARGE] * len(kinds))


@TIMES
async def test_cancelled_while_a_partition_waits_for_another(parking: Parking, times: int):
    with graph() as g:
        x = feed([])
        with g.device(on_cpu(1)):
            there = op("Park", x)
        back = op("Neg", there)

    async with stepping(g, CPU=2) as made:
        async with nothing_left(made):
            running = asyncio.create_task(made.run([back], {x: 1}))
            await parking.all_waiting()
            await cancel(running, times)
            assert await cancelled(running)
            assert parking.parked[0].cancelled()

        running = asyncio.create_task(made.run([back], {x: 1}))
        await parking.all_waiting()
        parking.let_go()
        assert await running == [-1]


@TIMES
@pytest.mark.behaviour(41)
async def test_cancelled_while_another_partition_cannot_stop(parking: Parking, times: int):
    with graph() as g:
        x = feed([])
        with g.device(on_cpu(1)):
            there = op("Toil", x)
        back = op("Neg", there)

    async with stepping(g, CPU=2) as made, nothing_left(made):
        running = asyncio.create_task(made.run([back], {x: 1}))
        await parking.entered.wait()
        await cancel(running, times)
        await all_tasks_blocked()
        assert not running.done()
        parking.let_go()
        assert await cancelled(running)
        assert not parking.on_worker


def adding() -> Any:
    """A graph; its feed; a node that adds it to a variable; the variable's initialiser and value."""
    with graph() as g:
        x, v = feed(LARGE.shape), resource(LARGE.shape)
        init = op(
            "AssignVariableOp",
            v,
            op("Mul", constant(0.0), op("Fill", constant([LARGE.size], "int32"), constant(1.0))),
        )
        return g, x, op("AssignAddVariableOp", v, x), init, read(v)


@TIMES
@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_cancelled_while_it_waits_for_a_lease(jit: Any, times: int):
    g, x, add, init, value = adding()

    async with stepping(g, jit) as made:
        await made.run([init])
        await made.run([add], {x: LARGE})
        (variable,) = made.executor([add], [x]).plan.client.items[0].writes
        async with nothing_left(made):
            await lease([variable])
            running = asyncio.create_task(made.run([add], {x: LARGE}))
            await all_tasks_blocked()
            await cancel(running, times)
            assert await cancelled(running)
            release([variable])

        await made.run([add], {x: LARGE})
        np.testing.assert_array_equal(await made.run([value]), [2 * LARGE])


@pytest.mark.parametrize("where", ["before the step", "in the step"])
async def test_cancelled_while_it_waits_for_its_turn(ops: Ops, where: str):
    """Items due in the tick of the cancellation still run, later ones do not."""
    budget = budget_of(asyncio.get_running_loop())

    def spend(step: Any = None, x: Any = None) -> Any:
        began = perf_counter_ns()
        budget.charge(began, began + 2 * TICK_NS)
        return x

    ops.add("Spend(x:T) -> (y:T) [T:type] {stateful}", spend, asynchronous=True)
    with graph() as g:
        x, v = feed([]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        spent = op("Spend", op("Spend", x)) if where == "in the step" else x
        add = op("AssignAddVariableOp", v, op("Neg", spent))
        value = read(v)

    async with stepping(g) as made:
        await made.run([init])
        made.executor([add], [x])

        async def run() -> None:
            if where == "before the step":
                spend()
            asyncio.get_running_loop().call_soon(running.cancel)
            await made.run([add], {x: 1})

        async with nothing_left(made):
            running = asyncio.create_task(run())
            assert await cancelled(running)
        await all_tasks_blocked()
        assert await made.run([value]) == [0]
        await made.run([add], {x: 1})
        await all_tasks_blocked()
        assert await made.run([value]) == [-1]


@TIMES
async def test_cancelled_while_what_is_fetched_is_copied(times: int):
    with graph() as g:
        value = op("Fill", constant([LARGE.size], "int32"), constant(1.0))
    gate = threading.Event()
    workers = Workers(1, "test")

    async with stepping(g) as made:
        busy = workers.submit(lambda: gate.wait(20))
        async with nothing_left(made):
            running = asyncio.create_task(made.run([value], settings=StepSettings(workers=workers)))
            await all_tasks_blocked()
            await cancel(running, times)
            await all_tasks_blocked()
            assert not running.done()
            gate.set()
            assert await cancelled(running)
        await busy.result()

        np.testing.assert_array_equal(await made.run([value]), [LARGE])
    await workers.close()


@TIMES
async def test_cancelled_while_its_program_is_made(times: int):
    gate = threading.Event()
    with graph() as g:
        x = feed([3])
        y = op("Neg", x)

    async with stepping(g, "eager") as made:
        made.engine.builder.submit(lambda: gate.wait(20))
        async with nothing_left(made):
            running = asyncio.create_task(made.run([y], {x: [1, 2, 3]}))
            await all_tasks_blocked()
            await cancel(running, times)
            assert await cancelled(running)
        gate.set()

        np.testing.assert_array_equal(await made.run([y], {x: [1, 2, 3]}), [[-1, -2, -3]])


async def test_a_cancellation_is_not_lost_in_an_error_that_came_first(parking: Parking):
    """Otherwise a caller that handles the error and continues would miss its cancellation."""
    with graph() as g:
        x = feed([])
        fetches = [op("Park", x), op("Toil", x)]

    async with stepping(g) as made, nothing_left(made):
        running = asyncio.create_task(made.run(fetches, {x: 1}))
        await parking.entered.wait()
        parking.parked[0].set_exception(InvalidArgumentError("no"))
        await all_tasks_blocked()
        running.cancel()
        await all_tasks_blocked()
        parking.let_go()

        assert await cancelled(running)


async def test_only_the_step_of_the_cancelled_caller_ends(parking: Parking):
    with graph() as g:
        x = feed([])
        y = op("Park", x)

    async with stepping(g) as made:
        running = [asyncio.create_task(made.run([y], {x: k})) for k in range(10)]
        await parking.all_waiting(10)
        for task in running[::2]:
            task.cancel()
        await all_tasks_blocked()
        assert [task.done() for task in running] == [True, False] * 5
        parking.let_go()

        results = await asyncio.gather(*running, return_exceptions=True)
    assert results[1::2] == [[k] for k in range(1, 10, 2)]
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::2])


async def test_a_step_that_is_cancelled_before_it_has_begun_runs_nothing(parking: Parking):
    with graph() as g:
        x = feed([])
        y = op("Park", x)

    async with stepping(g) as made, nothing_left(made):
        running = asyncio.create_task(made.run([y], {x: 1}))
        running.cancel()

        assert await cancelled(running)
        assert not parking.parked


async def test_a_cancelled_task_group_waits_for_its_steps(parking: Parking):
    with graph() as g:
        x = feed([])
        fetches = [op("Toil", x), op("Park", op("Neg", x))]

    async with stepping(g) as made, nothing_left(made):

        async def fail() -> None:
            await parking.entered.wait()
            asyncio.get_running_loop().call_soon(parking.gate.set)
            raise RuntimeError("enough")

        with pytest.raises(BaseExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                group.create_task(made.run(fetches, {x: 1}))
                group.create_task(fail())

        assert caught.group_contains(RuntimeError, match="enough")
        assert len(caught.value.exceptions) == 1
        assert not parking.on_worker
        assert parking.parked[0].cancelled()
