"""Values that tasks push to each other: which ones, in which step, and between which tasks."""

from __future__ import annotations

import asyncio
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport.transport import NOTIFICATION_BYTES, Call, Payload
from aioexec.distributed.worker.pushes import PUSH
from aioexec.errors import InvalidArgumentError, UnavailableError, UnimplementedError
from aioexec.formats.protos import LoggingRequest, PushRequest
from aioexec.graph.apply import apply_op
from aioexec.testing import VirtualClock
from aioexec.testing.cluster import InMemoryCluster
from tests.distributed.pushing_cluster import (
    Messages,
    chain,
    cluster as cluster,
    entered,
    followed,
    key,
    messages as messages,
    name,
    on,
    worker,
)

# Pushed values


async def test_in_the_first_step_values_are_asked_for_and_later_they_come(
    cluster: InMemoryCluster, messages: Messages
):
    graph, x, value = chain(1, 2, 1)

    async with cluster.session("worker", 0, graph) as session:
        assert await session.run(value, {x: 1.0}) == 4.0
        assert messages.asked == 4
        messages.counts.clear()

        for number in range(5):
            assert await session.run(value, {x: float(number)}) == number + 3.0

    assert messages.asked == 0
    assert messages.notified == 5 * 4
    assert messages.counts["reply", "WorkerService/RunGraph"] == 5 * 2


SMALL = {
    "number": np.float32(1.5),
    "nothing": np.zeros((0, 3), np.int64),
    "bools": np.array([True, False]),
    "bfloat16": np.arange(4, dtype=ml_dtypes.bfloat16),
    "complex": np.array([[1 + 2j]], np.complex128),
    "the most": np.arange(NOTIFICATION_BYTES, dtype=np.uint8),
}
LARGE = {
    "more": np.arange(NOTIFICATION_BYTES + 1, dtype=np.uint8),
    "much": np.arange(20_000, dtype=np.float64),
    "strings": np.array([b"a", b"bc"], np.object_),
}


@pytest.mark.parametrize("what", [*SMALL, *LARGE])
async def test_any_value_arrives_and_only_small_numbers_unasked(
    cluster: InMemoryCluster, messages: Messages, what: str
):
    value: Any = {**SMALL, **LARGE}[what]
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(value.dtype, value.shape)
        with on(1):
            made = ax.expand_dims(x, 0)
        with on(2):
            came = ax.squeeze(made, [0])

    async with cluster.session("worker", 2, graph) as session:
        for _ in range(3):
            messages.counts.clear()
            np.testing.assert_array_equal(await session.run(came, {x: value}), value, strict=True)

    assert messages.notified == 2
    assert messages.asked == (2 if what in LARGE else 0)


async def test_variants_are_announced_and_fetched(cluster: InMemoryCluster, messages: Messages):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        of: dict[str, Any] = {"element_dtype": ax.float32}
        with on(1):
            made = apply_op("TensorListFromTensor", x, np.zeros(0, np.int32), **of)
        with on(2):
            came = apply_op("TensorListStack", made, np.zeros(0, np.int32), num_elements=-1, **of)

    async with cluster.session("worker", 2, graph) as session:
        for number in range(3):
            messages.counts.clear()
            np.testing.assert_array_equal(await session.run(came, {x: [number, 7.0]}), [number, 7.0])

    assert (messages.notified, messages.asked) == (2, 1)


async def test_dead_values_arrive_dead(cluster: InMemoryCluster, messages: Messages):
    with ax.Graph().as_default() as graph:
        decides, x = ax.placeholder(ax.bool, []), ax.placeholder(ax.float32, [])

        def branch(first: int, second: int, factor: float) -> Any:
            with on(first):
                value = x * factor
            with on(second):
                return value + 1.0

        with on(0):
            chosen = ax.cond(decides, lambda: branch(1, 2, 2.0), lambda: branch(2, 1, 3.0))

    async with cluster.session("worker", 0, graph) as session:
        for number in range(6):
            messages.counts.clear()
            found = await session.run(chosen, {decides: number % 2 == 0, x: float(number)})
            assert found == (number * 2.0 + 1.0 if number % 2 == 0 else number * 3.0 + 1.0)

    assert messages.asked == 0


@pytest.mark.parametrize("parallel_iterations", [1, 10])
async def test_loops_go_over_two_tasks(
    cluster: InMemoryCluster, messages: Messages, parallel_iterations: int
):
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [])

        def body(i: Any, value: Any) -> Any:
            with on(1):
                value = value * 2.0
            with on(2):
                return i + 1, value + 1.0

        with on(1):
            _, result = ax.while_loop(
                lambda i, value: i < 20, body, [ax.constant(0), x], parallel_iterations=parallel_iterations
            )

    async with cluster.session("worker", 0, graph) as session:
        for number in range(3):
            messages.counts.clear()
            assert await session.run(result, {x: float(number)}) == (number + 1) * 2.0**20 - 1.0

    assert messages.asked == 0


async def test_a_partial_run_takes_what_came_before_it_goes_on(cluster: InMemoryCluster, messages: Messages):
    await followed(cluster, 1, 2, 1)
    with ax.Graph().as_default() as graph:
        a, b = ax.placeholder(ax.float32, []), ax.placeholder(ax.float32, [])
        with on(1):
            first = a * 2.0
        with on(2):
            second = first + b
    messages.counts.clear()

    async with cluster.session("worker", 0, graph) as session:
        handle = await session.partial_run_setup([first, second], [a, b])
        assert await session.partial_run(handle, first, {a: 3.0}) == 6.0
        await asyncio.sleep(10.0)
        assert await session.partial_run(handle, second, {b: 1.0}) == 7.0

    assert messages.notified > 0


