"""Concurrent steps: a long one does not delay short ones, on the loop or on workers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.execution import reference
from aioexec.execution.budget import CHECK_NS
from aioexec.formats.protos import ConfigProto
from aioexec.graph.graph import Graph
from aioexec.planning.workload import HEAVY_BYTES
from aioexec.sessions.session import Session
from tests.tiers import Ops, constant, feed, graph, op, programs, session_on

LARGE = np.ones(HEAVY_BYTES // 4 + 1, np.float32)


def _nothing() -> None:
    """Its kernel needs to know the node."""


class Held:
    """An op that blocks the computing thread until the test releases it; `names` has the order of calls."""

    def __init__(self, ops: Ops) -> None:
        self.names: list[str] = []
        self.entered, self.gate = threading.Semaphore(0), threading.Event()
        ops.add(
            "TestHeld(x:T) -> (y:T) [T:type; label:string] {stateful}",
            _nothing,
            kernel=lambda context: self._kernel(context),
        )

    def _kernel(self, context: Any) -> Any:
        def compute(x: Any) -> Any:
            self.names.append(context.attrs["label"])
            self.entered.release()
            self.gate.wait()
            return x + 0

        return compute


@pytest.fixture
def held(ops: Ops) -> Held:
    return Held(ops)


def with_workers(made: Graph, count: int, jit: str) -> Session:
    config = ConfigProto(intra_op_parallelism_threads=count)
    config.aioexec.jit = jit
    return Session(graph=made, config=config)


async def test_short_steps_are_done_on_the_loop_while_long_ones_hold_every_worker(held: Held):
    with graph() as g:
        x = feed([4])
        long, short = op("TestHeld", x, label=b""), op("Mul", x, constant(2.0))
    array = np.arange(4, dtype=np.float32)

    async with with_workers(g, 2, "eager") as session:
        held.gate.set()
        await session.run(short, {x: array})
        await session.run(long, {x: array})
        slow = programs(session)[1]
        slow.inline, slow.cost = False, 10**9
        await asyncio.to_thread(held.entered.acquire)
        held.gate.clear()
        running = [asyncio.create_task(session.run(long, {x: array})) for _ in range(5)]
        for _ in range(2):
            await asyncio.to_thread(held.entered.acquire)

        for _ in range(100):
            np.testing.assert_array_equal(await session.run(short, {x: array}), array * 2)

        assert not any(task.done() for task in running)
        held.gate.set()
        await asyncio.gather(*running)


async def test_a_short_step_has_the_worker_between_two_kernels_of_a_long_one(held: Held):
    """Steps are served in FIFO order, and a long step queues again for every kernel."""
    with graph() as g:
        x = feed([None])
        long: Any = x
        for k in range(6):
            long = op("TestHeld", long, label=f"long{k}".encode())
        short = op("TestHeld", x, label=b"short")

    async with with_workers(g, 1, "off") as session:
        held.gate.set()
        for fetch in (long, short):
            await session.run(fetch, {x: LARGE})
        for _ in range(7):
            await asyncio.to_thread(held.entered.acquire)
        held.gate.clear()
        held.names.clear()
        running = asyncio.create_task(session.run(long, {x: LARGE}))
        await asyncio.to_thread(held.entered.acquire)
        other = asyncio.create_task(session.run(short, {x: LARGE}))
        await asyncio.sleep(0)  # it has asked for the worker
        held.gate.set()
        await asyncio.gather(running, other)

    assert held.names == ["long0", "short", "long1", "long2", "long3", "long4", "long5"]


async def test_a_long_step_on_the_loop_takes_turns_with_a_short_one(
    ops: Ops, monkeypatch: pytest.MonkeyPatch
):
    now = 0
    done: list[str] = []
    monkeypatch.setattr(reference, "perf_counter_ns", lambda: now)

    def spend(x: Any) -> Any:
        nonlocal now
        now += CHECK_NS  # not longer, or it would be sent to a worker
        return x + 1

    ops.broken("TestSpend", spend)
    with graph() as g:
        x = feed([])
        long: Any = x
        for _ in range(40):
            long = op("TestSpend", long)
        short = op("TestSpend", x)

    async def run(what: str, fetch: Any) -> Any:
        result = await session.run(fetch, {x: 0.0})
        done.append(what)
        return result

    async with session_on(g, "off") as session:
        assert [await run("first", fetch) for fetch in (long, short)] == [40, 1]
        done.clear()
        tasks = [
            asyncio.create_task(run(*each)) for each in (("long", long), ("short", short), ("short", short))
        ]
        assert await asyncio.gather(*tasks) == [40, 1, 1]

    assert done == ["short", "short", "long"]
