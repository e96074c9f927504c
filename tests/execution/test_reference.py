"""The reference tier: small kernels on the loop in slices, heavy ones on workers; no kernel blocks the loop repeatedly."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.execution import reference
from aioexec.formats.protos import RunMetadata, RunOptions
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


def add_zeros(ops: Ops, properties: str = "") -> list[str]:
    """Add the op TestZeros, whose input is its shape; return the list of the threads where it was run."""
    threads: list[str] = []

    def fill(dims: Any) -> Any:
        threads.append(threading.current_thread().name)
        return np.zeros(tuple(dims), np.float32)

    ops.add(
        f"TestZeros(dims:int32) -> (y:float) {properties}",
        fill,
        shape=lambda context: [context.partial(0)],
        shape_operands=(0,),
    )
    return threads


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
    threads = add_zeros(ops, "{stateful}")
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


class Durations:
    """An op `TestTimed` whose calls take given nanoseconds of a clock that nothing else moves."""

    def __init__(self, ops: Ops, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = self.duration = 0
        self.spy = Spy(ops)
        ops.broken("TestTimed", self._compute)
        monkeypatch.setattr(reference, "perf_counter_ns", lambda: self.clock)

    def _compute(self, x: Any) -> Any:
        self.clock += self.duration
        return self.spy._compute(x)


SLOW, FAST = 10**6, 1000


async def runs_on_workers(
    session: Any, timed: Durations, durations: list[int], y: Any, feeds: Any
) -> list[bool]:
    """Whether the kernel ran on a worker, for each of some runs of these durations."""
    found = []
    for timed.duration in durations:
        await session.run(y, feeds)
        found.append(timed.spy.on_worker())
    return found


async def test_a_kernel_that_is_rarely_delayed_stays_on_the_loop(ops: Ops, monkeypatch: pytest.MonkeyPatch):
    """As when the system runs another process in the middle of a call."""
    timed = Durations(ops, monkeypatch)
    with graph() as g:
        x = feed([2])
        y = op("TestTimed", x)

    async with session_on(g, "off") as session:
        durations = ([SLOW] + [FAST] * 9) * 4
        where = await runs_on_workers(session, timed, durations, y, {x: [1.0, 2.0]})

    assert not any(where)


async def test_a_kernel_that_is_slow_no_longer_returns_to_the_loop(ops: Ops, monkeypatch: pytest.MonkeyPatch):
    timed = Durations(ops, monkeypatch)
    with graph() as g:
        x = feed([2])
        y = op("TestTimed", x)

    async with session_on(g, "off") as session:
        durations = [SLOW, SLOW, SLOW] + [FAST] * 12
        where = await runs_on_workers(session, timed, durations, y, {x: [1.0, 2.0]})

    assert where == [False, False, True] + [True] * 8 + [False] * 4


async def test_a_kernel_that_is_slow_every_other_time_runs_on_workers(
    ops: Ops, monkeypatch: pytest.MonkeyPatch
):
    timed = Durations(ops, monkeypatch)
    with graph() as g:
        x = feed([2])
        y = op("TestTimed", x)

    async with session_on(g, "off") as session:
        where = await runs_on_workers(session, timed, [SLOW, FAST] * 10, y, {x: [1.0, 2.0]})

    assert all(where[5:])


async def test_what_follows_from_shapes_is_computed_once_for_inputs_of_the_same_shapes(ops: Ops):
    """It is known after two runs: a first one may remain the only one with its shapes."""
    seen: list[tuple[int, ...]] = []

    def dims_of(x: Any) -> Any:
        seen.append(x.shape)
        return np.array(x.shape, np.int32)

    ops.add(
        "TestDims(x:float) -> (dims:int32)",
        dims_of,
        shape=lambda context: [(None if context.inputs[0] is None else len(context.inputs[0]),)],
        shape_only=True,
    )
    with graph() as g:
        x = feed([None])
        y = op("Fill", op("Mul", op("TestDims", op("Neg", x)), constant([2], "int32")), constant(3))

    async with session_on(g, "off") as session:
        for size in (2, 2, 2, 2, 5, 2):
            result = await session.run(y, {x: np.zeros(size)})
            np.testing.assert_array_equal(result, np.full(2 * size, 3, np.float32))

    assert seen == [(2,), (2,), (5,)]


async def test_a_traced_step_records_nodes_that_follow_from_shapes():
    with graph() as g:
        x = feed([None])
        dims = op("Shape", op("Neg", x))
        y = op("Fill", dims, constant(3))

    async with session_on(g, "off") as session:
        for _ in range(3):
            await session.run(y, {x: np.zeros(2)})
        metadata = RunMetadata()
        options = RunOptions(trace_level=RunOptions.FULL_TRACE)
        await session.run(y, {x: np.zeros(2)}, options=options, run_metadata=metadata)

    recorded = {each.node_name for each in metadata.step_stats.dev_stats[0].node_stats}
    assert {dims.op.name, y.op.name} <= recorded


async def test_a_size_that_depends_on_contents_is_checked_in_every_run(ops: Ops):
    threads = add_zeros(ops)
    with graph() as g:
        dims = feed([2], "int32")
        y = op("TestZeros", op("Neg", op("Neg", dims)))

    async with session_on(g, "off") as session:
        on_worker = []
        for size in (10, 10, 10, 1000, 10):
            assert (await session.run(y, {dims: [size, size]})).shape == (size, size)
            on_worker.append(threads[-1].startswith("aioexec-worker"))

    assert on_worker == [False, False, False, True, False]


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
