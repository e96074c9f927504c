"""Common parts of device tests: options, a separate table of factories, and the check that all pools were released."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from aioexec.devices import registry
from aioexec.devices.builtin import register_builtin_factories
from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.device_set import LOCALHOST
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads import pools
from aioexec.devices.threads.pools import acquire_pool


@dataclass(frozen=True)
class Options:
    """A session's options, as far as devices look at them."""

    device_count: Mapping[str, int] = field(default_factory=dict)
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    use_numa_affinity: bool = False
    use_per_session_threads: bool = False
    config: Any = None


class ToyDevice(Device):
    """A device type that is known to this file alone."""

    runs_cpu_kernels = True


class ToyDeviceFactory(DeviceFactory):
    """Makes `device_count` devices of its type, by default as many as it has hardware."""

    def __init__(self, device_type: str = "TOY", hardware: int = 1) -> None:
        self.device_type = device_type
        self.hardware = hardware

    def list_physical_devices(self) -> list[str]:
        return [f"/physical_device:{self.device_type}:{i}" for i in range(self.hardware)]

    def get_device_details(self, device_index: int) -> dict[str, str]:
        return {"device_name": f"{self.device_type} no. {device_index}"}

    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        return [
            toy(f"{name_prefix}/device:{self.device_type}:{i}", f"toy no. {i}")
            for i in range(options.device_count.get(self.device_type, self.hardware))
        ]


def toy(name: str, description: str = "") -> ToyDevice:
    """A device of the type in its full name."""
    device_type = name.rpartition("/device:")[2].partition(":")[0]
    attributes = DeviceAttributes(name, device_type, physical_device_desc=description)
    return ToyDevice(attributes, acquire_pool("toy", 1))


def local(*names: str) -> list[Device]:
    """Devices of this process: "CPU:0", "TOY:1"."""
    return [toy(f"{LOCALHOST}/device:{name}") for name in names]


@pytest.fixture
def device_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a table of factories with the built-in ones, to change as it likes."""
    monkeypatch.delenv("TF_ENABLED_DEVICE_TYPES", raising=False)
    monkeypatch.setattr(registry, "_factories", {})
    register_builtin_factories()


@pytest.fixture
def all_pools_given_back() -> Iterator[None]:
    """Fail a test that holds a pool at its end."""
    before = dict(pools._holders)
    yield
    assert pools._holders == before
