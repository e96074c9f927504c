"""Running an item: properties of every tier, and of every way in which a run ends."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.execution import item_runner, reference
from aioexec.execution.budget import TICK_NS, budget_of
from aioexec.execution.programs import program_run
from aioexec.formats.protos import ConfigProto, RunMetadata, RunOptions
from aioexec.observability.cost_model import CostModel
from aioexec.observability.step_stats import NodeRecord
from tests.thread_faults import no_threads
from tests.tiers import (
    Ops,
    Tier,
    constant,
    executors,
    feed,
    graph,
    op,
    programs,
    read,
    resource,
    runtime,
    session_on,
)


@pytest.mark.parametrize("options", [None, RunOptions(timeout_in_ms=10**6)], ids=["alone", "in a partition"])
async def test_steps_that_read_compute_and_write_a_variable_lose_no_update(tier: Tier, options: Any):
    """On every tier the lease covers the item as a whole, though what it computes in between goes to a worker."""
    with graph() as g:
        x, v = feed([100_000]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        before = read(v)
        with g.control_dependencies([before]):
            total = op("Sum", x, constant([0], "int32"))
        add = op("AssignVariableOp", v, op("Add", before, total))
        value = read(v)
    feeds = {x: np.ones(100_000, np.float32)}

    async with tier.session(g) as session:
        await session.run(init)
        await asyncio.gather(*(session.run(add, feeds, options) for _ in range(4)))

        assert await session.run(value) == 400_000


async def test_a_step_cancelled_before_its_rest_begins_gives_its_lease_back():
    with graph() as g:
        x, v = feed([100_000]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        before = read(v)
        with g.control_dependencies([before]):
            total = op("Sum", x, constant([0], "int32"))
        add = op("AssignVariableOp", v, op("Add", before, total))
        other = op("Neg", constant(1.0))
    feeds = {x: np.ones(100_000, np.float32)}

    async with session_on(g, "off") as session:
        await session.run(init)
        for options in (None, RunOptions(timeout_in_ms=10**6)):  # two ways through the executor
            cancelled = asyncio.create_task(session.run([add, other], feeds, options))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            await session.run(add, feeds)


# Memory that runs out


@pytest.mark.parametrize("has_variable", [False, True])
@pytest.mark.parametrize("tier", ["inline", "worker"], indirect=True)
async def test_results_that_no_memory_could_hold_are_told_as_such(tier: Tier, has_variable: bool):
    with graph() as g:
        dims, v = feed([1], "int64"), resource([])
        init = op("AssignVariableOp", v, constant(2.0))
        y = op("BroadcastTo", read(v) if has_variable else constant(2.0), dims)

    async with tier.session(g) as session:
        await session.run(init)
        for _ in range(2):
            with pytest.raises(ResourceExhaustedError, match=r"'BroadcastTo'.*Unable to allocate 4\.00 EiB"):
                await session.run(y, {dims: [2**60]})
        np.testing.assert_array_equal(await session.run(y, {dims: [4]}), [2] * 4)


async def test_what_ran_before_a_program_failed_is_in_the_report_of_allocations(tier: Tier, ops: Ops):
    def exhaust(x: Any) -> Any:
        raise ResourceExhaustedError("OOM: too much")

    ops.broken("TestExhausts", exhaust)
    with graph() as g:
        x = feed([1000])
        y = op("TestExhausts", op("Neg", x, name="large"), name="y")
    options = RunOptions(report_tensor_allocations_upon_oom=True)

    async with tier.session(g) as session:
        for _ in range(2):
            with pytest.raises(ResourceExhaustedError, match=r"(?s)'y'.*OOM: too much.*3.91KiB from large"):
                await session.run(y, {x: np.zeros(1000)}, options)


# The cost of inline work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A clock of the engine's that advances 5 us a look."""
    looks = itertools.count(10**12, 5_000)

    def look() -> int:
        return next(looks)

    for module in (item_runner, program_run, reference):
        monkeypatch.setattr(module, "perf_counter_ns", look)
    return look


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_failing_steps_in_a_row_let_the_loop_turn(jit: str, ops: Ops, clock: Callable[[], int]):
    """A step that fails holds the loop as much as one that does not."""

    def fail(x: Any) -> Any:
        raise InvalidArgumentError("no")

    ops.broken("TestFails", fail)
    with graph() as g:
        x = feed([2])
        y = op("TestFails", x)
    feeds = {x: np.ones(2, np.float32)}
    turns = runs = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        if runs < 2000:
            asyncio.get_running_loop().call_soon(turn)

    async with session_on(g, jit) as session:
        while runs < 2000:
            runs += 1
            with pytest.raises(InvalidArgumentError):
                await session.run(y, feeds)
            if runs == 3:  # it is planned and compiled
                turn()
        await asyncio.sleep(0)

    assert turns > 10


