"""A cluster in memory whose tasks follow each other, and predicates of its messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

import aioexec as ax
from aioexec.distributed.worker.pushes import PUSH
from aioexec.distributed.worker.worker import Worker
from aioexec.execution.remote_rendezvous import RemoteRendezvous
from aioexec.execution.rendezvous import create_key
from aioexec.testing import VirtualClock
from aioexec.testing.cluster import InMemoryCluster

RECV_TENSOR = "WorkerService/RecvTensor"


def on(task: int, job: str = "worker") -> Any:
    return ax.device(f"/job:{job}/task:{task}")


def name(task: int) -> str:
    return f"/job:worker/replica:0/task:{task}"


class Messages:
    """Counts the messages of a cluster by kind and method."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        cluster.network.log = self._count

    def _count(self, event: str) -> None:
        said = event.split()
        if said[1] == ">" and len(said) > 4:
            self.counts[said[3], said[4]] += 1

    @property
    def notified(self) -> int:
        return self.counts["notification", PUSH]

    @property
    def asked(self) -> int:
        return self.counts["request", RECV_TENSOR]


@pytest.fixture
async def cluster(deterministic_clock: VirtualClock) -> AsyncIterator[InMemoryCluster]:
    async with InMemoryCluster({"worker": 3}) as made:
        yield made
        for server in made.servers:
            server.worker.steps.check_invariants()


@pytest.fixture
def messages(cluster: InMemoryCluster) -> Messages:
    return Messages(cluster)


def worker(cluster: InMemoryCluster, task: int) -> Worker:
    return cluster.server("worker", task).worker


def key(cluster: InMemoryCluster, source: int, target: int, edge: str = "e") -> str:
    (device,) = worker(cluster, source).devices.list_devices()
    return create_key(
        f"{name(source)}/device:CPU:0", device.attributes.incarnation, f"{name(target)}/device:CPU:0", edge
    )


def entered(cluster: InMemoryCluster, task: int, step_id: int) -> RemoteRendezvous:
    """A task's part of a step that no master has begun."""
    return worker(cluster, task).steps.enter(step_id).rendezvous


def cut(cluster: InMemoryCluster, task: int, source: int) -> None:
    """Lose the connection by which a task asks and follows another."""
    channel: Any = cluster.server("worker", task).workers.channel(name(source))
    channel._channel._connection.break_off("cut")


def chain(*tasks: int) -> tuple[ax.Graph, ax.Tensor, ax.Tensor]:
    """A graph that adds one to a number on each of these tasks in turn: the graph, its feed and its fetch."""
    with ax.Graph().as_default() as graph:
        x = value = ax.placeholder(ax.float32, [], name="x")
        for task in tasks:
            with on(task):
                value = value + 1.0
    return graph, x, value


async def followed(cluster: InMemoryCluster, *tasks: int) -> None:
    """Have each of these tasks follow the one before it."""
    graph, x, value = chain(*tasks)
    async with cluster.session("worker", 0, graph) as session:
        for _ in range(2):
            assert await session.run(value, {x: 0.0}) == len(tasks)
