"""One graph over a task of TensorFlow's and one of aioexec's; expected values are those of two tasks of TensorFlow's.

Task 0 is TensorFlow's and task 1 ours. The session may be of either, and either server may be its master, so every program runs
four times:

    client        master        the other worker
    TensorFlow    TensorFlow    aioexec
    aioexec       TensorFlow    aioexec
    TensorFlow    aioexec       TensorFlow
    aioexec       aioexec       TensorFlow
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from aioexec.distributed.cluster.cluster import ClusterSpec
from tests.distributed.processes import REPOSITORY, cluster_of, described
from tests.interop.behaviours.both import Engine, Program, There, disagreement
from tests.interop.distributed.served import HereOnServer

TASK_0 = "/job:worker/task:0"
TASK_1 = "/job:worker/task:1"


class ThereOnServer(There):
    """TensorFlow's sessions on a server, TensorFlow's or ours."""

    def __init__(self, tf: Any, target: str) -> None:
        super().__init__(tf)
        self._target = target

    @contextlib.asynccontextmanager
    async def session(self, target: str = "", text: str = "", **options: Any) -> AsyncIterator[Any]:
        async with super().session(target or self._target, text, **options) as session:
            yield session

    async def reset(self, containers: Sequence[str] = ()) -> None:
        await asyncio.to_thread(self.tf.Session.reset, self._target, list(containers))


@dataclass(frozen=True)
class MixedCluster:
    """The targets of the two tasks."""

    theirs: str
    ours: str


@pytest.fixture(scope="session")
def tf_pair(tf) -> Iterator[str]:
    """The target of task 0 of a cluster of two servers of TensorFlow's, which live until the process ends."""
    cluster = cluster_of(["worker", "worker"]).as_dict()
    servers = [tf.distribute.Server(cluster, "worker", task) for task in range(2)]
    with _connected(tf, servers[0].target):
        yield servers[0].target


@pytest.fixture(scope="session")
def mixed_cluster(tf) -> Iterator[MixedCluster]:
    """A cluster of TensorFlow's server, in this process, and ours, in another one."""
    cluster = cluster_of(["worker", "worker"])
    theirs = tf.distribute.Server(cluster.as_dict(), "worker", 0)
    with server_process(cluster, 1) as ours, _connected(tf, theirs.target), _connected(tf, ours):
        yield MixedCluster(theirs.target, ours)


@contextlib.contextmanager
def _connected(tf: Any, target: str) -> Iterator[None]:
    """Have the servers call each other and stay connected, and a client too: a test would take that for a leak of its own."""
    with tf.Graph().as_default():
        session = tf.Session(target)
        value = tf.placeholder(tf.float32, [])
        fed = value
        for task in (TASK_0, TASK_1, TASK_0, TASK_1):
            with tf.device(task):
                value = value + 1.0
        session.run(value, {fed: 0.0})
    try:
        yield
    finally:
        with contextlib.suppress(tf.errors.AbortedError):  # a test has reset the server
            session.close()


@contextlib.contextmanager
def server_process(cluster: ClusterSpec, task: int) -> Iterator[str]:
    """The target of a server of ours, which serves."""
    command = [sys.executable, "-m", "aioexec.cli", "server"]
    command += ["--cluster", described(cluster), "--job", "worker", "--task", str(task)]
    environment = {**os.environ, "AIOEXEC_JIT": "off"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the server did not begin to serve"
            yield f"grpc://{cluster.task_address('worker', task)}"
        finally:
            process.kill()


@pytest.fixture(
    params=[(client, master) for master in ("theirs", "ours") for client in ("TensorFlow", "aioexec")],
    ids=lambda pair: f"{pair[0]} client, {pair[1]}",
)
def engine(request, tf_of_1x, mixed_cluster) -> Engine:
    """A session's library, with a server of the mixed cluster."""
    client, master = request.param
    target = getattr(mixed_cluster, master)
    return HereOnServer(target) if client == "aioexec" else ThereOnServer(tf_of_1x, target)


@pytest.fixture
def agree_mixed(tf_of_1x, tf_pair, engine) -> Callable[..., Awaitable[Any]]:
    """Runs a program in the mixed cluster and in TensorFlow's; returns their common result."""
    return partial(_agreed, ThereOnServer(tf_of_1x, tf_pair), engine)


async def _agreed(reference: Engine, engine: Engine, program: Program, tolerance: float | None = None) -> Any:
    """The result, which is an array if a tolerance is given."""
    expected = await _result(reference, program)
    found = await _result(engine, program)
    if tolerance is not None:
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        return found
    problem = disagreement(found, expected)
    assert not problem, problem
    return found


async def _result(engine: Engine, program: Program) -> Any:
    await engine.reset()  # what a program before this has left there
    with engine.tf.Graph().as_default():
        return await program(engine)
