"""The limit on arenas of runs that wait for a worker: it bounds memory, admits in FIFO order, and never deadlocks."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import FailedPreconditionError
from aioexec.execution.programs import frame
from aioexec.execution.programs.arena_limit import ArenaLimit
from aioexec.execution.programs.frame import MAPPED_BYTES, Frame
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.program_run import ProgramRun
from aioexec.graph.graph import Graph
from aioexec.observability.allocator_stats import allocator_stats
from aioexec.sessions.session import Session
from aioexec.testing import all_tasks_blocked
from tests.tiers import (
    Ops,
    constant,
    executors,
    feed,
    graph,
    op,
    programs,
    read,
    resource,
    run_nowait,
    runtime,
    session_on,
)

SIZE = MAPPED_BYTES // 4  # elements of a value that fills a mapped arena
CALLERS = 500


class Held:
    """An op `TestHeld` (identity) that holds its worker until `gate` is set; `entered` counts its calls."""

    def __init__(self, ops: Ops) -> None:
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.inputs: list[float] = []
        ops.broken("TestHeld", self._compute)

    def _compute(self, x: Any) -> Any:
        self.inputs.append(float(x.reshape(-1)[0]))
        self.entered.release()
        self.gate.wait(30)
        return x


@pytest.fixture
async def held(ops: Ops) -> AsyncIterator[Held]:
    made = Held(ops)
    yield made
    made.gate.set()


@pytest.fixture
def slow(held: Held) -> tuple[Graph, Any, Any]:
    """A graph whose program has an arena and is held in its worker."""
    with graph() as g:
        x = feed([SIZE])
        y = op(
            "Sum", op("Add", op("TestHeld", op("Neg", x)), constant(np.ones(SIZE))), constant([0], "int32")
        )
    return g, x, y


@contextlib.asynccontextmanager
async def session_with(made: Graph, gate: threading.Event) -> AsyncIterator[Session]:
    """A session that is not closed before what waits for the gate has gone on."""
    async with session_on(made, "eager") as session:
        try:
            yield session
        finally:
            gate.set()


async def on_workers(session: Session, held: Held, fetch: Any, feeds: Any) -> Program:
    """Build the program of a fetch, and have it run on workers."""
    held.gate.set()
    await session.run(fetch, feeds)
    (program,) = programs(session)
    program.inline, program.cost = False, 10**9
    held.gate.clear()
    held.entered.acquire()
    held.inputs.clear()
    return program


def limit(session: Session, bound: int = 0, least_runs: int = 2) -> ArenaLimit:
    """Give the programs of a session a limit of their own, with room for little."""
    made = ArenaLimit(bound, least_runs)
    for program in programs(session):
        program.limit = made  # type: ignore[attr-defined]
    return made


async def test_memory_does_not_grow_with_the_runs_that_wait_for_a_worker(held: Held, slow: Any):
    g, x, y = slow
    feeds = {x: np.ones(SIZE, np.float32)}

    async with session_with(g, held.gate) as session:
        program = await on_workers(session, held, y, feeds)
        admitted = limit(session, least_runs=3)
        before = allocator_stats(program.device).bytes_in_use
        running = [asyncio.create_task(session.run(y, feeds)) for _ in range(CALLERS)]
        await all_tasks_blocked()

        assert admitted.runs == 3
        assert allocator_stats(program.device).bytes_in_use - before <= 3 * (program.variant.arena_bytes + 64)
        held.gate.set()
        assert await asyncio.gather(*running) == [0.0] * CALLERS
        assert (admitted.runs, admitted.used) == (0, 0)


async def test_runs_begin_in_the_order_in_which_they_came(held: Held, slow: Any):
    g, x, y = slow
    arrays = [np.full(SIZE, k, np.float32) for k in range(20)]

    async with session_with(g, held.gate) as session:
        await on_workers(session, held, y, {x: arrays[0]})
        limit(session, least_runs=1)
        running = [asyncio.create_task(session.run(y, {x: array})) for array in arrays]
        held.gate.set()
        await asyncio.gather(*running)

    assert held.inputs == [-float(k) for k in range(20)]


async def test_cancelled_waiters_give_their_turn_to_those_behind_them(held: Held, slow: Any):
    g, x, y = slow
    feeds = {x: np.ones(SIZE, np.float32)}

    async with session_with(g, held.gate) as session:
        await on_workers(session, held, y, feeds)
        admitted = limit(session, least_runs=1)
        running = [asyncio.create_task(session.run(y, feeds)) for _ in range(6)]
        await all_tasks_blocked()
        for task in running[:5]:
            task.cancel()
        held.gate.set()

        assert await running[5] == 0.0
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        assert [type(each) for each in outcomes[1:5]] == [asyncio.CancelledError] * 4
        assert (admitted.runs, admitted.used) == (0, 0)
        admitted.check_invariants()


def block_workers(session: Session, gate: threading.Event) -> None:
    """Occupy every worker of a session until the gate is open."""
    workers = runtime(session).engine.workers
    for _ in range(workers.count):
        workers.submit(gate.wait)


async def test_runs_that_the_fast_path_begins_count_too():
    with graph() as g:
        x = feed([SIZE])
        y = op("Sum", op("Add", op("Neg", x), constant(np.ones(SIZE))), constant([0], "int32"))
    feeds = {x: np.ones(SIZE, np.float32)}

    async with session_with(g, gate := threading.Event()) as session:
        await session.run(y, feeds)
        (program,), (executor,) = programs(session), executors(session)
        admitted = limit(session)
        program.inline, program.cost = False, 10**9
        block_workers(session, gate)
        begun = [run_nowait(executor, feeds.values()) for _ in range(2)]
        assert [type(each) for each in begun] == [ProgramRun] * 2
        assert run_nowait(executor, feeds.values()) is None, "without an arena nothing begins"
        running = [asyncio.create_task(session.run(y, feeds)) for _ in range(20)]
        await all_tasks_blocked()
        assert admitted.runs == 2
        gate.set()

        assert [await each.finish() for each in begun] == [[0.0]] * 2
        assert await asyncio.gather(*running) == [0.0] * 20
        assert (admitted.runs, admitted.used) == (0, 0)


async def test_loops_that_move_to_a_worker_count_too():
    with graph() as g:
        x = feed([SIZE])
        y = ax.while_loop(lambda k, v: k < 200, lambda k, v: [k + 1, -(v + 1.0)], [0, x])[1]
    feeds = {x: np.ones(SIZE, np.float32)}

    async with session_with(g, gate := threading.Event()) as session:
        await session.run(y, feeds)
        (program,) = programs(session)
        assert program.may_move
        admitted = limit(session)
        program.inline = True
        block_workers(session, gate)
        running = [asyncio.create_task(session.run(y, feeds)) for _ in range(20)]
        await all_tasks_blocked()

        assert admitted.runs == 2
        gate.set()
        await asyncio.gather(*running)
        assert (admitted.runs, admitted.used) == (0, 0)


async def test_a_run_that_cannot_begin_gives_its_place_back():
    with graph() as g:
        x, v = feed([SIZE]), resource([SIZE])
        init = op("AssignVariableOp", v, x)
        y = op("Sum", op("Add", op("Neg", x), read(v)), constant([0], "int32"))
    feeds = {x: np.ones(SIZE, np.float32)}

    async with session_on(g, "eager") as session:
        await session.run(init, feeds)
        await session.run(y, feeds)
        program = programs(session)[1]
        admitted = limit(session)
        program.inline, program.cost = False, 10**9
        program.variant.uses[0].variable.buffer = None
        for _ in range(5):
            with pytest.raises(FailedPreconditionError):
                await session.run(y, feeds)

        assert (admitted.runs, admitted.used) == (0, 0)
        await session.run(init, feeds)
        assert await session.run(y, feeds) == 0.0


def test_an_arena_larger_than_the_limit_is_admitted_all_the_same():
    made, owner = ArenaLimit(100, least_runs=2), Owner(1000)

    made.take(owner)
    made.take(owner)

    assert not made.admits(owner)
    made.give_back(owner, None)
    assert made.admits(owner)


async def test_a_large_arena_goes_back_to_the_system_when_it_is_dropped(monkeypatch: pytest.MonkeyPatch):
    class Mapped(mmap.mmap):
        pass

    monkeypatch.setattr(mmap, "mmap", Mapped)
    memory: Any = frame._memory(MAPPED_BYTES)
    mapped = weakref.ref(memory.base.obj)
    view = memory[64:]

    del memory
    assert mapped() is not None
    del view
    assert mapped() is None


def test_memory_that_the_system_does_not_have_is_a_memory_error():
    with pytest.raises(MemoryError):
        frame._memory(1 << 46)


class Owner:
    def __init__(self, arena_bytes: int) -> None:
        self.arena_bytes = arena_bytes
        self.frames: list[Frame] = []

    def put_idle(self, frame: Frame) -> None:
        self.frames.append(frame)
