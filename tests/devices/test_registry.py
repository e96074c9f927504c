"""The table of device factories: registration, the devices of a session, and the errors."""

from __future__ import annotations

import logging

import pytest

from aioexec.devices.builtin import register_builtin_factories, register_gpu_factory
from aioexec.devices.cpu import GPUCompatibleCPUDeviceFactory, ThreadPoolDeviceFactory
from aioexec.devices.device import Device
from aioexec.devices.device_set import LOCALHOST, DeviceMgr
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.errors import InternalError, InvalidArgumentError, NotFoundError, ResourceExhaustedError
from aioexec.sessions.options import SessionOptions
from tests.devices.table import (
    Options,
    ToyDevice,
    ToyDeviceFactory,
    all_pools_given_back as all_pools_given_back,
    device_table as device_table,
)

pytestmark = pytest.mark.usefixtures("device_table", "all_pools_given_back")


def made(options: DeviceOptions) -> list[str]:
    """The names of the devices of such a session, without what all of them begin with."""
    devices = DeviceFactory.add_devices(options, LOCALHOST)
    DeviceMgr(devices).dismiss()
    return [device.name.removeprefix(f"{LOCALHOST}/device:") for device in devices]


def test_a_factory_of_a_higher_priority_replaces_the_present_one_and_a_lower_one_is_ignored():
    middle, higher, lower = ToyDeviceFactory(), ToyDeviceFactory(), ToyDeviceFactory()

    DeviceFactory.register("TOY", middle)
    assert (DeviceFactory.get_factory("TOY"), DeviceFactory.device_priority("TOY")) == (middle, 50)
    DeviceFactory.register("TOY", higher, 51)
    DeviceFactory.register("TOY", lower, 49)

    assert (DeviceFactory.get_factory("TOY"), DeviceFactory.device_priority("TOY")) == (higher, 51)


def test_a_second_factory_of_the_same_priority_is_refused():
    present = ToyDeviceFactory()
    DeviceFactory.register("TOY", present, 7)

    with pytest.raises(InternalError, match=r"Duplicate registration .* type TOY with the same priority 7"):
        DeviceFactory.register("TOY", ToyDeviceFactory(), 7)

    assert DeviceFactory.get_factory("TOY") is present


def test_a_type_that_is_not_registered_has_no_factory_and_the_lowest_priority():
    assert DeviceFactory.get_factory("TOY") is None
    assert DeviceFactory.device_priority("TOY") == -1
    assert not DeviceFactory.is_pluggable_device("TOY")


def test_a_disabled_type_is_not_registered_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("TF_ENABLED_DEVICE_TYPES", "CPU, GPU")

    with caplog.at_level(logging.INFO, "aioexec.devices"):
        DeviceFactory.register("TOY", ToyDeviceFactory())
        DeviceFactory.register("GPU", ToyDeviceFactory("GPU"))

    assert DeviceFactory.get_factory("TOY") is None
    assert DeviceFactory.get_factory("GPU") is not None
    assert caplog.messages == [
        "Device factory 'TOY' disabled by TF_ENABLED_DEVICE_TYPES environment variable"
    ]


def test_a_type_disabled_later_makes_no_devices_and_says_so_when_asked_for(monkeypatch: pytest.MonkeyPatch):
    DeviceFactory.register("TOY", ToyDeviceFactory())
    monkeypatch.setenv("TF_ENABLED_DEVICE_TYPES", "CPU")

    assert made(Options()) == ["CPU:0"]
    assert DeviceFactory.list_all_physical_devices() == ["/physical_device:CPU:0"]
    with pytest.raises(
        InvalidArgumentError, match="TOY has a factory but is disabled by TF_ENABLED_DEVICE_TYPES='CPU'"
    ):
        DeviceFactory.get_factory("TOY")


@pytest.mark.behaviour(8)
@pytest.mark.parametrize("count", [1, 3])
def test_device_count_says_how_many_cpu_devices_there_are(count: int):
    devices = DeviceFactory.add_devices(Options({"CPU": count}), LOCALHOST)
    DeviceMgr(devices).dismiss()

    assert [device.name for device in devices] == [
        f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(count)
    ]


def test_cpu_devices_come_first_and_the_reference_device_only_if_asked_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aioexec.devices.registry._factories", {})
    DeviceFactory.register("TOY", ToyDeviceFactory(hardware=2), 1000)
    register_builtin_factories()

    assert made(Options()) == ["CPU:0", "TOY:0", "TOY:1"]
    assert made(Options({"REFERENCE": 1, "TOY": 0})) == ["CPU:0", "REFERENCE:0"]


