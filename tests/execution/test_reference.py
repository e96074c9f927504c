"""The reference tier: small kernels on the loop in slices, heavy ones on workers; no kernel blocks the loop repeatedly."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.execution import reference
from tests.tiers import Ops, constant, executors, feed, graph, op, programs, read, resource, session_on


class Spy:
    """An op `TestSpy` (identity) that notes the thread its kernel runs in."""

    def __init__(self, ops: Ops) -> None:
        self.threads: list[str] = []
        ops.broken("TestSpy", self._compute)

    def _compute(self, x: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        return x

    def on_worker(self) -> bool:
        return self.threads[-1].startswith("aioexec-worker")


async def test_kernels_with_large_inputs_run_on_workers(ops: Ops):
    spy = Spy(ops)
    with graph() as g:
        x = feed(None)
        y = op("TestSpy", x)

    async with session_on(g, "off") as session:
        await session.run(y, {x: np.zeros(16 * 1024, np.float32)})
        assert not spy.on_worker()
        await session.run(y, {x: np.zeros(16 * 1024 + 1, np.float32)})
        assert spy.on_worker()


async def test_kernels_with_large_outputs_run_on_workers(ops: Ops):
    threads: list[str] = []

    def fill(dims: Any) -> Any:
        threads.append(threading.current_thread().name)
        return np.zeros(tuple(dims), np.float32)

    ops.add(
        "TestZeros(dims:int32) -> (y:float) {stateful}",
        fill,
        shape=lambda context: [context.partial(0)],
        shape_operands=(0,),
    )
    with graph() as g:
        static = op("TestZeros", constant([1000, 1000], "int32"))
        dims = feed([None], "int32")
        dynamic = op("TestZeros", dims)

    async with session_on(g, "off") as session:
        assert (await session.run(static)).shape == (1000, 1000)
        assert threads[-1].startswith("aioexec-worker")
        await session.run(dynamic, {dims: [100, 1000]})
        assert threads[-1].startswith("aioexec-worker")
        await session.run(dynamic, {dims: [10, 10]})
        assert not threads[-1].startswith("aioexec-worker")


async def test_kernels_that_read_large_variables_run_on_workers(ops: Ops):
    threads: list[str] = []

    def gather(variable: Any) -> Any:
        threads.append(threading.current_thread().name)
        return variable.read()[:1]

    ops.add("TestFirst(v:resource) -> (y:float) {stateful}", gather, shape=lambda context: [(1,)], reads=(0,))
    with graph() as g:
        v = resource([100_000])
        init = op("AssignVariableOp", v, feed([100_000], name="x"))
        first = op("TestFirst", v)

    async with session_on(g, "off") as session:
        await session.run(init, {"x:0": np.ones(100_000, np.float32)})
        assert await session.run(first) == [1]
        assert threads[-1].startswith("aioexec-worker")


async def test_a_kernel_that_was_slow_twice_goes_to_a_worker(ops: Ops, monkeypatch: pytest.MonkeyPatch):
    """By a clock that only this kernel moves."""
    clock = 0
    spy = Spy(ops)

    def slow(x: Any) -> Any:
        nonlocal clock
        clock += 10**6
        return spy._compute(x)

    ops.broken("TestSlow", slow)
    monkeypatch.setattr(reference, "perf_counter_ns", lambda: clock)
    with graph() as g:
        x = feed([2])
        y = op("TestSlow", op("Neg", x))

    async with session_on(g, "off") as session:
        where = []
        for _ in range(4):
            await session.run(y, {x: [1.0, 2.0]})
            where.append(spy.on_worker())

    assert where == [False, False, True, True]


async def test_a_long_step_of_small_kernels_lets_the_loop_turn(ops: Ops, monkeypatch: pytest.MonkeyPatch):
    clock = 0

    def tick(x: Any) -> Any:
        nonlocal clock
        clock += 50_000
        return x

    ops.broken("TestTick", tick)
    monkeypatch.setattr(reference, "perf_counter_ns", lambda: clock)
    with graph() as g:
        y = x = feed([2])
        for _ in range(200):
            y = op("TestTick", y)
    turns: list[int] = []
    running = True

    def turn() -> None:
        turns.append(clock)
        if running:
            asyncio.get_running_loop().call_soon(turn)

    async with session_on(g, "off") as session:
        await session.run(x, {x: [0.0, 0.0]})
        turn()
        await session.run(y, {x: [0.0, 0.0]})
        running = False
        await asyncio.sleep(0)

    assert max(after - before for before, after in itertools.pairwise(turns)) <= 800_000


async def test_a_variable_read_on_a_worker_keeps_its_value_while_others_write(ops: Ops):
    """The kernel looks at the variable, is held while native programs write it, and looks again at what it got."""
    loop = asyncio.get_running_loop()
    entered, gate = asyncio.Event(), threading.Event()

    def look(variable: Any) -> Any:
        content = variable.require()  # not marked as read: the pin must do
        before = content.copy()
        loop.call_soon_threadsafe(entered.set)
        gate.wait()
        np.testing.assert_array_equal(content, before)
        return content

    ops.add(
        "TestLook(v:resource) -> (y:float) {stateful}", look, shape=lambda context: [(100_000,)], reads=(0,)
    )
    with graph() as g:
        v = resource([100_000])
        init = op("AssignVariableOp", v, feed([100_000], name="x"))
        add = op("AssignAddVariableOp", v, constant(np.ones(100_000)))
        looked, value = op("TestLook", v), read(v)

    async with session_on(g, "background") as session:
        await session.run(init, {"x:0": np.zeros(100_000, np.float32)})
        for _ in range(2):
            await session.run(add)
        await executors(session)[1].wait_until_built()
        looking = asyncio.create_task(session.run(looked))
        await entered.wait()
        for _ in range(3):
            await session.run(add)
        gate.set()
        np.testing.assert_array_equal(await looking, np.full(100_000, 2))
        assert (await session.run(value))[0] == 5
        assert len(programs(session)) == 1


@pytest.mark.parametrize("fetch", ["constant", "variable", "reference"])
async def test_large_fetches_are_copied_off_the_loop_and_still_the_callers_own(ops: Ops, fetch: str):
    big = np.arange(100_000, dtype=np.float32)
    with graph() as g:
        v, w = resource([100_000]), op("VariableV2", dtype=constant(0.0).dtype, shape=(100_000,))
        init = [op("AssignVariableOp", v, constant(big)), op("Assign", w, constant(big)).op]
        fetches = {"constant": constant(big), "variable": read(v), "reference": w}
        change = [op("AssignAddVariableOp", v, constant(big)), op("AssignAdd", w, constant(big)).op]

    async with session_on(g, "off") as session:
        await session.run(init)
        result = await session.run(fetches[fetch])
        np.testing.assert_array_equal(result, big)
        await session.run(change)
        np.testing.assert_array_equal(result, big)
        result.fill(-1)
        expected = big if fetch == "constant" else 2 * big
        np.testing.assert_array_equal(await session.run(fetches[fetch]), expected)