async def test_a_walk_that_did_not_end_well_counts_against_the_tick(ops: Ops, clock: Callable[[], int]):
    """The feed is not contiguous: the program walks in vain, and once more over a copy."""
    with graph() as g:
        x = feed([3])
        y = op("Neg", x)
    array = np.ones(6, np.float32)[::2]

    async with session_on(g, "eager") as session:
        for _ in range(3):
            await session.run(y, {x: array})
        await asyncio.sleep(0)
        (runner,) = executors(session)[0].runners
        (program,) = runner.cache.programs.values()

        assert runner._walk_stateless(program, [array]) is None

        assert budget_of(asyncio.get_running_loop()).spent == 5_000


async def test_runs_that_waited_for_one_program_do_not_all_run_in_one_tick(clock: Callable[[], int]):
    with graph() as g:
        x = feed([4])
        y = op("Neg", x)
    feeds = {x: np.ones(4, np.float32)}
    gate = threading.Event()
    done: list[int] = []
    tasks: list[asyncio.Task[Any]] = []

    def count() -> None:
        done.append(sum(task.done() for task in tasks))
        if done[-1] < 200:
            asyncio.get_running_loop().call_soon(count)

    async with session_on(g, "eager") as session:
        await session.run(constant(1.0))
        runtime(session).engine.builder.submit(gate.wait)
        tasks += [asyncio.create_task(session.run(y, feeds)) for _ in range(200)]
        while not any(
            runner.cache._building for executor in executors(session) for runner in executor.runners
        ):
            await asyncio.sleep(0)
        count()
        gate.set()
        await asyncio.gather(*tasks)
        count()

    assert max(after - before for before, after in itertools.pairwise(done)) <= TICK_NS // 10_000 + 2


async def test_what_is_copied_to_the_caller_counts_as_cost():
    with graph() as g:
        x = feed([None])
        y = op("Identity", x)

    async with session_on(g, "eager") as session:
        await session.run(y, {x: np.zeros(4, np.float32)})
        await session.run(y, {x: np.zeros(4_000_000, np.float32)})
        small, large = programs(session)

    assert small.variant.cost < 1000
    assert large.variant.cost > 100_000


# Values that others keep


async def test_a_fetch_is_not_shared_with_what_an_asynchronous_kernel_keeps(tier: Tier):
    with graph() as g:
        x = feed([4])
        queue = ax.FIFOQueue(1, [ax.float32], [[4]])
        y = op("Mul", x, constant(2.0))
        put, got = queue.enqueue([y]), queue.dequeue()

    async with tier.session(g) as session:
        for _ in range(2):
            result, _ = await session.run([y, put], {x: np.ones(4, np.float32)})
            result.fill(-1)
            np.testing.assert_array_equal(await session.run(got), [2] * 4)


# Decisions of the cost model


def measured(**least: int) -> CostModel:
    """A model of steps in which these nodes took so many nanoseconds."""
    model = CostModel()
    model.record_step(
        NodeRecord("/device:CPU:0", name, "Op", 0, 0, spent, 1, (), ()) for name, spent in least.items()
    )
    return model


class Spy:
    """An op `TestSpy` (identity) that notes whether its kernel ran on a worker."""

    def __init__(self, ops: Ops) -> None:
        self.on_worker: list[bool] = []
        ops.broken("TestSpy", self._compute)

    def _compute(self, x: Any) -> Any:
        self.on_worker.append(threading.current_thread() is not threading.main_thread())
        return x


async def test_kernels_measured_as_slow_go_to_workers_from_the_start(ops: Ops):
    """With some hysteresis: one that is a little faster stays where it is."""
    spy = Spy(ops)
    with graph() as g:
        x = feed([2])
        y = op("TestSpy", op("Neg", x), name="y")
    feeds = {x: np.ones(2, np.float32)}

    async with session_on(g, "off") as session:
        await session.run(y, feeds)
        (runner,) = executors(session)[0].runners
        for least in (300_000, 190_000, 10_000, 190_000):
            runner.learn(measured(y=least, other=10**9))
            await session.run(y, feeds)

    assert spy.on_worker == [False, True, True, False, False]


async def test_a_new_program_is_as_dear_as_its_reference_kernels_were_measured(ops: Ops):
    spy = Spy(ops)
    with graph() as g:
        x = feed([None])
        y = op("Neg", op("TestSpy", x, name="y"))

    async with session_on(g, "eager") as session:
        await session.run(y, {x: np.ones(1, np.float32)})
        (runner,) = executors(session)[0].runners
        for size, least in ((2, 10**7), (3, 1)):
            runner.learn(measured(y=least))
            await session.run(y, {x: np.ones(size, np.float32)})

    assert spy.on_worker == [False, True, False]


