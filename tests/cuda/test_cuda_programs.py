"""Programs of GPUs, on a stub that emulates the kernels: from the third step with the same shapes on one graph is launched."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec.devices.cuda.driver import CudaError
from aioexec.errors import InternalError, UnavailableError
from tests.cuda.conftest import Gpus
from tests.tiers import constant, feed, graph, op, read, resource, session_on


class Chain:
    """An input, constants, and a value that is used twice; on the current default graph."""

    def __init__(self) -> None:
        self.x = feed([2])
        inner = op("Neg", op("Add", self.x, constant([1.0, 2.0])))
        self.outputs = [op("Mul", inner, constant([2.0, 3.0])), op("Neg", inner)]

    def feeds(self, k: int) -> dict[Any, Any]:
        return {self.x: [k, 1]}

    def expected(self, k: int) -> Any:
        return [[-2 * (k + 1), -9], [k + 1, 3]]


class Training:
    """A variable that a step halves, and what it computes from the content before; on the current default graph."""

    def __init__(self) -> None:
        v, half = resource([2], name="v"), constant([0.5, 0.5])
        self.init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        self.value = read(v)
        self.loss = op("Neg", op("Mul", self.value, half))
        self.step = op("AssignSubVariableOp", v, op("Neg", self.loss))


async def settled(gpus: Gpus) -> None:
    """Wait until all work of the devices has ended, that of their workers too."""
    for device in gpus.made:
        await device.sync()


@pytest.mark.parametrize("seed", range(10))
async def test_a_step_becomes_one_launch(emulated_gpus: Gpus, seed: int):
    stub = emulated_gpus.stub
    stub._random.seed(seed)
    with graph() as g:
        chain = Chain()
    async with session_on(g, "background") as session:
        for k in range(3):
            np.testing.assert_array_equal(await session.run(chain.outputs, chain.feeds(k)), chain.expected(k))
            await settled(emulated_gpus)
        stub.calls.clear()
        for k in range(5):
            np.testing.assert_array_equal(await session.run(chain.outputs, chain.feeds(k)), chain.expected(k))
        assert stub.calls.count("cuGraphLaunch") == 5
        assert "cuLaunchKernel" not in stub.calls
        assert stub.counts["executable"] == 1
        assert stub.counts["graph"] == 0


@pytest.mark.parametrize("seed", range(10))
async def test_steps_that_run_together_share_memory_one_after_the_other(emulated_gpus: Gpus, seed: int):
    emulated_gpus.stub._random.seed(seed)
    with graph() as g:
        chain = Chain()
    async with session_on(g, "eager") as session:
        for _ in range(3):
            runs = [session.run(chain.outputs, chain.feeds(k)) for k in range(8)]
            for k, found in enumerate(await asyncio.gather(*runs)):
                np.testing.assert_array_equal(found, chain.expected(k))
            await settled(emulated_gpus)
    assert emulated_gpus.stub.calls.count("cuGraphInstantiate") == 1


async def test_programs_of_all_shapes_share_the_arena(emulated_gpus: Gpus):
    """A larger one makes another arena, for which the others are captured again."""
    with graph() as g:
        x = feed()
        y = op("Neg", op("Add", op("Neg", x), constant([1.0])))
    stub = emulated_gpus.stub
    async with session_on(g, "eager") as session:
        for count in (10, 1000, 10, 10, 10, 1000, 1000, 10):
            np.testing.assert_array_equal(await session.run(y, {x: np.arange(count)}), np.arange(count) - 1)
            await settled(emulated_gpus)
        assert stub.calls.count("cuGraphInstantiate") == 3
        assert stub.counts["executable"] == 2


@pytest.mark.parametrize("seed", range(5))
async def test_variables_are_updated_in_place(emulated_gpus: Gpus, seed: int):
    stub = emulated_gpus.stub
    stub._random.seed(seed)
    with graph() as g:
        training = Training()
    async with session_on(g, "eager") as session:
        await session.run(training.init)
        for k in range(6):
            loss, value, _ = await session.run([training.loss, training.value, training.step])
            np.testing.assert_allclose(value, [0.5**k, 2 * 0.5**k])
            np.testing.assert_allclose(loss, [-(0.5 ** (k + 1)), -(0.5**k)])
            await settled(emulated_gpus)
        assert stub.calls.count("cuGraphInstantiate") == 1
        await session.run(training.init)  # in place: the addresses are the same
        stub.calls.clear()
        await session.run([training.loss, training.value, training.step])
        assert "cuGraphLaunch" in stub.calls
        np.testing.assert_allclose(await session.run(training.value), [0.5, 1])


async def test_a_content_that_is_read_elsewhere_is_kept_by_an_update(emulated_gpus: Gpus):
    """The update then writes other memory, for which the work is captured once it stays there."""
    stub = emulated_gpus.stub
    with graph() as g:
        training = Training()
    async with session_on(g, "eager") as session:
        await session.run(training.init)
        for _ in range(3):
            await session.run(training.step)
            await session.run(training.value)
            await settled(emulated_gpus)
        stub.is_held = True  # the copy of the value goes on while the step begins
        waiting = asyncio.gather(session.run(training.value), session.run(training.step))
        begun = stub.calls.count("cuMemcpyDtoDAsync")
        while stub.calls.count("cuMemcpyDtoDAsync") == begun:
            await asyncio.sleep(0)
        with stub._condition:
            stub.is_held = False
            stub._condition.notify_all()
        value, _ = await waiting
        np.testing.assert_allclose(value, [0.125, 0.25])
        np.testing.assert_allclose(await session.run(training.value), [0.0625, 0.125])
        for _ in range(3):
            await session.run(training.step)
            await settled(emulated_gpus)
        np.testing.assert_allclose(await session.run(training.value), [1 / 128, 1 / 64])
        assert stub.calls.count("cuGraphInstantiate") == 2


# What goes wrong


@pytest.mark.parametrize(
    "call", ["cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuStreamCreate"]
)
async def test_what_cannot_be_captured_is_given_piece_by_piece(
    emulated_gpus: Gpus, call: str, caplog: pytest.LogCaptureFixture
):
    stub = emulated_gpus.stub
    with graph() as g:
        chain = Chain()
    async with session_on(g, "background") as session:
        await session.run(chain.outputs, chain.feeds(0))
        stub.fail(call, "STREAM_CAPTURE_UNSUPPORTED")
        for k in range(4):
            np.testing.assert_array_equal(await session.run(chain.outputs, chain.feeds(k)), chain.expected(k))
            await settled(emulated_gpus)
    assert "cuGraphLaunch" not in stub.calls
    assert call in caplog.text


@pytest.mark.parametrize(
    ("call", "is_late"),
    [("cuGraphLaunch", False), ("cuMemAllocFromPoolAsync", False), ("cuMemcpyDtoDAsync", True)],
)
async def test_a_refused_call_fails_its_step_alone(emulated_gpus: Gpus, call: str, is_late: bool):
    """The copy of an output comes after the update, which then has happened."""
    stub = emulated_gpus.stub
    with graph() as g:
        training = Training()
    async with session_on(g, "eager") as session:
        await session.run(training.init)
        halvings = 0
        while stub.calls.count("cuGraphLaunch") < 2:
            await session.run([training.loss, training.step])
            await settled(emulated_gpus)
            halvings += 1
        (device,) = emulated_gpus.made
        before = device.memory.used
        stub.fail(call, "INVALID_VALUE")
        with pytest.raises(CudaError, match=call):
            await session.run([training.loss, training.step])
        assert device.memory.used == before
        halvings += is_late
        np.testing.assert_allclose((await session.run(training.value))[0], 0.5**halvings)
        for _ in range(3):
            await session.run([training.loss, training.step])
        np.testing.assert_allclose(
            await session.run(training.value), [0.5 ** (halvings + 3), 0.5 ** (halvings + 2)]
        )


async def test_the_arena_is_given_up_where_memory_is_short(emulated_gpus: Gpus):
    stub = emulated_gpus.stub
    with graph() as g:
        x = feed([1000])
        y = op("Neg", op("Add", op("Neg", x), constant([1.0])))
        z = feed([2000])
        large = op("Neg", z)
    async with session_on(g, "eager") as session:
        for _ in range(3):
            await session.run(y, {x: np.arange(1000)})
        (device,) = emulated_gpus.made
        device.memory.limit = device.memory.used + 20_000
        np.testing.assert_array_equal(await session.run(large, {z: np.arange(2000)}), -np.arange(2000.0))
        np.testing.assert_array_equal(await session.run(y, {x: np.arange(1000)}), np.arange(1000) - 1)
        device.memory.limit = device.memory.used + 12_500  # for two buffers and the output, not for the arena
        launched = stub.calls.count("cuGraphLaunch")
        np.testing.assert_array_equal(await session.run(y, {x: np.arange(1000)}), np.arange(1000) - 1)
        assert stub.calls.count("cuGraphLaunch") == launched


async def test_a_graph_that_fails_loses_the_device(emulated_gpus: Gpus):
    stub = emulated_gpus.stub
    with graph() as g:
        chain = Chain()
    async with session_on(g, "eager") as session:
        for k in range(3):
            await session.run(chain.outputs, chain.feeds(k))
            await settled(emulated_gpus)
        (captured,) = stub.executables.values()
        captured[0] = lambda: 1 / 0
        with pytest.raises(InternalError, match=r"on .*GPU:0.*CUDA_ERROR_ILLEGAL_ADDRESS"):
            await session.run(chain.outputs, chain.feeds(0))
        for _ in range(2):
            with pytest.raises(UnavailableError, match="GPU:0 was lost"):
                await session.run(chain.outputs, chain.feeds(0))
    assert len(stub.faults) == 1
    stub.faults.clear()


@pytest.mark.parametrize("turns", range(16))
async def test_a_cancelled_step_ends_when_its_graph_has(emulated_gpus: Gpus, turns: int):
    emulated_gpus.stub._random.seed(turns)
    with graph() as g:
        training = Training()
    async with session_on(g, "eager") as session:
        await session.run(training.init)
        for _ in range(3):
            await session.run(training.step)
            await settled(emulated_gpus)
        (device,) = emulated_gpus.made
        before = device.memory.used
        task = asyncio.create_task(session.run(training.step))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert device.memory.used == before
        found = await session.run(training.value)
        assert found.tolist() in ([0.125, 0.25], [0.0625, 0.125])


async def test_errors_that_are_to_name_the_kernel_come_from_single_launches(
    emulated_gpus: Gpus, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with graph() as g:
        chain = Chain()
    async with session_on(g, "eager") as session:
        for k in range(3):
            np.testing.assert_array_equal(await session.run(chain.outputs, chain.feeds(k)), chain.expected(k))
    assert "cuStreamBeginCapture" not in emulated_gpus.stub.calls


async def test_a_launch_that_is_refused_names_its_node(emulated_gpus: Gpus):
    with graph() as g:
        x = feed([2])
        y = op("Neg", op("Mul", op("Neg", x, name="first"), x, name="second"), name="third")
    async with session_on(g, "eager") as session:
        emulated_gpus.stub.fail("cuLaunchKernel", "INVALID_VALUE", after=1)
        with pytest.raises(InternalError, match=r"Mul 'second' on .*GPU:0.*cuLaunchKernel"):
            await session.run(y, {x: [1, 2]})
        np.testing.assert_array_equal(await session.run(y, {x: [1, 2]}), [1, 4])
