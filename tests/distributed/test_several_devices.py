"""Tasks with several devices: a task partitions its part again, between its own devices."""

from __future__ import annotations

from typing import Any

import aioexec as ax
from aioexec.testing.cluster import InMemoryCluster


def on(task: int, number: int) -> Any:
    return ax.device(f"/job:worker/task:{task}/device:CPU:{number}")


async def test_chains_and_loops_go_over_several_devices_of_several_tasks():
    graph = ax.Graph()
    with graph.as_default():
        x = ax.placeholder(ax.float32, [])
        value = x
        for task, number in ((1, 0), (1, 1), (0, 1), (1, 1), (1, 0), (0, 0)):
            with on(task, number):
                value = value * 2.0 + 1.0

        def body(i: Any, a: Any) -> Any:
            with on(1, 0):
                a = a * 2.0
            with on(1, 1):
                a = a + 1.0
            with on(0, 1):
                a = a - 3.0
            with on(1, 0):
                return i + 1, a

        with on(1, 0):
            rounds = ax.while_loop(lambda i, a: i < 4, body, [ax.constant(0), x])
    expected = 1.0
    for _ in range(6):
        expected = expected * 2.0 + 1.0

    config = ax.ConfigProto(device_count={"CPU": 2})
    async with (
        InMemoryCluster({"worker": 2}, config) as cluster,
        cluster.session("worker", 0, graph) as session,
    ):
        results = await session.run([value, *rounds], {x: 1.0})
        again = await session.run([value, *rounds], {x: 1.0})

    assert results == again
    assert [float(result) for result in results] == [expected, 4.0, -14.0]
