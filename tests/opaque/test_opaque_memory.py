"""The limit of a device's memory, and what a step says that does not fit into it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import dtypes
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.devices.table import Options
from tests.tiers import constant, feed, graph, op, session_on

LIMIT = 1 << 16


async def limits(opaque: OpaqueDeviceFactory, **gpu_options: Any) -> list[int]:
    """The limits of the devices made for these options."""
    config = ax.ConfigProto(gpu_options=ax.GPUOptions(**gpu_options))
    devices = opaque.create_devices(Options(config=config), "/job:localhost/replica:0/task:0")
    for device in devices:
        await device.close()
    return [device.attributes.memory_limit for device in devices]


@pytest.mark.parametrize("allow_growth", [False, True])
async def test_a_fraction_of_the_memory_is_the_limit(opaque: OpaqueDeviceFactory, allow_growth: bool):
    opaque.count, opaque.memory_limit = 2, 1000
    assert await limits(opaque, allow_growth=allow_growth) == [1000, 1000]
    assert await limits(opaque, per_process_gpu_memory_fraction=0.25, allow_growth=allow_growth) == [250, 250]


async def test_virtual_devices_have_limits_of_their_own(opaque: OpaqueDeviceFactory):
    opaque.count = 3
    virtual = [{"memory_limit_mb": [1, 0.5]}, {}]
    found = await limits(opaque, experimental={"virtual_devices": virtual})
    assert found == [1 << 20, 1 << 19, 1 << 30, 1 << 30]


async def test_options_that_contradict_each_other_are_refused(opaque: OpaqueDeviceFactory):
    virtual = [{"memory_limit_mb": [1]}]
    with pytest.raises(InvalidArgumentError, match="must be 0 when virtual"):
        await limits(opaque, per_process_gpu_memory_fraction=0.5, experimental={"virtual_devices": virtual})
    with pytest.raises(InvalidArgumentError, match="for 2 GPUs, but 1 are visible"):
        await limits(opaque, experimental={"virtual_devices": virtual * 2})
    with pytest.raises(InvalidArgumentError, match="negative"):
        await limits(opaque, per_process_gpu_memory_fraction=-0.5)


async def test_a_feed_that_does_not_fit_is_refused_with_the_sizes(opaque: OpaqueDeviceFactory):
    opaque.memory_limit = LIMIT
    with graph() as g:
        x = feed([None], name="x")
        total = op("Sum", op("Neg", x), constant([0], "int32"))
    async with session_on(g, "off") as session:
        assert await session.run(total, {x: np.ones(100)}) == -100
        (device,) = opaque.made
        held = device.used
        with pytest.raises(ResourceExhaustedError, match=r"'x/.*shape \[20000\]") as caught:
            await session.run(total, {x: np.ones(20_000)})
        assert f"80000 bytes, of {LIMIT} bytes {LIMIT - held} are free" in str(caught.value)
        del caught
        assert device.used == held
        assert await session.run(total, {x: np.ones(100)}) == -100


async def test_a_constant_that_does_not_fit_is_refused_with_the_sizes(opaque: OpaqueDeviceFactory):
    opaque.memory_limit = LIMIT
    with graph() as g:
        x = feed([], name="x")
        small = op("Add", x, constant(np.arange(10)))
        content = np.arange(20_000, dtype=np.float32)
        large = op("Add", x, op("Const", value=content, dtype=dtypes.float32, name="large"))
    async with session_on(g, "off") as session:
        for _ in range(2):
            with pytest.raises(
                ResourceExhaustedError, match=r"'large.*OPAQUE:0.*80000 bytes, of 65536 bytes"
            ):
                await session.run(large, {x: 1})
        np.testing.assert_array_equal(await session.run(small, {x: 1}), np.arange(1, 11))
        (device,) = opaque.made
        assert device.used == 40  # the small constant
