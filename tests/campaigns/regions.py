"""Many small parallel regions in real threads: random tasks, workers, owners, delays and cancellations, with exact results.

A case is one session of two to four workers. Its step is a random graph of products and remainders of small integers, which
floating-point numbers represent exactly, split into as many tasks as possible, and adds its result to a variable. Several
callers run it concurrently, some of them cancelled at a random loop iteration. Each result must be NumPy's, and the variable
the sum of the returned results and of some of the cancelled steps, each added as a whole or not at all.

    python -m tests.campaigns.regions --count 1000
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from typing import Any
from unittest import mock

import numpy as np

import aioexec as ax
from aioexec.execution.programs import program_run
from aioexec.graph.graph import Graph
from aioexec.planning.parallelism import lanes
from tests.campaigns import campaign
from tests.tiers import programs

SIDE = 8
MODULUS = 5.0  # a product of two such matrices stays below 200
RUNS = 40
MOST_CANCELLED = 6  # all combinations of those are tried

Array = np.ndarray[Any, Any]
_SMALLEST_TASKS: dict[str, Any] = {"SHARE_NS": 1, "_PART_NS": 1, "_LEAST_GRAIN_NS": 1, "_TASK_NS": 0}


class Step:
    """A random graph: each node is the remainder of a product of one before it, and of another one added."""

    def __init__(self, rng: random.Random) -> None:
        count = rng.randint(3, 12)
        numbers = np.random.default_rng(rng.getrandbits(32))
        self._weights = numbers.integers(0, 5, (count, SIDE, SIDE)).astype(np.float32)
        places = [0, 0, *range(2, count)]  # two that wait for nothing: a chain would be no region
        self._before = [(rng.randint(0, k), rng.randint(0, k)) for k in places]

    def build(self) -> tuple[Graph, Any, Any, Any]:
        """The graph, what is fed, what is fetched, and the variable."""
        with ax.Graph().as_default() as graph:
            x = ax.placeholder(ax.float32, [SIDE, SIDE])
            nodes = [x]
            for (one, other), weight in zip(self._before, self._weights, strict=True):
                nodes.append(ax.floormod(ax.matmul(nodes[one], ax.constant(weight)) + nodes[other], MODULUS))
            total = ax.add_n(nodes)
            v = ax.get_variable("v", [SIDE, SIDE], initializer=ax.zeros_initializer(), use_resource=True)
            with ax.control_dependencies([v.assign_add(total, read_value=False)]):
                fetched = ax.identity(total)
        return graph, x, fetched, v

    def by_numpy(self, x: Array) -> Array:
        nodes = [x]
        for (one, other), weight in zip(self._before, self._weights, strict=True):
            nodes.append(np.mod(nodes[one] @ weight + nodes[other], np.float32(MODULUS)))
        return sum(nodes, np.zeros_like(x))


def case(seed: int) -> str | None:
    rng = random.Random(seed)
    owners: dict[str, Any] = rng.choice(
        [{"_LONGEST_NS": -1}, {"_SLICE_NS": 0, "_WHOLE_NS": 0}, {"_OTHERS_NS": -1}, {"_OTHERS_NS": 1 << 62}]
    )
    with mock.patch.multiple(lanes, **_SMALLEST_TASKS), mock.patch.multiple(program_run, **owners):
        return asyncio.run(_run(rng))


async def _run(rng: random.Random) -> str | None:
    step = Step(rng)
    graph, x, fetched, v = step.build()
    with graph.as_default():
        start = ax.global_variables_initializer()
        value = v.read_value()
    config = ax.ConfigProto(intra_op_parallelism_threads=rng.randint(2, 4), use_per_session_threads=True)
    config.aioexec.jit = "eager"
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(start)
        await session.run(fetched, {x: np.zeros((SIDE, SIDE), np.float32)})
        if not any(program.parallel_regions for program in programs(session)):
            return "no region was made"
        before = await session.run(value)
        returned, cancelled, message = await _run_all(rng, step, session, x, fetched)
        if message is not None:
            return message
        found = await session.run(value) - before
    left = found - sum(returned, np.zeros((SIDE, SIDE)))
    for some in itertools.product((False, True), repeat=len(cancelled)):
        if np.array_equal(left, sum(itertools.compress(cancelled, some), np.zeros((SIDE, SIDE)))):
            return None
    return f"the variable is torn: {left!r} is left of {len(cancelled)} cancelled steps"


async def _run_all(
    rng: random.Random, step: Step, session: Any, x: Any, fetched: Any
) -> tuple[list[Array], list[Array], str | None]:
    """The returned results, those of the cancelled steps, and failures."""
    returned: list[Array] = []
    cancelled: list[Array] = []
    wrong: list[str] = []

    async def caller(runs: int) -> None:
        for _ in range(runs):
            array = np.full((SIDE, SIDE), rng.randint(0, 4), np.float32)
            running = asyncio.ensure_future(session.run(fetched, {x: array}))
            if len(cancelled) + waiting[0] < MOST_CANCELLED and rng.random() < 0.25:
                waiting[0] += 1
                for _ in range(rng.randint(0, 6)):
                    await asyncio.sleep(0)
                    os.sched_yield()
                running.cancel()
                waiting[0] -= 1
            expected = step.by_numpy(array)
            try:
                result = await running
            except asyncio.CancelledError:
                cancelled.append(expected)
                continue
            returned.append(expected)
            if not np.array_equal(result, expected):
                wrong.append(f"expected {expected!r}, got {result!r}")

    waiting = [0]  # callers that are about to cancel
    callers = rng.randint(1, 5)
    await asyncio.gather(*(caller(RUNS // callers) for _ in range(callers)))
    return returned, cancelled, wrong[0] if wrong else None


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
