"""Devices of other processes: a session places nodes on them, and these processes run the nodes."""

from __future__ import annotations

from typing import ClassVar

from aioexec.devices.device import Device, DeviceAttributes


class RemoteDevice(Device):
    """A proxy for a device in another process; it has neither state nor threads here."""

    is_remote: ClassVar[bool] = True

    def __init__(self, attributes: DeviceAttributes) -> None:
        self.attributes = attributes

    @property
    def runs_cpu_kernels(self) -> bool:  # type: ignore[override]
        """Whether it runs the rows' kernels; for other types, the local registration is assumed to apply there too."""
        return self.device_type == "CPU"

    def dismiss(self) -> None:
        """It holds nothing here."""

    async def close(self) -> None:
        """It holds nothing here."""
