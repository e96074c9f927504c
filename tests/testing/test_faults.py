"""Faults affect the messages they were planned for, and no others."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import aioexec as tf
from aioexec import errors
from aioexec.testing import InMemoryCluster, VirtualClock
from aioexec.testing.faults import Fault, FaultInjector, FaultKind, planned

pytestmark = pytest.mark.usefixtures("deterministic_clock")


@pytest.fixture
def y() -> Iterator[tf.Tensor]:
    """1 + 1, on the other worker."""
    with tf.Graph().as_default(), tf.device("/job:worker/task:1"):
        yield tf.add(tf.placeholder_with_default(1.0, []), 1.0)


@pytest.fixture
async def cluster() -> Any:
    async with InMemoryCluster({"worker": 2}) as cluster:
        yield cluster


async def test_plans_follow_from_their_seed() -> None:
    assert planned(7, 100, 5) == planned(7, 100, 5) != planned(8, 100, 5)
    assert {fault.kind for fault in planned(1, 100, 200)} == set(FaultKind)
    assert {fault.kind for fault in planned(1, 100, 20, [FaultKind.DROP])} == {FaultKind.DROP}
    assert all(1 <= fault.message <= 100 for fault in planned(1, 100, 200))


async def test_without_faults_messages_are_counted_and_arrive(cluster: InMemoryCluster, y: tf.Tensor) -> None:
    async with FaultInjector(cluster, []) as injector, cluster.session(graph=y.graph) as session:
        assert await session.run(y) == 2.0

        assert injector.seen > 10
        assert injector.happened == []


async def test_a_killed_task_is_started_again(
    cluster: InMemoryCluster, y: tf.Tensor, deterministic_clock: VirtualClock
) -> None:
    killed = cluster.server("worker", 0)
    first_step = 7

    async with FaultInjector(cluster, [Fault(first_step, FaultKind.KILL, 5.0)]) as injector:
        session = cluster.session(graph=y.graph)
        with pytest.raises(errors.UnavailableError):
            await session.run(y)
        await injector.settle()
        assert deterministic_clock.time() >= 5.0
        assert cluster.server("worker", 0) is not killed
        with pytest.raises(errors.AbortedError):
            await session.close()

        async with cluster.session(graph=y.graph) as session:
            assert await session.run(y) == 2.0


async def test_a_frozen_task_goes_on(
    cluster: InMemoryCluster, y: tf.Tensor, deterministic_clock: VirtualClock
) -> None:
    async with (
        FaultInjector(cluster, [Fault(1, FaultKind.FREEZE, 1.0)]),
        cluster.session(graph=y.graph) as session,
    ):
        assert await session.run(y) == 2.0

    assert deterministic_clock.time() >= 1.0


@pytest.mark.parametrize(
    ("kind", "reported"),
    [
        (FaultKind.DROP, "lost"),
        (FaultKind.DELAY, "after 0.500000 s more"),
        (FaultKind.REORDER, "after 0.500000 s more"),
        (FaultKind.DUPLICATE, "after 0.000000 and 0.500000 s more"),
    ],
)
async def test_a_message_meets_its_fate(
    cluster: InMemoryCluster, y: tf.Tensor, kind: FaultKind, reported: str
) -> None:
    events: list[str] = []
    cluster.network.log = events.append

    async with FaultInjector(cluster, [Fault(2, kind, 0.5)]), cluster.session(graph=y.graph) as session:
        outcome = await asyncio.gather(session.run(y), return_exceptions=True)

    assert events[1] == f"fault {kind.value} at 2"
    assert events[2].endswith(reported)
    if kind is FaultKind.DROP:
        assert isinstance(outcome[0], errors.UnavailableError)
    else:
        assert outcome[0] == 2.0


async def test_the_block_ends_what_is_under_way(cluster: InMemoryCluster, y: tf.Tensor) -> None:
    async with FaultInjector(cluster, [Fault(1, FaultKind.FREEZE, 3600.0)]):
        session = cluster.session(graph=y.graph)
        with pytest.raises(errors.UnavailableError):
            await session.run(y)

    assert await session.run(y) == 2.0
    await session.close()
