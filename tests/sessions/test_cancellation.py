"""Cancellation of one step: the await ends after the worker has reported, variables are untorn, other steps continue."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from tests.tiers import (
    Ops,
    Tier,
    constant,
    executors,
    feed,
    graph,
    op,
    read,
    resource,
    run_nowait,
    runtime,
    session_on,
)

SIZE = 100_000
"""Elements that make a reference kernel heavy enough for a worker."""


class Gate:
    """An op `TestGate` whose kernel signals its entry and waits until it is released."""

    def __init__(self, ops: Ops) -> None:
        self.loop = asyncio.get_running_loop()
        self.entered = asyncio.Event()
        self.open = threading.Event()
        self.passed = 0
        ops.broken("TestGate", self.compute)

    def compute(self, x: Any) -> Any:
        self.loop.call_soon_threadsafe(self.entered.set)
        assert self.open.wait(20)
        self.passed += 1
        return x


@pytest.fixture
def worker() -> Any:
    with Tier("worker").chosen():
        yield Tier("worker")


def gated_update(g: Any) -> tuple[Any, Any, Any, Any]:
    """x; a step that adds x to v twice with a gate between; v's initialiser and value."""
    x, v = feed([SIZE]), resource([SIZE])
    init = op("AssignVariableOp", v, op("Fill", constant([SIZE], "int32"), constant(0.0)))
    first = op("AssignAddVariableOp", v, x)
    with g.control_dependencies([first]):
        gated = op("TestGate", x)
    with g.control_dependencies([gated]):
        second = op("AssignAddVariableOp", v, x)
    return x, second, init, read(v)


@pytest.mark.parametrize("name", ["reference", "worker"])
@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_step_cancelled_on_a_worker_keeps_what_was_finished(ops: Ops, name: str, times: int):
    gate, tier = Gate(ops), Tier(name)
    with graph() as g:
        x, step, init, value = gated_update(g)
    ones = np.ones(SIZE, np.float32)

    with tier.chosen():
        async with tier.session(g) as session:
            await session.run(init)
            running = asyncio.create_task(session.run(step, {x: ones}))
            await gate.entered.wait()
            for _ in range(times):
                running.cancel()
                await asyncio.sleep(0)
            assert not running.done()
            gate.open.set()

            with pytest.raises(asyncio.CancelledError):
                await running
            result = await session.run(value)
            assert (result == result[0]).all()
            assert result[0] == 1
            await session.run(step, {x: ones})
            np.testing.assert_array_equal(await session.run(value), 3 * ones)


async def test_a_timeout_ends_a_step_and_raises_once_the_worker_has_reported(ops: Ops, worker: Tier):
    gate = Gate(ops)
    with graph() as g:
        x, step, init, value = gated_update(g)
    ones = np.ones(SIZE, np.float32)

    async with worker.session(g) as session:
        await session.run(init)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(None) as limit:
                running = session.run(step, {x: ones})
                opener = asyncio.create_task(reschedule_when_entered(gate, limit))
                await running
        await opener
        assert gate.passed == 1
        assert (await session.run(value))[0] == 1


async def reschedule_when_entered(gate: Gate, limit: asyncio.Timeout) -> None:
    await gate.entered.wait()
    limit.reschedule(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert limit.expired()
    gate.open.set()


async def test_a_step_cancelled_before_its_worker_is_free_does_not_run(ops: Ops, worker: Tier):
    gate = Gate(ops)
    with graph() as g:
        x, v = feed([SIZE]), resource([SIZE])
        init = op("AssignVariableOp", v, op("Fill", constant([SIZE], "int32"), constant(0.0)))
        add = op("AssignAddVariableOp", v, x)
        gated = op("Neg", op("TestGate", x))
        value = read(v)
    ones = np.ones(SIZE, np.float32)

    async with worker.session(g) as session:
        await session.run(init)
        await session.run(add, {x: ones})
        workers = runtime(session).engine.workers
        held = [asyncio.create_task(session.run(gated, {x: ones})) for _ in range(workers.count)]
        await gate.entered.wait()
        waiting = asyncio.create_task(session.run(add, {x: ones}))
        for _ in range(10):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(*held)

        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await session.run(value))[0] == 1
        await session.run(add, {x: ones})
        assert (await session.run(value))[0] == 2, (
            "the frame of the cancelled run does not come back cancelled"
        )


