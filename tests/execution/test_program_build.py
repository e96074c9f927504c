"""Programs in the making: requests, partial programs, and the ways in which a build ends."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from aioexec.devices.jit.library import Demand, library
from aioexec.errors import InvalidArgumentError
from aioexec.execution import engine as engine_module, program_build
from aioexec.execution.programs.program import Program
from aioexec.graph.kernels.kernel import ElementwiseKernel, Kernel, LoopKernel
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
    runtime,
    session_on,
)

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


class HeldLibrary:
    """The kernels of this process, each of which becomes available, or fails, only when the test says so.

    `requests` are the kernels of each request that are missing, its demand and its future; `_ready` and `_broken` say which
    kernels are available, and which have failed.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[set[Kernel], Demand, Future[None]]] = []
        self._ready: list[Callable[[Kernel], bool]] = []
        self._broken: list[Callable[[Kernel], bool]] = []
        self._settling = threading.RLock()

    def request(self, kernels: Iterable[Kernel], demand: Demand) -> Future[None]:
        wanted = set(kernels)
        library().request(wanted).result()
        future: Future[None] = Future()
        with self._settling:
            self.requests.append((wanted, demand, future))
            self._settle()
        return future

    def address(self, kernel: Kernel) -> int:
        return library().address(kernel) if any(each(kernel) for each in self._ready) else 0

    def reorder(self) -> None:
        """Nothing is compiled."""

    @property
    def missing(self) -> set[Kernel]:
        with self._settling:
            return {kernel for kernels, _, _ in self.requests for kernel in kernels}

    def make_available(self, which: Callable[[Kernel], bool] = lambda kernel: True) -> None:
        with self._settling:
            self._ready.append(which)
            self._settle()

    def make_fail(self, which: Callable[[Kernel], bool]) -> None:
        with self._settling:
            self._broken.append(which)
            self._settle()

    def _settle(self) -> None:
        for kernels, demand, future in self.requests:
            for kernel in [
                each for each in kernels if any(hit(each) for hit in (*self._ready, *self._broken))
            ]:
                kernels.discard(kernel)
                demand.on_settled()
            if not kernels and not future.done():
                future.set_result(None)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> HeldLibrary:
    made = HeldLibrary()
    monkeypatch.setattr(program_build, "library", lambda: made)
    monkeypatch.setattr(engine_module, "library", lambda: made)
    monkeypatch.setattr(program_build, "PATIENCE", 0.0)
    return made


def is_elementwise(kernel: Kernel) -> bool:
    return isinstance(kernel, ElementwiseKernel)


def is_loop(kernel: Kernel) -> bool:
    return isinstance(kernel, LoopKernel)


def stages(x: Any) -> tuple[Any, Any]:
    """A graph of several elementwise kernels and a loop, and its value by NumPy."""
    with graph() as g:
        given = feed([None, 3])
        y = op("Sum", op("Exp", op("Neg", given)), constant([1], "int32"))
        z = op("Mul", op("Sub", y, constant(1.0)), op("Tanh", y))
    total = np.exp(-x).sum(1)
    return (g, given, z), (total - 1) * np.tanh(total)


