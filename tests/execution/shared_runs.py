"""Programs with parallel regions, for tests of the threads that run their tasks."""

import asyncio
import threading
from contextlib import asynccontextmanager

import numpy as np

import aioexec as ax
from tests.tiers import executors, programs

WORKERS = 3


@asynccontextmanager
async def session_of(build):
    """A session whose programs are there, what `build` gave, and its workers."""
    config = ax.ConfigProto(intra_op_parallelism_threads=WORKERS, use_per_session_threads=True)
    config.aioexec.jit = "eager"
    with ax.Graph().as_default() as graph:
        built = build()
        start = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(start)
        yield session, built


def workers_of(session: ax.Session):
    return next(program.workers for program in programs(session) if program.parallel_regions)


@asynccontextmanager
async def busy(workers):
    """All workers have something else to do until the event is set."""
    gate, came = threading.Event(), threading.Barrier(WORKERS + 1)

    def work() -> None:
        came.wait()
        gate.wait()

    jobs = [workers.submit(work) for _ in range(WORKERS)]
    await asyncio.to_thread(came.wait)
    try:
        yield gate
    finally:
        gate.set()
        for job in jobs:
            await job.result()


@asynccontextmanager
async def counted_turns():
    """A list that grows by one in each loop iteration."""
    turns: list[None] = []

    async def others() -> None:
        while True:
            await asyncio.sleep(0)
            turns.append(None)

    other = asyncio.create_task(others())
    try:
        yield turns
    finally:
        other.cancel()


def branches():
    """Twelve products that wait for nothing, and their sum."""
    rng = np.random.default_rng(3)
    x = ax.placeholder(ax.float32, [17, 31])
    ends = []
    for _ in range(12):
        w = ax.constant(rng.normal(size=(31, 29)).astype(np.float32))
        ends.append(ax.reduce_sum(ax.tanh(ax.matmul(x, w)), axis=1))
    return x, ax.add_n(ends)


def by_numpy(array):
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(31, 29)).astype(np.float32) for _ in range(12)]
    return sum(np.tanh(array.astype(float) @ w).sum(axis=1) for w in weights)


def only_executor(session: ax.Session):
    return executors(session)[-1]
