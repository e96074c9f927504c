"""Steps that arrive when the tick of the loop is spent: they begin in a later tick, without the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import perf_counter_ns

import numpy as np
import pytest

import aioexec as ax
from aioexec.execution.budget import TICK_NS
from aioexec.execution.executor import Executor, InTurn
from tests.tiers import executors


@pytest.fixture
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as graph:
        yield graph


def spend(executor: Executor) -> None:
    """Have nothing left of this tick."""
    now = perf_counter_ns()
    executor.engine.budget.charge(now, now + 2 * TICK_NS)


def only_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every step fail that is not begun at once."""

    async def step(self: Executor, *arguments: object) -> None:
        raise AssertionError("the general path")

    monkeypatch.setattr(Executor, "step", step)


async def eager(graph: ax.Graph) -> ax.Session:
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    return ax.Session(graph=graph, config=config)


@pytest.mark.both_loops
async def test_a_step_waits_for_a_tick_and_then_begins_at_once(graph, monkeypatch):
    x = ax.placeholder(ax.float32, [3])
    y = x * 2.0 + 1.0
    array = np.arange(3, dtype=np.float32)
    order: list[str] = []
    async with await eager(graph) as session:
        await session.run(y, {x: array})
        (executor,) = executors(session)
        only_path(monkeypatch)
        spend(executor)
        asyncio.get_running_loop().call_soon(order.append, "another")
        result = await session.run(y, {x: array})
        order.append("ours")

    assert order == ["another", "ours"]
    np.testing.assert_array_equal(result, array * 2 + 1)


async def test_a_callable_does_so_too(graph, monkeypatch):
    x = ax.placeholder(ax.float32, [3])
    async with await eager(graph) as session:
        function = session.make_callable(x * x, [x])
        await function(np.ones(3, np.float32))
        (executor,) = executors(session)
        only_path(monkeypatch)
        spend(executor)
        result = await function(np.full(3, 3, np.float32))

    np.testing.assert_array_equal(result, 9)


async def test_a_step_of_several_items_begins_in_its_turn(graph, monkeypatch):
    x = ax.placeholder(ax.float32, [3])
    queue = ax.FIFOQueue(4, [ax.float32], [[]])
    added = queue.enqueue([ax.reduce_sum(x)])
    size = queue.size()
    async with await eager(graph) as session:
        await session.run(added, {x: np.ones(3, np.float32)})
        executor = executors(session)[0]
        with monkeypatch.context() as patch:
            only_path(patch)
            spend(executor)
            await session.run(added, {x: np.ones(3, np.float32)})
        found = await session.run(size)

    assert found == 2


async def test_cancelled_before_its_turn_nothing_was_run(graph):
    v = ax.get_variable("v", [], initializer=ax.zeros_initializer(), use_resource=True)
    add, value = v.assign_add(1.0).op, v.read_value()
    async with await eager(graph) as session:
        await session.run(ax.global_variables_initializer())
        await session.run(add)
        executor = executors(session)[-1]
        spend(executor)
        pending = executor.run_nowait([])
        assert isinstance(pending, InTurn)
        waiting = asyncio.create_task(pending.finish())
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        found = await session.run(value)

    assert found == 1


async def test_a_program_that_is_gone_when_its_turn_comes_is_made_again(graph):
    x = ax.placeholder(ax.float32, [3])
    y = x + 4.0
    array = np.zeros(3, np.float32)
    async with await eager(graph) as session:
        await session.run(y, {x: array})
        (executor,) = executors(session)
        spend(executor)
        pending = executor.run_nowait([array])
        assert isinstance(pending, InTurn)
        for runner in executor.runners:
            runner.cache.programs.clear()
        (result,) = await pending.finish()

    np.testing.assert_array_equal(result, 4)


async def test_a_step_without_a_program_is_planned_in_its_turn(graph):
    x = ax.placeholder(ax.float32, [None])
    y = x + 4.0
    async with await eager(graph) as session:
        await session.run(y, {x: np.zeros(3, np.float32)})
        (executor,) = executors(session)
        spend(executor)
        pending = executor.run_nowait([np.zeros(5, np.float32)])
        assert isinstance(pending, InTurn)
        (result,) = await pending.finish()

    np.testing.assert_array_equal(result, np.full(5, 4))


async def test_a_failure_in_its_turn_names_the_node(graph):
    x = ax.placeholder(ax.int32, [2])
    y = ax.floordiv(10, x, name="quotient")
    async with await eager(graph) as session:
        await session.run(y, {x: np.ones(2, np.int32)})
        (executor,) = executors(session)
        spend(executor)
        with pytest.raises(ax.errors.InvalidArgumentError) as caught:
            await session.run(y, {x: np.zeros(2, np.int32)})
        after = await session.run(y, {x: np.ones(2, np.int32)})

    assert caught.value.op is not None
    assert caught.value.op.name == "quotient"
    np.testing.assert_array_equal(after, 10)
