"""The built-in device types: this module registers their factories."""

from __future__ import annotations

from pathlib import Path

from aioexec.devices.cpu import GPUCompatibleCPUDeviceFactory, ThreadPoolDeviceFactory
from aioexec.devices.reference import ReferenceDeviceFactory
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.numa import numa_nodes
from aioexec.graph.kernels.kernel_registry import register_when_used

CPU_PRIORITY = 60
GPU_COMPATIBLE_CPU_PRIORITY = 70
GPU_PRIORITY = 210
REFERENCE_PRIORITY = 50

NVIDIA_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Files of which one exists where a driver for NVIDIA's GPUs is loaded: on Linux, and on Linux inside Windows."""


def register_builtin_factories() -> None:
    """Register the CPU, the reference device and, where their driver is loaded, NVIDIA's GPUs, unless a factory of equal or
    higher priority is registered already. Nothing of a GPU is used yet."""
    _register("CPU", ThreadPoolDeviceFactory(numa_nodes()), CPU_PRIORITY)
    _register("REFERENCE", ReferenceDeviceFactory(), REFERENCE_PRIORITY)
    register_when_used("GPU", _register_gpu_kernels)  # a process without a GPU may plan for another's
    if (
        any(Path(name).exists() for name in NVIDIA_FILES)
        and DeviceFactory.device_priority("GPU") < GPU_PRIORITY
    ):
        from aioexec.devices.cuda.factory import GPUDeviceFactory  # not needed by most machines

        register_gpu_factory(GPUDeviceFactory())


def _register_gpu_kernels() -> None:
    from aioexec.devices.cuda.registration import register_gpu_kernels  # needs most ops and the compiler

    register_gpu_kernels()


def register_gpu_factory(factory: DeviceFactory) -> None:
    """Register a factory of GPU devices and, if that succeeds, the factory of the CPU devices that accompany them."""
    DeviceFactory.register("GPU", factory, GPU_PRIORITY)
    if DeviceFactory.device_priority("GPU") >= 0:  # unless TF_ENABLED_DEVICE_TYPES excludes GPUs
        _register("CPU", GPUCompatibleCPUDeviceFactory(numa_nodes()), GPU_COMPATIBLE_CPU_PRIORITY)


def _register(device_type: str, factory: DeviceFactory, priority: int) -> None:
    if DeviceFactory.device_priority(device_type) < priority:
        DeviceFactory.register(device_type, factory, priority)
