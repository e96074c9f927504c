"""Updates of variables on a GPU of the stub: in place if nothing else refers to the content, else in another buffer."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec.devices.cuda.driver import CudaError
from aioexec.resources.device_variable import DeviceVariable
from tests.cuda.conftest import Gpus
from tests.tiers import constant, feed, graph, op, read, resource, session_on


def variable(gpus: Gpus, name: str) -> DeviceVariable:
    (device,) = gpus.made
    return device.resources.lookup(DeviceVariable, "", name)


def address(gpus: Gpus, name: str = "v") -> int:
    content: Any = variable(gpus, name).content()
    return int(content.pointer)


class Counter:
    """A variable, and what is done with it; on the current default graph."""

    def __init__(self) -> None:
        v = resource([2], name="v")
        self.x = feed([2])
        self.init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        self.before = read(v)
        with v.op.graph.control_dependencies([self.before.op]):
            self.add = op("AssignAddVariableOp", v, self.x)
        self.scatter = op("ResourceScatterAdd", v, constant([1], "int32"), constant([5.0]))
        self.flat = op("Reshape", self.before, constant([1, 2], "int32"))


async def test_a_variable_stays_where_it_is(emulated_gpus: Gpus):
    with graph() as g:
        counter = Counter()
    async with session_on(g, "off") as session:
        await session.run(counter.init)
        before = address(emulated_gpus)
        for _ in range(3):
            await session.run(counter.add, {counter.x: [1, 1]})
        await session.run(counter.scatter)
        await session.run(counter.init)
        assert address(emulated_gpus) == before
        await session.run([counter.add, counter.scatter], {counter.x: [1, 1]})
        np.testing.assert_array_equal(await session.run(counter.before), [2, 8])
        assert address(emulated_gpus) == before


@pytest.mark.parametrize("value", ["before", "flat"])
async def test_a_value_that_was_read_before_an_update_keeps_its_content(emulated_gpus: Gpus, value: str):
    with graph() as g:
        counter = Counter()
    async with session_on(g, "off") as session:
        await session.run(counter.init)
        before = address(emulated_gpus)
        read_before, _ = await session.run([getattr(counter, value), counter.add], {counter.x: [1, 1]})
        np.testing.assert_array_equal(read_before.ravel(), [1, 2])
        assert address(emulated_gpus) != before
        np.testing.assert_array_equal(await session.run(counter.before), [2, 3])


@pytest.mark.parametrize("seed", range(10))
async def test_steps_that_read_and_steps_that_write_run_together(emulated_gpus: Gpus, seed: int):
    emulated_gpus.stub._random.seed(seed)
    with graph() as g:
        counter = Counter()
    async with session_on(g, "off") as session:
        await session.run(counter.init)
        runs = [
            session.run(counter.before) if k % 2 else session.run(counter.add, {counter.x: [1, 1]})
            for k in range(12)
        ]
        found = await asyncio.gather(*runs)
        for each in found[1::2]:
            assert each[1] == each[0] + 1
            assert each[0] in range(1, 8)
        np.testing.assert_array_equal(await session.run(counter.before), [7, 8])


async def test_a_reshaped_value_is_the_same_memory(emulated_gpus: Gpus):
    with graph() as g:
        x = feed([2, 3])
        y = op("Reshape", op("ExpandDims", x, constant(0, "int32")), constant([3, 2], "int32"))
        z = op("Neg", op("Reshape", op("Squeeze", op("Neg", y)), constant([6], "int32")))
    async with session_on(g, "off") as session:
        value = np.arange(6, dtype=np.float32).reshape(2, 3)
        for _ in range(2):
            np.testing.assert_array_equal(await session.run(z, {x: value}), value.ravel())
    assert emulated_gpus.stub.calls.count("cuLaunchKernel") == 4


async def test_values_inside_of_a_step_make_room_for_later_ones(emulated_gpus: Gpus):
    with graph() as g:
        x = y = feed([1000])
        for _ in range(20):
            y = op("Neg", y)
    async with session_on(g, "off") as session:
        await session.run(y, {x: np.ones(1000)})
        (device,) = emulated_gpus.made
        device.memory.limit = 5 * 4000
        np.testing.assert_array_equal(await session.run(y, {x: np.ones(1000)}), np.ones(1000))


@pytest.mark.parametrize("call", ["cuMemHostAlloc", "cuLaunchKernel"])
async def test_an_update_that_is_refused_leaves_the_content(emulated_gpus: Gpus, call: str):
    with graph() as g:
        counter = Counter()
    async with session_on(g, "off") as session:
        await session.run(counter.init)
        await session.run(counter.add, {counter.x: [1, 1]})
        before = address(emulated_gpus)
        (device,) = emulated_gpus.made
        opened: Any = device._open
        opened.pinned.close(lambda: None)
        emulated_gpus.stub.fail(call, "INVALID_VALUE")
        with pytest.raises(CudaError, match=call):
            await session.run(counter.add, {counter.x: [1, 1]})
        np.testing.assert_array_equal(await session.run(counter.before), [2, 3])
        await session.run(counter.add, {counter.x: [1, 1]})
        np.testing.assert_array_equal(await session.run(counter.before), [3, 4])
        assert address(emulated_gpus) == before
