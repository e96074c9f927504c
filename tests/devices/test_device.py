"""A device: its attributes, its threads, and its close."""

from __future__ import annotations

import logging
import threading

import pytest

from aioexec.devices.cpu import ThreadPoolDeviceFactory
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.device_set import LOCALHOST, DeviceMgr
from aioexec.devices.reference import ReferenceDeviceFactory
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.numa import NumaNode
from aioexec.devices.threads.pools import dismiss_pool, hold_pool
from aioexec.errors import NotFoundError
from aioexec.formats.protos import DeviceAttributes as DeviceAttributesProto
from tests.devices.table import (
    Options,
    all_pools_given_back as all_pools_given_back,
    device_table as device_table,
    toy,
)

pytestmark = pytest.mark.usefixtures("device_table", "all_pools_given_back")

TWO_NODES = [NumaNode(0, frozenset({0})), NumaNode(1, frozenset({1}))]


def attributes_of(factory: DeviceFactory, options: Options) -> list[DeviceAttributes]:
    manager = DeviceMgr(factory.create_devices(options, LOCALHOST))
    manager.dismiss()
    return manager.list_device_attributes()


def test_a_cpu_device_says_that_it_has_256_mib():
    (attributes,) = attributes_of(ThreadPoolDeviceFactory(TWO_NODES), Options())

    assert (attributes.device_type, attributes.memory_limit) == ("CPU", 268435456)
    assert (attributes.numa_node, attributes.physical_device_desc) == (0, "")


def test_every_device_has_an_incarnation_of_its_own_in_64_bits():
    incarnations = {DeviceAttributes("/device:CPU:0", "CPU").incarnation for _ in range(1000)}

    assert len(incarnations) == 1000
    assert all(0 < incarnation < 2**64 for incarnation in incarnations)


def test_attributes_as_a_message():
    attributes = DeviceAttributes("/device:TOY:0", "TOY", 5, 2**64 - 1, 1, "a toy")

    message = DeviceAttributesProto.FromString(attributes.to_proto().SerializeToString())

    assert (message.name, message.device_type, message.memory_limit) == ("/device:TOY:0", "TOY", 5)
    assert (message.incarnation, message.locality.numa_node) == (2**64 - 1, 1)
    assert message.physical_device_desc == "a toy"


def test_cpu_devices_are_native_and_reference_devices_never():
    (cpu,) = ThreadPoolDeviceFactory(TWO_NODES).create_devices(Options(), LOCALHOST)
    (reference,) = ReferenceDeviceFactory().create_devices(Options({"REFERENCE": 1}), LOCALHOST)
    DeviceMgr([cpu, reference]).dismiss()

    assert (cpu.is_native, cpu.runs_cpu_kernels) == (True, True)
    assert (reference.is_native, reference.runs_cpu_kernels) == (False, True)


def test_with_numa_affinity_devices_are_dealt_to_the_nodes(caplog: pytest.LogCaptureFixture):
    options = Options({"CPU": 3}, use_numa_affinity=True)

    with caplog.at_level(logging.INFO, "aioexec.devices"):
        attributes = attributes_of(ThreadPoolDeviceFactory(TWO_NODES), options)

    assert [each.numa_node for each in attributes] == [0, 1, 0]
    assert caplog.messages == [
        f"Only 2 NUMA nodes visible in system, assigning device {LOCALHOST}/device:CPU:2 to NUMA node 0"
    ]


def test_without_numa_affinity_the_node_is_not_known():
    attributes = attributes_of(ThreadPoolDeviceFactory(TWO_NODES), Options({"CPU": 2}))

    assert [each.numa_node for each in attributes] == [0, 0]


async def test_a_closed_device_has_forgotten_its_resources_and_ended_its_threads():
    device = toy(f"{LOCALHOST}/device:TOY:0")
    device.resources.create("", "kept", "value")
    thread = await device.workers.submit(threading.current_thread).result()

    await device.close()

    assert not thread.is_alive()
    with pytest.raises(NotFoundError):
        device.resources.lookup(str, "", "kept")


async def test_a_device_gives_its_pool_back_once_however_often_it_is_closed():
    device = toy(f"{LOCALHOST}/device:TOY:0")
    pool = hold_pool(device.workers)

    device.dismiss()
    await device.close()
    await device.close()
    closed_while_held = pool.closed
    dismiss_pool(pool)
    await pool.close()

    assert (closed_while_held, pool.closed) == (False, True)
