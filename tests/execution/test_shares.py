"""Rows that several workers share: the same results as one worker's, failures and cancellation included."""

import asyncio
import math
import threading
from functools import partial

import numpy as np
import pytest

import aioexec as ax
from aioexec.devices.jit import walker as walking
from aioexec.devices.workers import Workers
from aioexec.execution import linking, program as program_module
from aioexec.graph.kernel import ElementwiseKernel, Units
from aioexec.planning import fuse
from aioexec.planning.variant import ProgramRow
from tests.tiers import Tier, session_on


@pytest.fixture
def shared(monkeypatch):
    """Every row that has units is shared, however cheap."""
    monkeypatch.setattr(linking, "_LEAST_SHARE_NS", 1)


def programs_of(session):
    return [
        program
        for prepared in session.prepared.values()
        for runner in prepared.executor.runners
        for program in runner.programs.values()
    ]


async def test_every_call_is_made_though_no_other_thread_comes():
    workers = Workers(1, "aioexec-worker")
    made: list[int] = []

    job = workers.submit(lambda: workers.share([partial(made.append, k) for k in range(5)]))
    await job.result()
    await workers.close()

    assert sorted(made) == [0, 1, 2, 3, 4]


async def test_two_threads_make_two_calls_at_once():
    workers = Workers(2, "aioexec-worker")
    workers.start_all()
    meeting = threading.Barrier(2, timeout=30)  # opens only if both are in it

    def meet() -> None:
        meeting.wait()

    await workers.submit(lambda: workers.share([meet] * 2)).result()
    await workers.close()

    assert not meeting.broken


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
async def test_a_shared_product_is_numpys(shared, transpose_a, transpose_b):
    rng = np.random.default_rng(3)
    a = rng.normal(size=(150, 97) if transpose_a else (97, 150)).astype(np.float32)
    b = rng.normal(size=(40, 150) if transpose_b else (150, 40)).astype(np.float32)
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.float32, a.shape), ax.placeholder(ax.float32, b.shape)
        z = ax.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)

    async with session_on(graph, "eager") as session:
        result = await session.run(z, {x: a, y: b})
        [program] = programs_of(session)

    expected = (a.T if transpose_a else a).astype(float) @ (b.T if transpose_b else b).astype(float)
    assert [len(share.blocks) for share in program.shares.values()] == [program.workers.count]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


async def test_shared_elementwise_rows_are_numpys_over_broadcasts_and_strides(shared):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(33, 1, 700)).astype(np.float32), rng.normal(size=(5, 1)).astype(np.float32)
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.float32, a.shape), ax.placeholder(ax.float32, b.shape)
        z = ax.transpose(x * y + 1.0, [2, 0, 1])

    async with session_on(graph, "eager") as session:
        result = await session.run(z, {x: a, y: b})
        [program] = programs_of(session)

    assert program.shares
    np.testing.assert_allclose(result, np.transpose(a * b + np.float32(1), [2, 0, 1]), rtol=1e-6)


async def test_a_failing_share_fails_the_step_by_name(shared):
    with ax.Graph().as_default() as graph:
        x, y = ax.placeholder(ax.int32, [4096]), ax.placeholder(ax.int32, [4096])
        z = ax.floordiv(x, y, name="quotient")
    divisor = np.ones(4096, np.int32)
    divisor[4000] = 0

    async with session_on(graph, "eager") as session:
        with pytest.raises(ax.errors.InvalidArgumentError, match="quotient"):
            await session.run(z, {x: np.ones(4096, np.int32), y: divisor})
        after = await session.run(z, {x: np.full(4096, 6, np.int32), y: np.full(4096, 3, np.int32)})

    np.testing.assert_array_equal(after, 2)


async def test_a_cancelled_run_with_shared_rows_leaves_the_session_usable(shared):
    a = np.ones((256, 256), np.float32)
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [256, 256])
        y = x
        for _ in range(20):
            y = ax.matmul(y, x) * 1e-2

    async with session_on(graph, "eager") as session:
        first = await session.run(y, {x: a})
        task = asyncio.create_task(session.run(y, {x: a}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        again = await session.run(y, {x: a})

    np.testing.assert_array_equal(again, first)


def row_of(cost: int, total: int, grain: int) -> ProgramRow:
    kernel = ElementwiseKernel("y = x", (("x", "float32"),), (("y", "float32"),), "vv")
    units = Units(1, (4, 4), grain)
    return ProgramRow(kernel, ((0, 0), (1, 64)), (1, total, 4, 4), (), cost, units, 0)


def test_a_cheap_row_stays_whole():
    row = row_of(cost=50, total=64, grain=16)

    assert linking._parts(row, lanes=2) == [row]


def test_shares_begin_at_multiples_of_the_grain_and_cover_every_unit():
    parts = linking._parts(row_of(cost=10**6, total=1000, grain=64), lanes=3)

    assert [part.words[1] for part in parts] == [384, 384, 232]
    assert [part.operands for part in parts] == [
        ((0, 0), (1, 64)),
        ((0, 4 * 384), (1, 64 + 4 * 384)),
        ((0, 4 * 768), (1, 64 + 4 * 768)),
    ]


@pytest.mark.parametrize("writes", [True, False])
async def test_a_row_cancelled_between_its_shares_leaves_variables_whole(shared, monkeypatch, writes):
    """A row that writes a variable is finished; any other stops, and what would have been made of it is not written."""
    monkeypatch.setattr(fuse, "LEAST_SAVED_NS", math.inf)  # a row for each node
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [8192])
        v = ax.get_variable("v", [8192], use_resource=True, initializer=ax.zeros_initializer())
        first = v.assign_add(ax.ones([8192]))
        with graph.control_dependencies([first]):
            step = v.assign_add(x if writes else ax.exp(x))
        value = v.read_value()
    frames, share, cancels = [], Workers.share, []

    class RememberedFrame(program_module.Frame):
        def __init__(self, program):
            super().__init__(program)
            frames.append(self)

    def share_while_cancelled(workers, calls):
        """The cancellation comes behind the first call of the second shared row."""
        cancels.append(len(calls))
        if len(cancels) != 2:
            share(workers, calls)
            return
        for k, call in enumerate(calls):
            call()
            if k == 0:
                loop.call_soon_threadsafe(running.cancel)
                while not any(frame.words[walking.CANCEL] for frame in frames):
                    pass

    loop = asyncio.get_running_loop()
    with Tier("worker").chosen():
        async with session_on(graph, "eager") as session:
            await session.run(v.initializer)
            monkeypatch.setattr(program_module, "Frame", RememberedFrame)
            monkeypatch.setattr(Workers, "share", share_while_cancelled)
            running = asyncio.create_task(session.run(step.op, {x: np.zeros(8192, np.float32) + 5}))
            with pytest.raises(asyncio.CancelledError):
                await running
            monkeypatch.undo()
            result = await session.run(value)

    assert len(cancels) == 2
    np.testing.assert_array_equal(result, np.full(8192, 6 if writes else 1))
