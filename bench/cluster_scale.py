"""The time of the first and of further steps by the number of workers and of edges between them.

All workers are real servers in one loop, with simulated messages that take no time. A star has a node on each worker and their
sum on the first; a ring has a value that is passed from worker to worker, once around. A step is timed; the notes break down
the time before it.
"""

from contextlib import AsyncExitStack
from time import perf_counter
from typing import Any

import numpy as np

from bench.workload import Case, Sample, Workload

QUESTION = __doc__.splitlines()[0]
ROUNDS = 3
CASES = [
    Case(f"{shape} of {size} workers", size=size, variant=shape)
    for shape in ("star", "ring")
    for size in (4, 16, 64, 256)
]


def build(lib: Any, case: Case) -> tuple[Any, Any, Any]:
    with lib.Graph().as_default() as graph:
        with lib.device("/job:worker/task:0"):
            fed = value = lib.placeholder(lib.float32, [], name="x")
        values = []
        for task in range(case.size):
            with lib.device(f"/job:worker/task:{task}"):
                value = (value if case.variant == "ring" else fed) + np.float32(task)
                values.append(value)
        with lib.device("/job:worker/task:0"):
            result = lib.add_n(values) if case.variant == "star" else value * np.float32(2)
    return graph, fed, result


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    import aioexec as lib
    from aioexec.testing.cluster import InMemoryCluster

    config = lib.ConfigProto()
    config.aioexec.jit = "off"  # what is asked is what lies around the kernels
    graph, fed, result = build(lib, case)
    notes: dict[str, float] = {}
    began = perf_counter()
    cluster = await stack.enter_async_context(InMemoryCluster({"worker": case.size}, config))
    notes["servers ms"] = 1e3 * (perf_counter() - began)
    session = await stack.enter_async_context(cluster.session("worker", 0, graph, config))
    feeds = {fed: np.float32(1)}
    began = perf_counter()
    await session.list_devices()
    notes["session ms"] = 1e3 * (perf_counter() - began)
    began = perf_counter()
    await session.run(result, feeds)
    notes["first step ms"] = 1e3 * (perf_counter() - began)

    async def step() -> Any:
        return await session.run(result, feeds)

    async def measure(seconds: float) -> Sample:
        samples: list[float] = []
        end = perf_counter() + seconds
        while not samples or perf_counter() < end:
            before = perf_counter()
            await step()
            samples.append(perf_counter() - before)
        return Sample(samples, {**notes, "µs a worker": 1e6 * min(samples) / case.size})

    return Workload(step, measure=measure)
