"""Rows of native programs as work of a GPU: from a `kernel.Launch` to a kernel, its grid and its scalar parameters.

Pure. Generated modules are cached: nodes with the same kernel share one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.launch import Address, Launch as Work
from aioexec.devices.cuda.ptx import elementwise
from aioexec.devices.cuda.ptx.elementwise import VECTOR_BYTES, Variant
from aioexec.devices.cuda.ptx.threads import THREADS, blocks_for
from aioexec.devices.jit.llvm.ir import ITEM_SIZES
from aioexec.errors import UnimplementedError
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launch, Operand
from aioexec.resources.buffer import Buffer

Grid = tuple[int, int, int]
SHORT = 1 << 31


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One launch of a GPU kernel, with operands in place of addresses.

    Attributes:
        operands: its pointers, in order.
        written: for each operand, whether the kernel writes it.
        scalars: its other parameters.
        covers: for each operand, whether the kernel writes every element that the launch has.
    """

    module: GeneratedModule
    grid: Grid
    threads: int
    shared_bytes: int
    operands: tuple[Operand, ...]
    written: tuple[bool, ...]
    scalars: tuple[np.generic[Any], ...]
    covers: int = 0

    def work(self, places: Sequence[Buffer | Address]) -> Work:
        """The launch on these places, one for each operand."""
        block = (self.threads, 1, 1)
        return Work(
            self.module, self.module.entry, self.grid, block, self.shared_bytes, (*places, *self.scalars)
        )


def device_row(row: Launch) -> DeviceRow:
    """The work of a row.

    Raises:
        UnimplementedError: there is no such kernel for GPUs.
    """
    if isinstance(row.kernel, ElementwiseKernel):
        return elementwise_row(row, row.kernel)
    raise UnimplementedError(f"no GPU kernel for the loop {row.kernel.body.__qualname__}")


def elementwise_row(row: Launch, kernel: ElementwiseKernel) -> DeviceRow:
    """The work of an elementwise launch."""
    rank = row.words[0]
    dims = row.words[1 : 1 + rank]
    strides = [row.words[1 + rank * (k + 1) :][:rank] for k in range(len(row.operands))]
    count = prod(dims)
    variant = Variant(rank, count < SHORT, vector_letters(kernel, row.operands, dims, strides))
    module = elementwise_module(kernel.body, kernel.inputs, kernel.outputs, variant)
    units = -(-count // elementwise.lanes_of(kernel)) if variant.vector else count
    writes = (False,) * len(kernel.inputs) + (True,) * len(kernel.outputs)
    words = (count, *dims, *(stride for each in strides for stride in each))
    return DeviceRow(
        module,
        (blocks_for(units), 1, 1),
        THREADS,
        0,
        row.operands,
        writes,
        tuple(map(np.int64, words)),
        count,
    )


def vector_letters(
    kernel: ElementwiseKernel,
    operands: Sequence[Operand],
    dims: Sequence[int],
    strides: Sequence[Sequence[int]],
) -> str:
    """The letters of the vector variant, if it serves this launch; else nothing."""
    if len(dims) > 1 or elementwise.lanes_of(kernel) == 1 or elementwise.positions(kernel.body):
        return ""
    letters = ""
    pairs = zip((*kernel.inputs, *kernel.outputs), operands, strides, strict=True)
    for k, ((_, dtype), operand, (stride,)) in enumerate(pairs):
        if stride == ITEM_SIZES[dtype] and operand.offset % VECTOR_BYTES == 0:
            letters += "v"
        elif stride == 0 and k < len(kernel.inputs):
            letters += "s"
        else:
            return ""
    return letters


@functools.cache
def elementwise_module(
    body: str, inputs: tuple[tuple[str, str], ...], outputs: tuple[tuple[str, str], ...], variant: Variant
) -> GeneratedModule:
    kernel = ElementwiseKernel(body, inputs, outputs, "x" * (len(inputs) + len(outputs)))
    return GeneratedModule(body, elementwise.ENTRY, functools.partial(elementwise.emit, kernel, variant))
