"""The bound on arenas: never exceeded, every run is admitted in the end, and a run that is refused leaves nothing behind."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from aioexec import dtypes
from aioexec.errors import FailedPreconditionError, ResourceExhaustedError
from aioexec.execution.programs.arena_limit import ArenaLimit, NoRoomError, limit_of
from aioexec.execution.programs.arenas import Arenas, BoundedProgram
from aioexec.execution.programs.frame import IDLE_FRAMES, Frame
from aioexec.execution.programs.trimming import TrimmedProgram
from aioexec.formats.protos import ConfigProto, RunOptions
from aioexec.graph.graph import Graph
from aioexec.sessions.session import Session
from tests.tiers import (
    Ops,
    Tier,
    constant,
    executors,
    feed,
    graph,
    op,
    programs,
    resource,
    run_nowait,
    runtime,
)


class FakeFrame:
    spoilt = False


class Owner:
    """A program, as far as arenas go."""

    def __init__(self, arena_bytes: int) -> None:
        self.arena_bytes = arena_bytes
        self.frames: list[Frame] = []

    def put_idle(self, frame: Frame) -> None:
        if len(self.frames) < IDLE_FRAMES and not frame.spoilt:
            self.frames.append(frame)


def frame() -> Any:
    return FakeFrame()


def turn() -> Any:
    return Future()  # which needs no event loop


# Admission


def test_a_frame_that_lies_idle_is_used_again():
    arenas, owner = Arenas(100), Owner(60)
    first = frame()

    assert arenas.take(owner) is None
    arenas.give_back(owner, first)

    assert arenas.take(owner) is first
    assert (arenas.used, arenas.kept) == (60, 0)


def test_what_lay_idle_longest_makes_room_first():
    arenas = Arenas(100)
    owners = [Owner(30), Owner(30), Owner(30)]
    for owner in owners:
        arenas.take(owner)
    for owner in owners:
        arenas.give_back(owner, frame())

    assert arenas.take(Owner(50)) is None

    assert [len(owner.frames) for owner in owners] == [0, 0, 1]
    arenas.check_invariants()


def test_without_room_a_run_must_wait_and_so_must_those_behind_it():
    arenas = Arenas(100)
    arenas.take(Owner(60))
    with pytest.raises(NoRoomError):
        arenas.take(Owner(50))
    waiting = Owner(50), turn()

    arenas.wait(*waiting)

    with pytest.raises(NoRoomError):
        arenas.take(Owner(10))  # there would be room, but it is not its turn
    waiting[1].cancel()
    arenas.give_up(*waiting)
    arenas.take(Owner(10))


def test_a_spoilt_frame_and_one_too_many_are_not_kept():
    arenas, owner = Arenas(1000), Owner(10)
    for _ in range(IDLE_FRAMES + 2):
        arenas.take(owner)
    spoilt = frame()
    spoilt.spoilt = True

    arenas.give_back(owner, spoilt)
    for _ in range(IDLE_FRAMES + 1):
        arenas.give_back(owner, frame())

    assert len(owner.frames) == IDLE_FRAMES
    assert (arenas.used, arenas.kept) == (0, 10 * IDLE_FRAMES)


class Crowd:
    """Runs of some programs: `waiting` are those in line, with their turns, `running` those with an arena."""

    def __init__(self, sizes: list[int], arenas: ArenaLimit | None = None) -> None:
        self.arenas = arenas or Arenas(100)
        self.owners = [Owner(size) for size in sizes]
        self.running: list[tuple[Owner, Any]] = []
        self.waiting: list[tuple[Owner, Any]] = []

    def ask(self, k: int) -> None:
        owner = self.owners[k % len(self.owners)]
        try:
            self.running.append((owner, self.arenas.take(owner) or frame()))
        except NoRoomError:
            self.waiting.append((owner, turn()))
            self.arenas.wait(*self.waiting[-1])

    def wake(self, k: int = 0) -> None:
        """The tasks of those whose turn is done, whichever way, get to run."""
        for owner, turn in [each for each in self.waiting if each[1].done()]:
            self.waiting.remove((owner, turn))
            if turn.cancelled():
                self.arenas.give_up(owner, turn)
            else:
                self.running.append((owner, turn.result() or frame()))

    def cancel(self, k: int) -> None:
        """Cancel the task of one that waits, or was let in just now."""
        if self.waiting:
            owner, turn = self.waiting[k % len(self.waiting)]
            if turn.done() and not turn.cancelled():
                self.waiting.remove((owner, turn))
                self.arenas.give_up(owner, turn)
            turn.cancel()

    def end(self, k: int) -> None:
        if self.running:
            owner, held = self.running.pop(k % len(self.running))
            held.spoilt = k % 3 == 0
            self.arenas.give_back(owner, held)


@given(
    st.lists(st.integers(1, 100), min_size=1, max_size=4),
    st.lists(
        st.tuples(
            st.sampled_from([Crowd.ask, Crowd.ask, Crowd.end, Crowd.cancel, Crowd.wake]), st.integers(0, 7)
        ),
        max_size=60,
    ),
)
def test_any_order_of_events_keeps_the_bound_and_admits_every_run(sizes: list[int], events: list[Any]):
    crowd = Crowd(sizes)

    for event, k in events:
        event(crowd, k)
        crowd.arenas.check_invariants()
    crowd.wake()
    while crowd.running:
        crowd.end(0)
        crowd.wake()
        crowd.arenas.check_invariants()

    assert not crowd.waiting
    assert crowd.arenas.used == 0


@pytest.mark.slow
def test_every_order_of_six_events_admits_every_run_under_the_limit_of_a_loop():
    events = [(Crowd.ask, 0), (Crowd.ask, 1), (Crowd.end, 1), (Crowd.cancel, 0), (Crowd.wake, 0)]
    for order in itertools.product(events, repeat=6):
        crowd = Crowd([60, 150], ArenaLimit(100, least_runs=1))
        for event, k in order:
            event(crowd, k)
            crowd.arenas.check_invariants()
        crowd.wake()
        while crowd.running:
            crowd.end(1)
            crowd.wake()
            crowd.arenas.check_invariants()
        assert not crowd.waiting
        assert (crowd.arenas.used, crowd.arenas.runs) == (0, 0)


# Sessions with a bound


on_native_tiers = pytest.mark.parametrize("tier", ["inline", "worker"], indirect=True)


def bounded(made: Graph, arena_bytes: int, jit: str = "eager") -> Session:
    config = ConfigProto()
    config.aioexec.jit = jit
    config.aioexec.arena_bytes = arena_bytes
    return Session(graph=made, config=config)


def between(x: Any, size: int = 1024) -> Any:
    """x + 1, with a value of so many float32 in the arena on the way."""
    return op("Sum", op("Add", x, constant(np.ones(size))), constant([0], "int32"))


async def arena_of(made: Graph, fetch: Any, feeds: Any) -> int:
    """The arena size of a program without a bound."""
    async with bounded(made, 0) as session:
        await session.run(fetch, feeds)
        (program,) = programs(session)
        return program.variant.arena_bytes


def the_arenas(session: Session) -> Arenas:
    (found,) = runtime(session).engine.arenas.values()
    found.check_invariants()
    return found


@on_native_tiers
async def test_programs_take_turns_with_what_memory_there_is(tier: Tier):
    """Three programs, and room for little more than one arena: each releases its idle one for the next."""
    with graph() as g:
        x = feed([1024])
        sums = [between(x), between(op("Neg", x)), between(op("Mul", x, x))]
    array = np.arange(1024, dtype=np.float32)
    expected = [array.sum() + 1024, 1024 - array.sum(), (array * array).sum() + 1024]

    bound = 3 * max([await arena_of(g, y, {x: array}) for y in sums]) // 2

    async with bounded(g, bound) as session:
        for _ in range(3):
            results = await asyncio.gather(*(session.run(y, {x: array}) for y in sums * 3))
            np.testing.assert_allclose(results, expected * 3, rtol=1e-6)
        arenas = the_arenas(session)
        assert arenas.used == 0
        assert 0 < arenas.kept <= bound
        assert {type(program) for program in programs(session)} == {BoundedProgram}


async def test_a_program_that_exceeds_the_bound_alone_is_refused_with_all_numbers(ops: Ops):
    with graph() as g:
        x = feed([1024])
        y = between(x)
        small = op("Neg", x)
    feeds = {x: np.zeros(1024, np.float32)}
    options = RunOptions(report_tensor_allocations_upon_oom=True)
    needed = await arena_of(g, y, feeds)

    async with bounded(g, 1000) as session:
        for _ in range(2):
            with pytest.raises(
                ResourceExhaustedError, match=rf"OOM.* {needed} bytes.*CPU:0.*is 1000, of which 0 are in use"
            ):
                await session.run(y, feeds)
        with pytest.raises(
            ResourceExhaustedError, match=r"(?s)OOM.*is 1000.*Current usage from device.*4.00KiB from"
        ):
            await session.run(y, feeds, options)
        np.testing.assert_array_equal(await session.run(small, feeds), np.zeros(1024))


async def test_without_a_bound_programs_have_the_limit_of_their_loop():
    with graph() as g:
        x = feed([1024])
        y = between(x)

    async with bounded(g, 0) as session:
        await session.run(y, {x: np.zeros(1024, np.float32)})
        assert runtime(session).engine.arenas == {}
        (program,) = programs(session)
        assert type(program) is TrimmedProgram
        engine = runtime(session).engine
        assert program.limit is limit_of(asyncio.get_running_loop(), engine.workers)


class Held:
    """An op `TestHeld` (identity) that waits on a worker until the test releases it; its program holds an arena meanwhile."""

    def __init__(self, ops: Ops) -> None:
        self.gate = threading.Event()
        self.entered = asyncio.Event()
        self.armed = False
        self._loop = asyncio.get_running_loop()
        ops.broken("TestHeld", self._compute)

    def _compute(self, x: Any) -> Any:
        if self.armed:
            self._loop.call_soon_threadsafe(self.entered.set)
            self.gate.wait(30)
        return x


@pytest.fixture
async def held(ops: Ops) -> AsyncIterator[Held]:
    made = Held(ops)
    yield made
    made.gate.set()


async def on_workers(session: Session, runs: list[tuple[Any, Any]]) -> None:
    """Build the programs of these signatures, and have them run on workers."""
    for fetch, feeds in runs:
        await session.run(fetch, feeds)
    for program in programs(session):
        program.inline, program.cost = False, 10**9


@pytest.fixture
def two(held: Held) -> tuple[Graph, Any, Any, Any]:
    """A graph with a program that is held, and one that is not; each needs an arena."""
    with graph() as g:
        x = feed([1024])
        slow = between(op("TestHeld", op("Neg", x)))
        quick = between(x)
    return g, x, slow, quick


async def test_a_run_waits_until_another_releases_its_arena(held: Held, two: Any):
    g, x, slow, quick = two
    feeds = {x: np.ones(1024, np.float32)}

    async with bounded(g, 3 * await arena_of(g, slow, feeds) // 2) as session:
        await on_workers(session, [(slow, feeds)])
        await session.run(quick, feeds)
        held.armed = True
        holding = asyncio.create_task(session.run(slow, feeds))
        await held.entered.wait()
        waiting = [asyncio.create_task(session.run(quick, feeds)) for _ in range(3)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting)
        assert the_arenas(session).used > 0
        waiting[0].cancel()
        held.gate.set()

        assert await holding == 0
        assert (await asyncio.gather(*waiting[1:])) == [2048, 2048]
        assert waiting[0].cancelled()
        assert the_arenas(session).used == 0


async def test_a_run_that_waits_for_its_arena_holds_its_lease_and_gives_it_back_when_it_is_cancelled(
    held: Held,
):
    with graph() as g:
        x, v = feed([1024]), resource([])
        init = op("AssignVariableOp", v, constant(0.0))
        slow = between(op("TestHeld", op("Neg", x)))
        add = op("AssignAddVariableOp", v, between(x))
        value = op("ReadVariableOp", v, dtype=dtypes.float32)
    feeds = {x: np.ones(1024, np.float32)}

    async with bounded(g, 3 * await arena_of(g, slow, feeds) // 2) as session:
        await session.run(init)
        await on_workers(session, [(slow, feeds), (add, feeds)])
        held.armed = True
        holding = asyncio.create_task(session.run(slow, feeds))
        await held.entered.wait()
        cancelled, behind = (asyncio.create_task(session.run(add, feeds)) for _ in range(2))
        for _ in range(20):
            await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        held.gate.set()
        await asyncio.gather(holding, behind)

        assert await session.run(value) == 2 * 2048
        assert the_arenas(session).used == 0


async def test_inline_runs_wait_on_the_way_too(held: Held, two: Any):
    """Inline runs wait in the queue if there is no room, and run inline again when there is."""
    g, x, slow, quick = two
    feeds = {x: np.ones(1024, np.float32)}

    async with bounded(g, 3 * await arena_of(g, slow, feeds) // 2) as session:
        await session.run(quick, feeds)
        await on_workers(session, [(slow, feeds)])
        (inline,) = executors(session)[0].runners[0].cache.programs.values()
        inline.inline, inline.cost = True, 0
        (executor, _) = executors(session)
        assert run_nowait(executor, feeds.values()) is not None
        held.armed = True
        holding = asyncio.create_task(session.run(slow, feeds))
        await held.entered.wait()

        assert run_nowait(executor, feeds.values()) is None
        waiting = asyncio.create_task(session.run(quick, feeds))
        await asyncio.sleep(0)
        assert not waiting.done()
        held.gate.set()

        assert await waiting == 2048
        await holding
        assert run_nowait(executor, feeds.values()) is not None


@on_native_tiers
async def test_a_run_whose_variables_are_not_there_takes_no_arena_with_it(tier: Tier):
    with graph() as g:
        x, v = feed([1024]), resource([1024])
        init = op("AssignVariableOp", v, constant(np.ones(1024)))
        y = between(op("Add", x, op("ReadVariableOp", v, dtype=dtypes.float32)))
    feeds = {x: np.ones(1024, np.float32)}

    async with bounded(g, 3 * 8192) as session:
        for _ in range(9):
            with pytest.raises(FailedPreconditionError):
                await session.run(y, feeds)
        assert the_arenas(session).used == 0
        await session.run(init)
        assert await session.run(y, feeds) == 3 * 1024


@on_native_tiers
async def test_memory_that_is_not_to_be_had_is_not_counted(tier: Tier, monkeypatch: pytest.MonkeyPatch):
    with graph() as g:
        x = feed([1024])
        y = between(x)
    feeds = {x: np.ones(1024, np.float32)}

    async with bounded(g, 8192) as session:
        await session.run(y, feeds)
        (program,) = programs(session)
        arenas = the_arenas(session)
        while program.frames:  # as if others had needed the room
            program.frames.pop()
            arenas.kept -= arenas._idle.popitem()[1][1]

        def refuse(*arguments: Any) -> Any:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr("aioexec.execution.programs.program.Frame", refuse)
            for _ in range(3):
                with pytest.raises(ResourceExhaustedError, match=r"OOM on .*CPU:0.* bytes"):
                    await session.run(y, feeds)
        assert the_arenas(session).used == 0
        assert await session.run(y, feeds) == 2048