async def test_a_step_cancelled_while_it_waits_for_a_lease_leaves_the_queue(ops: Ops, worker: Tier):
    gate = Gate(ops)
    with graph() as g:
        x, step, init, value = gated_update(g)
        add = op("AssignAddVariableOp", step.inputs[0], x)
    ones = np.ones(SIZE, np.float32)

    async with worker.session(g) as session:
        await session.run(init)
        gate.open.set()
        await session.run(add, {x: ones})
        gate.open.clear()
        gate.entered.clear()
        holding = asyncio.create_task(session.run(step, {x: ones}))
        await gate.entered.wait()
        waiting = [asyncio.create_task(session.run(add, {x: ones})) for _ in range(6)]
        for _ in range(10):
            await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        done, _ = await asyncio.wait(waiting[::2])
        assert all(task.cancelled() for task in done)
        gate.open.set()
        await asyncio.gather(holding, *waiting[1::2])

        np.testing.assert_array_equal(await session.run(value), np.full(SIZE, 1 + 2 + 3))


async def test_a_step_cancelled_while_its_program_is_compiled_leaves_the_program_to_others():
    with graph() as g:
        x = feed([4])
        y = op("Mul", op("Add", x, x), x)
    array = np.ones(4, np.float32)

    async with session_on(g, "eager") as session:
        tasks = [asyncio.create_task(session.run(y, {x: array})) for _ in range(3)]
        while not session._runtime or not executors(session):
            await asyncio.sleep(0)
        tasks[0].cancel()

        results = await asyncio.gather(*tasks, return_exceptions=True)

        assert isinstance(results[0], asyncio.CancelledError)
        for result in results[1:]:
            np.testing.assert_array_equal(result, [2] * 4)
        assert run_nowait(executors(session)[0], [array]) is not None


async def test_a_step_cancelled_while_it_is_planned_leaves_the_plan_to_others():
    with graph() as g:
        x = feed([4])
        y = x
        for _ in range(300):
            y = op("Add", y, x)
    array = np.ones(4, np.float32)

    async with session_on(g, "off") as session:
        tasks = [asyncio.create_task(session.run(y, {x: array})) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[1].cancel()

        results = await asyncio.gather(*tasks, return_exceptions=True)

        assert [type(result) for result in results[:2]] == [asyncio.CancelledError] * 2
        np.testing.assert_array_equal(results[2], [301] * 4)
        assert len(executors(session)) == 1


@pytest.mark.parametrize("name", ["reference", "worker"])
async def test_a_step_that_fails_after_it_was_cancelled_is_cancelled(ops: Ops, name: str):
    tier, loop = Tier(name), asyncio.get_running_loop()
    entered, gate = asyncio.Event(), threading.Event()

    def fail(x: Any) -> Any:
        loop.call_soon_threadsafe(entered.set)
        gate.wait()
        raise ValueError("too late to matter")

    ops.broken("TestLate", fail)
    with graph() as g:
        x, four = feed([SIZE]), constant(4.0)
        y = op("Add", op("TestLate", x), constant(1.0))

    with tier.chosen():
        async with tier.session(g) as session:
            running = asyncio.create_task(session.run(y, {x: np.zeros(SIZE, np.float32)}))
            await entered.wait()
            running.cancel()
            await asyncio.sleep(0)
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert await session.run(four) == 4


async def test_a_group_that_fails_cancels_its_other_steps_and_all_are_gone(ops: Ops, worker: Tier):
    gate = Gate(ops)
    with graph() as g:
        x, step, init, value = gated_update(g)
        wrong = feed([2], name="wrong")
    ones = np.ones(SIZE, np.float32)

    async with worker.session(g) as session:
        await session.run(init)
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(session.run(step, {x: ones}))
                await gate.entered.wait()
                asyncio.get_running_loop().call_soon(gate.open.set)
                group.create_task(session.run(wrong, {wrong: [1.0, 2.0, 3.0]}))
        assert len(raised.value.exceptions) == 1
        assert (await session.run(value))[0] in (1, 2)