async def until(condition: Callable[[], Any]) -> None:
    """Let the loop and the builder work until something holds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def builds(session: Any) -> set[Any]:
    return set(runtime(session).engine.builds)


def is_partial(session: Any) -> bool:
    return any(program.variant.breaks for program in programs(session))


async def request_kernels(session: Any, held: HeldLibrary, fetched: Any, feeds: Any) -> None:
    """Run a step twice, and wait until the kernels of its program are requested."""
    for _ in range(2):
        await session.run(fetched, feeds)
    await until(lambda: held.requests)


async def make_partial_program(session: Any, held: HeldLibrary, fetched: Any, feeds: Any) -> None:
    """Run a step until there is a program whose loops are not compiled."""
    await request_kernels(session, held, fetched, feeds)
    held.make_available(is_elementwise)
    await until(lambda: is_partial(session))


async def test_kernels_of_all_programs_are_requested_before_any_of_them_is_there(held: HeldLibrary):
    with graph() as g:
        x = feed([3])
        fetches = [op(name, x) for name in ("Exp", "Tanh", "Neg", "Sqrt", "Square")]

    async with session_on(g, "background") as session:
        for y in fetches * 2:
            await session.run(y, {x: np.ones(3)})
        await until(lambda: len(held.requests) == len(fetches))
        assert programs(session) == []

        held.make_available()
        await until(lambda: len(programs(session)) == len(fetches))


async def test_while_kernels_are_missing_their_nodes_are_breaks(held: HeldLibrary):
    (g, x, y), expected = stages(X)

    async with session_on(g, "background") as session:
        for _ in range(2):
            np.testing.assert_allclose(await session.run(y, {x: X}), expected, rtol=1e-6)
        await until(lambda: held.requests)

        held.make_available(is_elementwise)
        await until(lambda: programs(session))
        (program,) = programs(session)
        assert [row.instruction.node.row.name for row in program.variant.breaks] == ["Sum"]
        assert [row.reason for row in program.variant.breaks] == ["its kernel is not compiled"]
        np.testing.assert_allclose(await session.run(y, {x: X}), expected, rtol=1e-6)

        held.make_available()
        await until(lambda: not builds(session))
        (program,) = programs(session)
        assert program.variant.breaks == []
        np.testing.assert_allclose(await session.run(y, {x: X}), expected, rtol=1e-6)


async def test_a_partial_program_is_not_made_for_a_small_part_of_the_work(held: HeldLibrary):
    (g, x, y), _ = stages(X)

    async with session_on(g, "background") as session:
        await request_kernels(session, held, y, {x: X})

        held.make_available(is_loop)  # one node of five
        for _ in range(10):
            await session.run(y, {x: X})
        assert programs(session) == []


async def test_there_are_few_partial_programs(held: HeldLibrary, monkeypatch: pytest.MonkeyPatch):
    """Each leaves at most half as much to reference kernels as the one before."""
    made: list[Program] = []
    link = engine_module.Engine.link

    def record(*arguments: Any) -> Program:
        made.append(link(*arguments))
        return made[-1]

    monkeypatch.setattr(engine_module.Engine, "link", record)
    with graph() as g:
        x = y = feed([4, 4])
        for k in range(16):  # of different kernels
            y = op("Transpose", op("Pow", y, constant(1 + k / 64)), constant([1, 0], "int32"))
            y = op("Add", y, constant(np.full(k + 1 if k < 1 else (4, 4), k / 8)))

    async with session_on(g, "background") as session:
        await request_kernels(session, held, y, {x: np.ones((4, 4))})
        while held.missing:
            (kernel, *_) = held.missing
            held.make_available(kernel.__eq__)
            await session.run(y, {x: np.ones((4, 4))})
            await until(lambda: not any(build._is_making_partial for build in builds(session)))
        await until(lambda: not builds(session))

    left = [len(program.variant.breaks) for program in made]
    assert left[-1] == 0
    assert all(2 * after <= before for before, after in itertools.pairwise(left))


async def test_a_step_that_waits_for_its_program_gets_the_complete_one(held: HeldLibrary):
    (g, x, y), expected = stages(X)

    async with session_on(g, "eager") as session:
        running = asyncio.create_task(session.run(y, {x: X}))
        await until(lambda: held.requests)
        assert all(demand.is_awaited for _, demand, _ in held.requests)
        held.make_available(is_elementwise)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not running.done()
        assert programs(session) == []

        held.make_available()
        np.testing.assert_allclose(await running, expected, rtol=1e-6)


async def test_demands_count_the_runs_by_reference_kernels(held: HeldLibrary):
    (g, x, y), _ = stages(X)

    async with session_on(g, "background") as session:
        await request_kernels(session, held, y, {x: X})
        await until(lambda: all(build._demand for build in builds(session)))
        ((_, demand, _),) = held.requests
        before = demand.runs
        for _ in range(5):
            await session.run(y, {x: X})

        assert demand.runs == before + 5
        assert not demand.is_awaited
        assert sum(demand.gains.values()) > 0


async def test_a_variable_keeps_every_update_while_its_program_becomes_native(held: HeldLibrary):
    with graph() as g:
        x, v = feed([2, 3]), resource([2])
        init = op("AssignVariableOp", v, constant([0.0, 0.0]))
        total = op("Sum", op("Neg", op("Abs", x)), constant([1], "int32"))
        add = op("AssignAddVariableOp", v, op("Sub", op("Mul", total, total), constant(1.0)))
        value = read(v)
    step = np.square(np.abs(X).sum(1)) - 1
    count = 0

    async with session_on(g, "background") as session:
        await session.run(init)

        async def run(times: int) -> None:
            nonlocal count
            count += times
            await asyncio.gather(*(session.run(add, {x: X}) for _ in range(times)))
            np.testing.assert_allclose(await session.run(value), count * step, rtol=1e-5)

        await run(4)
        await until(lambda: held.requests)
        held.make_available(is_elementwise)
        await run(4)
        await until(lambda: is_partial(session))
        await run(4)
        held.make_available()
        await run(4)
        await until(lambda: not builds(session))
        await run(4)


async def test_an_error_in_a_partial_program_names_its_node_and_the_next_step_runs(
    held: HeldLibrary, ops: Ops
):
    def refuse_negative(x: Any) -> Any:
        if x.min() < 0:
            raise InvalidArgumentError("negative")
        return x

    ops.broken("TestCheck", refuse_negative)
    with graph() as g:
        x = feed([2, 3])
        checked = op("TestCheck", op("Add", x, x), name="check")
        y = op("Neg", op("Sum", op("Sqrt", checked), constant([0, 1], "int32")))

    async with session_on(g, "background") as session:
        await make_partial_program(session, held, y, {x: np.ones((2, 3))})

        assert await session.run(y, {x: np.full((2, 3), 2.0)}) == pytest.approx(-12)
        with pytest.raises(InvalidArgumentError, match=r"TestCheck 'check'.*negative"):
            await session.run(y, {x: -np.ones((2, 3))})
        assert await session.run(y, {x: np.full((2, 3), 8.0)}) == pytest.approx(-24)


async def test_a_step_cancelled_in_a_partial_program_leaves_its_variable_to_the_next(held: HeldLibrary):
    with graph() as g:
        x, v = feed([2, 3]), resource([2])
        init = op("AssignVariableOp", v, constant([0.0, 0.0]))
        total = op("Sum", op("Square", op("Neg", x)), constant([1], "int32"))
        add = op("AssignAddVariableOp", v, op("Mul", op("Exp", op("Neg", total)), constant(2.0)))
        value = read(v)
    feeds = {x: np.zeros((2, 3))}

    async with session_on(g, "background") as session:
        await session.run(init)
        await make_partial_program(session, held, add, feeds)
        (program,) = [each for each in programs(session) if each.variant.breaks]
        program.inline = False  # so that it waits for a worker
        before = await session.run(value)

        cancelled = asyncio.create_task(session.run(add, feeds))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        between = await session.run(value)
        await session.run(add, feeds)

        assert between[0] in (before[0], before[0] + 2)  # all of the update, or nothing
        np.testing.assert_array_equal(await session.run(value), between + 2)


async def test_kernels_that_fail_leave_their_nodes_to_numpy_in_the_complete_program(held: HeldLibrary):
    (g, x, y), expected = stages(X)

    async with session_on(g, "background") as session:
        await make_partial_program(session, held, y, {x: X})
        held.make_fail(is_loop)
        await until(lambda: not builds(session))

        (program,) = programs(session)
        assert [row.instruction.node.row.name for row in program.variant.breaks] == ["Sum"]
        np.testing.assert_allclose(await session.run(y, {x: X}), expected, rtol=1e-6)


async def test_a_session_that_closes_ends_its_builds_at_once(held: HeldLibrary):
    (g, x, y), _ = stages(X)

    async with session_on(g, "background") as session:
        await request_kernels(session, held, y, {x: X})
        (executor,) = executors(session)
        waiting = asyncio.create_task(executor.wait_until_built())
        engine = runtime(session).engine

    await waiting
    assert engine.builds == set()
    held.make_available()  # what comes later is dropped
    await asyncio.sleep(0)
