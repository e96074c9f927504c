"""A whole cluster in one event loop, for tests: real servers and sessions, with simulated calls between them.

    async with InMemoryCluster({"ps": 1, "worker": 2}) as cluster:
        async with cluster.session("worker", 0, graph=graph) as session:
            await session.run(train_op)
            await cluster.kill("ps", 0)
            with pytest.raises(UnavailableError):
                await session.run(train_op)

Every request and reply is a message of `cluster.network`, where messages can be lost, delayed and repeated. Tasks are its hosts
"worker-0" etc.; sessions are on the host "client". In virtual time (`virtual_clock`) waiting costs nothing; on a
`DeterministicLoop`, and with deterministic `bits`, a run can be repeated message by message.

`cluster.target(job, index)` is for code that makes its own sessions, such as MonitoredTrainingSession.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

from aioexec.distributed.client.grpc_session import GrpcSession
from aioexec.distributed.client.master_client import MasterClient
from aioexec.distributed.cluster.cluster import ClusterSpec
from aioexec.distributed.server.server import Server
from aioexec.distributed.transport.liveness import watch_channel
from aioexec.distributed.transport.memory.network import MemoryNetwork
from aioexec.distributed.transport.memory.transport import MemoryTransport
from aioexec.distributed.transport.settings import Liveness
from aioexec.distributed.transport.transport import Channel
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.node import BaseGraph
from aioexec.sessions import factory
from aioexec.sessions.factory import SessionFactory
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.session import Session

CLIENT = "client"
"""The host of the sessions."""

_PORT = 2222
_SCHEME = "memory://"
_RUNTIME_TYPE = "IN_MEMORY_SESSION"
_numbers = itertools.count(1)
_clusters: dict[str, InMemoryCluster] = {}  # running clusters, by their names in targets


class InMemoryCluster:
    """Servers of one cluster, all of them started.

    Args:
        jobs: the number of tasks of each job.
        config: a ConfigProto for all servers.
        network: the network of their messages; a new one by default.
        liveness: when an unresponsive peer counts as lost.
        bits: the source of random numbers.

    `spec` is the ClusterSpec, `network` the network. `_servers` are the running ones, by host.
    """

    def __init__(
        self,
        jobs: Mapping[str, int],
        config: Any = None,
        *,
        network: MemoryNetwork | None = None,
        liveness: Liveness | None = None,
        bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self.spec = ClusterSpec(
            {
                job: [f"{self.host(job, index)}:{_PORT}" for index in range(count)]
                for job, count in jobs.items()
            }
        )
        self.network = network or MemoryNetwork()
        self._config = config
        self._liveness = liveness or Liveness()
        self._bits = bits
        self._servers: dict[str, Server] = {}
        self._name = str(next(_numbers))

    async def __aenter__(self) -> InMemoryCluster:
        _clusters[self._name] = self
        if not factory.is_registered(_RUNTIME_TYPE):
            factory.register(_RUNTIME_TYPE, _Sessions())
        for job in self.spec.jobs:
            for index in self.spec.task_indices(job):
                self._start(job, index)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        del _clusters[self._name]
        if not _clusters:
            factory.deregister(_RUNTIME_TYPE)
        servers, self._servers = self._servers, {}
        async with AsyncExitStack() as stack:
            for server in servers.values():
                stack.push_async_callback(server.stop)

    # Sessions

    def session(
        self, job: str = "worker", index: int = 0, graph: BaseGraph | None = None, config: Any = None
    ) -> Session:
        """A session on a task's server, which need not be running."""
        return Session(self.target(job, index), graph, config)

    def target(self, job: str = "worker", index: int = 0) -> str:
        """The target of sessions on a task's server."""
        return f"{_SCHEME}{self._name}/{self.spec.task_address(job, index)}"

    def new_runtime(self, options: SessionOptions, address: str) -> GrpcSession:
        """The implementation of a session."""
        return GrpcSession(options, self.channel(address), self._bits)

    def channel(self, address: str) -> Channel:
        """A channel from the host of the sessions."""
        return watch_channel(MemoryTransport(self.network, CLIENT).channel(address), self._liveness)

    # Servers

    @staticmethod
    def host(job: str, index: int = 0) -> str:
        """The host of a task."""
        return f"{job}-{index}"

    def server(self, job: str, index: int = 0) -> Server:
        """The server of a task.

        Raises:
            GraphValueError: it was killed, or there is no such task.
        """
        server = self._servers.get(self.host(job, index))
        if server is None:
            raise GraphValueError(f"no server of task {index} of job {job!r} is up")
        return server

    @property
    def servers(self) -> list[Server]:
        """All running servers."""
        return list(self._servers.values())

    async def kill(self, job: str, index: int = 0) -> None:
        """End a task like the death of its process: at once, without messages. Its resources are released when this returns."""
        host = self.host(job, index)
        self.network.kill(host)
        server = self._servers.pop(host, None)
        if server is not None:
            await server.stop()

    def restart(self, job: str, index: int = 0) -> None:
        """Start the server of a killed task at the same address, without its former state.

        Raises:
            GraphValueError: it is running.
        """
        if self.host(job, index) in self._servers:
            raise GraphValueError(f"task {index} of job {job!r} is up: kill it first")
        self._start(job, index)

    def freeze(self, job: str, index: int = 0) -> None:
        """Hold all messages from and to a task."""
        self.network.freeze(self.host(job, index))

    def thaw(self, job: str, index: int = 0) -> None:
        """Deliver the held messages of a frozen task."""
        self.network.thaw(self.host(job, index))

    def _start(self, job: str, index: int) -> None:
        host = self.host(job, index)
        self._servers[host] = Server(
            self.spec,
            job,
            index,
            config=self._config,
            transport=MemoryTransport(self.network, host),
            liveness=self._liveness,
            bits=self._bits,
        )


class _Sessions(SessionFactory):
    """The session factory for running clusters; registered while there are any."""

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target.startswith(_SCHEME)

    def new_session(self, options: SessionOptions) -> GrpcSession:
        cluster, address = _find(options.target)
        return cluster.new_runtime(options, address)

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        cluster, address = _find(options.target)
        channel = cluster.channel(address)
        try:
            await MasterClient(channel).reset(options, containers)
        finally:
            await channel.close()


def _find(target: str) -> tuple[InMemoryCluster, str]:
    name, _, address = target.removeprefix(_SCHEME).partition("/")
    cluster = _clusters.get(name)
    if cluster is None:
        raise InvalidArgumentError(f"{target!r} is of a cluster that is not up")
    return cluster, address
