"""Sessions on an opaque device: a table of factories and kernels for one test."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from aioexec.devices.registry import DeviceFactory
from aioexec.graph.kernels import kernel_registry
from aioexec.testing.opaque_device import DEVICE_TYPE, OpaqueDeviceFactory
from aioexec.testing.opaque_kernels import register_opaque_kernels
from tests.devices.table import device_table as device_table

PRIORITY = 220


@cache
def _kernels() -> dict[str, list[Any]]:
    """The kernels of all ops, made once."""
    kept = dict(kernel_registry._kernels)
    try:
        register_opaque_kernels()
        return {name: list(kernels) for name, kernels in kernel_registry._kernels.items()}
    finally:
        kernel_registry._kernels.clear()
        kernel_registry._kernels.update(kept)


@pytest.fixture
def opaque(device_table: None, monkeypatch: pytest.MonkeyPatch) -> OpaqueDeviceFactory:
    """Have sessions place whatever can run there on an opaque device."""
    monkeypatch.setattr(kernel_registry, "_kernels", _kernels())
    factory = OpaqueDeviceFactory()
    DeviceFactory.register(DEVICE_TYPE, factory, PRIORITY)
    return factory
