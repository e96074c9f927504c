"""Registers the kernels for the device type "GPU"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aioexec.devices.cuda.kernels import GpuKernel
from aioexec.devices.cuda.random_kernel import RandomKernel
from aioexec.devices.cuda.supported import ATTRIBUTES, FAMILIES, takes
from aioexec.devices.jit.llvm.ir import LLVM_TYPES
from aioexec.devices.list_kernels import is_on_lists, register_list_kernel
from aioexec.devices.row_kernels import host_memory, make_without_work, value_types
from aioexec.graph import registry
from aioexec.graph.kernels.kernel import Reference
from aioexec.graph.kernels.kernel_registry import register_kernel
from aioexec.graph.registry import Row

DEVICE_TYPE = "GPU"


def register_gpu_kernels() -> None:
    """Register a kernel for every op that GPUs run (see `supported`), and for ops on lists of tensors."""
    for name in sorted(frozenset().union(*FAMILIES.values())):
        row = registry.lookup(name)
        register_kernel(
            name, DEVICE_TYPE, maker(row), constraints=constraints_of(row), host_memory=host_memory(row)
        )
    for row in registry.registered():
        if is_on_lists(row):
            register_list_kernel(row, DEVICE_TYPE, lambda dtype: dtype.name in LLVM_TYPES)


def maker(row: Row) -> Reference:
    """What makes the kernel of a row."""
    random = row.random
    if random is not None:
        return lambda context: RandomKernel(random, context)
    return make_without_work(row) or (lambda context: GpuKernel(row, context))


def constraints_of(row: Row) -> Mapping[str, Sequence[object]]:
    """The values of attributes with which an op has a kernel."""
    dtypes = {
        name: [dtype for dtype in allowed if takes(row, name, dtype)]
        for name, allowed in value_types(row).items()
    }
    return {**dtypes, **ATTRIBUTES.get(row.name, {})}
