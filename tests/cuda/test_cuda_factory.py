"""The factory of GPU devices, on the stub: which it makes, with which attributes, and what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aioexec.client.device_lib import list_local_devices
from aioexec.devices import builtin, registry
from aioexec.devices.cpu import GPUCompatibleCPUDeviceFactory
from aioexec.devices.cuda.driver import Driver, initialised, load_driver
from aioexec.devices.cuda.factory import GPUDeviceFactory
from aioexec.devices.device_set import LOCALHOST, DeviceMgr
from aioexec.devices.registry import DeviceFactory
from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.formats.protos import ConfigProto
from aioexec.graph.kernels import kernel_registry
from aioexec.testing.cuda_driver import StubDriver
from tests.cuda.conftest import Gpus
from tests.devices.table import Options, device_table as device_table

GIB = 1 << 30


def options(count: dict[str, int] | None = None, **gpu: Any) -> Options:
    config = ConfigProto()
    for name, value in gpu.items():
        setattr(config.gpu_options, name, value)
    return Options(count or {}, config=config)


def described(gpus: Gpus, asked: Options) -> list[tuple[str, str]]:
    """The names of the devices made, and the bus ids of their GPUs."""
    devices = gpus.factory.create_devices(asked, LOCALHOST)
    DeviceMgr(devices).dismiss()
    return [
        (device.name[-5:], device.attributes.physical_device_desc.split("bus id: ")[1][:7])
        for device in devices
    ]


def test_gpus_are_listed_without_a_context(gpus: Gpus):
    gpus.stub.gpus = 2

    assert DeviceFactory.list_all_physical_devices() == [
        "/physical_device:CPU:0",
        "/physical_device:GPU:0",
        "/physical_device:GPU:1",
    ]
    assert DeviceFactory.get_any_device_details(2) == {"device_name": "Stub 1", "compute_capability": "9.0"}
    assert "cuDevicePrimaryCtxRetain" not in gpus.stub.calls
    assert gpus.stub.calls.count("cuInit") == 1


def test_an_old_driver_does_not_know_the_numa_node(gpus: Gpus):
    gpus.stub.fail("cuDeviceGetAttribute", "INVALID_VALUE", after=2)

    _, gpu = list_local_devices()

    assert gpu.locality.numa_node == 0


def test_attributes_are_those_of_tensorflow(gpus: Gpus):
    cpu, gpu = list_local_devices()

    assert (cpu.name, gpu.name) == ("/device:CPU:0", "/device:GPU:0")
    assert gpu.device_type == "GPU"
    assert gpu.memory_limit == 8 * GIB - 8 * GIB // 20
    assert gpu.locality.numa_node == 0
    assert gpu.physical_device_desc == (
        "device: 0, name: Stub 0, pci bus id: 0000:01:00.0, compute capability: 9.0"
    )


def test_a_device_is_made_for_each_gpu_that_the_options_allow(gpus: Gpus):
    gpus.stub.gpus = 3
    all_of_them = [("GPU:0", "0000:01"), ("GPU:1", "0000:02"), ("GPU:2", "0000:03")]

    assert described(gpus, options()) == all_of_them
    assert described(gpus, Options()) == all_of_them
    assert described(gpus, options({"GPU": 2})) == all_of_them[:2]
    assert described(gpus, options({"GPU": 5})) == all_of_them
    assert described(gpus, options({"GPU": 0})) == []
    assert described(gpus, options(visible_device_list="2,0")) == [("GPU:0", "0000:03"), ("GPU:1", "0000:01")]
    assert described(gpus, options({"GPU": 1}, visible_device_list="2,0")) == [("GPU:0", "0000:03")]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ("x", "Could not parse entry in 'visible_device_list': 'x'. visible_device_list = x"),
        ("0,,1", "Could not parse entry in 'visible_device_list': ''"),
        ("0,2", "listed an invalid GPU id '2' but visible device count is 2"),
        ("-1", "listed an invalid GPU id '-1'"),
        ("1,1", "duplicate entry: 1"),
    ],
)
def test_a_wrong_list_of_gpus_is_refused(gpus: Gpus, listed: str, message: str):
    gpus.stub.gpus = 2

    with pytest.raises(InvalidArgumentError, match=message):
        described(gpus, options(visible_device_list=listed))


def test_the_limit_is_a_fraction_of_the_memory_if_the_options_say_so(gpus: Gpus):
    (device,) = gpus.factory.create_devices(options(per_process_gpu_memory_fraction=0.25), LOCALHOST)
    device.dismiss()

    assert device.attributes.memory_limit == 2 * GIB


def test_virtual_devices_divide_a_gpu(gpus: Gpus):
    gpus.stub.gpus = 2
    asked = options()
    asked.config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[100, 200])

    devices = gpus.factory.create_devices(asked, LOCALHOST)
    DeviceMgr(devices).dismiss()

    assert [(device.name[-5:], device.attributes.memory_limit >> 20) for device in devices] == [
        ("GPU:0", 100),
        ("GPU:1", 200),
        ("GPU:2", 7782),
    ]


def test_virtual_devices_that_contradict_other_options_are_refused(gpus: Gpus):
    asked = options(per_process_gpu_memory_fraction=0.5)
    asked.config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[100])
    with pytest.raises(InvalidArgumentError, match="must be 0 when virtual devices are set"):
        described(gpus, asked)
    asked = options()
    for _ in range(2):
        asked.config.gpu_options.experimental.virtual_devices.add(memory_limit_mb=[100])
    with pytest.raises(InvalidArgumentError, match="are for 2 GPUs, but 1 are visible"):
        described(gpus, asked)


@pytest.mark.parametrize("value", ["", "-1", " "])
def test_no_gpu_is_used_if_the_environment_shows_none(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, value: str
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", value)

    assert gpus.factory.list_physical_devices() == []
    assert described(gpus, options({"GPU": 1})) == []
    assert gpus.stub.calls == []


def test_a_driver_without_gpus_means_no_devices(gpus: Gpus):
    gpus.stub.gpus = 0

    assert gpus.factory.list_physical_devices() == []
    assert described(gpus, options({"GPU": 1})) == []


# A driver that cannot be used


def absent() -> Any:
    """What the bindings do where there is no library of the driver."""

    def initialise(flags: int) -> None:
        raise RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search')

    return SimpleNamespace(CUresult=SimpleNamespace(CUDA_SUCCESS=0), cuInit=initialise)


def old(stub: StubDriver) -> Any:
    stub.version = 11_080
    return stub


def older_than_the_bindings(stub: StubDriver) -> Any:
    stub.version = 12_040
    stub.CUDA_VERSION = 13_000
    return stub


def mismatched(stub: StubDriver) -> Any:
    stub.fail("cuInit", "SYSTEM_DRIVER_MISMATCH")
    return stub


FAULTS: list[tuple[Callable[[StubDriver], Any], str]] = [
    (lambda stub: absent(), "no NVIDIA driver is installed"),
    (old, "the NVIDIA driver is for CUDA 11.8, expected at least 12.0"),
    (
        older_than_the_bindings,
        "for CUDA 12.4, but cuda-bindings for 13.0: pip install 'cuda-bindings<13', or a newer driver",
    ),
    (mismatched, "the NVIDIA driver cannot be used: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS)
def test_a_driver_that_cannot_be_used_matters_only_if_gpus_are_asked_for(
    stub: StubDriver,
    device_table: None,
    caplog: pytest.LogCaptureFixture,
    fault: Callable[[StubDriver], Any],
    message: str,
):
    factory = GPUDeviceFactory(lambda: initialised(fault(stub)))

    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert factory.list_physical_devices() == []
            assert factory.create_devices(options(), LOCALHOST) == []
    assert len(caplog.records) == 1
    assert message in caplog.text
    for asked in (options({"GPU": 1}), options(visible_device_list="0")):
        with pytest.raises(FailedPreconditionError, match=message):
            factory.create_devices(asked, LOCALHOST)
    assert factory.create_devices(options({"GPU": 0}), LOCALHOST) == []


def test_missing_bindings_are_named(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("aioexec.devices.cuda.driver.importlib.import_module", missing)

    with pytest.raises(FailedPreconditionError, match=r"pip install 'aioexec\[gpu\]'"):
        load_driver()


def test_a_gpu_without_memory_pools_is_refused(gpus: Gpus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Driver, "has_pools", lambda driver, ordinal: False)
    (device,) = gpus.devices()

    with pytest.raises(FailedPreconditionError, match="Stub 0"):
        device.allocate(np.dtype(np.float32), (1,))
    device.dismiss()


# Registration


def test_gpus_are_registered_where_their_driver_is_loaded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_factories", {})
    for files, priority in (((), -1), (("/dev/null",), 210), (("/dev/null",), 210)):
        monkeypatch.setattr(builtin, "NVIDIA_FILES", files)
        builtin.register_builtin_factories()
        assert DeviceFactory.device_priority("GPU") == priority

    assert type(DeviceFactory.get_factory("GPU")) is GPUDeviceFactory
    assert type(DeviceFactory.get_factory("CPU")) is GPUCompatibleCPUDeviceFactory
    assert [DeviceFactory.device_priority(name) for name in ("GPU", "CPU")] == [210, 70]
    assert not DeviceFactory.is_pluggable_device("GPU")


def test_kernels_for_gpus_are_registered_once_when_they_are_used(monkeypatch: pytest.MonkeyPatch):
    kept = {
        name: [kernel for kernel in kernels if kernel.device_type != "GPU"]
        for name, kernels in kernel_registry._kernels.items()
    }
    monkeypatch.setattr(kernel_registry, "_kernels", kept)

    kernel_registry.ensure_registered("CPU")
    assert not kernel_registry.has_kernels_for("GPU")
    for _ in range(2):
        kernel_registry.ensure_registered("GPU")

    found = [kernel.device_type for kernel in kernel_registry._kernels["Neg"]]
    assert found == ["GPU"]
