"""Servers in the test's own loop, on real ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import pytest

import aioexec as ax
from aioexec.errors import UnavailableError
from tests.distributed.processes import cluster_of


@pytest.fixture(scope="session", autouse=True)
def _grpc_runs() -> Iterator[None]:
    """Keep between tests what gRPC has for the whole process: its thread goes with its last object, its descriptors never."""
    grpc.aio.init_grpc_aio()
    asyncio.run(_refused())
    yield
    grpc.aio.shutdown_grpc_aio()


async def _refused() -> None:
    """Let gRPC listen, and fail to: it makes its descriptors then."""
    async with ax.train.Server.create_local_server() as server:
        with pytest.raises(UnavailableError):
            ax.train.Server({"worker": [server.address]})


Servers = dict[tuple[str, int], "ax.train.Server"]


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Servers]]:
    """Makes a cluster with a task for each name, `serve("ps", "worker", "worker")`: servers by job and index."""
    async with AsyncExitStack() as ends:

        def make(*jobs: str, **options: Any) -> Servers:
            cluster = cluster_of(jobs)
            made: Servers = {}
            for job in cluster.jobs:
                for task in cluster.task_indices(job):
                    made[job, task] = ax.train.Server(cluster, job, task, **options)
                    ends.push_async_callback(made[job, task].stop)
            return made

        yield make
