"""A soak test: one session, many clients, six kinds of runs, some cancelled; and checks for leaks when it is idle."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import aioexec as ax
from aioexec.execution.partial_step import PartialStep
from aioexec.execution.programs.program_run import ProgramRun
from aioexec.execution.propagator import Activation
from aioexec.execution.rendezvous import IntraProcessRendezvous
from aioexec.execution.step import Step
from aioexec.observability.allocator_stats import allocator_stats
from aioexec.resources.waiting import Attempt
from tests.soak.kinds import (
    CANCELLED,
    AsyncNode,
    BlockedDequeue,
    Kind,
    PartialRun,
    client_number,
    mlp,
    one_node,
    two_devices,
)

DEVICES = [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(2)]
OF_ONE_STEP = (Step, PartialStep, ProgramRun, Activation, IntraProcessRendezvous, Attempt)
"""Classes whose instances live no longer than a step."""

MOST_PASSES = 64  # of the loop, before a run is cancelled
_TOGETHER = 10  # clients that come in one pass of the loop


class SoakClient:
    """Runs one transaction after the other, each of a random kind."""

    def __init__(self, soak: Soak, number: int) -> None:
        self.session = soak.session
        self.number = number
        self.random = Random(f"{soak.seed}/{number}")
        self._soak = soak

    async def repeat(self) -> None:
        """Run until the soak has done as many steps as it shall."""
        client_number.set(self.number)
        while self._soak.steps < self._soak.goal:
            name = self.random.choice(self._soak.names)
            await self._soak.kinds[name].transact(self)
            self._soak.transactions[name] += 1

    async def attempt(self, run: Coroutine[Any, Any, Any]) -> Any:
        if self.random.random() < self._soak.cancelled_share:
            return await self.outcome(self._doomed(run))
        self._soak.steps += 1
        return await run

    def begin(self, run: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        if self.random.random() < self._soak.cancelled_share:
            return self._doomed(run)
        return asyncio.create_task(run)

    def _doomed(self, run: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A run that is cancelled after some passes of the loop: few passes as often as many."""
        task = asyncio.create_task(run)
        cancel_after(task, int(MOST_PASSES ** self.random.random()))
        return task

    async def outcome(self, task: asyncio.Task[Any]) -> Any:
        await asyncio.wait([task])
        self._soak.steps += 1
        if not task.cancelled():
            return task.result()
        self._soak.cancelled += 1
        return CANCELLED


def cancel_after(task: asyncio.Task[Any], passes: int) -> None:
    if task.done():
        return
    if passes == 0:
        task.cancel()
    else:
        asyncio.get_running_loop().call_soon(cancel_after, task, passes - 1)


class Soak:
    """One session under its clients.

    `steps` and `cancelled` count runs, `transactions` what was done by kind; clients stop when `steps` reaches `goal`.
    `cancelled_share` of the runs are cancelled.
    """

    def __init__(self, session: Any, kinds: dict[str, Kind], clients: int, seed: int) -> None:
        self.session = session
        self.kinds = kinds
        self.names = list(kinds)
        self.seed = seed
        self.steps = 0
        self.cancelled = 0
        self.goal = 0
        self.cancelled_share = 0.1
        self.transactions: Counter[str] = Counter()
        self._clients = [SoakClient(self, number) for number in range(clients)]

    async def warm_up(self) -> None:
        """One transaction of each kind, on every queue: plans and programs are made."""
        client = SoakClient(self, -1)
        for kind in self.kinds.values():
            await kind.transact(client)
        queues = self.kinds["blocked dequeue"]
        assert isinstance(queues, BlockedDequeue)
        await queues.warm_up(client)

    async def run(self, steps: int) -> None:
        """Do so many more steps, and wait until it is quiet."""
        self.goal = self.steps + steps
        async with asyncio.TaskGroup() as group:
            for client in self._clients:
                group.create_task(client.repeat())
                if client.number % _TOGETHER == 0:
                    await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def soak(clients: int, seed: int, jit: str) -> AsyncIterator[Soak]:
    """A session with two devices and a graph of all kinds, warmed up."""
    config = ax.ConfigProto(device_count={"CPU": 2})
    config.aioexec.jit = jit
    with ax.Graph().as_default() as graph:
        kinds: dict[str, Kind] = {
            "one node": one_node(),
            "MLP": mlp(),
            "blocked dequeue": BlockedDequeue(max(4, clients // 5)),
            "asynchronous node": AsyncNode(),
            "two devices": two_devices(),
            "partial run": PartialRun(),
        }
        initializer = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(initializer)
        running = Soak(session, kinds, clients, seed)
        await running.warm_up()
        yield running


def remains() -> dict[str, int]:
    """How many are alive, by name, of what should end with its step."""
    found = Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, OF_ONE_STEP))
    return dict(found)


def arena_bytes() -> int:
    """Memory of programs on the devices of the soak, without what waits for the garbage collector."""
    gc.collect()
    return sum(allocator_stats(device).bytes_in_use for device in DEVICES)


def memory() -> tuple[int, int]:
    """Blocks that Python holds, and the bytes the process has in memory."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return sys.getallocatedblocks(), pages * 4096
