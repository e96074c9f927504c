"""A stub of the driver whose GPUs run the kernels that we generate: their IR, emulated on this processor."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.ptx import reductions
from aioexec.testing.cuda_driver import POINTER, StubDriver, StubKernel
from tests.cuda.emulation import emulated
from tests.cuda.gpu import FEW

TYPES: dict[str, Any] = {"ptr": POINTER, "i64": np.int64, "double": np.float64}


class EmulatingStub(StubDriver):
    """Takes IR as modules, see `use_ir`, and compiles it in the thread that loads it."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self._emulated: dict[int, StubKernel] = {}

    def _cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> int:
        module = super()._cuModuleLoadDataEx(image, count, options, values)
        self._emulated[module] = stub_kernel(image.rstrip(b"\0").decode())
        return module

    def _cuModuleGetFunction(self, module: int, name: bytes) -> int:
        self.kernels[name.decode()] = self._emulated[module]
        return super()._cuModuleGetFunction(module, name)


def stub_kernel(text: str) -> StubKernel:
    """The only kernel of a module."""
    (entry,) = re.findall(r"^define ptx_kernel void @(\w+)\(", text, re.MULTILINE)
    kernel = emulated(text, entry)
    is_reduction = entry == reductions.ENTRY and kernel.has_barrier

    def compute(shape: Any, *arguments: Any) -> None:
        kernel.launch(shape[:3], FEW if is_reduction else shape[3], arguments)

    return StubKernel([TYPES[kind] for kind in kernel.kinds], compute)


def use_ir(monkeypatch: Any) -> None:
    """Have devices load the IR of generated modules, not the PTX."""
    monkeypatch.setattr(GeneratedModule, "ptx", property(lambda module: module.ir))
