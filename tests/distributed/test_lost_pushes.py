"""Pushed values that are lost with a connection, late, or early: no wait is unbounded."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport.transport import NOTIFICATION_BYTES, Call, Payload
from aioexec.distributed.worker.pushes import LOOK_SECONDS, PUSH
from aioexec.distributed.worker.step_table import IDLE_SECONDS
from aioexec.errors import AbortedError, InvalidArgumentError, UnavailableError
from aioexec.formats.protos import PushRequest, PushResponse
from aioexec.testing import VirtualClock
from aioexec.testing.cluster import InMemoryCluster
from tests.distributed.pushing_cluster import (
    Messages,
    chain,
    cluster as cluster,
    cut,
    entered,
    followed,
    key,
    messages as messages,
    name,
    on,
    worker,
)

# Lost notifications


@pytest.mark.parametrize("killed", [1, 2])
async def test_a_task_that_was_restarted_is_followed_again(
    cluster: InMemoryCluster, messages: Messages, killed: int
):
    graph, x, value = chain(1, 2, 1)
    async with cluster.session("worker", 0, graph) as session:
        await session.run(value, {x: 1.0})
        await cluster.kill("worker", killed)
        cluster.restart("worker", killed)

        with pytest.raises((AbortedError, UnavailableError)):
            await session.run(value, {x: 1.0})
    async with cluster.session("worker", 0, graph) as session:
        for _ in range(2):
            messages.counts.clear()
            assert await session.run(value, {x: 2.0}) == 5.0

    assert messages.asked == 0


@pytest.mark.parametrize("waits", [1, 2], ids=["the sender", "the receiver"])
async def test_a_step_fails_with_the_connection_unless_all_has_come(cluster: InMemoryCluster, waits: int):
    await followed(cluster, 1, 2, 1)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [])
        with on(waits):
            queue = ax.FIFOQueue(5, [ax.float32], shapes=[[]])
            taken, put = queue.dequeue(), queue.enqueue(x)
        with on(1):
            first, doubled = x + 1.0, x * 2.0 + (taken if waits == 1 else 0.0)
        with on(2):
            both = first + doubled + (taken if waits == 2 else 0.0)

    async with cluster.session("worker", 0, graph) as session:
        await session.run(put, {x: 1.0})
        assert await session.run(both, {x: 1.0}) == 5.0
        running = asyncio.create_task(session.run(both, {x: 1.0}))
        await asyncio.sleep(0.1)
        cut(cluster, 2, 1)
        await asyncio.sleep(0.1)

        if waits == 1:  # something was sent to 2 already, and something is still to be sent
            with pytest.raises(UnavailableError):
                await running
            assert [len(each.worker.steps) for each in cluster.servers] == [0, 0, 0]
        await session.run(put, {x: 5.0})
        again = running if waits == 2 else session.run(both, {x: 1.0})
        assert await again == 9.0


async def test_what_was_lost_before_there_was_a_waiter_is_requested(
    cluster: InMemoryCluster, deterministic_clock: VirtualClock
):
    """The step is over where the value was made, and the connection by which it went is another one by now."""
    await followed(cluster, 1, 2)
    worker(cluster, 1).steps.end(77)
    began = deterministic_clock.time()

    waiting = entered(cluster, 2, 77).recv(key(cluster, 1, 2))

    with pytest.raises(AbortedError, match="has ended"):
        await waiting
    assert deterministic_clock.time() - began < 3 * LOOK_SECONDS


async def test_the_error_of_a_step_reaches_the_waiters_for_its_values(cluster: InMemoryCluster):
    await followed(cluster, 1, 2)
    waiting = entered(cluster, 2, 77).recv(key(cluster, 1, 2))

    entered(cluster, 1, 77).start_abort(InvalidArgumentError("a bad number"))

    with pytest.raises(InvalidArgumentError, match="a bad number"):
        await waiting


async def test_a_wait_for_a_silent_task_fails(cluster: InMemoryCluster, deterministic_clock: VirtualClock):
    await followed(cluster, 1, 2)
    cluster.freeze("worker", 1)
    began = deterministic_clock.time()

    with pytest.raises(UnavailableError):
        await entered(cluster, 2, 77).recv(key(cluster, 1, 2))

    assert deterministic_clock.time() - began < 5.0
    cluster.thaw("worker", 1)


async def test_what_is_made_here_is_never_asked_for(cluster: InMemoryCluster, messages: Messages):
    await followed(cluster, 1, 2)
    messages.counts.clear()
    rendezvous = entered(cluster, 2, 77)
    elsewhere, here = (rendezvous.recv(key(cluster, task, 2)) for task in (1, 2))

    await asyncio.sleep(5.0)

    assert messages.asked == 1
    rendezvous.send(key(cluster, 2, 2), np.float32(2.0))
    entered(cluster, 1, 77).send(key(cluster, 1, 2), np.float32(1.0))
    assert (await elsewhere, await here) == ((1.0, False), (2.0, False))


async def test_a_value_that_is_late_is_taken_once(cluster: InMemoryCluster, messages: Messages):
    await followed(cluster, 1, 2)
    messages.counts.clear()
    waiting = entered(cluster, 2, 77).recv(key(cluster, 1, 2))
    await asyncio.sleep(5.0)

    entered(cluster, 1, 77).send(key(cluster, 1, 2), np.float32(3.0))

    assert await waiting == (3.0, False)
    await asyncio.sleep(1.0)
    assert entered(cluster, 2, 77).is_empty
    assert (messages.asked, messages.notified) == (1, 0)


async def test_a_follower_that_was_replaced_unnoticed_is_not_notified_any_more(cluster: InMemoryCluster):
    """Its machine has died without a word, and another one, of the same name, does not follow yet."""
    await followed(cluster, 0, 1)
    received: list[Payload] = []
    push: Any = worker(cluster, 1).handlers()[PUSH]
    ghost = push(Payload(PushRequest(task=name(2))), Call("ghost", notify=received.append))
    serving = asyncio.create_task(ghost)
    graph, x, value = chain(1, 2)

    async with cluster.session("worker", 0, graph) as session:
        with pytest.raises((AbortedError, UnavailableError)):
            await session.run(value, {x: 1.0})
        await serving
        assert len(received) == 2
        for _ in range(2):
            assert await session.run(value, {x: 1.0}) == 3.0
    assert len(received) == 2


async def test_a_value_without_a_tensor_ends_the_following_which_begins_again(
    cluster: InMemoryCluster, messages: Messages
):
    await followed(cluster, 1, 2)
    waiting = entered(cluster, 2, 77).recv(key(cluster, 1, 2))
    response = PushResponse(step_id=77, rendezvous_key=key(cluster, 1, 2))

    worker(cluster, 1)._pushes.followers[name(2)].notify(Payload(response))

    with pytest.raises(UnavailableError, match="there is no tensor"):
        await waiting
    await followed(cluster, 1, 2)
    messages.counts.clear()
    await followed(cluster, 1, 2)
    assert messages.asked == 0


# Steps of which only values are known


async def test_early_values_wait_for_their_step(cluster: InMemoryCluster):
    await followed(cluster, 1, 2)

    entered(cluster, 1, 77).send(key(cluster, 1, 2), np.float32(3.0))
    await asyncio.sleep(1.0)

    assert 77 in worker(cluster, 2).steps
    assert entered(cluster, 2, 77).try_recv(key(cluster, 1, 2)) == (3.0, False)


async def test_early_values_go_with_their_source_unless_others_have_sent_some_too(cluster: InMemoryCluster):
    await followed(cluster, 1, 2)
    await followed(cluster, 0, 2)
    for step_id in (77, 78):
        entered(cluster, 1, step_id).send(key(cluster, 1, 2), np.float32(1.0))
    entered(cluster, 0, 78).send(key(cluster, 0, 2), np.float32(0.0))
    await asyncio.sleep(1.0)
    steps = worker(cluster, 2).steps
    assert (77 in steps, 78 in steps) == (True, True)

    await cluster.kill("worker", 1)
    await asyncio.sleep(1.0)

    assert (77 in steps, 78 in steps) == (False, True)
    assert steps.has_ended(77)
    assert entered(cluster, 2, 78).try_recv(key(cluster, 0, 2)) == (0.0, False)


async def test_early_values_of_steps_without_calls_are_dropped_in_the_end(cluster: InMemoryCluster):
    await followed(cluster, 1, 2)
    entered(cluster, 1, 77).send(key(cluster, 1, 2), np.float32(3.0))
    await asyncio.sleep(1.0)
    steps = worker(cluster, 2).steps
    assert 77 in steps

    await asyncio.sleep(2 * IDLE_SECONDS)

    assert 77 not in steps


async def test_values_of_a_step_that_is_over_pass(cluster: InMemoryCluster):
    await followed(cluster, 1, 2)
    worker(cluster, 2).steps.end(77)

    for value in (np.float32(3.0), np.zeros(NOTIFICATION_BYTES, np.float32)):
        entered(cluster, 1, 77).send(key(cluster, 1, 2), value)
    await asyncio.sleep(1.0)

    assert 77 not in worker(cluster, 2).steps
