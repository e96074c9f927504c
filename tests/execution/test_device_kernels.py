"""Kernels registered for a device type compute there, whether or not the op has a native form of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.devices.registry import DeviceFactory
from aioexec.graph.kernels import kernel_registry
from aioexec.graph.kernels.kernel import plain
from aioexec.graph.kernels.kernel_registry import register_kernel
from tests.devices.table import ToyDevice, ToyDeviceFactory, device_table as device_table
from tests.tiers import Tier, constant, executors, feed, graph, op, programs, read, resource


@pytest.fixture
def toy(device_table: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device type that programs are compiled for, with kernels that are its own."""
    monkeypatch.setattr(ToyDevice, "is_native", True)
    monkeypatch.setattr(kernel_registry, "_kernels", {})
    DeviceFactory.register("TOY", ToyDeviceFactory())
    return "/device:TOY:0"


async def test_a_kernel_of_the_device_type_is_used_in_place_of_the_native_form(tier: Tier, toy: str):
    register_kernel("Mul", "TOY", plain(lambda x, y: x * y + 100))
    with graph() as g:
        x = feed([3])
        here = op("Neg", op("Mul", op("Add", x, x), x))
        with g.device(toy):
            there = op("Neg", op("Mul", op("Add", x, x), x))
    array = np.array([1, 2, 3], np.float32)

    async with tier.session(g) as session:
        for _ in range(3):
            first, second = await session.run([here, there], {x: array})
            np.testing.assert_array_equal(first, [-2, -8, -18])
            np.testing.assert_array_equal(second, [-102, -108, -118])
        breaks = [[row.reason for row in program.variant.breaks] for program in programs(session)]

    assert sorted(breaks) == ([[], ["a kernel registered for its device"]] if tier.is_native else [])


async def test_a_kernel_for_some_types_leaves_the_others_to_the_native_form(tier: Tier, toy: str):
    register_kernel("Neg", "TOY", plain(lambda x: x), constraints={"T": [dtypes.float64]})
    with graph() as g, g.device(toy):
        single, double = feed([]), feed([], "float64")
        fetches = [op("Neg", single), op("Neg", double)]

    async with tier.session(g) as session:
        for _ in range(3):
            assert await session.run(fetches, {single: 1, double: 1}) == [-1, 1]


@pytest.mark.parametrize("name", ["Identity", "Shape"])
async def test_what_programs_do_without_a_kernel_is_left_to_one_that_is_registered(
    tier: Tier, toy: str, name: str
):
    """An Identity is no row, a Shape follows from the feed: the kernel of the device type says otherwise."""
    register_kernel(name, "TOY", plain(lambda x: np.array([7], np.int32)))
    with graph() as g, g.device(toy):
        x = feed([1], "int32")
        y = op(name, op("Neg", x))
        z = op("Neg", y)
        with g.control_dependencies([y.op]):  # planning drops an Identity that nothing waits for
            after = op("Neg", x)

    async with tier.session(g) as session:
        for _ in range(3):
            assert await session.run([z, after], {x: [5]}) == [-7, -5]


async def test_a_kernel_of_the_device_type_reads_and_writes_variables(tier: Tier, toy: str):
    def assign_add(variable: Any, value: Any) -> None:
        variable.update(lambda content: content + 10 * value)

    register_kernel("AssignAddVariableOp", "TOY", plain(assign_add))
    register_kernel("ReadVariableOp", "TOY", plain(lambda variable: -variable.read()))
    with graph() as g, g.device(toy):
        v = resource([2])
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        add = op("AssignAddVariableOp", v, constant([1.0, 1.0]))
        with g.control_dependencies([add]):
            value = op("Mul", read(v), constant(2.0))

    async with tier.session(g) as session:
        await session.run(init)
        np.testing.assert_array_equal(await session.run(value), [-22, -24])
        np.testing.assert_array_equal(await session.run(value), [-42, -44])
        assert len(executors(session)) == 2
