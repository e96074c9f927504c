"""Cancellation at every await, at random times and by deadlines: variables are untorn, nothing leaks, the session stays usable.

    python -m tests.campaigns.cancellations --count 1000

A seed selects a session (in this process on one of three tiers, or on servers: in memory, or in this process with real ports)
and a step: updates of variables, a loop that updates, a queue, asynchronous functions, two devices, a partial run. The step is
cancelled at its first await, at its second, and so on until it ends before; once at the start of the await, and once when the
awaited future is done. Other steps add to the same variable meanwhile. Then it is cancelled at random times, within native rows
and on workers, and given deadlines.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from functools import partial
from random import Random
from typing import Any

import numpy as np

import aioexec as ax
from aioexec.errors import DeadlineExceededError, OpError
from aioexec.resources.variable import Variable
from aioexec.sessions.direct import DirectSession
from aioexec.testing.cluster import InMemoryCluster
from aioexec.testing.tasks import all_tasks_blocked
from tests.campaigns import campaign
from tests.distributed.simulation.quiet import check_idle, check_quiet
from tests.soak.soaking import remains

CANCELLED = object()
MOST_AWAITS = 60
"""At which a step is cancelled; one of a cluster has more."""
TIMES = 6
"""Random times and deadlines of a case."""
LONGEST = 0.01
"""Seconds until a step is cancelled at a random time."""
WAITS = 60.0
"""Seconds after which a step hangs."""
ROUNDS = 4
"""Additions of the step with a loop."""


class At:
    """Awaits a coroutine in a task that it cancels at its await number `number`, as that begins or, `late`, as it ends."""

    def __init__(self, run: Coroutine[Any, Any, Any], number: int, late: bool) -> None:
        self.awaits = 0
        self._run = run
        self._number = number
        self._late = late

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        driven = self._driven(task)
        return (yield from driven)

    @types.coroutine
    def _driven(self, task: asyncio.Task[Any]) -> Generator[Any, Any, Any]:
        raised: BaseException | None = None
        while True:
            try:
                awaited = self._run.send(None) if raised is None else self._run.throw(raised)
            except StopIteration as end:
                return end.value
            self.awaits += 1
            if self.awaits == self._number:
                if awaited is not None and self._late:
                    awaited.add_done_callback(lambda _: task.cancel())  # before the task hears of it
                else:
                    task.cancel()
            raised = None
            try:
                yield awaited
            except BaseException as error:
                raised = error


async def cancelled_at(run: Coroutine[Any, Any, Any], number: int, late: bool) -> tuple[Any, bool]:
    """The outcome of a run, and whether it had that many awaits."""
    driver = At(run, number, late)

    async def drive() -> Any:
        return await driver

    task = asyncio.create_task(drive())
    return await _outcome(task), driver.awaits >= number


async def cancelled_after(run: Coroutine[Any, Any, Any], seconds: float) -> Any:
    task = asyncio.create_task(run)
    timer = asyncio.get_running_loop().call_later(seconds, task.cancel)
    try:
        return await _outcome(task)
    finally:
        timer.cancel()


async def _in_time(run: Coroutine[Any, Any, Any]) -> Any:
    """The outcome of a run with a deadline."""
    try:
        async with asyncio.timeout(WAITS):
            return await run
    except DeadlineExceededError:
        return CANCELLED


async def _outcome(task: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(WAITS):
        await asyncio.wait([task])
    return CANCELLED if task.cancelled() else task.result()


class Graph:
    """A graph with one variable that all steps add to, of which `kind` is the step that is cancelled.

    All elements of the variable are equal; `most` is by how much the step may change it.
    """

    KINDS = ("updates", "loop", "queue", "awaits", "devices", "partial")

    def __init__(self, kind: str, size: int, devices: tuple[str, str]) -> None:
        self.kind = kind
        self.most = {"loop": ROUNDS, "updates": 2}.get(kind, 1)
        ones = np.ones(size, np.float32)
        with ax.Graph().as_default() as self.graph:
            self.x = ax.placeholder(ax.float32, [size], name="x")
            self.z = ax.placeholder(ax.float32, [size], name="z")
            with ax.device(devices[0]):
                self.count = ax.Variable(ax.zeros([size]), name="count", use_resource=True)
                self.initial = ax.global_variables_initializer()
                self.add = self.count.assign_add(ones, read_value=False)
                self.value = self.count.read_value()
                self.queue = ax.FIFOQueue(100, [ax.float32], shapes=[[size]], name="queue")
                self.size, self.taken = self.queue.size(), self.queue.dequeue()
            self.fetches = getattr(self, f"_{kind}")(ones, devices)

    def feeds(self) -> dict[Any, Any]:
        return {self.x: np.ones(self.x.shape.as_list(), np.float32)}

    def step(self, session: Any, options: Any = None) -> Coroutine[Any, Any, Any]:
        if self.kind == "partial":
            return self._partly(session)
        return session.run(self.fetches, self.feeds(), options=options)

    async def _partly(self, session: Any) -> Any:
        handle = await session.partial_run_setup(self.fetches, [self.x, self.z])
        await session.partial_run(handle, self.fetches[0], self.feeds())
        return await session.partial_run(handle, self.fetches[1], {self.z: self.feeds()[self.x]})

    def _updates(self, ones: Any, devices: tuple[str, str]) -> Any:
        with ax.control_dependencies([self.add]):
            y = ax.reduce_sum(ax.nn.relu(ax.exp(self.x) * 2.0))
        with ax.control_dependencies([y]):
            return [self.count.assign_add(ones, read_value=False), y]

    def _loop(self, ones: Any, devices: tuple[str, str]) -> Any:
        def body(n: Any, total: Any) -> Any:
            with ax.control_dependencies([self.count.assign_add(ones, read_value=False)]):
                return n + 1, total + ax.reduce_sum(ax.exp(self.x))

        return ax.while_loop(lambda n, _: n < ROUNDS, body, [ax.constant(0), ax.constant(0.0)])

    def _queue(self, ones: Any, devices: tuple[str, str]) -> Any:
        put = self.queue.enqueue(self.x)
        with ax.control_dependencies([put]):
            taken = self.queue.dequeue()
        with ax.control_dependencies([taken]):
            return [self.count.assign_add(ones, read_value=False), taken]

    def _awaits(self, ones: Any, devices: tuple[str, str]) -> Any:
        async def later(x: Any) -> Any:
            for _ in range(3):
                await asyncio.sleep(0)
            return x

        y = ax.py_func(later, [ax.py_func(lambda x: x, [self.x], ax.float32)], ax.float32)
        with ax.control_dependencies([y]):
            return [self.count.assign_add(ones, read_value=False), y]

    def _devices(self, ones: Any, devices: tuple[str, str]) -> Any:
        y = self.x
        for device in (devices[1], devices[0], devices[1]):
            with ax.device(device):
                y = ax.exp(y) * 0.1
        with ax.control_dependencies([y]), ax.device(devices[0]):
            return [self.count.assign_add(ones, read_value=False), y]

    def _partial(self, ones: Any, devices: tuple[str, str]) -> Any:
        first = self.x + 1.0
        with ax.control_dependencies([self.count.assign_add(self.z, read_value=False)]):
            return [first, self.z + first]


class Case:
    """One session whose steps are cancelled; `sure` is what the variable must have at least, `unsure` what it may have more."""

    def __init__(self, session: Any, graph: Graph, chance: Random) -> None:
        self.session, self.graph, self.chance = session, graph, chance
        self.sure = self.unsure = 0

    async def run(self) -> None:
        await self.session.run(self.graph.initial)
        for _ in range(3):  # its program is made
            await self._settle(await self.graph.step(self.session))
        gc.collect()
        before = remains()
        for late in (False, True):
            for number in range(1, MOST_AWAITS):
                attempt = partial(cancelled_at, number=number, late=late)
                outcome, is_cancelled = await self._beside(attempt)
                await self._settle(outcome)
                if not is_cancelled:
                    break
        for _ in range(TIMES):
            seconds = LONGEST * self.chance.random() ** 3
            await self._settle(await self._beside(partial(cancelled_after, seconds=seconds)))
            options = ax.RunOptions(timeout_in_ms=self.chance.randint(1, 3))
            await self._settle(await self._beside(_in_time, options))
        await self._check_the_same(before)

    async def _beside(
        self, attempt: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]], options: Any = None
    ) -> Any:
        """Attempt the step, alone or while others add to the variable."""
        attempted = attempt(self.graph.step(self.session, options))
        if self.chance.random() < 0.5:
            return await attempted
        outcome, *_ = await asyncio.gather(attempted, self._add(), self._add())
        return outcome

    async def _add(self) -> None:
        await self.session.run(self.graph.add)
        self.sure += 1

    async def _settle(self, outcome: Any) -> None:
        if outcome is CANCELLED:
            self.unsure += self.graph.most
        else:
            self.sure += self.graph.most
        async with asyncio.timeout(WAITS):
            value = await self.session.run(self.graph.value)
            assert (value == value[0]).all(), f"torn: {value}"
            assert self.sure <= value[0] <= self.sure + self.unsure, (value[0], self.sure, self.unsure)
            for _ in range(await self.session.run(self.graph.size)):
                assert (await self.session.run(self.graph.taken) == 1).all()

    async def _check_the_same(self, before: dict[str, int]) -> None:
        """Nothing is left of the steps that were cancelled."""
        is_local = isinstance(self.session._runtime, DirectSession)
        if self.graph.kind == "partial" and not is_local:
            return  # on a server a partial run is open until its session ends, if its caller never heard of its handle
        for _ in range(100):
            gc.collect()
            if remains() == before:
                break
            await asyncio.sleep(0.01)  # a server hears of a cancellation later
        assert remains() == before, f"left over: {remains()} instead of {before}"
        runtime = self.session._runtime
        if isinstance(runtime, DirectSession):
            for device in runtime.device_mgr.list_devices():
                for held in device.resources._containers.values():
                    for variable in (each for each in held.values() if isinstance(each, Variable)):
                        held_by = variable.leased, list(variable.waiters), variable.pins
                        assert held_by == (False, [], 0), f"{variable.name}: {held_by}"


@contextlib.asynccontextmanager
async def session_of(place: str, kind: str, size: int) -> AsyncIterator[tuple[Any, Graph]]:
    """A session at one of the places, and its graph."""
    if place in ("off", "background", "eager"):
        config = ax.ConfigProto(device_count={"CPU": 2})
        config.aioexec.jit = place
        graph = Graph(kind, size, ("/cpu:0", "/cpu:1"))
        async with ax.Session(graph=graph.graph, config=config) as session:
            yield session, graph
    elif place == "memory":
        graph = Graph(kind, size, ("/job:ps/task:0", "/job:worker/task:0"))
        async with InMemoryCluster({"ps": 1, "worker": 1}) as cluster:
            async with cluster.session("worker", 0, graph=graph.graph) as session:
                yield session, graph
            await all_tasks_blocked()
            for server in cluster.servers:
                check_quiet(server)
    else:
        graph = Graph(kind, size, ("/cpu:0", "/cpu:0"))
        async with (
            ax.train.Server.create_local_server() as server,
            ax.Session(server.target, graph=graph.graph) as session,
        ):
            yield session, graph


PLACES = ("off", "background", "eager", "memory", "server")


async def run(seed: int) -> None:
    """One case."""
    chance = Random(seed)
    place = PLACES[seed % len(PLACES)]
    kinds = [kind for kind in Graph.KINDS if kind != "awaits" or place not in ("memory", "server")]
    async with session_of(place, chance.choice(kinds), chance.choice([4, 1000, 200_000])) as (session, graph):
        await Case(session, graph, chance).run()
    await asyncio.sleep(0)
    check_idle()


def case(seed: int) -> str | None:
    """One session."""
    try:
        asyncio.run(run(seed))
    except OpError as error:
        raise AssertionError(f"a step that was not cancelled failed: {error!r}") from error
    return None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
