"""Clusters in one loop: real servers, whose tasks can be killed, restarted and frozen."""

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as tf
from aioexec import errors
from aioexec.formats.protos import CallableOptions
from aioexec.testing import InMemoryCluster, VirtualClock
from aioexec.testing.cluster import CLIENT

pytestmark = pytest.mark.usefixtures("deterministic_clock")


@pytest.fixture
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def cluster() -> Any:
    async with InMemoryCluster({"ps": 1, "worker": 2}) as cluster:
        yield cluster


def doubled_elsewhere(task: str = "/job:worker/task:1") -> tuple[tf.Tensor, tf.Tensor]:
    """A feed, and its double, computed on a task, plus one."""
    x = tf.placeholder(tf.float32, name="x")
    with tf.device(task):
        doubled = x * 2.0
    return x, tf.identity(doubled + 1.0, name="y")


async def test_a_graph_runs_over_several_tasks(cluster: InMemoryCluster, graph: tf.Graph) -> None:
    x, y = doubled_elsewhere()

    async with cluster.session("worker", 0, graph=graph) as session:
        np.testing.assert_array_equal(await session.run(y, {x: [1.0, 2.0]}), [3.0, 5.0])


async def test_sessions_share_variables_on_a_parameter_server(
    cluster: InMemoryCluster, graph: tf.Graph
) -> None:
    with tf.device("/job:ps/task:0"):
        total = tf.Variable(0.0, use_resource=True)
    add = total.assign_add(1.0)

    async with cluster.session("worker", 0) as one, cluster.session("worker", 1) as other:
        await one.run(tf.global_variables_initializer())
        await one.run(add)
        await other.run(add)
        assert await one.run(total.value()) == 2.0


async def test_a_killed_task_fails_steps_and_works_again_once_restarted(
    cluster: InMemoryCluster, graph: tf.Graph
) -> None:
    x, y = doubled_elsewhere()

    async with cluster.session("worker", 0) as session:
        await session.run(y, {x: 1.0})
        await cluster.kill("worker", 1)
        with pytest.raises(errors.UnavailableError):
            await session.run(y, {x: 1.0})

        cluster.restart("worker", 1)
        assert await session.run(y, {x: 3.0}) == 7.0


async def test_callables_work_again_once_a_task_was_restarted(
    cluster: InMemoryCluster, graph: tf.Graph
) -> None:
    x, y = doubled_elsewhere()

    async with cluster.session("worker", 0) as session:
        doubled = await session._make_callable_from_options(CallableOptions(feed=[x.name], fetch=[y.name]))
        await cluster.kill("worker", 1)
        with pytest.raises(errors.UnavailableError):
            await doubled(1.0)

        cluster.restart("worker", 1)
        assert await doubled(3.0) == [7.0]


async def test_plans_for_tasks_that_are_no_more_leave_nothing_on_others(
    cluster: InMemoryCluster, graph: tf.Graph
) -> None:
    x, doubled = doubled_elsewhere()
    with tf.device("/job:ps/task:0"):
        y = doubled * 2.0

    async with cluster.session("worker", 0) as session:
        for _ in range(5):
            assert await session.run(y, {x: 1.0}) == 6.0
            await cluster.kill("worker", 1)
            cluster.restart("worker", 1)
            with pytest.raises((errors.AbortedError, errors.UnavailableError)):
                await session.run(y, {x: 1.0})
        await session.run(y, {x: 1.0})
        await asyncio.sleep(1)

        (elsewhere,) = cluster.server("ps").worker._sessions.values()
        assert len(elsewhere._executors) == 1