async def test_a_session_with_a_cluster_of_its_own_gets_no_pushes(
    cluster: InMemoryCluster, messages: Messages
):
    """There, task 1 is another task than here: a value for it must not go to the task that has this name here."""
    await followed(cluster, 0, 1, 2, 0, 2, 1, 0)
    addresses = {task: cluster.spec.task_address("worker", other) for task, other in enumerate((1, 2, 0))}
    config = ax.ConfigProto(cluster_def=ax.train.ClusterSpec({"worker": addresses}).as_cluster_def())
    graph, x, value = chain(1, 2, 0, 1)

    async with cluster.session("worker", 0, graph, config) as session:
        for _ in range(3):
            messages.counts.clear()
            assert await session.run(value, {x: 1.0}) == 5.0
            assert messages.notified == 0
            assert messages.asked > 0

    messages.counts.clear()
    await followed(cluster, 0, 1, 2)
    assert (messages.asked, messages.notified > 0) == (0, True)


async def test_what_comes_unasked_is_logged_too(cluster: InMemoryCluster):
    graph, x, value = chain(1, 2)
    await followed(cluster, 1, 2)
    channel = cluster.channel(cluster.spec.task_address("worker", 2))

    await channel.call("WorkerService/Logging", Payload(LoggingRequest(enable_rpc_logging=True)))
    async with cluster.session("worker", 0, graph) as session:
        await session.run(value, {x: 1.0})
    log = worker(cluster, 2)._log
    reply = await channel.call(
        "WorkerService/Logging", Payload(LoggingRequest(fetch_step_id=list(log._steps)))
    )
    await channel.close()

    (logged,) = reply.message.step
    (of_device,) = logged.step_stats.dev_stats
    assert of_device.device == f"{name(2)}/device:CPU:0"
    (node,) = of_device.node_stats
    assert node.node_name == "RecvTensor"
    assert name(1) in node.timeline_label


# Following


async def test_a_task_that_may_not_follow_gets_an_error(cluster: InMemoryCluster):
    serve: Any = worker(cluster, 1).handlers()[PUSH]

    with pytest.raises(UnimplementedError, match="carries no notifications"):
        await serve(Payload(PushRequest(task=name(2))), Call("grpc"))
    for wrong in ("", name(1)):
        with pytest.raises(InvalidArgumentError, match="name of another task"):
            await serve(
                Payload(PushRequest(task=wrong)), Call("x", notify=lambda payload: pytest.fail("notified"))
            )


async def test_a_task_that_cannot_be_followed_is_not_bothered_until_it_is_another_one(
    cluster: InMemoryCluster, messages: Messages
):
    listener: Any = cluster.server("worker", 1)._listener
    del listener.handlers[PUSH]
    graph, x, value = chain(1, 2)

    async with cluster.session("worker", 2, graph) as session:
        for _ in range(3):
            assert await session.run(value, {x: 1.0}) == 3.0
        messages.counts.clear()
        assert await session.run(value, {x: 1.0}) == 3.0
        assert (messages.asked, messages.notified, messages.counts["request", PUSH]) == (1, 1, 0)
    await cluster.kill("worker", 1)
    cluster.restart("worker", 1)
    await followed(cluster, 1, 2)

    assert name(1) in worker(cluster, 2)._pushes._sources


async def test_a_new_follower_gets_kept_values_and_replaces_one_of_the_same_name(
    cluster: InMemoryCluster,
):
    push: Any = worker(cluster, 1).handlers()[PUSH]
    received: list[list[Payload]] = [[], []]

    async def begin(index: int) -> asyncio.Task[Payload]:
        call = Call(f"connection {index}", notify=received[index].append)
        serving = asyncio.create_task(push(Payload(PushRequest(task=name(2))), call))
        await asyncio.sleep(0)
        return serving

    kept, untold, later = (entered(cluster, 1, step_id) for step_id in (77, 78, 79))
    kept.send(key(cluster, 1, 2), np.float32(3.0))
    first = await begin(0)
    assert [each.message.step_id for each in received[0]] == [0, 77]

    second = await begin(1)
    await first
    later.send(key(cluster, 1, 2), np.float32(4.0))

    assert isinstance(kept.error, UnavailableError)
    assert (untold.error, later.error) == (None, None)
    assert len(received[0]) == 2
    assert [each.message.step_id for each in received[1]] == [0, 79]
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert isinstance(later.error, UnavailableError)
    assert untold.error is None


@pytest.mark.parametrize("grace", [None, 1000.0])
async def test_a_stopping_server_does_not_wait_for_followers(
    cluster: InMemoryCluster, deterministic_clock: VirtualClock, grace: float | None
):
    await followed(cluster, 1, 2, 1)
    began = deterministic_clock.time()

    await cluster.server("worker", 1).stop(grace)

    assert deterministic_clock.time() - began < 1.0
    pushes = worker(cluster, 1)._pushes
    assert (pushes._following, pushes.followers) == ({}, {})
    await asyncio.sleep(1.0)
    assert name(1) not in worker(cluster, 2)._pushes._sources


@pytest.mark.slow
async def test_a_thousand_steps_leave_nothing(cluster: InMemoryCluster):
    graph, x, value = chain(1, 2, 1)

    async with cluster.session("worker", 0, graph) as session:
        for number in range(1000):
            assert await session.run(value, {x: float(number)}) == number + 3.0
        await asyncio.sleep(1.0)
        for server in cluster.servers:
            pushes = server.worker._pushes
            assert len(server.worker.steps) == 0
            assert (pushes._timer, pushes._waited) == (None, set())
            assert len(pushes.followers) <= 2
            route: Any = pushes.route
            assert route.cache_info().currsize <= 4
