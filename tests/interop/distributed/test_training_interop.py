"""Training across servers, with monitored sessions of either engine on servers of either: the same weights in each round.

Sessions of TensorFlow block, so they are used in threads; our servers are in the test's loop, TensorFlow's in a process.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.cluster.cluster import ClusterSpec
from tests.distributed.conftest import serve as serve
from tests.distributed.processes import cluster_of, servers
from tests.interop.train.engines import kind_of_variables

pytestmark = [pytest.mark.interop, pytest.mark.network]

JOBS = ("ps", "ps", "worker", "worker")
START = np.array([[1.0, -1.0], [0.5, 2.0]], np.float32)
NOISES = np.random.default_rng(3).normal(size=[4, 2, 2]).astype(np.float32)
"""By round and replica."""

_SERVERS = """
import json
import sys
import tensorflow.compat.v1 as tf

cluster = json.loads(sys.argv[1])
servers = [tf.train.Server(cluster, job, task) for job in cluster for task in range(len(cluster[job]))]
print("serves", flush=True)
sys.stdin.read()
"""

Cluster = dict[str, list[str]]
"""The addresses of each job."""


@pytest.fixture(scope="module")
def their_servers() -> Iterator[Cluster]:
    """A cluster of TensorFlow's servers, all in one process."""
    cluster: Cluster = cluster_of(JOBS).as_dict()
    with subprocess.Popen(
        [sys.executable, "-c", _SERVERS, json.dumps(cluster)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serves\n"
        yield cluster
        process.kill()


class Ours:
    """aioexec's sessions."""

    module = ax

    @asynccontextmanager
    async def session(self, graph: Any, **options: Any) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
        """A monitored session on a graph: what runs its steps."""
        with graph.as_default():
            session = ax.train.MonitoredTrainingSession(**options)
        async with session:
            yield session.run
        await ax.summary.FileWriterCache.clear()

    async def reset(self, target: str) -> None:
        await ax.Session.reset(target)


class Theirs:
    """TensorFlow's sessions."""

    def __init__(self, tf: Any) -> None:
        self.module = tf

    @asynccontextmanager
    async def session(self, graph: Any, **options: Any) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
        def within(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            with graph.as_default():  # which is a thread's; without one TensorFlow would be eager
                return function(*arguments, **named)

        made = self.module.train.MonitoredTrainingSession
        session = await asyncio.to_thread(within, made, **options)
        try:
            yield lambda *arguments: asyncio.to_thread(within, session.run, *arguments)
        finally:
            try:
                await asyncio.to_thread(within, session.close)
            finally:
                await asyncio.to_thread(self.module.summary.FileWriterCache.clear)

    async def reset(self, target: str) -> None:
        await asyncio.to_thread(self.module.Session.reset, target)


Engine = Ours | Theirs


@pytest.fixture
async def our_servers(serve: Any) -> Cluster:
    """A cluster of our servers."""
    made = serve(*JOBS)
    found: Cluster = ClusterSpec(next(iter(made.values())).server_def.cluster).as_dict()
    return found


class Model:
    """The model of a worker: weights and scale, each on a parameter server of its own."""

    def __init__(
        self, tf: Any, cluster: Cluster, index: int, replicas: int = 0, resource: bool = False
    ) -> None:
        self.graph = tf.Graph()
        worker = f"/job:worker/task:{index}"
        setter = tf.train.replica_device_setter(cluster=cluster, worker_device=worker)
        with self.graph.as_default(), kind_of_variables(tf, resource), tf.device(setter):
            weights = tf.get_variable("weights", initializer=START)
            scale = tf.get_variable("scale", initializer=np.float32(0.5))
            self.noise = tf.placeholder(tf.float32, [2])
            loss = tf.reduce_mean(tf.square(tf.tanh(weights) * scale - self.noise))
            optimizer = tf.train.MomentumOptimizer(0.5, 0.9)
            self.hooks = []
            if replicas:
                optimizer = tf.train.SyncReplicasOptimizer(optimizer, replicas, replicas)
            self.train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
            if replicas:
                self.hooks.append(optimizer.make_session_run_hook(index == 0, num_tokens=0))
            self.state = [weights, scale, tf.train.get_global_step()]
        config = tf.ConfigProto(device_filters=["/job:ps", worker])
        target = f"grpc://{cluster['worker'][index]}"
        self.options = {
            "master": target,
            "is_chief": index == 0,
            "config": config,
            "hooks": self.hooks,
            "stop_grace_period_secs": 1,  # the runner of the chief of TensorFlow waits for gradients until the session ends
        }


async def in_step(engine: Engine, cluster: Cluster, resource: bool) -> list[Any]:
    """The variables after each round of two replicas."""
    models = [Model(engine.module, cluster, index, 2, resource) for index in (0, 1)]
    await engine.reset(models[0].options["master"])
    found = []
    async with (
        engine.session(models[0].graph, **models[0].options) as chief,
        engine.session(models[1].graph, **models[1].options) as other,
    ):
        for first, second in NOISES:
            await asyncio.gather(
                chief(models[0].train, {models[0].noise: first}),
                other(models[1].train, {models[1].noise: second}),
            )
            found.append(await chief(models[0].state, {models[0].noise: first}))
    return found


async def alone(engine: Engine, cluster: Cluster, directory: Path, steps: range) -> list[Any]:
    """The variables after each step of a chief, which restores and saves them."""
    model = Model(engine.module, cluster, 0)
    await engine.reset(model.options["master"])
    found = []
    async with engine.session(
        model.graph, checkpoint_dir=str(directory), save_checkpoint_steps=100, **model.options
    ) as run:
        for step in steps:
            await run(model.train, {model.noise: NOISES[step, 0]})
            found.append(await run(model.state))
    return found


def assert_same(found: list[Any], expected: list[Any]) -> None:
    for one, other in zip(found, expected, strict=True):
        for got, wanted in zip(one, other, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=2e-6, atol=1e-7)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)  # of TensorFlow's queue runners
@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
async def test_replicas_train_in_step_alike_whosever_the_sessions_and_servers_are(
    resource: bool, tf_of_1x: Any, their_servers: Cluster, our_servers: Cluster
):
    expected = await in_step(Theirs(tf_of_1x), their_servers, resource)

    assert_same(await in_step(Ours(), our_servers, resource), expected)
    assert_same(await in_step(Ours(), their_servers, resource), expected)
    assert_same(await in_step(Theirs(tf_of_1x), our_servers, resource), expected)


async def test_training_with_sharded_checkpoints_goes_on_with_the_other_sessions_and_servers(
    tf_of_1x: Any, their_servers: Cluster, our_servers: Cluster, tmp_path: Path
):
    theirs, ours = Theirs(tf_of_1x), Ours()
    expected = await alone(theirs, their_servers, tmp_path / "expected", range(4))
    relays: list[tuple[Engine, Cluster, Engine, Cluster]] = [
        (ours, our_servers, theirs, their_servers),
        (theirs, their_servers, ours, our_servers),
        (theirs, our_servers, ours, their_servers),
        (ours, their_servers, theirs, our_servers),
    ]

    for place, (first, its, second, others) in enumerate(relays):
        directory = tmp_path / str(place)
        found = await alone(first, its, directory, range(2))
        found += await alone(second, others, directory, range(2, 4))
        assert_same(found, expected)


async def steps_around_a_restart(engine: Engine, directory: Path) -> list[int]:
    """The global step after each step of a chief, whose servers die after the fifth."""
    async with servers("ps", "worker") as processes:
        cluster = {job: [processes[job, 0].target.removeprefix("grpc://")] for job in ("ps", "worker")}
        model = Model(engine.module, cluster, 0)
        found = []
        async with engine.session(
            model.graph, checkpoint_dir=str(directory), save_checkpoint_steps=3, **model.options
        ) as run:
            for place in range(9):
                if place == 5:
                    for process in processes.values():
                        await process.kill()
                        await process.start()
                await run(model.train, {model.noise: NOISES[0, 0]})
                found.append(int((await run(model.state))[-1]))
    return found


async def test_a_chief_recovers_when_our_servers_were_killed_and_came_back(tf_of_1x: Any, tmp_path: Path):
    found = await steps_around_a_restart(Ours(), tmp_path / "ours")

    assert found[:5] == [1, 2, 3, 4, 5]
    assert found[5] < 5
    assert found == await steps_around_a_restart(Theirs(tf_of_1x), tmp_path / "theirs")
