"""Servers in separate processes, which tests kill, freeze and restart.

    async with servers("ps", "worker", "worker") as cluster:
        async with aioexec.Session(cluster["worker", 0].target) as session: ...
        cluster["worker", 1].kill()
        await cluster["worker", 1].start()

Every process has ended when the block is left, whatever the test did to it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from aioexec.distributed.cluster.cluster import ClusterSpec, task_name

REPOSITORY = Path(__file__).parents[2]
START_SECONDS = 120.0


def free_addresses(count: int) -> list[str]:
    """Free addresses of this machine: the system has just assigned them, and they were released."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in sockets]
    finally:
        for each in sockets:
            each.close()


def cluster_of(jobs: Iterable[str]) -> ClusterSpec:
    """A cluster with a task for each name: the first "worker" is its task 0."""
    names = list(jobs)
    addresses: dict[str, list[str]] = {}
    for name, address in zip(names, free_addresses(len(names)), strict=True):
        addresses.setdefault(name, []).append(address)
    return ClusterSpec(addresses)


class ServerProcess:
    """`aioexec server` for one task.

    `arguments` are those of Python, `said` is the line with which it began to serve, `output` what it logged.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        job: str,
        task: int,
        options: Sequence[str] = (),
        environment: Mapping[str, str] = {},
    ) -> None:
        self.name = task_name(job, task)
        self.target = f"grpc://{cluster.task_address(job, task)}"
        self.said = ""
        self.output = ""
        self._environment = {**os.environ, "AIOEXEC_JIT": "off", **environment}
        self.arguments = [
            *(
                "-m",
                "aioexec.cli",
                "server",
                "--cluster",
                described(cluster),
                "--job",
                job,
                "--task",
                str(task),
            ),
            *options,
        ]
        self._process: asyncio.subprocess.Process | None = None
        self._has_logged = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin the process, and wait until it serves.

        Raises:
            RuntimeError: it ended instead.
        """
        await self.begin()
        await self.serving()

    async def begin(self) -> None:
        """Begin the process."""
        assert self._process is None, f"{self.name} runs"
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self.arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=REPOSITORY,
            env=self._environment,
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            self.output += line.decode()
            self._has_logged.set()

    async def serving(self) -> None:
        """Wait until it serves.

        Raises:
            RuntimeError: it ended instead.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            self.said = (await self._process.stdout.readline()).decode().strip()
        if not self.said:
            status = await self.ended()
            raise RuntimeError(f"{self.name} ended with {status}:\n{self.output}")

    async def logged(self, text: str) -> None:
        """Wait until it has logged this."""
        async with asyncio.timeout(START_SECONDS):
            while text not in self.output:
                self._has_logged.clear()
                await self._has_logged.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send it a signal."""
        assert self._process is not None, f"{self.name} does not run"
        self._process.send_signal(number)

    def freeze(self) -> None:
        """Let it do nothing until it is thawed; its connections stay open."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    async def kill(self) -> None:
        """End it as if by `kill -9`."""
        self.signal(signal.SIGKILL)
        await self.ended()

    async def terminate(self) -> int:
        """Have it drain, and wait for its end; its exit status."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait for its end; its exit status, negative if a signal ended it."""
        assert self._process is not None
        assert self._reading is not None
        status = await self._process.wait()
        await self._reading
        assert self._process.stdout is not None
        await self._process.stdout.read()
        self._process = self._reading = None
        return status

    async def close(self) -> None:
        """End it if it runs."""
        if self._process is not None:
            if self._process.returncode is None:
                self.signal(signal.SIGKILL)
            await self.ended()


def described(cluster: ClusterSpec) -> str:
    """The cluster as `--cluster` takes it."""
    return ";".join(f"{job}={','.join(cluster.as_dict()[job])}" for job in cluster.jobs)


@asynccontextmanager
async def servers(
    *jobs: str, options: Sequence[str] = (), environment: Mapping[str, str] = {}
) -> AsyncIterator[dict[tuple[str, int], ServerProcess]]:
    """A process for each task of a new cluster, all serving; by job and index."""
    cluster = cluster_of(jobs)
    made = {
        (job, task): ServerProcess(cluster, job, task, options, environment)
        for job in cluster.jobs
        for task in cluster.task_indices(job)
    }
    try:
        for each in made.values():
            await each.begin()
        for each in made.values():
            await each.serving()
        yield made
    finally:
        for each in made.values():
            await each.close()
