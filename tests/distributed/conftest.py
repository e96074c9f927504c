"""Servers in the test's own loop, on real ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

import aioexec as ax
from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.distributed.processes import cluster_of

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
