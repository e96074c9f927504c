"""Steps of small programs and of kernels that need not wait run at once; if an item has to wait, the scheduler continues."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.execution.budget import TICK_NS, budget_of
from aioexec.resources.queues import FIFOQueue
from aioexec.sessions.session import Session
from aioexec.testing import all_tasks_blocked
from tests.tiers import session_on

WAYS = pytest.mark.parametrize("jit", ["off", "eager"])


class Piped:
    """Two queues, and a run that moves x and 2 * x + 1 from one to the other, or returns x."""

    def __init__(self) -> None:
        with ax.Graph().as_default() as self.graph:
            self.x = ax.placeholder(ax.float32, [])
            first, second = ax.FIFOQueue(9, [ax.float32], [[]]), ax.FIFOQueue(2, [ax.float32] * 2, [[]] * 2)
            self.put, self.got = first.enqueue([self.x]), second.dequeue()
            taken = first.dequeue()
            self.doubled = 2.0 * taken + 1.0
            self.move = second.enqueue([taken, self.doubled])
            self.sizes = [first.size(), second.size()]


async def warmed(session: Session, piped: Piped) -> Session:
    """The same session, which has a plan and a program for each step."""
    for fetches in ([piped.move], [piped.doubled]):
        await session.run(piped.put, {piped.x: 0.0})
        await session.run(fetches)
    await session.run(piped.got)
    return session


def executors(session: Session) -> list[Any]:
    return [prepared.executor for prepared in session.prepared.values()]


async def test_a_step_that_has_to_wait_for_nothing_does_not_suspend():
    piped = Piped()
    async with session_on(piped.graph, "eager") as opened:
        session = await warmed(opened, piped)
        for value in (np.float32(3), np.float32(4)):
            await session.run(piped.put, {piped.x: value})
        others: list[int] = []
        asyncio.get_running_loop().call_soon(others.append, 1)

        await session.run([piped.move])
        doubled = (await session.run([piped.doubled]))[0]

        assert not others
        assert doubled == 9
        assert await session.run(piped.got) == [3, 7]


@WAYS
async def test_what_has_run_before_something_has_to_wait_is_not_run_again(jit: str):
    piped = Piped()
    async with session_on(piped.graph, jit) as opened:
        session = await warmed(opened, piped)
        for value in range(1, 6):
            await session.run(piped.put, {piped.x: value})
        for _ in range(2):
            await session.run([piped.move])
        waiting = [asyncio.create_task(session.run([piped.move])) for _ in range(3)]
        await all_tasks_blocked()

        assert await session.run(piped.sizes) == [0, 2]
        got = [asyncio.create_task(session.run(piped.got)) for _ in range(5)]
        await all_tasks_blocked()
        assert [task.done() and task.result() for task in got] == [[k, 2 * k + 1] for k in range(1, 6)]
        assert all(task.done() for task in waiting)
        assert await session.run(piped.sizes) == [0, 0]


@WAYS
async def test_the_first_item_may_have_to_wait(jit: str):
    piped = Piped()
    async with session_on(piped.graph, jit) as opened:
        session = await warmed(opened, piped)
        waiting = asyncio.create_task(session.run([piped.doubled]))
        await all_tasks_blocked()

        await session.run(piped.put, {piped.x: 5.0})

        assert await waiting == [11]


@WAYS
async def test_an_item_that_waits_keeps_no_other_from_running(jit: str):
    with ax.Graph().as_default() as graph:
        queue = ax.FIFOQueue(3, [ax.float32], [[]])
        taken, brought = queue.dequeue(), queue.enqueue(2.0)
        fetches = [taken + 1.0, brought]
    async with session_on(graph, jit) as session:
        for _ in range(3):
            assert (await session.run(fetches))[0] == 3


@WAYS
async def test_a_step_that_is_cancelled_while_it_waits_leaves_the_session_usable(jit: str):
    piped = Piped()
    async with session_on(piped.graph, jit) as opened:
        session = await warmed(opened, piped)
        for value in range(4):
            await session.run(piped.put, {piped.x: value})
        for _ in range(2):
            await session.run([piped.move])
        waiting = asyncio.create_task(session.run([piped.move]))
        await all_tasks_blocked()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        assert [await session.run(piped.got) for _ in range(2)] == [[0, 1], [1, 3]]
        await session.run([piped.move])
        assert await session.run(piped.got) == [3, 7]
        assert await session.run(piped.sizes) == [0, 0]


async def test_a_tick_that_is_spent_in_the_midst_of_a_step_puts_off_the_rest(monkeypatch: pytest.MonkeyPatch):
    piped = Piped()
    async with session_on(piped.graph, "eager") as opened:
        session = await warmed(opened, piped)
        await session.run(piped.put, {piped.x: 3.0})
        await asyncio.sleep(0)
        (executor,) = [each for each in executors(session) if each.plan.signature.fetches == (piped.doubled,)]
        (runner,) = executor.runners
        walked: list[Any] = []
        budget, pop, walk = budget_of(asyncio.get_running_loop()), FIFOQueue.pop, runner.run_inline

        def slowly(queue: FIFOQueue) -> Any:
            budget.charge(0, TICK_NS + 1)
            return pop(queue)

        def noting(inputs: Any) -> Any:
            walked.append(inputs)
            return walk(inputs)

        monkeypatch.setattr(FIFOQueue, "pop", slowly)
        monkeypatch.setattr(runner, "run_inline", noting)

        assert await session.run([piped.doubled]) == [7]
        assert not walked
        assert await session.run(piped.sizes[0]) == 0


@pytest.mark.parametrize("count", [32, 33])
async def test_a_step_of_many_items_looks_at_the_clock(count: int, monkeypatch: pytest.MonkeyPatch):
    with ax.Graph().as_default() as graph:
        queue = ax.FIFOQueue(-1, [ax.float32], [[]])
        fetches = [queue.enqueue(float(k)) for k in range(count)]
        size = queue.size()
    async with session_on(graph, "eager") as session:
        await session.run(fetches)
        await asyncio.sleep(0)
        others: list[int] = []
        asyncio.get_running_loop().call_soon(others.append, 1)
        budget, push = budget_of(asyncio.get_running_loop()), FIFOQueue.push

        def slowly(queue: FIFOQueue, element: Any) -> None:
            budget.charge(0, TICK_NS + 1)
            push(queue, element)

        monkeypatch.setattr(FIFOQueue, "push", slowly)
        await session.run(fetches)

        assert bool(others) == (count > 32)
        assert await session.run(size) == 2 * count


async def test_an_error_names_its_node_and_the_next_step_runs():
    with ax.Graph().as_default() as graph:
        source = ax.FIFOQueue(9, [ax.float32])
        queue = ax.FIFOQueue(9, [ax.float32], [[2]])
        x = ax.placeholder(ax.float32)
        put, taken = source.enqueue([x]), source.dequeue()
        move = queue.enqueue([taken * 2.0], name="move")
        got = queue.dequeue()
    async with session_on(graph, "eager") as session:
        for _ in range(2):
            for value in ([1.0, 2.0], [1.0], [3.0, 4.0]):
                await session.run(put, {x: value})
            await session.run([move])
            with pytest.raises(InvalidArgumentError, match="Shape mismatch") as failed:
                await session.run([move])
            assert failed.value.op is move
            await session.run([move])
            assert [(await session.run(got)).tolist() for _ in range(2)] == [[2, 4], [6, 8]]


@WAYS
async def test_what_is_fetched_is_the_callers_own(jit: str):
    with ax.Graph().as_default() as graph:
        source, queue = ax.FIFOQueue(9, [ax.float32], [[2]]), ax.FIFOQueue(9, [ax.float32], [[2]])
        x = ax.placeholder(ax.float32, [2])
        put, taken = source.enqueue([x]), source.dequeue()
        tripled = taken * 3.0
        moved = queue.enqueue([tripled])
        got = queue.dequeue()
    async with session_on(graph, jit) as session:
        for _ in range(3):
            for fetches in ([tripled, taken, moved], [taken, moved, tripled]):
                await session.run(put, {x: [1.0, 2.0]})
                for array in await session.run(fetches):
                    if array is not None:
                        array.fill(-1)
                assert (await session.run(got)).tolist() == [3, 6]
