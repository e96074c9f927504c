"""GPUs of a stub of the driver: devices, and sessions with a few kernels."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from aioexec.devices.builtin import register_gpu_factory
from aioexec.devices.cuda.device import CudaDevice
from aioexec.devices.cuda.driver import initialised
from aioexec.devices.cuda.factory import GPUDeviceFactory
from aioexec.devices.cuda.registration import register_gpu_kernels
from aioexec.devices.device_set import LOCALHOST
from aioexec.graph.kernels import kernel_registry
from aioexec.testing.cuda_driver import StubDriver
from tests.cuda.emulated_stub import EmulatingStub, use_ir
from tests.cuda.kernels import add_kernels, register_kernels
from tests.devices.table import Options, device_table as device_table


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubDriver]:
    """A stub with one GPU; at the end nothing of it may be in use, and nothing may have gone wrong unseen."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    made = StubDriver()
    add_kernels(made)
    yield made
    if +made.counts:
        gc.collect()  # errors keep frames, and these arrays
    assert +made.counts == {}
    assert made.faults == []


class Gpus:
    """A factory of GPU devices of a stub, which keeps the devices it has made last."""

    def __init__(self, stub: StubDriver) -> None:
        self.stub = stub
        self.made: list[CudaDevice] = []
        self.factory = _Keeping(self)

    def devices(self, **count: int) -> list[CudaDevice]:
        """Devices without a session."""
        self.factory.create_devices(Options(count), LOCALHOST)
        return self.made


class _Keeping(GPUDeviceFactory):
    def __init__(self, gpus: Gpus) -> None:
        super().__init__(lambda: initialised(gpus.stub))
        self._owner = gpus

    def create_devices(self, options: Any, name_prefix: str) -> list[Any]:
        made = super().create_devices(options, name_prefix)
        self._owner.made = [each for each in made if isinstance(each, CudaDevice)]
        return made


@pytest.fixture
def gpus(stub: StubDriver, device_table: None, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Have sessions place what can run there on GPUs of the stub."""
    forget_gpu_kernels(monkeypatch)
    register_kernels()
    gpus = Gpus(stub)
    register_gpu_factory(gpus.factory)
    return gpus


@pytest.fixture
def emulated_gpus(device_table: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpus]:
    """As `gpus`, with the kernels of the package, which are emulated."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    use_ir(monkeypatch)
    forget_gpu_kernels(monkeypatch)
    register_gpu_kernels()
    gpus = Gpus(EmulatingStub())
    register_gpu_factory(gpus.factory)
    yield gpus
    assert +gpus.stub.counts == {}
    assert gpus.stub.faults == []


def forget_gpu_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {
        name: [kernel for kernel in kernels if kernel.device_type != "GPU"]
        for name, kernels in kernel_registry._kernels.items()
    }
    monkeypatch.setattr(kernel_registry, "_kernels", kept)
