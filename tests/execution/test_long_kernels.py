"""Reference kernels that would block the event loop: they run on workers in every tier, and end when their step does."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.errors import DeadlineExceededError
from aioexec.formats.protos import RunOptions
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.work import unbounded
from tests.tiers import Ops, constant, feed, graph, op, session_on

JIT = ["off", "eager"]


class Spy:
    """Ops that note in which thread their kernels run."""

    def __init__(self, ops: Ops) -> None:
        self.threads: list[str] = []
        self._ops = ops

    def note(self) -> None:
        self.threads.append(threading.current_thread().name)

    def on_worker(self) -> bool:
        return self.threads[-1].startswith("aioexec-worker")

    def add(self, signature: str, **row: Any) -> None:
        def compute(x: Any, *others: Any) -> Any:
            self.note()
            return x

        self._ops.add(signature, compute, **row)


@pytest.fixture
def spy(ops: Ops) -> Spy:
    return Spy(ops)


@pytest.mark.parametrize("jit", JIT)
async def test_a_kernel_without_a_bound_runs_on_a_worker_however_small_its_input(spy: Spy, jit: str):
    spy.add("TestEndless(x:float) -> (y:float) {stateful}", work=unbounded)
    with graph() as g:
        x = feed([2])
        y = op("Neg", op("TestEndless", op("Neg", x)))

    async with session_on(g, jit) as session:
        for _ in range(5):  # nor is it learned from short runs
            await session.run(y, {x: [1.0, 2.0]})
            assert spy.on_worker()


@pytest.mark.parametrize("jit", JIT)
async def test_a_kernel_without_a_bound_is_not_run_to_fold_a_constant(spy: Spy, jit: str):
    spy.add("TestEndless(x:float) -> (y:float)", work=unbounded)
    with graph() as g:
        y = op("TestEndless", constant([1.0, 2.0]))

    async with session_on(g, jit) as session:
        np.testing.assert_array_equal(await session.run(y), [1.0, 2.0])

    assert len(spy.threads) == 1
    assert spy.on_worker()


@pytest.mark.parametrize("jit", JIT)
async def test_what_a_row_states_is_weighed_by_the_inputs(spy: Spy, jit: str):
    spy.add(
        "TestSquare(x:float) -> (y:float) {stateful}", work=lambda attrs, inputs: float(inputs[0].size ** 2)
    )
    with graph() as g:
        x = feed([None])
        y = op("TestSquare", x)

    async with session_on(g, jit) as session:
        await session.run(y, {x: np.zeros(300)})
        assert not spy.on_worker()
        await session.run(y, {x: np.zeros(400)})
        assert spy.on_worker()


@pytest.mark.parametrize("jit", JIT)
async def test_strings_are_weighed_by_their_length_and_number(spy: Spy, jit: str):
    spy.add("TestText(x:string) -> (y:string) {stateful}")
    with graph() as g:
        x = feed(None, "string")
        y = op("TestText", x)

    async with session_on(g, jit) as session:
        for value, is_heavy in (
            (b"a", False),
            (b"a" * 200_000, True),
            ([b"a"] * 100, False),
            ([b"a"] * 2000, True),
        ):
            for _ in range(2):  # the first run of a program waits for it, and may go on anywhere
                await session.run(y, {x: value})
            assert spy.on_worker() == is_heavy


async def test_outputs_of_shapes_known_only_at_run_time_are_weighed(ops: Ops):
    threads: list[str] = []

    def outer(x: Any, y: Any) -> Any:
        threads.append(threading.current_thread().name)
        return x[:, None] * y

    ops.add(
        "TestOuter(x:float, y:float) -> (z:float) {stateful}",
        outer,
        shape=lambda context: [None if None in context.inputs else (context.inputs[0] + context.inputs[1])],
    )
    with graph() as g:
        x = feed(None)
        y = op("TestOuter", x, x)

    async with session_on(g, "off") as session:
        assert (await session.run(y, {x: np.ones(10)})).shape == (10, 10)
        assert not threads[-1].startswith("aioexec-worker")
        assert (await session.run(y, {x: np.ones(500)})).shape == (500, 500)
        assert threads[-1].startswith("aioexec-worker")


@pytest.mark.parametrize("jit", JIT)
@pytest.mark.parametrize("taken", [True, False])
async def test_a_kernel_without_a_bound_runs_on_a_worker_inside_of_a_conditional(
    spy: Spy, jit: str, taken: bool
):
    from aioexec.ops.control_flow.cond import cond

    spy.add("TestEndless(x:float) -> (y:float) {stateful}", work=unbounded)
    with graph() as g:
        x, choice = feed([2]), feed([], "bool")
        y = cond(choice, lambda: op("TestEndless", x), lambda: op("Neg", op("TestEndless", x)))

    async with session_on(g, jit) as session:
        for _ in range(3):
            result = await session.run(y, {x: [1.0, 2.0], choice: taken})
            np.testing.assert_array_equal(result, [1.0, 2.0] if taken else [-1.0, -2.0])
            assert spy.on_worker()


@pytest.mark.parametrize("jit", JIT)
@pytest.mark.parametrize("end", ["cancel", "deadline", "close"])
async def test_a_kernel_that_does_not_end_ends_with_its_step(ops: Ops, jit: str, end: str):
    entered, loop = asyncio.Event(), asyncio.get_running_loop()

    def endless(x: Any) -> Any:
        loop.call_soon_threadsafe(entered.set)
        while True:
            check_cancelled()

    ops.add("TestEndless(x:float) -> (y:float) {stateful}", endless, work=unbounded)
    with graph() as g:
        x = feed([2])
        y = op("TestEndless", x)

    async with session_on(g, jit) as session:
        if end == "deadline":
            with pytest.raises(DeadlineExceededError):
                await session.run(y, {x: [1.0, 2.0]}, options=RunOptions(timeout_in_ms=50))
            return
        running = asyncio.create_task(session.run(y, {x: [1.0, 2.0]}))
        await entered.wait()
        if end == "close":
            await session.close(grace=0)
        else:
            running.cancel()
        results = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(results[0], BaseException)
