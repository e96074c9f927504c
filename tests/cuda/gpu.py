"""A GPU that is emulated: buffers are arrays, and the IR of each kernel runs on this processor."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from aioexec.devices.cuda.cublaslt import ProductPlans, library
from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.launch import Address, Launch
from aioexec.devices.cuda.matrix_product import ProductCall
from aioexec.devices.cuda.ptx import reductions
from aioexec.devices.cuda.registration import maker
from aioexec.devices.row_kernels import host_memory
from aioexec.graph.attrs import input_count
from aioexec.graph.kernels.kernel import Spec
from aioexec.resources.buffer import Buffer
from aioexec.resources.device_variable import DeviceVariable
from tests.cuda.emulation import emulated
from tests.ops.evaluate import context_of
from tests.ops.harness import Ref, Setting, tensor_dtype
from tests.ops.native import Array, aligned, garbage

FEW = 4
"""Threads of the blocks of reductions, which are right for any power of two."""


class EmulatedBuffer:
    """A buffer whose content is an array."""

    ready = SimpleNamespace(is_done=True, error=None)
    device = "/device:GPU:0"

    def __init__(self, array: Array) -> None:
        self.array = array
        self.dtype, self.shape, self.nbytes = array.dtype, array.shape, array.nbytes


class EmulatedLauncher:
    """Runs each launch at once, and keeps the modules; products are given to the library if it is open."""

    def __init__(self) -> None:
        self.modules: list[GeneratedModule] = []
        self.plans = ProductPlans(library())

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        return EmulatedBuffer(garbage(Spec(dtype, shape)))

    def next_content(
        self, variable: DeviceVariable, dtype: np.dtype[Any], shape: tuple[int, ...], keep: bool
    ) -> Any:
        """Another buffer than the present one, though nothing else may refer to that."""
        fresh = self.allocate(dtype, shape)
        if keep:
            present: Any = variable.content()
            fresh.array[...] = present.array
        return fresh

    def view(self, buffer: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        return EmulatedBuffer(buffer.array.reshape(-1).view(dtype).reshape(shape))

    def launch(self, work: Launch | ProductCall, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        if isinstance(work, ProductCall):
            assert self.plans.make(work.product)
            plan = self.plans.plan(work.product)
            assert plan is not None
            a, b, result = (pointer(each, (*reads, *writes)).ctypes.data for each in work.operands)
            self.plans.multiply(plan, (a, b, result), 0, 0)
            return
        assert isinstance(work.module, GeneratedModule)
        self.modules.append(work.module)
        arguments = [pointer(each, (*reads, *writes)) for each in work.arguments]
        kernel = emulated(work.module.ir, work.entry)
        threads = FEW if work.entry == reductions.ENTRY and kernel.has_barrier else work.block[0]
        kernel.launch(work.grid, threads, arguments)


def pointer(argument: Any, declared: Sequence[Any]) -> Any:
    """An argument as the emulation takes it; every buffer must be among those of the work."""
    if isinstance(argument, Address):
        content: Any = argument.buffer
        assert any(content is each for each in declared)
        return content.array.reshape(-1).view(np.uint8)[argument.offset :]
    if isinstance(argument, EmulatedBuffer):
        assert any(argument is each for each in declared)
        return argument.array
    return argument


def run_on_gpu(setting: Setting) -> tuple[list[Array], list[Array], EmulatedLauncher]:
    """The outputs of a node, the contents of its variables, and the launcher with the modules.

    Raises:
        UnimplementedError: there is no GPU kernel for it.
    """
    op, row = setting.op, setting.op.row
    on_host = {
        position
        for position, arg in enumerate(
            arg for arg in row.definition.inputs for _ in range(input_count(arg, op.attrs))
        )
        if arg.name in host_memory(row)
    }
    given: list[Any] = []
    variables: list[DeviceVariable] = []
    for k, value in enumerate(setting.values):
        if isinstance(value, Ref):
            buffer: Any = EmulatedBuffer(aligned(value.value))
            held = DeviceVariable("v", tensor_dtype(value.value), value.value.shape)
            held.replace(buffer)
            variables.append(held)
            given.append(held if k in (*row.writes, *row.reads) else buffer)
        else:
            given.append(value if k in on_host else EmulatedBuffer(aligned(value)))
    launcher = EmulatedLauncher()
    found = maker(row)(context_of(op))(launcher, *given)
    outputs = found if isinstance(found, tuple) else () if found is None else (found,)
    contents: list[Any] = [held.content() for held in variables]
    return (
        [each.array if isinstance(each, EmulatedBuffer) else each for each in outputs],
        [each.array for each in contents],
        launcher,
    )
