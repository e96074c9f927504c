"""The time of the first step of a graph by its number of nodes."""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench.workload import Case, Workload

QUESTION = __doc__
MEASURES = "time of the first step of a new session"
CASES = [
    Case("1,000 nodes", size=1_000),
    Case("10,000 nodes", size=10_000),
    Case("100,000 nodes", size=100_000),
]
ROUNDS = 3


def chain(lib: Any, nodes: int) -> tuple[Any, Any, Any]:
    """A graph in which each node uses the two before it, and nothing can be folded or merged."""
    with lib.Graph().as_default() as graph:
        x = before = last = lib.placeholder(lib.float32, [2], name="x")
        for k in range(nodes - 1):
            before, last = last, lib.tanh(last + before) if k % 3 == 0 else lib.maximum(last, before)
    return graph, x, last


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as lib

    graph, x, last = chain(lib, case.size)

    async def step() -> Any:
        async with lib.Session(graph=graph) as session:
            return [await session.run(last, {x: np.ones(2, np.float32)})]

    return Workload(step)


def tensorflow(case: Case) -> Workload:
    import tensorflow.compat.v1 as tf

    graph, x, last = chain(tf, case.size)

    def step() -> Any:
        with tf.Session(graph=graph) as session:
            return [session.run(last, {x: np.ones(2, np.float32)})]

    return Workload(step)