def test_without_a_cpu_factory_there_are_no_devices(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aioexec.devices.registry._factories", {})
    DeviceFactory.register("TOY", ToyDeviceFactory())

    for call in (DeviceFactory.add_devices, DeviceFactory.add_cpu_devices):
        with pytest.raises(NotFoundError, match="CPU Factory not registered"):
            call(Options(), LOCALHOST)
    with pytest.raises(NotFoundError, match="CPU Factory not registered"):
        DeviceFactory.list_all_physical_devices()


def test_a_session_without_a_cpu_device_is_refused():
    for call in (DeviceFactory.add_devices, DeviceFactory.add_cpu_devices):
        with pytest.raises(NotFoundError, match="No CPU devices are available in this process"):
            call(Options({"CPU": 0}), LOCALHOST)


def test_when_a_factory_fails_the_devices_made_before_give_their_pools_back():
    class FailingFactory(ToyDeviceFactory):
        def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
            raise ResourceExhaustedError("no toys left")

    DeviceFactory.register("TOY", FailingFactory())

    with pytest.raises(ResourceExhaustedError, match="no toys left"):
        DeviceFactory.add_devices(Options({"CPU": 2}), LOCALHOST)


def test_a_new_device_is_one_numbered_zero_whatever_the_options_count():
    DeviceFactory.register("TOY", ToyDeviceFactory(hardware=3))

    for device_type in ("CPU", "TOY", "REFERENCE"):
        device = DeviceFactory.new_device(
            device_type, Options({"CPU": 4, "TOY": 0}), "/job:w/replica:0/task:3"
        )
        device.dismiss()

        assert device.name == f"/job:w/replica:0/task:3/device:{device_type}:0"


def test_a_new_device_has_the_other_options_of_the_session():
    options = Options(intra_op_threads=3, inter_op_threads=2, use_per_session_threads=True, config="kept")
    seen: list[DeviceOptions] = []

    class Watching(ToyDeviceFactory):
        def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
            seen.append(options)
            return super().create_devices(options, name_prefix)

    DeviceFactory.register("TOY", Watching())
    DeviceFactory.new_device("TOY", options, LOCALHOST).dismiss()

    assert seen[0].device_count == {"TOY": 1}
    for name in (
        "intra_op_threads",
        "inter_op_threads",
        "use_numa_affinity",
        "use_per_session_threads",
        "config",
    ):
        assert getattr(seen[0], name) == getattr(options, name)


def test_a_new_device_of_an_unknown_type_is_refused():
    with pytest.raises(
        NotFoundError, match=r"TOY Factory not registered, expected one of \['CPU', 'REFERENCE'\]"
    ):
        DeviceFactory.new_device("TOY", Options(), LOCALHOST)


def test_physical_devices_are_listed_cpu_first_and_plugged_in_ones_apart():
    DeviceFactory.register("TOY", ToyDeviceFactory(hardware=2), is_pluggable_device=True)
    DeviceFactory.register("GPU", ToyDeviceFactory("GPU"))

    toys = ["/physical_device:TOY:0", "/physical_device:TOY:1"]
    assert DeviceFactory.list_all_physical_devices() == [
        "/physical_device:CPU:0",
        *toys,
        "/physical_device:GPU:0",
    ]
    assert DeviceFactory.list_pluggable_physical_devices() == toys
    assert DeviceFactory.is_pluggable_device("TOY")
    assert not DeviceFactory.is_pluggable_device("GPU")


def test_details_are_asked_of_the_factory_whose_device_the_index_means():
    DeviceFactory.register("TOY", ToyDeviceFactory(hardware=2))
    DeviceFactory.register("GPU", ToyDeviceFactory("GPU"))

    assert [DeviceFactory.get_any_device_details(i) for i in range(4)] == [
        {},
        {"device_name": "TOY no. 0"},
        {"device_name": "TOY no. 1"},
        {"device_name": "GPU no. 0"},
    ]
    for index in (-1, 4):
        with pytest.raises(InvalidArgumentError, match=f"device_index out of range: got {index}"):
            DeviceFactory.get_any_device_details(index)


def test_the_built_in_factories_may_be_registered_again():
    before = DeviceFactory.get_factory("CPU")

    register_builtin_factories()

    assert DeviceFactory.get_factory("CPU") is before
    assert DeviceFactory.device_priority("CPU") == 60


def test_gpu_factories_bring_cpu_devices_that_go_with_them():
    assert type(DeviceFactory.get_factory("CPU")) is ThreadPoolDeviceFactory

    register_gpu_factory(ToyDeviceFactory("GPU"))

    assert type(DeviceFactory.get_factory("CPU")) is GPUCompatibleCPUDeviceFactory
    assert [DeviceFactory.device_priority(name) for name in ("GPU", "CPU")] == [210, 70]
    assert made(Options({"CPU": 2})) == ["CPU:0", "CPU:1", "GPU:0"]


def test_where_gpus_are_disabled_the_plain_cpu_devices_stay(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TF_ENABLED_DEVICE_TYPES", "CPU")

    register_gpu_factory(ToyDeviceFactory("GPU"))

    assert DeviceFactory.device_priority("CPU") == 60
    assert made(Options()) == ["CPU:0"]


def test_a_new_device_type_takes_part_once_its_factory_is_registered():
    DeviceFactory.register("TOY", ToyDeviceFactory(), priority=65)

    devices = DeviceMgr(DeviceFactory.add_devices(SessionOptions(device_count={"TOY": 2}), LOCALHOST))
    devices.dismiss()

    assert devices.num_device_type("TOY") == 2
    assert isinstance(devices.lookup_device("TOY:1"), ToyDevice)
    assert devices.device_mapping_string() == (
        f"{LOCALHOST}/device:TOY:0 -> toy no. 0\n{LOCALHOST}/device:TOY:1 -> toy no. 1\n"
    )


def test_a_factory_that_makes_too_few_or_too_many_gives_one_new_device_or_none():
    class Stubborn(ToyDeviceFactory):
        def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
            return super().create_devices(Options({"TOY": self.hardware}), name_prefix)

    factory = Stubborn(hardware=3)
    DeviceFactory.register("TOY", factory)

    device = DeviceFactory.new_device("TOY", Options(), LOCALHOST)
    device.dismiss()
    factory.hardware = 0

    assert device.name == f"{LOCALHOST}/device:TOY:0"
    with pytest.raises(NotFoundError, match="the TOY factory made no device"):
        DeviceFactory.new_device("TOY", Options(), LOCALHOST)


def test_a_machine_without_a_cpu_is_refused():
    DeviceFactory.register("CPU", ToyDeviceFactory("CPU", hardware=0), 1000)

    with pytest.raises(NotFoundError, match="No CPU devices are available in this process"):
        DeviceFactory.list_all_physical_devices()
