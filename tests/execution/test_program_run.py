"""Runs of which the event loop executes tasks: in slices of one task, with all other callbacks in between."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.threads.workers import Workers
from aioexec.errors import ResourceExhaustedError
from aioexec.execution.budget import TICK_NS, TickBudget
from aioexec.execution.programs import program, program_run
from aioexec.execution.programs.program_run import ProgramRun, State
from aioexec.execution.programs.walk import Walk
from aioexec.planning.parallelism import lanes
from tests.execution.shared_runs import (
    branches,
    busy,
    by_numpy,
    counted_turns,
    only_executor,
    session_of,
    workers_of,
)
from tests.tiers import programs, run_nowait, share_all


@pytest.fixture(autouse=True)
def parallel(monkeypatch):
    """Whatever may be done at once is, however cheap, and whatever else there is to do; a slice of the loop is one task."""
    share_all(monkeypatch)
    monkeypatch.setattr(program_run, "_SLICE_NS", 0)
    monkeypatch.setattr(program_run, "_WHOLE_NS", -1)
    monkeypatch.setattr(program_run, "_LONGEST_NS", 1 << 62)
    monkeypatch.setattr(program_run, "_OTHERS_NS", 1 << 62)
    monkeypatch.setattr(program_run, "_SHORT_NS", -1)


@pytest.fixture
def array():
    return np.random.default_rng(4).normal(size=(17, 31)).astype(np.float32)


async def test_a_shared_run_ends_though_no_worker_comes(array):
    async with session_of(branches) as (session, (x, y)):
        shared = await session.run(y, {x: array})
        async with busy(workers_of(session)):
            alone = await session.run(y, {x: array})

    np.testing.assert_allclose(alone, by_numpy(array), rtol=1e-5)
    assert alone.tobytes() == shared.tobytes()


async def test_the_loop_turns_between_two_tasks(array):
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        (region,) = [region for program in programs(session) for region in program.variant.parallel_regions]
        async with busy(workers_of(session)), counted_turns() as turns:
            await session.run(y, {x: array})

    assert len(region.tasks) >= 12
    assert len(turns) >= len(region.tasks) - 1


async def test_of_two_runs_at_once_the_loop_helps_with_one(array, monkeypatch):
    by_workers = []
    walk_on_worker = ProgramRun._walk_on_worker

    async def counted(run):
        by_workers.append(run.state)
        await walk_on_worker(run)

    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        monkeypatch.setattr(ProgramRun, "_walk_on_worker", counted)
        results = await asyncio.gather(*(session.run(y, {x: array}) for _ in range(2)))

    assert by_workers == [State.IDLE], "one was begun by a worker"
    for result in results:
        np.testing.assert_allclose(result, by_numpy(array), rtol=1e-5)


@pytest.mark.parametrize("reason", ["long", "wanted", "simulated"])
async def test_the_loop_does_not_help(array, monkeypatch, reason: str):
    """With what takes long, while a job waits for a worker, and where no order may depend on threads."""
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})

        def helped(*arguments):
            raise AssertionError("it does")

        monkeypatch.setattr(Walk, "walk_inline", helped)
        if reason == "long":
            monkeypatch.setattr(program_run, "_LONGEST_NS", 0)
        if reason == "wanted":
            monkeypatch.setattr(Workers, "are_wanted", True)
        if reason == "simulated":
            monkeypatch.setattr(TickBudget, "is_bounded", False)
        result = await session.run(y, {x: array})

    np.testing.assert_allclose(result, by_numpy(array), rtol=1e-5)


async def test_short_runs_are_done_on_the_loop_however_many_there_are(array, monkeypatch):
    async def walk_on_worker(run):
        raise AssertionError("a worker does it")

    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        monkeypatch.setattr(program_run, "_SHORT_NS", 1 << 62)
        monkeypatch.setattr(ProgramRun, "_walk_on_worker", walk_on_worker)
        async with busy(workers_of(session)):
            workers_of(session).submit(lambda: None)
            assert workers_of(session).are_wanted
            results = await asyncio.gather(*(session.run(y, {x: array}) for _ in range(3)))

    for result in results:
        np.testing.assert_allclose(result, by_numpy(array), rtol=1e-5)


@pytest.mark.parametrize("what", ["_LONGEST_NS", "_OTHERS_NS"])
async def test_what_takes_longer_than_it_should_goes_on_in_a_worker(array, monkeypatch, what: str):
    """The run itself, or all else between two slices."""
    slices = []
    helped = Walk.walk_inline

    def counted(self, outcome, until):
        monkeypatch.setattr(program_run, what, -1)  # from here on it takes too long
        slices.append(outcome)
        return helped(self, outcome, until)

    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        monkeypatch.setattr(Walk, "walk_inline", counted)
        async with busy(workers_of(session)) as gate:
            running = asyncio.create_task(session.run(y, {x: array}))
            while not slices:
                await asyncio.sleep(0)
            gate.set()
            result = await running

    assert slices == [None]
    np.testing.assert_allclose(result, by_numpy(array), rtol=1e-5)


# Begun without a step


async def test_a_run_that_no_worker_takes_over_fails_and_the_next_one_does_all_its_tasks_again(
    array, monkeypatch
):
    def refuse(*_):
        raise ResourceExhaustedError("no thread")

    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        async with busy(workers_of(session)):
            with monkeypatch.context() as refusing:
                refusing.setattr(program_run, "_OTHERS_NS", -1)  # after its first slice it goes to a worker
                refusing.setattr(Workers, "submit", refuse)
                with pytest.raises(ResourceExhaustedError, match="no thread"):
                    await session.run(y, {x: array})

            value = await session.run(y, {x: 2 * array})

    np.testing.assert_allclose(value, by_numpy(2 * array), rtol=1e-5)


async def test_what_ends_in_its_first_slice_never_suspends(array, monkeypatch):
    monkeypatch.setattr(program_run, "_SLICE_NS", 1 << 62)
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        async with busy(workers_of(session)):
            outputs = run_nowait(only_executor(session), [array])

    np.testing.assert_allclose(outputs[0], by_numpy(array), rtol=1e-5)


async def test_what_does_not_end_in_its_first_slice_is_to_be_awaited(array):
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        async with busy(workers_of(session)):
            rest = run_nowait(only_executor(session), [array])
            assert isinstance(rest, ProgramRun)
            outputs = await rest.finish()

    np.testing.assert_allclose(outputs[0], by_numpy(array), rtol=1e-5)


async def test_what_is_for_workers_is_to_be_awaited_too(array, monkeypatch):
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        monkeypatch.setattr(program_run, "_LONGEST_NS", -1)
        rest = run_nowait(only_executor(session), [array])
        assert isinstance(rest, ProgramRun)
        outputs = await rest.finish()

    np.testing.assert_allclose(outputs[0], by_numpy(array), rtol=1e-5)


@pytest.mark.parametrize("longest", [1 << 62, -1], ids=["on the loop", "for workers"])
async def test_a_step_under_way_holds_what_it_writes_until_it_is_over(monkeypatch, longest: int):
    monkeypatch.setattr(program_run, "_LONGEST_NS", longest)

    def build():
        x = ax.placeholder(ax.float32, [64, 64])
        v = ax.get_variable("v", [64, 64], initializer=ax.zeros_initializer(), use_resource=True)
        ends = [ax.matmul(ax.matmul(x, x * float(k)), x) for k in range(8)]
        return x, v.assign_add(ax.add_n(ends)), v.read_value()

    array = np.eye(64, dtype=np.float32)
    async with session_of(build) as (session, (x, step, value)):
        await session.run(step.op, {x: array})
        executor = only_executor(session)
        async with busy(workers_of(session)) as gate:
            first = run_nowait(executor, [array])
            assert isinstance(first, ProgramRun)
            assert run_nowait(executor, [array]) is None, "another one would write what this one writes"
            gate.set()
            await first.finish()
        await session.run(step.op, {x: array})
        found = await session.run(value)

    np.testing.assert_array_equal(found, np.eye(64) * 28 * 3)


async def test_closing_waits_for_a_step_that_was_begun_so(array):
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        async with busy(workers_of(session)) as gate:
            running = asyncio.create_task(session.run(y, {x: array}))
            await asyncio.sleep(0)
            assert not running.done()
            gate.set()
            await session.close(grace=None)
            assert running.done()

    np.testing.assert_allclose(running.result(), by_numpy(array), rtol=1e-5)


# A run without helpers


def links():
    """A chain of products, each of which waits for the one before."""
    x = ax.placeholder(ax.float32, [8, 8])
    y = x
    for _ in range(10):
        y = ax.matmul(y, x)
    return x, y


@asynccontextmanager
async def session_of_links(monkeypatch):
    """A session whose program is neither inline nor shared, what is fed and fetched, the array and what is to come out."""
    monkeypatch.setattr(lanes, "SHARE_NS", 1 << 62)
    monkeypatch.setattr(program, "INLINE_LIMIT_NS", -1)
    array = np.eye(8, k=1, dtype=np.float32) + np.eye(8, dtype=np.float32)
    async with session_of(links) as (session, (x, y)):
        await session.run(y, {x: array})
        yield session, x, y, array, np.linalg.matrix_power(array, 11)


async def test_a_short_run_without_helpers_is_done_on_the_loop_which_turns_between_its_rows(monkeypatch):
    async with session_of_links(monkeypatch) as (session, x, y, array, expected):
        found = max(programs(session), key=lambda each: len(each.variant.rows))
        async with busy(found.workers), counted_turns() as turns:
            result = await session.run(y, {x: array})

    assert not found.inline
    assert not found.parallel_regions
    assert len(turns) >= 8
    np.testing.assert_array_equal(result, expected)


async def test_a_longer_run_without_helpers_is_for_a_worker(monkeypatch):
    def helped(*arguments):
        raise AssertionError("the loop does it")

    async with session_of_links(monkeypatch) as (session, x, y, array, expected):
        monkeypatch.setattr(program_run, "_LONGEST_ALONE_NS", 0)
        monkeypatch.setattr(Walk, "walk_inline", helped)
        result = await session.run(y, {x: array})

    np.testing.assert_array_equal(result, expected)


async def test_cancelled_between_two_rows_it_leaves_a_program_that_can_be_run_again(monkeypatch):
    begun = asyncio.Event()
    helped = Walk.walk_inline

    def walked(self, outcome, until):
        begun.set()
        return helped(self, outcome, until)

    async with session_of_links(monkeypatch) as (session, x, y, array, expected):
        monkeypatch.setattr(Walk, "walk_inline", walked)
        running = asyncio.create_task(session.run(y, {x: array}))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        result = await session.run(y, {x: array})

    np.testing.assert_array_equal(result, expected)


# Failure and cancellation


async def test_the_first_failing_row_is_reported_whichever_thread_runs_it():
    def build():
        x = ax.placeholder(ax.int32, [64])
        return x, [ax.floordiv(x, x * k, name=f"quotient{k}") for k in range(1, 9)]

    async with session_of(build) as (session, (x, fetches)):
        await session.run(fetches, {x: np.ones(64, np.int32)})
        for _ in range(20):
            with pytest.raises(ax.errors.InvalidArgumentError) as caught:
                await session.run(fetches, {x: np.zeros(64, np.int32)})
            assert caught.value.op is not None
            assert caught.value.op.name == "quotient1"
        after = await session.run(fetches, {x: np.ones(64, np.int32)})

    np.testing.assert_array_equal(after[0], 1)


async def test_cancelled_between_two_slices_a_step_leaves_variables_whole(monkeypatch):
    def build():
        x = ax.placeholder(ax.float32, [64, 64])
        v = ax.get_variable("v", [64, 64], initializer=ax.zeros_initializer(), use_resource=True)
        ends = [ax.matmul(ax.matmul(x, x * float(k)), x) for k in range(8)]
        return x, v.assign_add(ax.add_n(ends)), v.read_value()

    begun = asyncio.Event()
    helped = Walk.walk_inline

    def walked(self, outcome, until):
        begun.set()
        return helped(self, outcome, 0)  # a moment that is over: a slice ends with its first task

    array = np.eye(64, dtype=np.float32)
    async with session_of(build) as (session, (x, step, value)):
        await session.run(step.op, {x: array})
        monkeypatch.setattr(Walk, "walk_inline", walked)
        async with busy(workers_of(session)) as gate:
            running = asyncio.create_task(session.run(step.op, {x: array}))
            await begun.wait()
            running.cancel()
            gate.set()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert (await session.run(value))[0, 0] == 28, "of the cancelled step nothing is there"
        await session.run(step.op, {x: array})
        found = await session.run(value)

    np.testing.assert_array_equal(found, np.eye(64) * 56)


async def test_a_run_whose_loop_is_no_more_leaves_no_thread_in_it(array):
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        async with busy(workers_of(session)):
            rest = run_nowait(only_executor(session), [array])
            assert isinstance(rest, ProgramRun)
            finishing = rest.finish()
            finishing.send(None)
            finishing.close()
        result = await session.run(y, {x: array})

    np.testing.assert_allclose(result, by_numpy(array), rtol=1e-5)


async def test_what_should_be_over_in_a_tick_is_not_cut_into_slices(array, monkeypatch):
    monkeypatch.setattr(program_run, "_WHOLE_NS", 1 << 62)
    monkeypatch.setattr(program_run, "TICK_NS", 1 << 62)
    async with session_of(branches) as (session, (x, y)):
        await session.run(y, {x: array})
        async with busy(workers_of(session)):
            outputs = run_nowait(only_executor(session), [array])

    assert isinstance(outputs, list)
    np.testing.assert_allclose(outputs[0], by_numpy(array), rtol=1e-5)


async def test_those_who_waited_for_one_program_take_turns(array, monkeypatch):
    """Counted, not timed: each run is charged half a tick and a bit."""

    def charge(self, began, ended):
        self._begin_soon()
        self._tick = began
        self.spent = self._used = self._used + TICK_NS // 2 + 1
        self._charged += 1

    at = []
    helped = Walk.walk_inline

    def noted(self, outcome, until):
        at.append(len(turns))
        return helped(self, outcome, until)

    for bound in ("_SLICE_NS", "_WHOLE_NS", "_SHORT_NS"):
        monkeypatch.setattr(program_run, bound, 1 << 62)
    monkeypatch.setattr(TickBudget, "charge", charge)
    monkeypatch.setattr(Walk, "walk_inline", noted)
    async with session_of(branches) as (session, (x, y)), counted_turns() as turns:
        results = await asyncio.gather(*(session.run(y, {x: array}) for _ in range(20)))

    assert len(at) >= 20, "and once more each where a worker was not done yet"
    assert max(Counter(at).values()) <= 2
    for result in results:
        np.testing.assert_allclose(result, by_numpy(array), rtol=1e-5)
