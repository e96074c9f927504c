"""The lateness of a 1 ms heartbeat while two sessions run heavy steps in the same loop.

A blocking peer holds the loop for the whole step; "in threads" calls it by `asyncio.to_thread`.
"""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload, call, measure_lag

QUESTION = __doc__.splitlines()[0]
MEASURES = "99th percentile of the lag"
CASES = [
    Case("4 matmuls 1024x1024 in turn", size=1024, variant="matmul"),
    Case("100 elementwise ops on 1e6", size=1_000_000, variant="chain"),
    Case("100 small steps a turn", size=64, variant="small"),
]
SESSIONS = 2


def build(lib: Any, case: Case) -> Graphed:
    if case.variant == "matmul":
        fed = np.random.default_rng(5).standard_normal((case.size, case.size)).astype(np.float32) / 32
        x = y = lib.placeholder(lib.float32, [case.size, case.size], name="x")
        for _ in range(4):
            y = lib.matmul(y, x)
        return Graphed([lib.reduce_sum(y)], {x: fed})
    x = y = lib.placeholder(lib.float32, [case.size], name="x")
    for _ in range(25):
        y = lib.tanh(lib.sin(y) * np.float32(1.5)) + np.float32(0.1)
    return Graphed([lib.reduce_mean(y)], {x: np.linspace(-2, 2, case.size, dtype=np.float32)})


def runs_of(case: Case) -> range:
    return range(100 if case.variant == "small" else 1)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    pairs = [await sessions.aioexec_session(build, case, stack) for _ in range(SESSIONS)]

    async def repeat(session: Any, built: Graphed) -> Any:
        for _ in runs_of(case):
            result = await session.run([*built.outputs], built.feeds)
        return result

    async def step() -> Any:
        results = await asyncio.gather(*(repeat(session, built) for session, built in pairs))
        return results[0]

    return Workload(step, measure=lambda seconds: measure_lag(step, seconds))


def tensorflow(case: Case) -> Workload:
    steps = _tensorflow_steps(case)
    return Workload(
        steps[0], measure=lambda seconds: measure_lag(lambda: [step() for step in steps], seconds)
    )


def tensorflow_threads(case: Case) -> Workload:
    steps = _tensorflow_steps(case)

    async def step() -> Any:
        return (await asyncio.gather(*(asyncio.to_thread(each) for each in steps)))[0]

    return Workload(lambda: call(step), measure=lambda seconds: measure_lag(step, seconds))


def _tensorflow_steps(case: Case) -> list[Any]:
    pairs = [sessions.tensorflow_session(build, case) for _ in range(SESSIONS)]

    def repeat(session: Any, built: Graphed) -> Any:
        for _ in runs_of(case):
            result = session.run([*built.outputs], built.feeds)
        return result

    return [partial(repeat, *pair) for pair in pairs]
