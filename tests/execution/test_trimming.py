"""Idle arenas are released, without a timer if there are none, and never those of an active run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.errors import ResourceExhaustedError
from aioexec.execution.programs.program import Program
from aioexec.execution.programs.trimming import IDLE_SECONDS, LARGE_ARENA, RELEASE_SECONDS, Trimmer
from aioexec.formats.protos import ConfigProto
from aioexec.observability.allocator_stats import allocator_stats
from aioexec.sessions.session import Session
from aioexec.testing import VirtualClock
from tests.tiers import Ops, Tier, constant, feed, graph, op, programs, runtime

on_native_tiers = pytest.mark.parametrize("tier", ["inline", "worker"], indirect=True)
ROWS = np.ones(1024, np.float32)


def between(x: Any) -> Any:
    """x + 1, with a value in the arena on the way."""
    return op("Sum", op("Add", x, constant(np.ones(1024))), constant([0], "int32"))


def session_of(made: Any, arena_bytes: int) -> Session:
    config = ConfigProto()
    config.aioexec.jit = "eager"
    config.aioexec.arena_bytes = arena_bytes
    return Session(graph=made, config=config)


def in_use(program: Program) -> int:
    return allocator_stats(program.device).bytes_in_use


@on_native_tiers
@pytest.mark.parametrize("arena_bytes", [0, 1 << 20], ids=["unbounded", "bounded"])
async def test_idle_arenas_are_released(tier: Tier, virtual_clock: VirtualClock, arena_bytes: int):
    with graph() as g:
        x = feed([1024])
        seldom, often = between(x), between(op("Neg", x))

    async with session_of(g, arena_bytes) as session:
        for fetch in (seldom, often):
            await session.run(fetch, {x: ROWS})
        rare, busy = programs(session)
        with virtual_clock.hold():  # it does not go on by itself while a program is made
            await session.run(seldom, {x: ROWS})
            await session.run(often, {x: ROWS})
            before = in_use(rare)
            for _ in range(
                6
            ):  # two looks, wherever in their round they are, and one more for what falls due at the last
                virtual_clock.advance(IDLE_SECONDS * 0.6)
                await session.run(often, {x: ROWS})
                await asyncio.sleep(0)
            after = in_use(rare)

        assert (len(rare.frames), len(busy.frames)) == (0, 1)
        assert after <= before - rare.variant.arena_bytes
        assert await session.run([seldom, often], {x: ROWS}) == [2048, 0]
        for arenas in runtime(session).engine.arenas.values():
            arenas.check_invariants()


@on_native_tiers
async def test_a_session_that_has_given_everything_back_waits_for_nothing(
    tier: Tier, virtual_clock: VirtualClock
):
    with graph() as g:
        x = feed([1024])
        y = between(x)

    async with session_of(g, 0) as session:
        await session.run(y, {x: ROWS})
        trimmer = runtime(session).engine.trimmer
        assert trimmer._timer is not None
        await asyncio.sleep(2.5 * IDLE_SECONDS)

        assert trimmer._timer is None
        assert [len(program.frames) for program in programs(session)] == [0]
        assert await session.run(y, {x: ROWS}) == 2048
        assert trimmer._timer is not None


async def test_an_arena_that_a_run_holds_stays_however_long_it_takes(virtual_clock: VirtualClock, ops: Ops):
    entered, gate = threading.Event(), threading.Event()

    def hold(x: Any) -> Any:
        entered.set()
        gate.wait()
        return x + 0

    ops.broken("TestHeld", hold)
    with graph() as g:
        x = feed([1024])
        y = op(
            "Sum", op("Add", op("TestHeld", op("Neg", x)), constant(np.ones(1024))), constant([0], "int32")
        )

    async with session_of(g, 0) as session:
        gate.set()
        await session.run(y, {x: ROWS})
        (program,) = programs(session)
        program.inline, program.cost = False, 10**9
        entered.clear()
        gate.clear()
        running = asyncio.create_task(session.run(y, {x: ROWS}))
        with virtual_clock.hold():
            await asyncio.to_thread(entered.wait)
            virtual_clock.advance(5 * IDLE_SECONDS)
            await asyncio.sleep(0)
            held = in_use(program)
            gate.set()

        assert held >= program.variant.arena_bytes
        assert await running == 0
        assert len(program.frames) == 1
        await asyncio.sleep(2.5 * IDLE_SECONDS)
        assert program.frames == []


@on_native_tiers
async def test_a_step_without_memory_names_the_node_that_takes_most(tier: Tier):
    with graph() as g:
        x = feed([1024])
        wide = op("Mul", op("Reshape", x, constant([1024, 1], "int32")), x, name="wide")
        y = op("Sum", op("MatMul", wide, wide), constant([0, 1], "int32"))

    async with session_of(g, 8192) as session:
        with pytest.raises(
            ResourceExhaustedError,
            match=r"arena of \d+ bytes .*largest value, of 4194304 bytes.*'(wide|MatMul)'",
        ):
            await session.run(y, {x: ROWS})


async def test_memory_that_reference_kernels_took_is_returned_after_the_last_build(
    virtual_clock: VirtualClock,
):
    released: list[float] = []
    trimmer = Trimmer(lambda: released.append(virtual_clock.time()))
    first, last = RELEASE_SECONDS

    trimmer.on_built(LARGE_ARENA - 1)
    await asyncio.sleep(first + 1)
    assert not released

    trimmer.on_built(LARGE_ARENA)
    await asyncio.sleep(first / 2)
    trimmer.on_built(LARGE_ARENA)  # the timers begin anew
    began = virtual_clock.time()
    await asyncio.sleep(last + 1)
    assert released == [began + first, began + last]

    trimmer.on_built(LARGE_ARENA)
    trimmer.stop()
    await asyncio.sleep(last + 1)
    assert len(released) == 2
