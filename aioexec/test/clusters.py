"""Clusters of servers in this process, for tests."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.distributed.server.server import Server


def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: Any = None,
    ps_config: Any = None,
) -> tuple[list[Server], list[Server]]:
    """Start the servers of the jobs "worker" and "ps" on free ports of this machine; await `stop` of each at the end.

    Args:
        worker_config, ps_config: ConfigProtos of the servers.

    Returns:
        The servers of workers, and those of parameter servers.
    """
    addresses = [f"localhost:{port}" for port in _free_ports(num_workers + num_ps)]
    cluster = ClusterSpec({"worker": addresses[:num_workers], "ps": addresses[num_workers:]})
    workers, parameters = (
        [Server(cluster, job, index, protocol, config) for index in range(count)]
        for job, count, config in (("worker", num_workers, worker_config), ("ps", num_ps, ps_config))
    )
    return workers, parameters


def _free_ports(count: int) -> list[int]:
    """Ports that were free together just now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("localhost", 0))
        return [each.getsockname()[1] for each in sockets]
