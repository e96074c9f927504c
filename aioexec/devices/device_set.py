"""The devices of a session: those it may place nodes on (`DeviceSet`), and those of this process it owns (`DeviceMgr`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.registry import DeviceFactory
from aioexec.errors import InvalidArgumentError
from aioexec.graph.device_spec import DeviceName, parse

LOCALHOST = "/job:localhost/replica:0/task:0"
"""The prefix of the names of this process's devices, unless it belongs to a cluster."""


class DeviceSet:
    """The devices on which nodes may be placed, in the order they were added.

    `client_device`, the first one added, has the feeds and fetches. `_names` holds the parsed name of each device, `_by_name`
    each device under its aliases, and `prioritized_device_types` each of their types once, in the order in which the placer
    prefers them: by priority of the factory, then by name.
    """

    def __init__(self, devices: Iterable[Device] = ()) -> None:
        self.devices: list[Device] = []
        self.client_device: Device | None = None
        self.prioritized_device_types: list[str] = []
        self._names: list[DeviceName] = []
        self._by_name: dict[str, Device] = {}
        for device in devices:
            self.add_device(device)

    def add_device(self, device: Device) -> None:
        self.devices.append(device)
        self._names.append(parse(device.name))
        if self.client_device is None:
            self.client_device = device
        for name in full_names(device.name):
            self._by_name.setdefault(name, device)
        self.prioritized_device_types = sorted(
            {device.device_type for device in self.devices},
            key=lambda device_type: (-DeviceFactory.device_priority(device_type), device_type),
        )

    def find_device_by_name(self, name: str) -> Device | None:
        """The device of a full name, "/job:localhost/replica:0/task:0/device:CPU:0" or ".../cpu:0", or None."""
        return self._by_name.get(name)

    def find_matching_devices(self, spec: DeviceName) -> list[Device]:
        """The devices that match every field that is set in a spec."""
        return [device for device, name in zip(self.devices, self._names, strict=True) if spec.matches(name)]


class DeviceMgr:
    """The devices of this process that a session owns and closes.

    They are found by their full names and by their names without the task: "/device:CPU:0", "CPU:0", "/cpu:0".
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = list(devices)
        self._by_name: dict[str, Device] = {}
        for device in self._devices:
            for name in (*full_names(device.name), *local_names(device.name)):
                self._by_name.setdefault(name, device)

    def list_devices(self) -> list[Device]:
        return list(self._devices)

    def list_device_attributes(self) -> list[DeviceAttributes]:
        return [device.attributes for device in self._devices]

    def lookup_device(self, name: str) -> Device:
        """The device of a name or an alias.

        Raises:
            InvalidArgumentError: there is none.
        """
        device = self._by_name.get(name)
        if device is None:
            names = [device.name for device in self._devices]
            raise InvalidArgumentError(
                f"{name} unknown device: expected one of {names} or a short form of it"
            )
        return device

    def device_mapping_string(self) -> str:
        """A line for each device that has hardware of its own."""
        return "".join(
            f"{device.name} -> {device.attributes.physical_device_desc}\n"
            for device in self._devices
            if device.attributes.physical_device_desc
        )

    def clear_containers(self, containers: Sequence[str]) -> None:
        """Drop the resources of these containers on every device; an empty list means the default container."""
        for device in self._devices:
            for container in containers or ("",):
                device.resources.cleanup(container)

    def num_device_type(self, device_type: str) -> int:
        return sum(device.device_type == device_type for device in self._devices)

    def host_cpu(self) -> Device | None:
        """The first CPU device."""
        return next((device for device in self._devices if device.device_type == "CPU"), None)

    async def sync(self) -> None:
        """Wait until all work submitted to any device so far is done."""
        for device in self._devices:
            await device.sync()

    def dismiss(self) -> None:
        """Release the workers of every device without waiting for their threads."""
        for device in self._devices:
            device.dismiss()

    async def close(self) -> None:
        """Close every device, whatever happens to one of them or to this task."""
        self.dismiss()
        async with AsyncExitStack() as stack:
            for device in self._devices:
                stack.push_async_callback(device.close)


class BorrowedDevices(DeviceMgr):
    """Devices of this process that the session does not own: those of a server, whose sessions share them and their state."""

    def dismiss(self) -> None:
        """Do nothing: their owner releases them."""

    async def close(self) -> None:
        """Do nothing: their owner closes them."""


def full_names(name: str) -> tuple[str, str]:
    """The ways to write a full device name: ".../device:CPU:0" and the old ".../cpu:0"."""
    task, _, device = name.rpartition("/device:")
    return name, f"{task}/{device.lower()}"


def local_names(name: str) -> tuple[str, ...]:
    """The ways to write a device name without its task: "/device:CPU:0", "CPU:0", "/cpu:0"."""
    device = name.rpartition("/device:")[2]
    return f"/device:{device}", device, f"/{device.lower()}"
