"""The time of an enqueue and of a dequeue, each in a run of its own."""

import asyncio as events
from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of an enqueue and a dequeue"
REFERENCES = ["asyncio"]  # a bare asyncio.Queue: no graph, no feeds, no fetches
CASES = [Case("FIFOQueue, float32 scalars")]
VALUE = np.asarray(7.5, np.float32)
CAPACITY = 10


def build(lib: Any, case: Case) -> Graphed:
    queue = lib.FIFOQueue(CAPACITY, [lib.float32], shapes=[[]])
    x = lib.placeholder(lib.float32, [], name="x")
    return Graphed([queue.enqueue(x), queue.dequeue()], {x: VALUE})


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    session, built = await sessions.aioexec_session(build, case, stack)
    (enqueue, dequeue), feeds = built.outputs, dict(built.feeds)

    async def step() -> Any:
        await session.run(enqueue, feeds)
        return await session.run(dequeue)

    return Workload(step)


def tensorflow(case: Case) -> Workload:
    session, built = sessions.tensorflow_session(build, case)
    (enqueue, dequeue), feeds = built.outputs, dict(built.feeds)

    def step() -> Any:
        session.run(enqueue, feeds)
        return session.run(dequeue)

    return Workload(step)


def asyncio(case: Case) -> Workload:
    queue: events.Queue[Any] = events.Queue(CAPACITY)

    async def step() -> Any:
        await queue.put(VALUE)
        return await queue.get()

    return Workload(step)