async def test_a_restarted_task_has_lost_its_variables(cluster: InMemoryCluster, graph: tf.Graph) -> None:
    with tf.device("/job:ps/task:0"):
        kept = tf.Variable(5.0, use_resource=True)

    async with cluster.session("worker", 0) as session:
        await session.run(tf.global_variables_initializer())
        await cluster.kill("ps")
        cluster.restart("ps")
        with pytest.raises((errors.FailedPreconditionError, errors.UnavailableError, errors.AbortedError)):
            await session.run(kept.value())
        await session.run(tf.global_variables_initializer())
        assert await session.run(kept.value()) == 5.0


async def test_a_frozen_task_is_noticed(
    cluster: InMemoryCluster, graph: tf.Graph, deterministic_clock: VirtualClock
) -> None:
    x, y = doubled_elsewhere()

    async with cluster.session("worker", 0) as session:
        await session.run(y, {x: 1.0})
        before = deterministic_clock.time()
        cluster.freeze("worker", 1)
        with pytest.raises(errors.UnavailableError, match="has not answered"):
            await session.run(y, {x: 1.0})
        assert deterministic_clock.time() - before <= 3.0

        cluster.thaw("worker", 1)
        assert await session.run(y, {x: 3.0}) == 7.0


async def test_a_task_that_is_up_is_not_restarted(cluster: InMemoryCluster) -> None:
    with pytest.raises(errors.GraphValueError, match="task 0 of job 'ps' is up"):
        cluster.restart("ps")
    await cluster.kill("ps")
    with pytest.raises(errors.GraphValueError, match="no server of task 0"):
        cluster.server("ps")
    assert len(cluster.servers) == 2


async def test_targets_are_for_callers_that_make_sessions_themselves(
    cluster: InMemoryCluster, graph: tf.Graph
) -> None:
    tf.train.get_or_create_global_step()
    step = tf.assign_add(tf.train.get_global_step(), 1)

    async with tf.train.MonitoredTrainingSession(
        master=cluster.target("worker", 0), is_chief=True
    ) as session:
        assert await session.run(step) == 1


async def test_a_target_ends_with_its_cluster(graph: tf.Graph) -> None:
    async with InMemoryCluster({"worker": 1}):
        async with InMemoryCluster({"worker": 1}) as short:
            session = short.session(graph=graph)
        with pytest.raises(errors.InvalidArgumentError, match="a cluster that is not up"):
            await session.run(tf.constant(1))


async def test_a_cluster_resets_its_containers(cluster: InMemoryCluster, graph: tf.Graph) -> None:
    kept = tf.Variable(5.0, use_resource=True)

    async with cluster.session("worker", 0) as session:
        await session.run(tf.global_variables_initializer())
    await tf.Session.reset(cluster.target("worker", 0))

    async with cluster.session("worker", 0) as session:
        with pytest.raises(errors.FailedPreconditionError):
            await session.run(kept.value())


async def test_cancelling_a_run_ends_it_everywhere(cluster: InMemoryCluster, graph: tf.Graph) -> None:
    with tf.device("/job:worker/task:1"):
        queue = tf.FIFOQueue(1, [tf.float32], [[]])
        taken = queue.dequeue()
    put = queue.enqueue(1.0)

    async with cluster.session("worker", 0) as session:
        running = asyncio.create_task(session.run(taken))
        await asyncio.sleep(10)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(1)
        await session.run(put)
        assert await session.run(queue.size()) == 1


async def test_a_client_that_vanishes_leaves_nothing_in_the_end(
    cluster: InMemoryCluster, graph: tf.Graph
) -> None:
    with tf.device("/job:worker/task:1"):
        taken = tf.FIFOQueue(1, [tf.float32], [[]]).dequeue()
    session = cluster.session("worker", 0)
    running = asyncio.create_task(session.run(taken))
    await asyncio.sleep(10)

    cluster.network.kill(CLIENT)

    with pytest.raises(errors.UnavailableError):
        await running
    await asyncio.sleep(7 * 3600)
    for server in cluster.servers:
        assert len(server.worker.steps) == 0
        assert not server.worker._sessions
        assert len(server.master._sessions) == 0
    await session.close()
