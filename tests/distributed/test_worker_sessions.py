"""The sessions of a worker: isolation of variables, restarted masters, and runs that continue between calls."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport.status import POSSIBLY_RESTARTED
from aioexec.errors import AbortedError, InvalidArgumentError, OpError
from aioexec.execution.rendezvous import create_key
from aioexec.testing.tasks import all_tasks_blocked
from tests.distributed.toy_workers import SESSION, ToyWorkers, two as two, waiter


@pytest.mark.behaviour(156)
async def test_an_unknown_session_is_aborted_and_the_worker_may_have_restarted(two):
    with pytest.raises(AbortedError, match="Session handle is not found: gone") as refused:
        await two.run(0, "any", two.new_step(), session="gone")

    assert POSSIBLY_RESTARTED in refused.value.payloads


@pytest.mark.behaviour(156)
async def test_the_session_without_a_handle_is_always_there(two):
    graph = await two.register(0, lambda: two.send(ax.constant(2.0) * 1.0, 0, 0, "a"), session="")

    reply = await two.run(0, graph, two.new_step(), session="", recv_key=[two.key(0, 0, "a")])

    np.testing.assert_array_equal(reply.tensors, [2.0])


def counter(two: ToyWorkers) -> Any:
    def build() -> Any:
        count = ax.Variable(0.0, use_resource=False, name="count")
        once = ax.cond(
            ax.is_variable_initialized(count), lambda: count.assign_add(1.0), lambda: count.assign(1.0)
        )
        return two.send(once, 0, 0, "count")

    return build


@pytest.mark.behaviour(148)
@pytest.mark.behaviour(156)
@pytest.mark.parametrize("isolated", [False, True])
async def test_sessions_share_their_variables_unless_they_are_isolated(two, isolated):
    await two.open("other", isolate_session_state=isolated)
    counts = []

    for session in (SESSION, "other", SESSION):
        graph = await two.register(0, counter(two), session)
        reply = await two.run(0, graph, two.new_step(), session, recv_key=[two.key(0, 0, "count")])
        counts.append(float(reply.tensors[0]))

    assert counts == ([1.0, 1.0, 2.0] if isolated else [1.0, 2.0, 3.0])


@pytest.mark.behaviour(156)
async def test_a_master_that_was_restarted_loses_its_own_old_sessions_only(two):
    await two.open("old", master_task="/job:a", master_incarnation=1)
    await two.open("same", master_task="/job:a", master_incarnation=1)
    await two.open("others", master_task="/job:b", master_incarnation=5)
    waits = await two.register(1, lambda: ax.FIFOQueue(1, [ax.float32], shapes=[[]]).dequeue().op, "old")
    running = asyncio.create_task(two.run(1, waits, two.new_step(), "old"))
    await all_tasks_blocked()

    await two.open("new", master_task="/job:a", master_incarnation=2)

    with pytest.raises(OpError, match="has been restarted"):
        await running
    for session in ("old", "same"):
        with pytest.raises(AbortedError, match="Session handle is not found"):
            await two.run(1, waits, two.new_step(), session)
    for session in ("others", "new", SESSION):
        with pytest.raises(AbortedError, match="Graph handle is not found"):
            await two.run(1, "none", two.new_step(), session)


async def test_a_session_that_is_deleted_ends_its_steps(two):
    waits, _ = await waiter(two)
    step = two.new_step()
    running = asyncio.create_task(two.run(1, waits, step))
    await all_tasks_blocked()

    await two.call(1, "DeleteWorkerSession", session_handle=SESSION)

    with pytest.raises(AbortedError, match="was deleted"):
        await running
    assert step not in two.workers[1].steps


async def test_a_session_may_go_by_the_names_of_another_cluster(two):
    def server_def(index: int) -> dict[str, Any]:
        tasks = {k: f"toy:{k}" for k in range(2)}
        return {
            "job_name": "other",
            "task_index": index,
            "cluster": {"job": [{"name": "other", "tasks": tasks}]},
        }

    for index in range(2):
        await two.call(index, "CreateWorkerSession", session_handle="named", server_def=server_def(index))
    names = [f"/job:other/replica:0/task:{index}/device:CPU:0" for index in range(2)]
    across, within = ({"send_device": names[at], "recv_device": names[1]} for at in (0, 1))

    def plus_one() -> Any:
        return two.send(two.recv(ax.float32, 0, 1, "a", **across) + 1.0, 1, 1, "b", **within)

    graphs = [
        await two.register(
            0, lambda: two.send(ax.constant(2.0) * 1.0, 0, 1, "a", **across), "named", names[0]
        ),
        await two.register(1, plus_one, "named", names[1]),
    ]
    step = two.new_step()
    key = create_key(names[1], two.incarnation(1), names[1], "b")
    _, reply = await asyncio.gather(
        two.run(0, graphs[0], step, "named"), two.run(1, graphs[1], step, "named", recv_key=[key])
    )

    np.testing.assert_array_equal(reply.tensors, [3.0])


async def test_containers_are_cleared_on_demand(two):
    async def count() -> float:
        graph = await two.register(0, counter(two))
        reply = await two.run(0, graph, two.new_step(), recv_key=[two.key(0, 0, "count")])
        return float(reply.tensors[0])

    first = await count()
    await two.call(0, "CleanupAll")
    await two.call(0, "DeleteWorkerSession", session_handle=SESSION)
    await two.call(0, "CreateWorkerSession", session_handle=SESSION)

    assert [first, await count(), await count()] == [1.0, 1.0, 2.0]


# Partial runs


async def test_a_partial_run_goes_on_between_calls(two):
    def build() -> Any:
        first = two.recv(ax.float32, 0, 0, "x") + 1.0
        second = first * two.recv(ax.float32, 0, 0, "y")
        return [two.send(first, 0, 0, "first"), two.send(second, 0, 0, "second")]

    graph, step = await two.register(0, build), two.new_step()
    one = await two.run(
        0,
        graph,
        step,
        tensors=[np.float32(1.0)],
        is_partial=True,
        send=[{"name": two.key(0, 0, "x")}],
        recv_key=[two.key(0, 0, "first")],
    )
    other = await two.run(
        0,
        graph,
        step,
        tensors=[np.float32(10.0)],
        is_partial=True,
        is_last_partial_run=True,
        send=[{"name": two.key(0, 0, "y")}],
        recv_key=[two.key(0, 0, "second")],
    )

    np.testing.assert_array_equal([*one.tensors, *other.tensors], [2.0, 20.0])


@pytest.mark.parametrize("how", ["cleanup", "deleted session", "cancelled call", "bad call"])
async def test_an_abandoned_partial_run_is_ended(two, how):
    waits, puts = await waiter(two)
    step = two.new_step()
    await two.run(1, waits, step, is_partial=True)
    await all_tasks_blocked()

    if how == "cleanup":
        await two.call(1, "CleanupGraph", step_id=step)
    elif how == "deleted session":
        await two.call(1, "DeleteWorkerSession", session_handle=SESSION)
        await two.call(1, "CreateWorkerSession", session_handle=SESSION)
        waits, puts = await waiter(two)
    elif how == "cancelled call":
        last = asyncio.create_task(two.run(1, waits, step, is_partial=True, is_last_partial_run=True))
        await all_tasks_blocked()
        last.cancel()
        with pytest.raises(asyncio.CancelledError):
            await last
    else:
        with pytest.raises(InvalidArgumentError):
            await two.run(1, waits, step, is_partial=True, recv_key=["nonsense"])

    await two.run(1, puts, two.new_step())
    await two.run(1, waits, two.new_step())
