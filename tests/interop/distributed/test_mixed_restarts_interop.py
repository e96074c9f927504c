"""The task that is not the master is killed and restarted: the step gets an error, and the session or the next one works."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import aioexec as ax
from aioexec.distributed.cluster.cluster import ClusterSpec
from tests.distributed.processes import cluster_of
from tests.interop.distributed.mixed import TASK_0, TASK_1, server_process

pytestmark = [pytest.mark.interop, pytest.mark.sweep]  # TensorFlow takes long to find a task again

SECONDS = 20.0
_SERVE = """
import tensorflow.compat.v1 as tf
server = tf.distribute.Server({cluster!r}, "worker", {task})
print("serves", flush=True)
server.join()
"""


@contextlib.contextmanager
def tf_server_process(cluster: ClusterSpec, task: int) -> Iterator[str]:
    """The target of a server of TensorFlow's in a process of its own."""
    command = [sys.executable, "-c", _SERVE.format(cluster=cluster.as_dict(), task=task)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the server did not begin to serve"
            yield f"grpc://{cluster.task_address('worker', task)}"
        finally:
            process.kill()


@pytest.fixture
def cluster() -> ClusterSpec:
    return cluster_of(["worker", "worker"])


@pytest.fixture
def graph() -> ax.Graph:
    return ax.Graph()


def counting(counts_on: str, reads_on: str) -> tuple[Any, Any]:
    """A counter's initializer, and what counts on one task and reads on the other."""
    with ax.device(counts_on):
        counter = ax.Variable(1.0, use_resource=True, name="counter")
        counted = counter.assign_add(1.0)
    with ax.device(reads_on):
        return counter.initializer, ax.identity(counted) + 0.0


async def first_but(passing: type[Exception], call: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a call, or its error, once that is no `passing` one: a restarted task is not reached at once."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await call()
            except passing:
                await asyncio.sleep(0.05)
            except Exception as error:
                return error


async def test_our_worker_under_a_master_of_tensorflows(cluster, graph):
    with graph.as_default():
        initializer, counted = counting(TASK_1, TASK_0)
    with tf_server_process(cluster, 0) as target:
        session = ax.Session(target, graph=graph)
        with server_process(cluster, 1):
            await session.run(initializer)
            assert await session.run(counted) == 2.0
        with pytest.raises(ax.errors.UnavailableError):
            await session.run(counted)

        with server_process(cluster, 1):
            lost = await first_but(ax.errors.UnavailableError, lambda: session.run(counted))
            assert isinstance(lost, ax.errors.AbortedError)
            await session.close()
            async with ax.Session(target, graph=graph) as again:
                await again.run(initializer)
                assert await again.run(counted) == 2.0


async def test_tensorflows_worker_under_a_master_of_ours(cluster, graph):
    with graph.as_default():
        initializer, counted = counting(TASK_0, TASK_1)
    with server_process(cluster, 1) as target:
        with tf_server_process(cluster, 0):
            session = ax.Session(target, graph=graph)
            await session.run(initializer)
            assert await session.run(counted) == 2.0
        with pytest.raises(ax.errors.UnavailableError):
            await session.run(counted)

        with tf_server_process(cluster, 0):
            gone = await first_but(ax.errors.UnavailableError, lambda: session.run(counted))
            assert isinstance(gone, ax.errors.OpError)  # the counter; the session stays usable
            await session.run(initializer)
            assert await session.run(counted) == 2.0
            await session.close()
