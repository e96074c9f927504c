"""The device types that come with the package: the one place where they enter the table of factories."""

from __future__ import annotations

from aioexec.devices.cpu import GPUCompatibleCPUDeviceFactory, ThreadPoolDeviceFactory
from aioexec.devices.reference import ReferenceDeviceFactory
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.numa import numa_nodes

CPU_PRIORITY = 60
GPU_COMPATIBLE_CPU_PRIORITY = 70
GPU_PRIORITY = 210
REFERENCE_PRIORITY = 50


def register_builtin_factories() -> None:
    """Register the CPU and the reference device, unless something of their priority or a higher one is there already."""
    _register("CPU", ThreadPoolDeviceFactory(numa_nodes()), CPU_PRIORITY)
    _register("REFERENCE", ReferenceDeviceFactory(), REFERENCE_PRIORITY)


def register_gpu_factory(factory: DeviceFactory) -> None:
    """Register a factory of GPU devices and, where it has its place in the table, the CPU devices that go with them."""
    DeviceFactory.register("GPU", factory, GPU_PRIORITY)
    if DeviceFactory.device_priority("GPU") >= 0:  # not where TF_ENABLED_DEVICE_TYPES leaves GPUs out
        _register("CPU", GPUCompatibleCPUDeviceFactory(numa_nodes()), GPU_COMPATIBLE_CPU_PRIORITY)


def _register(device_type: str, factory: DeviceFactory, priority: int) -> None:
    if DeviceFactory.device_priority(device_type) < priority:
        DeviceFactory.register(device_type, factory, priority)
