"""`tensorflow.python.client.device_lib`: lists the devices of this process."""

from __future__ import annotations

from typing import Any

from aioexec.devices.registry import DeviceFactory
from aioexec.sessions.options import SessionOptions


def list_local_devices(session_config: Any = None) -> list[Any]:
    """The devices of a session with this ConfigProto, as DeviceAttributes protos with names without a task."""
    devices = DeviceFactory.add_devices(SessionOptions.from_config("", session_config), "")
    try:
        return [device.attributes.to_proto() for device in devices]
    finally:
        for device in devices:
            device.dismiss()
