"""The devices of a session: found by name, alias or pattern, ordered for the placer, closed together."""

from __future__ import annotations

import asyncio

import pytest

from aioexec.devices.device import Device
from aioexec.devices.device_set import LOCALHOST, DeviceMgr, DeviceSet
from aioexec.devices.registry import DeviceFactory
from aioexec.errors import InvalidArgumentError, NotFoundError
from aioexec.graph.device_spec import parse
from tests.devices.table import (
    ToyDeviceFactory,
    all_pools_given_back as all_pools_given_back,
    device_table as device_table,
    local,
    toy,
)

pytestmark = pytest.mark.usefixtures("device_table", "all_pools_given_back")


@pytest.fixture
def devices():
    """Two CPU devices, a toy, and a CPU of another task."""
    made = [*local("CPU:0", "CPU:1", "TOY:0"), toy("/job:worker/replica:0/task:1/device:CPU:0")]
    yield made
    for device in made:
        device.dismiss()


@pytest.mark.behaviour(121)
def test_types_are_ordered_by_priority_then_name_and_anew_when_a_device_is_added(devices: list[Device]):
    DeviceFactory.register("GPU", ToyDeviceFactory("GPU"), 210)
    DeviceFactory.register("TOY", ToyDeviceFactory("TOY"), 40)
    DeviceFactory.register("BOX", ToyDeviceFactory("BOX"), 40)
    more = local("BOX:0", "GPU:0", "UNKNOWN:0")

    found = DeviceSet(devices)
    before = found.prioritized_device_types
    for device in more:
        found.add_device(device)
        device.dismiss()

    assert before == ["CPU", "TOY"]
    assert found.prioritized_device_types == ["GPU", "CPU", "BOX", "TOY", "UNKNOWN"]


def test_the_first_device_is_the_client_device(devices: list[Device]):
    assert DeviceSet().client_device is None
    assert DeviceSet(devices).client_device is devices[0]
    assert DeviceSet(devices).devices == devices


def test_a_set_finds_devices_of_every_task_by_full_name(devices: list[Device]):
    found = DeviceSet(devices)

    assert [found.find_device_by_name(device.name) for device in devices] == devices
    assert found.find_device_by_name("/job:worker/replica:0/task:1/cpu:0") is devices[3]
    assert found.find_device_by_name("/device:CPU:0") is None
    assert found.find_device_by_name(f"{LOCALHOST}/device:CPU:7") is None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", [0, 1, 2, 3]),
        ("/device:CPU:*", [0, 1, 3]),
        ("/device:CPU:0", [0, 3]),
        ("/job:worker", [3]),
        ("/job:localhost/task:0/device:TOY:0", [2]),
        ("/replica:0/device:CPU:1", [1]),
        ("/replica:1", []),
        ("/device:GPU:0", []),
    ],
)
def test_a_set_finds_the_devices_that_agree_with_a_spec(
    devices: list[Device], spec: str, expected: list[int]
):
    assert DeviceSet(devices).find_matching_devices(parse(spec)) == [devices[i] for i in expected]


@pytest.mark.behaviour(122)
@pytest.mark.parametrize(
    "name",
    [
        "/job:localhost/replica:0/task:0/device:CPU:1",
        "/job:localhost/replica:0/task:0/cpu:1",
        "/device:CPU:1",
        "CPU:1",
        "/cpu:1",
    ],
)
def test_a_manager_finds_devices_by_full_name_and_by_alias(devices: list[Device], name: str):
    assert DeviceMgr(devices[:3]).lookup_device(name) is devices[1]


def test_of_two_devices_with_one_alias_the_first_has_it(devices: list[Device]):
    assert DeviceMgr(devices).lookup_device("/device:CPU:0") is devices[0]


def test_an_unknown_device_is_refused_with_the_names_there_are(devices: list[Device]):
    with pytest.raises(InvalidArgumentError, match=r"/device:GPU:0 unknown device.*task:0/device:TOY:0"):
        DeviceMgr(devices).lookup_device("/device:GPU:0")


@pytest.mark.behaviour(123)
def test_the_host_cpu_is_the_first_cpu_device_or_none(devices: list[Device]):
    assert DeviceMgr(devices[1:]).host_cpu() is devices[1]
    assert DeviceMgr(devices[2:3]).host_cpu() is None


def test_a_manager_lists_its_devices_and_counts_them_by_type(devices: list[Device]):
    manager = DeviceMgr(devices)

    assert manager.list_devices() == devices
    assert [attributes.name for attributes in manager.list_device_attributes()] == [
        device.name for device in devices
    ]
    assert [manager.num_device_type(name) for name in ("CPU", "TOY", "GPU")] == [3, 1, 0]


def test_the_mapping_tells_only_of_devices_with_hardware_of_their_own(devices: list[Device]):
    described = toy(f"{LOCALHOST}/device:TOY:1", "a toy, compute capability 1.0")
    described.dismiss()

    assert DeviceMgr(devices).device_mapping_string() == ""
    assert DeviceMgr([*devices, described]).device_mapping_string() == (
        "/job:localhost/replica:0/task:0/device:TOY:1 -> a toy, compute capability 1.0\n"
    )


def test_containers_are_cleared_on_every_device_and_the_default_one_if_none_is_named(devices: list[Device]):
    for device in devices:
        for container in ("", "first", "second"):
            device.resources.create(container, "kept", "value")
    manager = DeviceMgr(devices)

    def left(container: str) -> list[bool]:
        return [_has(device, container) for device in devices]

    manager.clear_containers(["first", "unknown"])
    assert (left(""), left("first"), left("second")) == ([True] * 4, [False] * 4, [True] * 4)

    manager.clear_containers([])
    assert (left(""), left("second")) == ([False] * 4, [True] * 4)


def _has(device: Device, container: str) -> bool:
    try:
        device.resources.lookup(str, container, "kept")
    except NotFoundError:
        return False
    return True


async def test_sync_waits_for_every_device():
    synced: list[str] = []

    class Slow(Device):
        async def sync(self) -> None:
            await asyncio.sleep(0)
            synced.append(self.name)

    first, second = local("TOY:0", "TOY:1")
    manager = DeviceMgr([Slow(first.attributes, first.workers), Slow(second.attributes, second.workers)])

    await manager.sync()
    await manager.close()

    assert synced == [first.name, second.name]


async def test_close_closes_every_device_even_if_one_fails():
    closed: list[str] = []

    class Failing(Device):
        async def close(self) -> None:
            await super().close()
            closed.append(self.name)
            raise RuntimeError(self.name)

    devices = [Failing(device.attributes, device.workers) for device in local("TOY:0", "TOY:1")]

    with pytest.raises(RuntimeError, match="TOY"):
        await DeviceMgr(devices).close()

    assert sorted(closed) == [device.name for device in devices]


async def test_a_cancelled_close_still_closes_every_device():
    waiting, never, closed = asyncio.Event(), asyncio.Event(), []

    class Slow(Device):
        async def close(self) -> None:
            if self.name.endswith("1"):
                waiting.set()
                await never.wait()
            await super().close()
            closed.append(self.name)

    first, second = (Slow(device.attributes, device.workers) for device in local("TOY:0", "TOY:1"))
    closing = asyncio.create_task(DeviceMgr([first, second]).close())
    await waiting.wait()

    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing

    assert closed == [first.name]
    assert second.workers.closed
