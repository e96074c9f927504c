"""The thread pools on which a session's steps run."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import ConfigProto, RunOptions
from aioexec.sessions.session import Session
from tests.sessions.direct_sessions import direct, new_direct
from tests.tiers import Ops, constant, feed, graph, op, runtime

SIZE = 100_000
"""Elements that make a reference kernel heavy enough for a worker."""
LARGE = np.zeros(SIZE, np.float32)


def config(**fields: Any) -> ConfigProto:
    made = ConfigProto(**fields)
    made.aioexec.jit = "off"
    return made


def with_pools(*pools: tuple[int, str]) -> ConfigProto:
    made = config()
    for num_threads, global_name in pools:
        made.session_inter_op_thread_pool.add(num_threads=num_threads, global_name=global_name)
    return made


class Threads:
    """The op `TestThread`: x to x; notes the thread it runs on and how many run at once; blocks while `gate` is closed."""

    def __init__(self, ops: Ops) -> None:
        self.names: set[str] = set()
        self.most = 0
        self.gate = threading.Event()
        self.gate.set()
        self.entered = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._now = 0
        self._lock = threading.Lock()
        ops.broken("TestThread", self.compute)

    def compute(self, x: Any) -> Any:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
            self.names.add(threading.current_thread().name)
        self._loop.call_soon_threadsafe(self.entered.set)
        assert self.gate.wait(20)
        with self._lock:
            self._now -= 1
        return x


@pytest.mark.behaviour(34)
async def test_a_session_with_threads_of_its_own_computes_the_same(ops: Ops):
    Threads(ops)
    with graph() as g:
        x = feed([SIZE])
        y = op("Add", op("TestThread", x), constant(1.0))
    ones = LARGE + 1

    async with (
        Session(graph=g, config=config()) as shared,
        Session(graph=g, config=config(use_per_session_threads=True)) as own,
    ):
        for session in (shared, own):
            np.testing.assert_array_equal(await session.run(y, {x: LARGE}), ones)
        pools = [runtime(each).pools[0] for each in (shared, own)]
        assert pools[0] is not pools[1]


@pytest.mark.behaviour(35)
async def test_a_blocked_pool_does_not_stop_another(ops: Ops):
    threads = Threads(ops)
    with graph() as g:
        x = feed([SIZE])
        y, z = op("TestThread", x), op("Neg", x)

    async with Session(graph=g, config=with_pools((1, ""), (1, ""))) as session:
        threads.gate.clear()
        blocked = asyncio.create_task(session.run(y, {x: LARGE}))
        await threads.entered.wait()
        result = await session.run(z, {x: LARGE}, RunOptions(inter_op_thread_pool=1))
        assert not blocked.done()
        threads.gate.set()
        await blocked
        for index in (2, -2):
            with pytest.raises(InvalidArgumentError, match=f"Invalid inter_op_thread_pool: {index}"):
                await session.run(z, {x: LARGE}, RunOptions(inter_op_thread_pool=index))

    np.testing.assert_array_equal(result, -LARGE)


@pytest.mark.behaviour(36)
async def test_a_global_pool_keeps_its_number_of_threads_for_ever():
    with graph() as g:
        a = constant(1.0)
    async with (
        direct(with_pools((2, "test_pools_global")), g) as first,
        direct(with_pools((2, "test_pools_global")), g) as second,
    ):
        assert first.pools[0] is second.pools[0]

    for _ in range(2):
        session = new_direct(with_pools((3, "test_pools_global")), g)
        for use in (
            session.run(None, [], [a.name], []),
            session.create(g.as_graph_def()),
            session.list_devices(),
        ):
            with pytest.raises(InvalidArgumentError, match="different number of threads"):
                await use
        await session.close()
    front = Session(graph=g, config=with_pools((3, "test_pools_global")))
    with pytest.raises(InvalidArgumentError, match="different number of threads"):
        await front.run(a)
    await front.close()


@pytest.mark.behaviour(37)
@pytest.mark.parametrize("by_options", [False, True])
async def test_negative_parallelism_is_one_kernel_at_a_time_on_one_worker(ops: Ops, by_options: bool):
    threads = Threads(ops)
    with graph() as g:
        x = feed([SIZE])
        y = op("AddN", [op("TestThread", x) for _ in range(4)])
    made = config(intra_op_parallelism_threads=4)
    if not by_options:
        made.inter_op_parallelism_threads = -1
    options = RunOptions(inter_op_thread_pool=-1) if by_options else None

    async with Session(graph=g, config=made) as session:
        await asyncio.gather(*(session.run(y, {x: LARGE}, options) for _ in range(4)))

    assert threads.most == 1
    assert len(threads.names) == 1
    assert threading.current_thread().name not in threads.names
