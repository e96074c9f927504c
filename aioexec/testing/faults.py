"""Fault injection for clusters in memory, with faults planned from a seed.

    faults = planned(seed=7, messages=120, count=2)
    async with InMemoryCluster({"worker": 2}) as cluster:
        async with FaultInjector(cluster, faults) as injector:
            ...  # the program, which may fail
            await injector.settle()
            ...  # every task runs again, every message arrives

A fault occurs when a message is sent. There are six kinds: a task is killed and restarted after a while; it freezes for a
while; a message is lost, and its connection with it; it is delayed; it is repeated; it is overtaken by others.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import Iterable, Sequence
from types import TracebackType

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.memory.network import AS_USUAL, Fate, Message
from aioexec.testing.cluster import InMemoryCluster


class FaultKind(enum.Enum):
    """The kinds of faults."""

    KILL = "kill"
    FREEZE = "freeze"
    DROP = "drop"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"


_SECONDS = {
    FaultKind.KILL: (0.0, 3.0),
    FaultKind.FREEZE: (0.01, 6.0),
    FaultKind.DROP: (0.0, 0.0),
    FaultKind.DELAY: (0.01, 6.0),
    FaultKind.DUPLICATE: (0.0, 1.0),
    FaultKind.REORDER: (0.0001, 0.002),
}
"""The duration of a fault: from a few latencies to more than it takes to detect it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        message: the number of the message at which it occurs, from 1 at the start of the injection.
        kind: the kind.
        seconds: until a killed task is restarted, a frozen one thaws, a delayed message or the second copy arrives.
        at_source: whether the sender is killed or frozen, rather than the receiver; a client never is.
    """

    message: int
    kind: FaultKind
    seconds: float = 0.0
    at_source: bool = False


def planned(
    seed: int, messages: int, count: int = 1, kinds: Sequence[FaultKind] = tuple(FaultKind)
) -> list[Fault]:
    """Faults at random messages up to a number; deterministic for given arguments."""
    chance = random.Random(seed)
    return [_random_fault(chance, messages, kinds) for _ in range(count)]


def _random_fault(chance: random.Random, messages: int, kinds: Sequence[FaultKind]) -> Fault:
    kind = chance.choice(kinds)
    least, most = _SECONDS[kind]
    return Fault(chance.randint(1, messages), kind, chance.uniform(least, most), chance.random() < 0.5)


class FaultInjector:
    """Injects faults into a cluster, within its block.

    `seen` counts the messages, `happened` are the faults that occurred. `_under_way` are tasks that restart or thaw.
    """

    def __init__(self, cluster: InMemoryCluster, faults: Iterable[Fault]) -> None:
        self.seen = 0
        self.happened: list[Fault] = []
        self._cluster = cluster
        self._faults: dict[int, list[Fault]] = {}
        for fault in faults:
            self._faults.setdefault(fault.message, []).append(fault)
        self._tasks = {
            cluster.host(job, index): (job, index)
            for job in cluster.spec.jobs
            for index in cluster.spec.task_indices(job)
        }
        self._under_way: dict[asyncio.Task[None], None] = {}

    async def __aenter__(self) -> FaultInjector:
        self._cluster.network.fate = self._fate
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.network.fate = None
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(list(self._under_way))

    async def settle(self) -> None:
        """Stop injecting, and wait until every task runs and replies."""
        self._faults.clear()
        while self._under_way:
            await asyncio.gather(*self._under_way)

    def _fate(self, message: Message) -> Fate:
        self.seen += 1
        fate = AS_USUAL
        for fault in self._faults.get(self.seen, ()):
            self._cluster.network.note(f"fault {fault.kind.value} at {self.seen}")
            self.happened.append(fault)
            fate = self._apply(fault, message, fate)
        return fate

    def _apply(self, fault: Fault, message: Message, fate: Fate) -> Fate:
        match fault.kind:
            case FaultKind.KILL | FaultKind.FREEZE:
                self._kill_or_freeze(fault, message)
                return fate
            case FaultKind.DROP:
                return ()
            case FaultKind.DUPLICATE:
                return (*fate, fault.seconds)
            case FaultKind.DELAY | FaultKind.REORDER:
                return tuple(extra + fault.seconds for extra in fate)

    def _kill_or_freeze(self, fault: Fault, message: Message) -> None:
        hosts = [message.source, message.target]
        if not fault.at_source:
            hosts.reverse()
        host = next((each for each in hosts if each in self._tasks), None)
        if host is None or not self._cluster.network.is_alive(host):
            return
        if fault.kind is FaultKind.KILL:
            self._cluster.network.kill(host)
            ending = self._restart_later(host, fault.seconds)
        else:
            self._cluster.network.freeze(host)
            ending = self._thaw(host, fault.seconds)
        task = asyncio.get_running_loop().create_task(ending, name=f"{fault.kind.value} of {host}")
        self._under_way[task] = None
        task.add_done_callback(self._under_way.pop)

    async def _restart_later(self, host: str, seconds: float) -> None:
        await self._cluster.kill(*self._tasks[host])
        await asyncio.sleep(seconds)
        self._cluster.restart(*self._tasks[host])

    async def _thaw(self, host: str, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            self._cluster.network.thaw(host)
