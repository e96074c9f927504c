"""Steps on GPUs of the stub."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import ConfigProto
from aioexec.sessions.session import Session
from aioexec.testing.cluster import InMemoryCluster
from tests.cuda.conftest import Gpus
from tests.tiers import constant, feed, graph, op, read, resource, session_on


class Counter:
    """A variable on the current device, and what is done with it: initialised, `x` added, read."""

    def __init__(self, x: Any, initial: Any) -> None:
        self.x = x
        v = resource(x.dims)
        self.init = op("AssignVariableOp", v, initial)
        self.add = op("AssignAddVariableOp", v, x)
        self.value = read(v)


@pytest.mark.parametrize("seed", range(10))
async def test_values_go_in_and_come_out(gpus: Gpus, seed: int):
    gpus.stub._random.seed(seed)
    with graph() as g:
        x = feed([2, 2])
        y = op("Neg", op("Add", x, constant([[1.0, 2.0], [3.0, 4.0]])))

    async with session_on(g, "off") as session:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(y, {x: np.eye(2)}), [[-2, -2], [-3, -5]])

    assert gpus.stub.calls.count("cuLaunchKernel") == 6


async def test_a_long_chain_waits_for_one_module(gpus: Gpus):
    """The stream gets all of it when the module is there, without calls inside of calls."""
    length = 2 * sys.getrecursionlimit()
    with graph() as g:
        x = feed([2])
        y = x
        for _ in range(length):
            y = op("Neg", y)

    async with session_on(g, "off") as session:
        np.testing.assert_array_equal(await session.run(y, {x: [1.0, 2.0]}), [1, 2])

    assert gpus.stub.calls.count("cuLaunchKernel") == length


@pytest.mark.parametrize("seed", range(10))
async def test_variables_are_read_and_written(gpus: Gpus, seed: int):
    gpus.stub._random.seed(seed)
    with graph() as g:
        counter = Counter(feed([2]), constant([1.0, 2.0]))

    async with session_on(g, "off") as session:
        await session.run(counter.init)
        for _ in range(3):
            await session.run(counter.add, {counter.x: [1, 1]})
        np.testing.assert_array_equal(await session.run(counter.value), [4, 5])


async def test_what_has_no_kernel_runs_on_the_processor(gpus: Gpus, caplog: pytest.LogCaptureFixture):
    with graph() as g:
        x = feed([2], name="x")
        y = op("Neg", op("Sqrt", op("Neg", x, name="neg"), name="sqrt"), name="last")
    config = ConfigProto(log_device_placement=True)

    with caplog.at_level(logging.INFO):
        async with Session(graph=g, config=config) as session:
            np.testing.assert_array_equal(await session.run(y, {x: [-4, -9]}), [-2, -3])

    places = {
        name: device
        for name in ("neg", "sqrt", "last")
        for device in ("CPU:0", "GPU:0")
        if re.search(rf"{name}.*{device}", caplog.text)
    }
    assert places == {"neg": "GPU:0", "sqrt": "CPU:0", "last": "GPU:0"}


async def test_a_gpu_that_is_not_there_is_refused_unless_placement_is_soft(gpus: Gpus):
    with graph() as g:
        x = feed([2])
        with g.device("/gpu:1"):
            y = op("Neg", x)
        with g.device("/gpu:0"):
            z = op("Sqrt", x)

    async with session_on(g, "off") as session:
        with pytest.raises(InvalidArgumentError, match="GPU:1"):
            await session.run(y, {x: [1, 4]})
    async with Session(graph=g, config=ConfigProto(allow_soft_placement=True)) as session:
        np.testing.assert_array_equal(await session.run(y, {x: [1, 4]}), [-1, -4])
        np.testing.assert_array_equal(await session.run(z, {x: [1, 4]}), [1, 2])


async def test_no_device_is_made_if_the_session_wants_none(gpus: Gpus):
    with graph() as g:
        x = feed([2])
        y = op("Neg", x)

    async with Session(graph=g, config=ConfigProto(device_count={"GPU": 0})) as session:
        np.testing.assert_array_equal(await session.run(y, {x: [1, 4]}), [-1, -4])
        assert [device.name[-5:] for device in await session.list_devices()] == ["CPU:0"]
    assert gpus.stub.calls == []


async def test_two_sessions_share_a_gpu(gpus: Gpus):
    stub = gpus.stub
    with graph() as g:
        counter = Counter(feed([2]), constant([0.0, 0.0]))

    async with session_on(g, "off") as first:
        await first.run(counter.init)
        async with session_on(g, "off") as second:
            await second.run(counter.init)
            await asyncio.gather(
                *(first.run(counter.add, {counter.x: [1, 1]}) for _ in range(5)),
                *(second.run(counter.add, {counter.x: [2, 2]}) for _ in range(5)),
            )
            np.testing.assert_array_equal(await first.run(counter.value), [5, 5])
            np.testing.assert_array_equal(await second.run(counter.value), [10, 10])
            assert (stub.counts["context"], stub.counts["pool"], stub.counts["stream"]) == (1, 1, 6)
        np.testing.assert_array_equal(await first.run(counter.value), [5, 5])
        assert (stub.counts["context"], stub.counts["module"], stub.counts["stream"]) == (1, 1, 3)


@pytest.mark.parametrize("reaches", [True, False])
async def test_values_go_from_one_gpu_to_another(gpus: Gpus, reaches: bool):
    gpus.stub.gpus = 2
    gpus.stub.reaches = {(0, 1), (1, 0)} if reaches else set()
    with graph() as g:
        x = feed([2])
        with g.device("/gpu:0"):
            a = op("Neg", x)
        with g.device("/gpu:1"):
            b = op("Add", a, a)
        with g.device("/gpu:0"):
            c = op("Add", b, a)

    async with session_on(g, "off") as session:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(c, {x: [1, 2]}), [-3, -6])

    assert gpus.stub.calls.count("cuMemcpyPeerAsync") == (6 if reaches else 0)


async def test_virtual_devices_of_one_gpu_copy_directly(gpus: Gpus):
    with graph() as g:
        x = feed([2])
        with g.device("/gpu:0"):
            a = op("Neg", x)
        with g.device("/gpu:1"):
            b = op("Add", a, a)
    config = ConfigProto()
    config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[16, 16])

    async with Session(graph=g, config=config) as session:
        np.testing.assert_array_equal(await session.run(b, {x: [1, 2]}), [-2, -4])

    assert gpus.stub.calls.count("cuMemcpyPeerAsync") == 1


@pytest.mark.parametrize("seed", range(20))
async def test_many_steps_at_once_give_each_its_own_values(gpus: Gpus, seed: int):
    gpus.stub._random.seed(seed)
    with graph() as g:
        x = feed([None])
        y = op("Add", op("Neg", op("Add", x, x)), x)

    async with session_on(g, "off") as session:
        sizes = [3, 50_000, 7, 40_000, 1]
        found = await asyncio.gather(*(session.run(y, {x: np.full(size, k)}) for k, size in enumerate(sizes)))
        for k, size in enumerate(sizes):
            np.testing.assert_array_equal(found[k], np.full(size, -k))


@pytest.mark.parametrize("count", [2, 20_000])
async def test_a_device_belongs_to_a_task_of_a_cluster(gpus: Gpus, count: int):
    with graph() as g:
        x = feed([count])
        with g.device("/job:worker/task:1/device:GPU:0"):
            counter = Counter(x, op("Neg", x))
        with g.device("/job:worker/task:0/device:GPU:0"):
            y = op("Add", counter.value, x)

    async with InMemoryCluster({"worker": 2}) as cluster, cluster.session("worker", 0, graph=g) as session:
        for k in range(3):
            await session.run(counter.init, {x: np.arange(count)})
            await session.run(counter.add, {x: np.full(count, k)})
            found = await session.run(y, {x: np.full(count, 10)})
            np.testing.assert_array_equal(found, 10 + k - np.arange(count))
        names = [device.name for device in await session.list_devices()]

    assert [name for name in names if "GPU" in name] == [
        "/job:worker/replica:0/task:0/device:GPU:0",
        "/job:worker/replica:0/task:1/device:GPU:0",
    ]


async def test_the_gpu_is_opened_off_the_event_loop(gpus: Gpus, monkeypatch: pytest.MonkeyPatch):
    threads = []
    retain = gpus.stub._cuDevicePrimaryCtxRetain

    def noted(ordinal: int) -> int:
        threads.append(threading.current_thread())
        return retain(ordinal)

    monkeypatch.setattr(gpus.stub, "_cuDevicePrimaryCtxRetain", noted)
    with graph() as g:
        y = op("Neg", feed([2], name="x"))

    async with session_on(g, "off") as session:
        await session.run(y, {"x:0": [1, 2]})

    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def enter(session: Session, y: Any) -> None:
    async with session:
        pass


async def list_devices(session: Session, y: Any) -> None:
    assert [device.name[-5:] for device in await session.list_devices()] == ["CPU:0", "GPU:0"]


FIRST_USES: list[Callable[[Session, Any], Awaitable[Any]]] = [
    enter,
    list_devices,
    lambda session, y: session.run(y),
    lambda session, y: session.describe(y),
    lambda session, y: session.partial_run_setup([y]),
]


@pytest.mark.parametrize("use", FIRST_USES)
async def test_the_driver_is_loaded_off_the_event_loop(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, use: Callable[[Session, Any], Awaitable[Any]]
):
    """While it is loaded the loop goes on, and a second session waits for the same driver."""
    began, goes_on = asyncio.Event(), threading.Event()
    loop, initialise = asyncio.get_running_loop(), gpus.stub._cuInit

    def held(flags: int) -> None:
        loop.call_soon_threadsafe(began.set)
        assert goes_on.wait(60)
        initialise(flags)

    monkeypatch.setattr(gpus.stub, "_cuInit", held)
    with graph() as g:
        y = op("Neg", constant([1.0, 2.0]))
    sessions = [session_on(g, "off") for _ in range(3)]

    steps = [asyncio.ensure_future(use(session, y)) for session in sessions]
    await began.wait()
    steps[0].cancel()
    await asyncio.wait([steps[0]])
    goes_on.set()
    await asyncio.gather(*steps[1:])

    assert gpus.stub.calls.count("cuInit") == 1
    for session in sessions:
        await session.close()


async def test_a_gpu_that_cannot_be_opened_does_not_matter_to_the_processor(gpus: Gpus):
    gpus.stub.fail("cuDevicePrimaryCtxRetain", "OUT_OF_MEMORY")
    with graph() as g:
        x = feed([2])
        with g.device("/cpu:0"):
            here = op("Neg", x)
    async with session_on(g, "off") as session:
        np.testing.assert_array_equal(await session.run(here, {x: [1, 2]}), [-1, -2])
