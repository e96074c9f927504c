"""Clusters for tests."""

from __future__ import annotations

import pytest

import aioexec as ax

pytestmark = pytest.mark.network


async def test_the_servers_of_a_local_cluster_see_each_other():
    workers, parameters = ax.test.create_local_cluster(2, 1)
    try:
        with ax.Graph().as_default(), ax.device("/job:ps/task:0"):
            product = ax.constant(2.0) * 3.0
            async with ax.Session(workers[1].target) as session:
                devices = await session.list_devices()
                result = await session.run(product)
    finally:
        for server in (*workers, *parameters):
            await server.stop()

    assert result == 6
    assert {device.name.split("/")[1] for device in devices} == {"job:worker", "job:ps"}
    assert len(devices) == 3
