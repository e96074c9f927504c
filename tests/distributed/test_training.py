"""Training across servers: variables on parameter servers, chief and workers, synchronous replicas, sharded checkpoints.

The servers are in the test's loop; each worker is a task with a graph of its own, as its process would be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import DeadlineExceededError, OutOfRangeError
from aioexec.train import Server
from aioexec.train.off_loop import off_loop

pytestmark = [pytest.mark.network, pytest.mark.slow]

START = np.array([4.0, -2.0], np.float32)
RATE = 0.125

Cluster = dict[tuple[str, int], Server]


@pytest.fixture(autouse=True)
async def no_events_left() -> AsyncIterator[None]:
    yield
    await ax.summary.FileWriterCache.clear()


def spec(cluster: Cluster) -> ax.train.ClusterSpec:
    return ax.train.ClusterSpec(next(iter(cluster.values())).server_def.cluster)


def on_worker(cluster: Cluster, index: int) -> Any:
    """Variables on parameter servers, in turn; everything else on a worker."""
    worker = f"/job:worker/task:{index}"
    return ax.device(ax.train.replica_device_setter(cluster=spec(cluster), worker_device=worker))


def only_what_is_needed(index: int) -> Any:
    return ax.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])


class Model:
    """A parabola at the origin: the gradient of `weights` is `weights` plus what is fed."""

    def __init__(self, wrapped: Callable[[Any], Any] = lambda optimizer: optimizer) -> None:
        self.weights = ax.get_variable("weights", initializer=START)
        self.noise = ax.placeholder(ax.float32, [2])
        self.loss = ax.reduce_sum(self.weights * self.weights) / 2.0 + ax.reduce_sum(
            self.weights * self.noise
        )
        self.step = ax.train.get_or_create_global_step()
        self.optimizer = wrapped(ax.train.GradientDescentOptimizer(RATE))
        self.train = self.optimizer.minimize(self.loss, global_step=self.step)


async def trained(cluster: Cluster, index: int, steps: int, directory: Path) -> list[int]:
    """The program of a worker process; returns the global steps it has seen."""
    seen = []
    with ax.Graph().as_default():
        with on_worker(cluster, index):
            model = Model()
        async with ax.train.MonitoredTrainingSession(
            cluster["worker", index].target,
            is_chief=index == 0,
            checkpoint_dir=str(directory),
            hooks=[ax.train.StopAtStepHook(last_step=steps)],
            save_checkpoint_steps=10,
            config=only_what_is_needed(index),
        ) as session:
            while not session.should_stop():
                _, step = await session.run([model.train, model.step], {model.noise: [0.0, 0.0]})
                seen.append(int(step))
    return seen


def saved(directory: Path) -> dict[str, Any]:
    """The variables of the last checkpoint."""
    reader = ax.train.load_checkpoint(str(directory))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def shards(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.glob("*.data-*"))


BEYOND = 2
"""Steps that two workers may do after the last: both may have read 38 when they make it 40, and each does another one then."""


async def test_chief_and_worker_train_one_model_asynchronously(serve: Any, tmp_path: Path):
    cluster = serve("ps", "worker", "worker")

    await asyncio.gather(*(trained(cluster, index, 40, tmp_path) for index in (0, 1)))

    found = await off_loop(saved, tmp_path)
    assert 40 <= found["global_step"] <= 40 + BEYOND
    assert np.abs(found["weights"]).max() < 4.0 * (1 - RATE) ** 20


async def test_training_goes_on_where_another_cluster_has_stopped(serve: Any, tmp_path: Path):
    await trained(serve("ps", "worker"), 0, 5, tmp_path)

    seen = await trained(serve("ps", "worker"), 0, 12, tmp_path)

    found = await off_loop(saved, tmp_path)
    assert len(seen) == 7
    np.testing.assert_allclose(found["weights"], START * (1 - RATE) ** 12, rtol=1e-6)


class Replica:
    """A worker that trains in step with others, with gradients that a test chooses."""

    def __init__(self, cluster: Cluster, index: int, count: int) -> None:
        self.graph = ax.Graph()
        self._index = index
        with self.graph.as_default():
            with on_worker(cluster, index):
                self._model = Model(lambda each: ax.train.SyncReplicasOptimizer(each, count, count))
            hook = self._model.optimizer.make_session_run_hook(index == 0, num_tokens=0)
            self.session = ax.train.MonitoredTrainingSession(
                cluster["worker", index].target,
                is_chief=index == 0,
                hooks=[hook],
                config=only_what_is_needed(index),
            )

    async def step(self, noise: Any) -> Any:
        """Take part in a step; the weights at its beginning."""
        weights, _ = await self.session.run(
            [self._model.weights, self._model.train], {self._model.noise: noise}
        )
        return weights


async def test_replicas_on_servers_step_along_the_mean_of_their_gradients(serve: Any):
    cluster = serve("ps", "worker", "worker")
    replicas = [Replica(cluster, index, 2) for index in (0, 1)]
    noises = np.random.default_rng(0).normal(size=[4, 2, 2]).astype(np.float32)
    expected = START
    async with replicas[0].session, replicas[1].session:
        for noise in noises:
            weights = await asyncio.gather(*(r.step(n) for r, n in zip(replicas, noise, strict=True)))

            np.testing.assert_allclose(weights, [expected, expected], rtol=1e-5)
            expected = expected - RATE * (expected + noise.mean(0))


async def test_a_replica_waits_for_the_others_on_the_parameter_server(serve: Any):
    cluster = serve("ps", "worker", "worker")
    replicas = [Replica(cluster, index, 2) for index in (0, 1)]
    async with replicas[0].session, replicas[1].session:
        first = asyncio.create_task(replicas[0].step([0.0, 0.0]))
        await asyncio.wait({first}, timeout=0.2)
        assert not first.done()

        await replicas[1].step([0.0, 0.0])

        await first


async def test_a_replica_stops_waiting_when_the_chief_has_ended(serve: Any):
    cluster = serve("ps", "worker", "worker")
    chief, other = (Replica(cluster, index, 2) for index in (0, 1))
    await chief.session
    async with other.session:
        await asyncio.gather(chief.step([0.0, 0.0]), other.step([0.0, 0.0]))
        waiting = asyncio.create_task(other.step([0.0, 0.0]))
        await asyncio.wait({waiting}, timeout=0.2)

        await chief.session.close()

        with pytest.raises(OutOfRangeError):
            await waiting


async def test_towers_on_workers_make_one_step_from_one_client(serve: Any):
    cluster = serve("ps", "worker", "worker")
    data = np.random.default_rng(1).normal(size=[2, 8, 2]).astype(np.float32)
    with ax.Graph().as_default():
        with ax.device(ax.train.replica_device_setter(cluster=spec(cluster))):
            weights = ax.get_variable("weights", initializer=START[:, None])
        optimizer = ax.train.GradientDescentOptimizer(RATE)
        gradients = []
        for index in (0, 1):
            with ax.device(f"/job:worker/task:{index}"):
                loss = ax.reduce_mean(ax.square(ax.matmul(data[index], weights) - 1.0))
                gradients.append(optimizer.compute_gradients(loss, [weights])[0][0])
        with ax.device("/job:ps/task:0"):
            mean = ax.add_n(gradients) / 2.0
        train = optimizer.apply_gradients([(mean, weights)])
        init = ax.global_variables_initializer()
        async with ax.Session(cluster["worker", 0].target) as session:
            await session.run(init)
            for _ in range(3):
                await session.run(train)
            found = await session.run(weights)

    expected = START[:, None]
    for _ in range(3):
        each = [2 * x.T @ (x @ expected - 1.0) / 8 for x in data]
        expected = expected - RATE * (each[0] + each[1]) / 2
    np.testing.assert_allclose(found, expected, rtol=1e-5)


async def test_each_parameter_server_writes_a_shard_that_any_session_restores(serve: Any, tmp_path: Path):
    cluster = serve("ps", "ps", "worker")
    values = {f"v{k}": np.arange(k + 1, dtype=np.float32) for k in range(4)}
    with ax.Graph().as_default():
        with on_worker(cluster, 0):
            variables = [ax.get_variable(name, initializer=value) for name, value in values.items()]
        saver, init = ax.train.Saver(sharded=True), ax.global_variables_initializer()
        cleared = ax.group(*(ax.assign(each, each * 0.0) for each in variables))
        async with ax.Session(cluster["worker", 0].target) as session:
            await session.run(init)
            path = await saver.save(session, str(tmp_path / "model"))
            await session.run(cleared)
            await saver.restore(session, path)
            found = await session.run(variables)

    assert await off_loop(shards, tmp_path) == [f"model.data-0000{k}-of-00002" for k in (0, 1)]
    in_file = await off_loop(saved, tmp_path)
    for name, value in zip(values, found, strict=True):
        np.testing.assert_array_equal(value, values[name])
        np.testing.assert_array_equal(in_file[name], values[name])


async def test_a_worker_waits_until_the_chief_has_made_the_model_ready(serve: Any):
    cluster = serve("ps", "worker", "worker")
    with ax.Graph().as_default():
        with on_worker(cluster, 1):
            model = Model()
        manager = ax.train.SessionManager(
            ready_op=ax.report_uninitialized_variables(), recovery_wait_secs=0.05
        )
        with pytest.raises(DeadlineExceededError, match="weights"):
            await manager.wait_for_session(
                cluster["worker", 1].target, config=only_what_is_needed(1), max_wait_secs=0.1
            )
        waiting = asyncio.create_task(
            manager.wait_for_session(
                cluster["worker", 1].target, config=only_what_is_needed(1), max_wait_secs=30
            )
        )
        chief = await manager.prepare_session(
            cluster["worker", 0].target,
            init_op=ax.global_variables_initializer(),
            config=ax.ConfigProto(),
        )
        async with chief, await waiting as session:
            np.testing.assert_array_equal(await session.run(model.weights), START)


async def test_a_chief_recovers_a_model_that_is_there_without_touching_it(serve: Any):
    cluster = serve("ps", "worker")
    with ax.Graph().as_default():
        with on_worker(cluster, 0):
            model = Model()
        manager = ax.train.SessionManager(ready_op=ax.report_uninitialized_variables())
        init, changed = ax.global_variables_initializer(), ax.assign(model.weights, [7.0, 8.0])
        target = cluster["worker", 0].target
        async with await manager.prepare_session(target, init_op=init) as first:
            await first.run(changed)

        session, is_restored = await manager.recover_session(target)

        async with session:
            assert not is_restored
            np.testing.assert_array_equal(await session.run(model.weights), [7.0, 8.0])


async def test_chief_and_worker_go_on_from_the_last_checkpoint_when_the_parameter_server_was_lost(
    serve: Any, tmp_path: Path
):
    cluster = serve("ps", "worker", "worker")
    whole = spec(cluster)
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(trained(cluster, index, 60, tmp_path)) for index in (0, 1)]
        while not await off_loop(shards, tmp_path):
            await asyncio.sleep(0.01)

        await cluster["ps", 0].stop()
        async with Server(whole, "ps", 0):
            await asyncio.wait(workers)

    steps = [worker.result() for worker in workers]
    found = await off_loop(saved, tmp_path)
    assert 60 <= found["global_step"] <= 60 + BEYOND
    assert sum(map(len, steps)) >= 60
    assert np.abs(found["weights"]).max() < 4.0 * (1 - RATE) ** 30
