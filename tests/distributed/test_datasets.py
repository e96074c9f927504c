"""Datasets in the sessions of a cluster: functions run on the worker, and iterators are shared under a name."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import OutOfRangeError
from aioexec.testing.cluster import InMemoryCluster

pytestmark = pytest.mark.usefixtures("virtual_clock")


@pytest.fixture
async def cluster():
    async with InMemoryCluster({"worker": 2}) as made:
        yield made


def built(task: int) -> tuple[ax.Graph, Any, Any]:
    with ax.Graph().as_default() as graph, ax.device(f"/job:worker/task:{task}"):
        dataset = ax.data.Dataset.range(6).map(lambda x: x * x, num_parallel_calls=2).prefetch(2)
        iterator = dataset.make_initializable_iterator(shared_name="squares")
        return graph, iterator.initializer, iterator.get_next()


@pytest.mark.parametrize("task", [0, 1])
async def test_two_sessions_share_an_iterator(cluster: InMemoryCluster, task: int):
    graph, initializer, element = built(task)

    async with cluster.session(graph=graph) as second:
        async with cluster.session(graph=graph) as first:
            await first.run(initializer)
            found = [int(await session.run(element)) for session in (first, second, first)]
        found += [int(await second.run(element)) for _ in range(3)]
        with pytest.raises(OutOfRangeError):
            await second.run(element)
    assert found == [0, 1, 4, 9, 16, 25]
