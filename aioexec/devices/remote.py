"""Devices of other processes: a session places nodes on them, and has those processes run them."""

from __future__ import annotations

from typing import ClassVar

from aioexec.devices.device import Device, DeviceAttributes


class RemoteDevice(Device):
    """What is known here of a device that is elsewhere; it has neither state nor threads here."""

    is_remote: ClassVar[bool] = True

    def __init__(self, attributes: DeviceAttributes) -> None:
        self.attributes = attributes

    @property
    def runs_cpu_kernels(self) -> bool:  # type: ignore[override]
        """Of other types only what is registered here is known, and taken to hold there too."""
        return self.device_type == "CPU"

    def dismiss(self) -> None:
        """It holds nothing here."""

    async def close(self) -> None:
        """It holds nothing here."""
