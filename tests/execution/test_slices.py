"""A long run on a worker yields to jobs that wait for the thread."""

import asyncio
import threading

import numpy as np

import aioexec as ax
from aioexec.devices.jit.walker import PC, RELEASED_FUEL_NS, Outcome
from aioexec.execution.programs.walk import Walk
from aioexec.planning.layout.variant import ProgramRow
from tests.tiers import programs

SIZE = 1024


def long_graph() -> tuple[ax.Graph, ax.Tensor, ax.Tensor]:
    """Three products, each of which takes longer than a slice."""
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [SIZE, SIZE])
        y = x
        for _ in range(3):
            y = ax.matmul(y, x)
    return graph, x, y


def session_of_one_worker(graph: ax.Graph) -> ax.Session:
    config = ax.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config.use_per_session_threads = True
    config.aioexec.jit = "eager"
    return ax.Session(graph=graph, config=config)


async def test_a_run_is_paused_only_while_jobs_wait():
    graph, x, y = long_graph()
    array = np.eye(SIZE, dtype=np.float32) * 2
    async with session_of_one_worker(graph) as session:
        await session.run(y, {x: array})
        (program,) = programs(session)
        assert all(
            isinstance(row, ProgramRow) and row.cost > RELEASED_FUEL_NS for row in program.variant.rows
        )
        workers, run = program.workers, Walk(program, [array], in_place=False)
        waiting: list[object] = []
        loop, submitted = asyncio.get_running_loop(), threading.Event()

        def submit() -> None:
            waiting.append(workers.submit(lambda: None))
            submitted.set()

        def begin() -> int:
            loop.call_soon_threadsafe(submit)
            assert submitted.wait(30)
            return run.walk_released(None, workers)

        paused = await workers.submit(begin).result()
        reached = int(run.frame.words[PC])
        done = await workers.submit(lambda: run.walk_released(paused, workers)).result()
        run.give_back(done=True)

    assert (paused, reached) == (Outcome.PAUSED, 1)
    assert done == Outcome.DONE
    np.testing.assert_array_equal(run.outputs[0], np.eye(SIZE) * 16)


async def test_a_short_job_is_done_before_a_long_step_is_over(monkeypatch):
    graph, x, y = long_graph()
    array = np.eye(SIZE, dtype=np.float32)
    order: list[str] = []
    async with session_of_one_worker(graph) as session:
        await session.run(y, {x: array})
        (program,) = programs(session)
        released, loop, submitted = Walk.walk_released, asyncio.get_running_loop(), threading.Event()
        short = loop.create_future()

        def submit() -> None:
            program.workers.submit(lambda: order.append("short"), lambda job: short.set_result(None))
            submitted.set()

        def released_when_a_job_waits(self, outcome, workers):
            if not submitted.is_set():
                loop.call_soon_threadsafe(submit)
                assert submitted.wait(30)
            return released(self, outcome, workers)

        monkeypatch.setattr(Walk, "walk_released", released_when_a_job_waits)
        result = await session.run(y, {x: array})
        order.append("long")
        await short

    assert order == ["short", "long"]
    np.testing.assert_array_equal(result, array)


async def test_a_step_cancelled_between_its_slices_ends_there(monkeypatch):
    graph, x, y = long_graph()
    array = np.eye(SIZE, dtype=np.float32)
    async with session_of_one_worker(graph) as session:
        await session.run(y, {x: array})
        calls = 0

        def paused_once(self, outcome, workers):
            nonlocal calls
            calls += 1
            loop.call_soon_threadsafe(running.cancel)
            return Outcome.PAUSED

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(Walk, "walk_released", paused_once)
        running = asyncio.create_task(session.run(y, {x: array}))
        await asyncio.wait([running])
        monkeypatch.undo()
        again = await session.run(y, {x: array})

    assert running.cancelled()
    assert calls >= 1
    np.testing.assert_array_equal(again, array)
