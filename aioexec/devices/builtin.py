"""The built-in device types: this module registers their factories."""

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
    """Register the CPU and the reference device, unless a factory of equal or higher priority is registered already."""
    _register("CPU", ThreadPoolDeviceFactory(numa_nodes()), CPU_PRIORITY)
    _register("REFERENCE", ReferenceDeviceFactory(), REFERENCE_PRIORITY)


def register_gpu_factory(factory: DeviceFactory) -> None:
    """Register a factory of GPU devices and, if that succeeds, the factory of the CPU devices that accompany them."""
    DeviceFactory.register("GPU", factory, GPU_PRIORITY)
    if DeviceFactory.device_priority("GPU") >= 0:  # unless TF_ENABLED_DEVICE_TYPES excludes GPUs
        _register("CPU", GPUCompatibleCPUDeviceFactory(numa_nodes()), GPU_COMPATIBLE_CPU_PRIORITY)


def _register(device_type: str, factory: DeviceFactory, priority: int) -> None:
    if DeviceFactory.device_priority(device_type) < priority:
        DeviceFactory.register(device_type, factory, priority)