async def test_a_session_that_builds_a_cost_model_makes_use_of_it(ops: Ops):
    """The kernel waits for a millisecond of the clock's: after the measured step it is on a worker."""
    clock = 0
    spy = Spy(ops)

    def slow(x: Any) -> Any:
        nonlocal clock
        clock += 10**6
        return spy._compute(x)

    ops.broken("TestSlow", slow)
    config = ConfigProto()
    config.aioexec.jit = "off"
    config.graph_options.build_cost_model = 1
    with graph() as g, pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "perf_counter_ns", lambda: clock)
        y = op("TestSlow", feed([2], name="x"))
        async with ax.Session(graph=g, config=config) as session:
            for _ in range(2):
                await session.run(y, {"x:0": np.ones(2, np.float32)})

    assert spy.on_worker == [False, True]


async def test_a_step_for_whose_program_no_thread_can_be_started_is_computed_by_numpy_until_one_can():
    g = ax.Graph()
    with g.as_default():
        x = ax.placeholder(ax.float32, [None])
        y, other = ax.square(x) + 1.0, ax.constant(2.0)
    async with session_on(g, "eager") as session:
        await session.run(other)  # the planner has its thread
        with no_threads():
            without = [await session.run(y, {x: [1.0, 2.0]}) for _ in range(3)]
        with_threads = await session.run(y, {x: [1.0, 2.0]})

        made = programs(session)

    assert [each.tolist() for each in (*without, with_threads)] == [[2.0, 5.0]] * 4
    assert made


# A program that is ready before the first run by reference kernels has ended


class Waiting:
    """Ops `TestPlain` and `TestStateful` (identity, without a native form), whose first call waits until `go` is set."""

    def __init__(self, ops: Ops) -> None:
        self.calls = 0
        self.begun = asyncio.Event()
        self.go = threading.Event()
        self._loop = asyncio.get_running_loop()
        ops.add("TestPlain(x:T) -> (y:T) [T:type]", self._compute)
        ops.broken("TestStateful", self._compute)

    def _compute(self, x: Any) -> Any:
        self.calls += 1
        self._loop.call_soon_threadsafe(self.begun.set)
        self.go.wait()
        return x

    async def run_first_step(self, op_type: str, *options: Any) -> np.ndarray[Any, Any]:
        """The result of the first step of two such ops, whose program is built during the first of them."""
        with graph() as g:
            x = feed([100_000])
            y = op("Neg", op(op_type, op(op_type, x)))
        async with session_on(g, "background") as session:
            step = asyncio.create_task(session.run(y, {x: np.ones(100_000, np.float32)}, *options))
            await self.begun.wait()
            await executors(session)[0].wait_until_built()
            self.go.set()
            result: np.ndarray[Any, Any] = await step
            return result


@pytest.fixture
async def waiting(ops: Ops, monkeypatch) -> Waiting:
    monkeypatch.setattr(item_runner, "_LONG_NS", -1)  # each run is long
    return Waiting(ops)


async def test_a_program_takes_the_place_of_a_long_run_of_reference_kernels(waiting: Waiting):
    result = await waiting.run_first_step("TestPlain")

    np.testing.assert_array_equal(result, np.full(100_000, -1, np.float32))
    assert waiting.calls == 3  # one of the reference tier, and both of the program


async def test_a_program_takes_the_place_of_a_run_that_has_not_written_yet(waiting: Waiting):
    with graph() as g:
        x, v = feed([100_000]), resource([100_000])
        start = op("AssignVariableOp", v, op("ZerosLike", x))
        y = op("TestPlain", op("TestPlain", x))  # the first nodes of their item
        update = op("AssignAddVariableOp", v, op("Add", y, read(v)))
        content = read(v)
    ones = np.ones(100_000, np.float32)
    async with session_on(g, "background") as session:
        waiting.go.set()
        await session.run(start, {x: ones})
        waiting.go.clear()
        waiting.begun.clear()
        waiting.calls = 0
        step = asyncio.create_task(session.run(update, {x: ones}))
        await waiting.begun.wait()
        other = asyncio.create_task(session.run(update, {x: ones}))
        await executors(session)[1].wait_until_built()
        waiting.go.set()
        await asyncio.gather(step, other)
        assert waiting.calls == 5  # one of the reference tier, and two of each step's program

        final = await session.run(content)

    np.testing.assert_array_equal(final, 3 * ones)  # 0 + (0 + 1), then 1 + (1 + 1)


async def test_nothing_is_done_twice_where_a_node_has_an_effect(waiting: Waiting):
    result = await waiting.run_first_step("TestStateful")

    np.testing.assert_array_equal(result, np.full(100_000, -1, np.float32))
    assert waiting.calls == 2


async def test_a_step_that_is_recorded_runs_each_node_once(waiting: Waiting):
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    result = await waiting.run_first_step("TestPlain", options, RunMetadata())

    np.testing.assert_array_equal(result, np.full(100_000, -1, np.float32))
    assert waiting.calls == 2
