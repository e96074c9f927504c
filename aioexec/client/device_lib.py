"""Which devices a session of this process would have, under the name of `tensorflow.python.client.device_lib`."""

from __future__ import annotations

from typing import Any

from aioexec.devices.registry import DeviceFactory
from aioexec.sessions.options import SessionOptions


def list_local_devices(session_config: Any = None) -> list[Any]:
    """The devices a session with this ConfigProto would have, as DeviceAttributes messages named without a task."""
    devices = DeviceFactory.add_devices(SessionOptions.from_config("", session_config), "")
    try:
        return [device.attributes.to_proto() for device in devices]
    finally:
        for device in devices:
            device.dismiss()
