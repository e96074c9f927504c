"""The registry of device factories, by device type; they make the devices of a session.

TF_ENABLED_DEVICE_TYPES, a comma-separated list, limits the types; it is read at every call. CPU devices always come first, and
there must be one: the client device, which has the feeds and fetches.
"""

from __future__ import annotations

import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.devices.device import Device
from aioexec.devices.options import DeviceOptions
from aioexec.errors import InternalError, InvalidArgumentError, NotFoundError

logger = logging.getLogger(__name__)


class DeviceFactory(ABC):
    """Makes the devices of one type. The static methods are the table of all factories."""

    @abstractmethod
    def list_physical_devices(self) -> list[str]:
        """Names of the hardware found, "/physical_device:CPU:0"."""

    def get_device_details(self, device_index: int) -> dict[str, str]:
        """Details of one of `list_physical_devices`."""
        return {}

    def is_loaded(self, options: DeviceOptions) -> bool:
        """Whether `create_devices` returns at once with these options; if not, a session calls `load` first."""
        return True

    def load(self, options: DeviceOptions) -> None:  # noqa: B027  # most types have nothing to load
        """Load what devices with these options need, such as a driver; called in a thread. Errors are for `create_devices`."""

    @abstractmethod
    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        """Make the devices that the options request, "{name_prefix}/device:{type}:0" and so on; there may be none."""

    @staticmethod
    def register(
        device_type: str, factory: DeviceFactory, priority: int = 50, is_pluggable_device: bool = False
    ) -> None:
        """Register a factory for a type: one of higher priority replaces the present one, one of lower priority is ignored.

        Nodes go to the device type with the highest priority that has a kernel for them.

        Raises:
            InternalError: the present factory has the same priority.
        """
        if not _is_enabled(device_type):
            logger.info(
                "Device factory '%s' disabled by TF_ENABLED_DEVICE_TYPES environment variable", device_type
            )
            return
        with _lock:
            present = _factories.get(device_type)
            if present is not None and present.priority == priority:
                raise InternalError(
                    f"Duplicate registration of device factory for type {device_type} "
                    f"with the same priority {priority}"
                )
            if present is None or present.priority < priority:
                _factories[device_type] = _Registered(factory, priority, is_pluggable_device)

    @staticmethod
    def get_factory(device_type: str) -> DeviceFactory | None:
        """The factory of a type, or None.

        Raises:
            InvalidArgumentError: it is registered, but its type has been disabled since.
        """
        registered = _factories.get(device_type)
        if registered is None:
            return None
        if not _is_enabled(device_type):
            raise InvalidArgumentError(
                f"Device type {device_type} has a factory but is disabled by "
                f"TF_ENABLED_DEVICE_TYPES={os.environ['TF_ENABLED_DEVICE_TYPES']!r}"
            )
        return registered.factory

    @staticmethod
    def unloaded(options: DeviceOptions) -> list[DeviceFactory]:
        """The factories that are to be loaded before `add_devices` is called on an event loop."""
        enabled = [_required_factory(device_type) for device_type in _other_types()]
        return [factory for factory in enabled if not factory.is_loaded(options)]

    @staticmethod
    def add_devices(options: DeviceOptions, name_prefix: str) -> list[Device]:
        """Make all devices of a session, CPU devices first; if one factory fails, none is left.

        Raises:
            NotFoundError: no CPU device.
        """
        devices = DeviceFactory.add_cpu_devices(options, name_prefix)
        try:
            for device_type in _other_types():
                devices += _required_factory(device_type).create_devices(options, name_prefix)
        except BaseException:
            for device in devices:
                device.dismiss()
            raise
        return devices

    @staticmethod
    def add_cpu_devices(options: DeviceOptions, name_prefix: str) -> list[Device]:
        """Make the CPU devices of a session.

        Raises:
            NotFoundError: there is none.
        """
        devices = _required_factory("CPU").create_devices(options, name_prefix)
        if not devices:
            raise NotFoundError("No CPU devices are available in this process")
        return devices

    @staticmethod
    def new_device(device_type: str, options: DeviceOptions, name_prefix: str) -> Device:
        """Make one device of a type, numbered zero, whatever the options say about its count.

        Raises:
            NotFoundError: the type has no factory, or the factory made nothing.
        """
        one = _Counted(options, {**options.device_count, device_type: 1})
        devices = _required_factory(device_type).create_devices(one, name_prefix)
        if not devices:
            raise NotFoundError(f"the {device_type} factory made no device, expected one")
        for device in devices[1:]:
            device.dismiss()
        return devices[0]

    @staticmethod
    def list_all_physical_devices() -> list[str]:
        """The hardware of every factory, CPU first.

        Raises:
            NotFoundError: no CPU.
        """
        names = _required_factory("CPU").list_physical_devices()
        if not names:
            raise NotFoundError("No CPU devices are available in this process")
        return names + [
            name for other in _other_types() for name in _required_factory(other).list_physical_devices()
        ]

    @staticmethod
    def list_pluggable_physical_devices() -> list[str]:
        """The hardware of factories that came as plugins."""
        return [
            name
            for device_type in ("CPU", *_other_types())
            if DeviceFactory.is_pluggable_device(device_type)
            for name in _required_factory(device_type).list_physical_devices()
        ]

    @staticmethod
    def get_any_device_details(device_index: int) -> dict[str, str]:
        """Details of one of `list_all_physical_devices`.

        Raises:
            InvalidArgumentError: no such index.
        """
        left = device_index
        for device_type in ("CPU", *_other_types()):
            factory = _required_factory(device_type)
            count = len(factory.list_physical_devices())
            if 0 <= left < count:
                return factory.get_device_details(left)
            left -= count
        raise InvalidArgumentError(
            f"device_index out of range: got {device_index}, expected an index of "
            f"{DeviceFactory.list_all_physical_devices()}"
        )

    @staticmethod
    def device_priority(device_type: str) -> int:
        """The priority of the factory of a type; -1 if there is none."""
        registered = _factories.get(device_type)
        return -1 if registered is None else registered.priority

    @staticmethod
    def is_pluggable_device(device_type: str) -> bool:
        """Whether the factory of a type came as a plugin."""
        registered = _factories.get(device_type)
        return registered is not None and registered.is_pluggable_device


