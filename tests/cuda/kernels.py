"""Kernels for GPUs of the stub: what the runtime calls, and what the stub's GPU then does."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.devices.cuda.launch import Address, Launch, Module
from aioexec.devices.row_kernels import make_without_work
from aioexec.graph import registry
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel_registry import register_kernel
from aioexec.resources.device_variable import DeviceVariable
from aioexec.testing.cuda_driver import POINTER, StubDriver

MODULE = Module("test", "// kernels of the tests")
BLOCK = 256


def add_kernels(stub: StubDriver) -> None:
    """Give a stub's GPUs the kernels "add", "neg", "fill" and "wild"."""

    @stub.kernel("add", POINTER, POINTER, POINTER, np.uint32)
    def add(shape: Any, x: Any, y: Any, z: Any, n: np.uint32) -> None:
        floats(z, n)[:] = floats(x, n) + floats(y, n)

    @stub.kernel("neg", POINTER, POINTER, np.uint32)
    def neg(shape: Any, x: Any, y: Any, n: np.uint32) -> None:
        floats(y, n)[:] = -floats(x, n)

    @stub.kernel("fill", POINTER, np.float32, np.bool_, np.uint32)
    def fill(shape: Any, x: Any, value: np.float32, negated: np.bool_, n: np.uint32) -> None:
        floats(x, n)[:] = -value if negated else value

    @stub.kernel("wild", POINTER, POINTER, np.uint32)
    def wild(shape: Any, x: Any, y: Any, n: np.uint32) -> None:
        raise IndexError("an address outside of all memory")


def floats(memory: Any, n: Any) -> Any:
    return memory[: 4 * int(n)].view(np.float32)


def launch(entry: str, n: int, *arguments: Any) -> Launch:
    """The launch of a kernel of the tests for `n` elements."""
    grid = (-(-n // BLOCK), 1, 1)
    return Launch(MODULE, entry, grid, (BLOCK, 1, 1), 0, (*arguments, np.uint32(n)))


def register_kernels() -> None:
    """Register kernels for the device type GPU: of float32, and for operands of the same shape."""
    numbers = {"T": [dtypes.float32]}
    dtype = {"dtype": [dtypes.float32]}
    register_kernel("Identity", "GPU", lambda context: lambda launcher, x: x, constraints=numbers)
    register_kernel("NoOp", "GPU", lambda context: lambda launcher: None)
    register_kernel("Add", "GPU", lambda context: _add, constraints=numbers)
    register_kernel("Neg", "GPU", _unary("neg"), constraints=numbers)
    register_kernel("Exp", "GPU", _unary("wild"), constraints=numbers)
    register_kernel("Fill", "GPU", lambda context: _fill, constraints=numbers, host_memory=["dims", "value"])
    for op_type, on_host in (("VarHandleOp", ["resource"]), ("ReadVariableOp", [])):
        make = make_without_work(registry.lookup(op_type))
        assert make is not None
        register_kernel(op_type, "GPU", make, constraints=dtype, host_memory=on_host)
    register_kernel("AssignVariableOp", "GPU", lambda context: _assign, constraints=dtype)
    register_kernel("AssignAddVariableOp", "GPU", lambda context: _assign_add, constraints=dtype)


def _assign(launcher: Launcher, variable: DeviceVariable, value: Any) -> None:
    variable.replace(value)


def _assign_add(launcher: Launcher, variable: DeviceVariable, value: Any) -> None:
    variable.replace(_add(launcher, variable.content(), value))


def _add(launcher: Launcher, x: Any, y: Any) -> Any:
    z = launcher.allocate(x.dtype, x.shape)
    launcher.launch(launch("add", x.nbytes // 4, x, Address(y, 0), z), [x, y], [z])
    return z


def _fill(launcher: Launcher, dims: Any, value: Any) -> Any:
    x = launcher.allocate(np.dtype(np.float32), tuple(dims.tolist()))
    launcher.launch(launch("fill", x.nbytes // 4, x, np.float32(value), np.bool_(False)), [], [x])
    return x


def _unary(entry: str) -> Any:
    def compute(launcher: Launcher, x: Any) -> Any:
        y = launcher.allocate(x.dtype, x.shape)
        launcher.launch(launch(entry, x.nbytes // 4, x, y), [x], [y])
        return y

    return lambda context: compute
