"""The time that an edge between two workers adds to a step.

Two servers in separate processes, the client in a third; the graph begins and ends at the client's server. One case receives a
value of 4 bytes from the other worker, the other case makes ten round trips, one after another.
"""

from contextlib import AsyncExitStack
from typing import Any

import numpy as np

from bench import clusters, sessions
from bench.sessions import Graphed
from bench.workload import Case, Workload

QUESTION = __doc__.splitlines()[0]
CASES = [
    Case("one edge of 4 bytes", size=1),
    Case("20 edges, one after the other", size=20),
]
TASKS = 2


def build(lib: Any, case: Case) -> Graphed:
    first = case.size % 2  # so that the last edge leads to the client's task
    with lib.device(f"/job:worker/task:{first}"):
        value = lib.Variable(np.float32(1))
    for edge in range(1, case.size + 1):
        with lib.device(f"/job:worker/task:{(first + edge) % 2}"):
            value = value * np.float32(1.25)
    return Graphed([value], {}, initialized=True)


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    targets = await clusters.servers("aioexec", TASKS, stack)
    return await sessions.aioexec(build, case, stack, target=targets[0])


async def tensorflow(case: Case, stack: AsyncExitStack) -> Workload:
    targets = await clusters.servers("tensorflow", TASKS, stack)
    return sessions.tensorflow(build, case, target=targets[0])
