"""The time of an iteration of a while loop."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of 1,000 rounds"
ROUNDS_OF_THE_LOOP = 1_000
CASES = [
    Case("count: i + 1", variant="count"),
    Case("a float, too: x * 0.5 + 1", variant="float"),
    Case("a conditional inside", variant="conditional"),
    Case("64 elements: tanh(x * 1.5)", size=64, variant="vector"),
]


def build(lib: Any, case: Case) -> Graphed:
    limit = lib.placeholder(lib.int32, [], name="limit")
    feeds: dict[Any, Any] = {limit: np.array(ROUNDS_OF_THE_LOOP, np.int32)}
    if case.variant == "count":
        return Graphed([lib.while_loop(lambda i: i < limit, lambda i: i + 1, [0])], feeds)
    dims = [case.size] if case.size else []
    start = lib.placeholder(lib.float32, dims, name="start")
    feeds[start] = np.linspace(0.1, 1, max(case.size, 1), dtype=np.float32).reshape(dims)

    def body(i: Any, x: Any) -> Any:
        if case.variant == "vector":
            return i + 1, lib.tanh(x * np.float32(1.5))
        if case.variant == "conditional":
            return i + 1, lib.cond(
                x > np.float32(1.5), lambda: x - np.float32(1), lambda: x * np.float32(1.25)
            )
        return i + 1, x * np.float32(0.5) + np.float32(1)

    return Graphed(lib.while_loop(lambda i, x: i < limit, body, [0, start]), feeds)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    return await sessions.aioexec(build, case, stack)


def tensorflow(case: Case) -> Workload:
    return sessions.tensorflow(build, case)


def tensorflow_inline(case: Case) -> Workload:
    return sessions.tensorflow(build, case, inter_op=-1)
