"""What goes wrong on a GPU of the stub: the step fails with the node's name, and the rest goes on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from aioexec.devices.cuda.driver import CudaError, Driver
from aioexec.devices.cuda.pinned import SMALL
from aioexec.errors import FailedPreconditionError, InternalError, ResourceExhaustedError, UnavailableError
from tests.cuda.conftest import Gpus
from tests.tiers import constant, feed, graph, op, read, resource, session_on

LIMIT = 1 << 16


async def test_a_step_that_needs_too_much_memory_fails_and_frees_what_it_had(gpus: Gpus):
    with graph() as g:
        n = feed([1], "int32")
        y = op("Neg", op("Fill", n, constant(1.0)), name="large")
        z = op("Add", y, y)
    async with session_on(g, "off") as session:
        assert (await session.run(z, {n: [100]})).sum() == -200
        (device,) = gpus.made
        device.memory.limit = LIMIT
        before = device.memory.used
        with pytest.raises(ResourceExhaustedError, match=r"Neg 'large'.*shape \[10000\]") as caught:
            await session.run(z, {n: [10_000]})
        assert f"of {LIMIT} bytes" in str(caught.value)
        del caught
        assert (await session.run(z, {n: [100]})).sum() == -200
        assert device.memory.used == before


async def test_an_illegal_access_names_the_node_and_loses_the_device(gpus: Gpus):
    """Another GPU and the processor go on."""
    gpus.stub.gpus = 2
    with graph() as g:
        x = feed([2])
        wild = op("Neg", op("Exp", op("Neg", x), name="culprit"))
        with g.device("/gpu:1"):
            elsewhere = op("Neg", x)
        with g.device("/cpu:0"):
            here = op("Neg", x)
    async with session_on(g, "off") as session:
        await session.run([elsewhere, here], {x: [1, 2]})
        with pytest.raises(
            InternalError, match=r"'(culprit|Neg(_1)?)' on .*GPU:0.*CUDA_ERROR_ILLEGAL_ADDRESS"
        ):
            await session.run(wild, {x: [1, 2]})
        for _ in range(2):
            with pytest.raises(UnavailableError, match="GPU:0 was lost"):
                await session.run(wild, {x: [1, 2]})
        for each in (elsewhere, here):
            np.testing.assert_array_equal(await session.run(each, {x: [1, 2]}), [-1, -2])
    assert len(gpus.stub.faults) == 1
    gpus.stub.faults.clear()


async def test_an_illegal_access_that_a_copy_reports_first_names_a_node_that_computes(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
):
    """The thread that waits for the copy of the result is the first to see the error of the kernel."""
    with graph() as g:
        x = feed([2])
        wild, tame = op("Neg", op("Exp", x, name="culprit"), name="then"), op("Neg", x)
    async with session_on(g, "off") as session:
        await session.run(tame, {x: [1, 2]})
        synchronize, is_reported = Driver.synchronize, threading.Event()

        def ordered(driver: Driver, event: int) -> None:
            stream = threading.current_thread().name
            if stream.endswith("compute"):
                assert is_reported.wait(60)
            try:
                synchronize(driver, event)
            finally:
                if stream.endswith("copy-out"):
                    is_reported.set()

        monkeypatch.setattr(Driver, "synchronize", ordered)
        with pytest.raises(InternalError, match=r"'(culprit|then)' on .*GPU:0.*CUDA_ERROR_ILLEGAL_ADDRESS"):
            await session.run(wild, {x: [1, 2]})
    gpus.stub.faults.clear()


async def test_an_illegal_access_that_the_launch_reports_names_its_very_node(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with graph() as g:
        x = feed([2])
        y = op("Neg", op("Add", op("Neg", x), x, name="culprit"))
    async with session_on(g, "off") as session:
        await session.run(y, {x: [1, 2]})
        gpus.stub.fail("cuLaunchKernel", "ILLEGAL_ADDRESS", after=1)
        with pytest.raises(InternalError, match=r"Add 'culprit' on .*GPU:0"):
            await session.run(y, {x: [1, 2]})


async def test_sessions_on_a_lost_gpu_fail_and_a_later_one_begins_anew(gpus: Gpus):
    with graph() as g:
        x = feed([2])
        wild, tame = op("Exp", x), op("Neg", x)
    async with session_on(g, "off") as first:
        await first.run(tame, {x: [1, 2]})
        async with session_on(g, "off") as second:
            await second.run(tame, {x: [1, 2]})
            with pytest.raises(InternalError):
                await first.run(wild, {x: [1, 2]})
            with pytest.raises(UnavailableError, match="was lost"):
                await second.run(tame, {x: [1, 2]})
    gpus.stub.faults.clear()
    gpus.stub._broken.clear()  # a new context, if the driver makes one
    async with session_on(g, "off") as third:
        np.testing.assert_array_equal(await third.run(tame, {x: [1, 2]}), [-1, -2])


@pytest.mark.parametrize(
    "call", ["cuLaunchKernel", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync"]
)
@pytest.mark.parametrize("after", range(3))
async def test_a_refused_call_fails_its_step_alone(gpus: Gpus, call: str, after: int):
    with graph() as g:
        x = feed([2])
        y = op("Neg", op("Add", x, op("Neg", x)))
    async with session_on(g, "off") as session:
        np.testing.assert_array_equal(await session.run(y, {x: [1, 2]}), [0, 0])
        (device,) = gpus.made
        before = device.memory.used
        gpus.stub.fail(call, "INVALID_VALUE", after)
        found = await asyncio.gather(*(session.run(y, {x: [1, 2]}) for _ in range(4)), return_exceptions=True)
        failed = [each for each in found if isinstance(each, BaseException)]
        assert [type(each) for each in failed] == [CudaError]
        assert call in str(failed[0])
        del failed, found
        np.testing.assert_array_equal(await session.run(y, {x: [1, 2]}), [0, 0])
        assert device.memory.used == before


@pytest.mark.parametrize("count", [2, SMALL])
async def test_a_constant_whose_copy_fails_fails_its_step_and_is_copied_again(gpus: Gpus, count: int):
    with graph() as g:
        v = resource([count])
        init = op("AssignVariableOp", v, constant(np.arange(count, dtype=np.float32)))
        value = read(v)
    async with session_on(g, "off") as session:
        gpus.stub.fail("cuMemcpyHtoDAsync", "INVALID_VALUE")
        with pytest.raises(CudaError, match=r"Const.* on .*GPU:0"):
            await session.run(init)
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            await session.run(value)
        await session.run(init)
        np.testing.assert_array_equal(await session.run(value), np.arange(count))


@pytest.mark.parametrize("count", [2, SMALL])
@pytest.mark.parametrize("call", ["cuMemcpyHtoDAsync", "cuLaunchKernel"])
async def test_a_failed_update_leaves_a_variable_as_it_was(gpus: Gpus, call: str, count: int):
    """The work of the update fails after the kernel has replaced the content, at once or when a large feed is staged."""
    with graph() as g:
        v, x = resource([count]), feed([count])
        init = op("AssignVariableOp", v, x)
        updates = [op("AssignAddVariableOp", v, x), op("AssignVariableOp", v, op("Neg", x))]
        value = read(v)
    async with session_on(g, "off") as session:
        await session.run(init, {x: np.ones(count)})
        for update in (*updates, *updates):
            gpus.stub.fail(call, "INVALID_VALUE")
            with pytest.raises(CudaError, match="GPU:0"):
                await session.run(update, {x: np.ones(count)})
            np.testing.assert_array_equal(await session.run(value), np.ones(count))
        await session.run(updates[0], {x: np.ones(count)})
        np.testing.assert_array_equal(await session.run(value), np.full(count, 2))


@pytest.mark.parametrize("turns", range(16))
async def test_a_cancelled_step_ends_when_the_gpu_has(gpus: Gpus, turns: int):
    """Cancelled after any number of turns of the loop: nothing of the step is left on the device."""
    gpus.stub._random.seed(turns)
    with graph() as g:
        v, x = resource([2]), feed([2])
        init = op("AssignVariableOp", v, constant([0.0, 0.0]))
        with g.control_dependencies([op("AssignAddVariableOp", v, op("Neg", x))]):
            value = read(v)
    async with session_on(g, "off") as session:
        await session.run(init)
        (device,) = gpus.made
        await session.run(value, {x: [0, 0]})
        before = device.memory.used
        task: asyncio.Task[Any] = asyncio.ensure_future(session.run(value, {x: [-1, -1]}))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert device._pending == 0
        del task
        assert device.memory.used == before
        found = await session.run(value, {x: [-1, -1]})
        assert found.tolist() in ([1, 1], [2, 2])


async def test_a_cancelled_step_waits_for_work_that_the_gpu_has(gpus: Gpus):
    with graph() as g:
        x = feed([2])
        y = op("Neg", x)
    async with session_on(g, "off") as session:
        await session.run(y, {x: [0, 0]})
        gpus.stub.is_held = True
        task: asyncio.Task[Any] = asyncio.ensure_future(session.run(y, {x: [1, 1]}))
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not task.done()

        gpus.stub.is_held = False
        while gpus.stub.perform():
            pass

        await asyncio.wait([task])
        assert task.cancelled()
