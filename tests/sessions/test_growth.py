"""No growth over steps: objects, frames, programs, threads; for steps that succeed, fail or are cancelled."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from aioexec.errors import OpError
from aioexec.sessions import session as session_module
from tests.tiers import Ops, Tier, constant, feed, graph, op, programs, read, resource, runtime, session_on


def least_growth(sizes: list[int]) -> int:
    """How much more there is from one look to the next, at least: what a step leaves behind is there each time, while pools
    are filled once, though it is not known when concurrent steps need another frame."""
    return min(after - before for before, after in pairwise(sizes))


@pytest.mark.slow
async def test_nothing_grows_over_steps(tier: Tier, ops: Ops):
    ops.broken("TestBreak", lambda x: x + 1)
    with graph() as g:
        x, n, v = feed([None]), feed([], "int32"), resource([4])
        init = op("AssignVariableOp", v, constant([0.0] * 4))
        y = op("TestBreak", op("Mul", x, constant(2.0)))
        failing = op("FloorDiv", constant(1, "int32"), n)
        update = op("AssignAddVariableOp", v, constant([1.0] * 4))
        value = read(v)

    async with tier.session(g) as session:

        async def steps() -> None:
            for size in (3, 4, 3):
                await session.run([y, value], {x: np.ones(size, np.float32)})
            await asyncio.gather(*(session.run(update) for _ in range(5)))
            with pytest.raises(OpError):
                await session.run(failing, {n: 0})
            cancelled = asyncio.create_task(session.run([y, value, update], {x: np.ones(3, np.float32)}))
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)

        await session.run(init)
        for _ in range(20):
            await steps()
        runtime(
            session
        ).engine.workers.start_all()  # they start when there is work, which depends on the machine
        before = threading.active_count(), len(programs(session))
        objects = []
        for _ in range(5):
            gc.collect()
            objects.append(len(gc.get_objects()))
            for _ in range(20):
                await steps()

        assert least_growth(objects) < 20, "less than an object a time"
        assert (threading.active_count(), len(programs(session))) == before
        assert all(len(program.frames) <= 4 for program in programs(session))


async def test_structures_of_fetches_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session_module, "_MOST_PREPARED", 4)
    with graph() as g:
        x = feed([])
        y = op("Neg", x)

    async with session_on(g, "off") as session:
        for count in range(1, 10):
            assert len(await session.run([y] * count, {x: 1.0})) == count
            assert len(session.prepared) <= 4


@pytest.mark.slow
async def test_no_bytes_are_left_behind_by_training_steps(tier: Tier):
    with graph() as g:
        x, y, v = feed([None, 16]), feed([None], "int32"), resource([16, 4])
        init = op("AssignVariableOp", v, constant(np.zeros((16, 4))))
        loss, slope = op("SparseSoftmaxCrossEntropyWithLogits", op("MatMul", x, read(v)), y)
        step = op("MatMul", x, slope, transpose_a=True)
        train = op("AssignSubVariableOp", v, op("Mul", step, constant(0.01)))
    feeds = {x: np.ones((8, 16), np.float32), y: np.zeros(8, np.int32)}

    async with tier.session(g) as session:
        await session.run(init)
        for _ in range(50):
            await session.run([loss, train], feeds)
        gc.collect()
        tracemalloc.start()
        try:
            sizes = []
            for _ in range(5):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
                for _ in range(80):
                    await session.run([loss, train], feeds)
        finally:
            tracemalloc.stop()

    assert least_growth(sizes) < 80 * 16, "less than the smallest object a step"
