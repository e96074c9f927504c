"""The time of a partial run: its setup and two parts, of which the second continues from the first."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of a setup and two partial runs"
CASES = [Case("a + 1, then times b: scalars"), Case("the same, 64 elements", size=64)]


def build(lib: Any, case: Case) -> Graphed:
    dims = [case.size] if case.size else []
    a = lib.placeholder(lib.float32, dims, name="a")
    b = lib.placeholder(lib.float32, dims, name="b")
    first = a + np.float32(1)
    feeds = {a: np.full(dims, 2.5, np.float32), b: np.full(dims, -4, np.float32)}
    return Graphed([first, first * b], feeds)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    session, built = await sessions.aioexec_session(build, case, stack)
    (first, second), (one, other) = built.outputs, _parts(built)
    fetches, feeds = [first, second], [*one, *other]

    async def step() -> Any:
        handle = await session.partial_run_setup(fetches, feeds)
        return [
            await session.partial_run(handle, first, one),
            await session.partial_run(handle, second, other),
        ]

    return Workload(step)


def tensorflow(case: Case) -> Workload:
    session, built = sessions.tensorflow_session(build, case)
    (first, second), (one, other) = built.outputs, _parts(built)
    fetches, feeds = [first, second], [*one, *other]

    def step() -> Any:
        handle = session.partial_run_setup(fetches, feeds)
        return [session.partial_run(handle, first, one), session.partial_run(handle, second, other)]

    return Workload(step)


def _parts(built: Graphed) -> list[dict[Any, sessions.Array]]:
    return [{tensor: value} for tensor, value in built.feeds.items()]
