"""The reference device: NumPy kernels only, never compiled; they define the meaning of an op.

A graph with the same nodes on /device:CPU:0 and /device:REFERENCE:0 compares both tiers in one step.
"""

from __future__ import annotations

from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.pools import intra_op_pools


class ReferenceDevice(Device):
    """Runs the reference kernel of every op."""

    runs_cpu_kernels = True


class ReferenceDeviceFactory(DeviceFactory):
    """Makes `device_count["REFERENCE"]` devices, by default none; they have no hardware of their own."""

    def list_physical_devices(self) -> list[str]:
        return []

    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        names = [
            f"{name_prefix}/device:REFERENCE:{i}" for i in range(options.device_count.get("REFERENCE", 0))
        ]
        pools = intra_op_pools(options, [None] * len(names))
        return [
            ReferenceDevice(DeviceAttributes(name, "REFERENCE"), workers)
            for name, workers in zip(names, pools, strict=True)
        ]