@dataclass(frozen=True, slots=True)
class _Registered:
    factory: DeviceFactory
    priority: int
    is_pluggable_device: bool


_lock = threading.Lock()  # guards the table
_factories: dict[str, _Registered] = {}


@dataclass(frozen=True, slots=True)
class _Counted:
    """A session's options with another `device_count`."""

    options: DeviceOptions
    device_count: Mapping[str, int]

    @property
    def intra_op_threads(self) -> int:
        return self.options.intra_op_threads

    @property
    def inter_op_threads(self) -> int:
        return self.options.inter_op_threads

    @property
    def use_numa_affinity(self) -> bool:
        return self.options.use_numa_affinity

    @property
    def use_per_session_threads(self) -> bool:
        return self.options.use_per_session_threads

    @property
    def config(self) -> Any:
        return self.options.config


def _is_enabled(device_type: str) -> bool:
    enabled = os.environ.get("TF_ENABLED_DEVICE_TYPES", "")
    return not enabled or device_type in (name.strip() for name in enabled.split(","))


def _required_factory(device_type: str) -> DeviceFactory:
    factory = DeviceFactory.get_factory(device_type)
    if factory is None:
        raise NotFoundError(f"{device_type} Factory not registered, expected one of {sorted(_factories)}")
    return factory


def _other_types() -> list[str]:
    """The enabled types besides CPU."""
    return [name for name in list(_factories) if name != "CPU" and _is_enabled(name)]
