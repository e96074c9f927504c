"""A master's handling of errors in a step, on any task, and of steps that are cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport.status import DERIVED
from aioexec.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from aioexec.testing.cluster import InMemoryCluster

TASKS = ["/job:worker/task:0", "/job:worker/task:1", "/job:worker/task:2"]


def on(task: int) -> Any:
    return ax.device(TASKS[task])


@pytest.fixture
async def cluster(virtual_clock):
    async with InMemoryCluster({"worker": 3}) as made:
        yield made


async def until_all(cluster: InMemoryCluster, count: int) -> None:
    """Wait until every task has so many steps; planning is done in threads, so the number of turns is unknown."""
    while [len(server.worker.steps) for server in cluster.servers] != [count] * len(cluster.servers):
        await asyncio.sleep(0.001)


@pytest.mark.behaviour(144)
@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_an_error_on_one_task_ends_the_step_on_all(cluster, failing):
    graph = ax.Graph()
    with graph.as_default():
        fetches = []
        for task in range(3):
            with on(task):
                queue = ax.FIFOQueue(1, ax.float32, [], shared_name=f"never{task}")
                fetches.append(queue.dequeue())  # waits for ever
        with on(failing):
            x = ax.placeholder(ax.float32, [], name="x")
            checked = ax.check_numerics(x, "this is not a number", name="checked")
        fine = ax.identity(x)

    async with cluster.session("worker", 0, graph) as session:
        with pytest.raises(InvalidArgumentError, match="this is not a number") as caught:
            await session.run([*fetches, checked], {x: np.nan})
        await until_all(cluster, 0)

        assert caught.value.op is checked.op
        assert await session.run([checked, fine], {x: 1.0}) == [1.0, 1.0]


@pytest.mark.behaviour(145)
@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("consumer", [0, 1, 2])
async def test_the_root_error_is_reported_whichever_errors_follow_from_it(cluster, failing, consumer):
    graph = ax.Graph()
    with graph.as_default():
        with on(failing):
            x = ax.placeholder(ax.float32, [], name="x")
            checked = ax.check_numerics(x, "the root", name="checked")
        with on(consumer):
            used = ax.add(checked, 1.0, name="used")
        with on((consumer + 1) % 3):
            used_again = ax.add(used, 1.0, name="used_again")

    async with cluster.session("worker", 0, graph) as session:
        for _ in range(3):
            with pytest.raises(InvalidArgumentError, match="the root") as caught:
                await session.run(used_again, {x: np.inf})

            assert caught.value.op is checked.op
            assert DERIVED not in caught.value.payloads


@pytest.mark.behaviour(146)
@pytest.mark.parametrize("failing", [0, 1])
async def test_a_long_message_arrives(cluster, failing):
    graph = ax.Graph()
    with graph.as_default(), on(failing):
        x = ax.placeholder(ax.float32, [], name="x")
        checked = ax.check_numerics(x, "a long story " * 10_000)

    async with cluster.session("worker", 0, graph) as session:
        with pytest.raises(InvalidArgumentError, match="a long story a long story"):
            await session.run(checked, {x: np.nan})


@pytest.mark.behaviour(153)
async def test_a_deadline_ends_the_step_on_all_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(2):
            taken = ax.FIFOQueue(1, ax.float32, []).dequeue()
        with on(1):
            result = ax.add(taken, 1.0)

    async with cluster.session("worker", 0, graph) as session:
        with pytest.raises(DeadlineExceededError):
            await session.run(result, options=ax.RunOptions(timeout_in_ms=300))
        await until_all(cluster, 0)


async def test_cancelling_a_run_ends_it_on_all_tasks(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(2):
            queue = ax.FIFOQueue(1, ax.float32, [])
            taken = queue.dequeue()
            put = queue.enqueue(3.0)
            size = queue.size()
        with on(1):
            result = ax.add(taken, 1.0)

    async with cluster.session("worker", 0, graph) as session:
        waiting = asyncio.create_task(session.run(result))
        await until_all(cluster, 1)

        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_all(cluster, 0)
        await session.run(put)  # no other step takes it
        assert await session.run(size) == 1


async def test_closing_a_session_ends_its_steps(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(1):
            one = ax.FIFOQueue(1, ax.float32, []).dequeue()
        with on(2):
            taken = ax.negative(one)
    session = cluster.session("worker", 0, graph)
    waiting = asyncio.create_task(session.run(taken))
    await until_all(cluster, 1)

    await session.close(0)

    with pytest.raises((CancelledError, asyncio.CancelledError)):
        await waiting
    await until_all(cluster, 0)


async def test_a_task_that_dies_ends_the_step_and_its_variables_are_gone_when_it_is_back(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(1):
            variable = ax.Variable(1.0, use_resource=True, name="v")
            never = ax.FIFOQueue(1, ax.float32, []).dequeue()
        with on(2):
            kept = ax.Variable(2.0, use_resource=True, name="kept")
            waits = ax.add(never, kept)
            total = ax.add(variable, kept)
        init = ax.global_variables_initializer()

    async with cluster.session("worker", 0, graph) as session:
        await session.run(init)
        assert await session.run(total) == 3.0
        waiting = asyncio.create_task(session.run(waits))
        await until_all(cluster, 1)

        await cluster.kill("worker", 1)
        with pytest.raises(UnavailableError):
            await waiting
        await until_all(cluster, 0)
        assert await session.run(kept) == 2.0  # needs no other task
        with pytest.raises(UnavailableError):
            await session.run(total)

        cluster.restart("worker", 1)
        with pytest.raises(FailedPreconditionError):
            await session.run(total)
        await session.run(variable.initializer)
        assert await session.run(total) == 3.0


async def test_a_task_that_was_restarted_between_steps_aborts_one(cluster):
    graph = ax.Graph()
    with graph.as_default():
        with on(1):
            variable = ax.Variable(1.0, use_resource=True, name="v")
        with on(0):
            result = ax.add(variable, 1.0)

    async with cluster.session("worker", 0, graph) as session:
        await session.run(variable.initializer)
        assert await session.run(result) == 2.0

        await cluster.kill("worker", 1)
        cluster.restart("worker", 1)
        with pytest.raises((AbortedError, UnavailableError)):
            await session.run(result)
        await session.run(variable.initializer)
        assert await session.run(result) == 2.0
