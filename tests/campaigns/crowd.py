"""Many concurrent callers: runs of one session, clients of one server, and sessions that refuse when busy.

Counts decide, never times. Runs of one session are fair if the run that arrived as number k is among the first 2 (k + w) to
begin, where w is the limit of concurrent runs; the time of a run's end depends on the system, which may suspend its thread.
Clients that repeat a request are fair if, when the first of them has its last reply, each has at least half as many. A waiting
run may take `MOST_BYTES`, however many wait. A session that refuses admits exactly as many runs as it is configured for.

    python -m tests.campaigns.crowd --count 4 --limit 300
"""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np

import aioexec as ax
from aioexec.errors import ResourceExhaustedError
from aioexec.execution.programs.arena_limit import DEFAULT_BYTES
from aioexec.execution.programs.program_run import ProgramRun
from aioexec.graph.graph import Graph
from aioexec.sessions.session import Session
from aioexec.testing import all_tasks_blocked
from tests.campaigns import campaign
from tests.tiers import programs, runtime

CALLERS = 10_000
CLIENTS = 1_000
REQUESTS = 100  # a client that need not wait has about ten answers in a tick of the loop
MOST_BYTES = 8 << 10
"""Of a waiting run, its task included: twice what it takes, since Python's versions differ."""
SIDE = 256


def product() -> tuple[Graph, Any, Any]:
    """A graph whose program has an arena of half a megabyte and a number as its result."""
    with Graph().as_default() as made:
        x = ax.placeholder(ax.float32, [SIDE, SIDE], name="x")
        y = ax.reduce_sum(ax.matmul(ax.tanh(x), ax.exp(x)), name="y")
    return made, x, y


def session_of(made: Graph, **options: Any) -> Session:
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    for name, value in options.items():
        setattr(config.aioexec, name, value)
    return Session(graph=made, config=config)


async def runs_of_one_session(callers: int) -> str | None:
    """Runs begin in the order of arrival, within a factor of 2, and return the right results."""
    made, x, y = product()
    values = np.linspace(0, 1, 7, dtype=np.float32)
    arrays = [np.full((SIDE, SIDE), value) for value in values]
    expected = SIDE**3 * np.tanh(values) * np.exp(values)
    callers_of: dict[int, int] = {}  # by the identity of the array that each one feeds
    begun: list[int] = []
    begin = ProgramRun.begin

    def noting(run: ProgramRun, *arguments: Any) -> None:
        begun.append(callers_of[id(run.arrays[0])])
        begin(run, *arguments)

    async with session_of(made) as session:
        await session.run(y, {x: arrays[0]})
        (program,) = programs(session)
        under_way = max(
            DEFAULT_BYTES // program.variant.arena_bytes, 2 * runtime(session).engine.workers.count
        )

        async def caller(k: int) -> Any:
            array = arrays[k % 7].view()
            callers_of[id(array)] = k
            return await session.run(y, {x: array})

        with mock.patch.object(ProgramRun, "begin", noting):
            results = await asyncio.gather(*map(caller, range(callers)))
    np.testing.assert_allclose(results, [expected[k % 7] for k in range(callers)], rtol=1e-4)
    if sorted(begun) != list(range(callers)):
        return f"of {callers} runs {len(begun)} began"
    for rank, k in enumerate(begun):
        if rank > 2 * (k + under_way):
            return f"run {k} of {callers} was number {rank} to begin; {under_way} may be under way"
    return None


async def memory_of_waiting_runs(callers: int) -> str | None:
    """The memory of waiting runs grows linearly in their number."""
    made, x, y = product()
    feeds = {x: np.zeros((SIDE, SIDE), np.float32)}

    async with session_of(made) as session:
        await session.run(y, feeds)
        (program,) = programs(session)
        program.inline, program.cost = False, 10**9
        engine = runtime(session).engine
        gate = threading.Event()
        for _ in range(engine.workers.count):
            engine.workers.submit(gate.wait)
        running = [asyncio.create_task(session.run(y, feeds)) for _ in range(200)]
        await all_tasks_blocked()
        sizes: list[float] = []
        tracemalloc.start()
        try:
            for count in (callers // 2, callers // 2):
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
                running += [asyncio.create_task(session.run(y, feeds)) for _ in range(count)]
                await all_tasks_blocked()
                gc.collect()
                sizes.append((tracemalloc.get_traced_memory()[0] - before) / count)
        finally:
            tracemalloc.stop()
            gate.set()
        results = await asyncio.gather(*running)
        left = engine.arena_limit.runs, engine.arena_limit.used
    if any(results) or left != (0, 0):
        return f"wrong results, or arenas that are still counted: {left}"
    if max(sizes) > MOST_BYTES or sizes[1] > 1.5 * sizes[0]:
        return f"a waiting run took {sizes} bytes"
    return None


async def refusals(callers: int, bound: int) -> str | None:
    """As many runs as configured are admitted, the others are refused at once, and nothing is lost."""
    with Graph().as_default() as made:
        queue = ax.FIFOQueue(callers, [ax.float32], [[]])
        get, put = queue.dequeue(), queue.enqueue(1.0)
    async with (
        session_of(made, max_steps_in_flight=bound, refuse_when_busy=True) as session,
    ):
        for _ in range(2):
            await session.run(put)
            await session.run(get)
        running = [asyncio.create_task(session.run(get)) for _ in range(callers)]
        await all_tasks_blocked()
        refused = [task for task in running if task.done()]
        errors = Counter(type(task.exception()) for task in refused)
        waiting = [task for task in running if not task.done()]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await session.run(put)
        result = await session.run(get)
    if errors != {ResourceExhaustedError: callers - bound} or running[:bound] != waiting:
        return f"{len(waiting)} of {callers} admitted where {bound} may be; {errors}"
    return None if result == 1.0 else f"after the crowd a run gave {result}"


async def clients_of_one_server(clients: int, requests: int) -> str | None:
    """Each client of a server has its share of the answers."""
    with Graph().as_default() as made:
        x = ax.placeholder(ax.float32, [4], name="x")
        y = ax.reduce_sum(x * 2.0)
    answers = [0] * clients
    least: list[int] = []
    server = ax.train.Server.create_local_server()
    sessions = [Session(server.target, graph=made) for _ in range(clients)]

    async def client(k: int) -> None:
        for _ in range(requests):
            result = await sessions[k].run(y, {x: np.full(4, k, np.float32)})
            assert result == 8.0 * k, (k, result)
            answers[k] += 1
        if not least:
            least.append(min(answers))

    try:
        for session in sessions:  # what is measured begins with open sessions
            await session.run(y, {x: np.zeros(4, np.float32)})
        await asyncio.gather(*map(client, range(clients)))
    finally:
        await asyncio.gather(*(session.close() for session in sessions))
        await server.stop()
    if 2 * least[0] < requests:
        return f"one client had {requests} answers when another had {least[0]}"
    return None


def case(seed: int) -> str | None:
    """One crowd of full size."""
    kinds = [
        lambda: runs_of_one_session(CALLERS),
        lambda: memory_of_waiting_runs(CALLERS),
        lambda: refusals(CALLERS, 1 + seed * 7 % 100),
        lambda: clients_of_one_server(CLIENTS, REQUESTS),
    ]
    return asyncio.run(kinds[seed % len(kinds)]())


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
