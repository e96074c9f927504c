"""The kernel of a random op for GPUs: it draws the numbers that the processor would draw, from the same place of a stream."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from aioexec.devices.cuda.generated import GeneratedModule
from aioexec.devices.cuda.launch import Launch
from aioexec.devices.cuda.ptx import drawing
from aioexec.devices.cuda.ptx.drawing import Drawing
from aioexec.devices.cuda.ptx.threads import THREADS, blocks_for
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel import KernelContext
from aioexec.graph.kernels.random import Random

_MASK = (1 << 64) - 1


class RandomKernel:
    """The kernel of one node; the event loop calls it, with all inputs in main memory."""

    def __init__(self, random: Random, context: KernelContext) -> None:
        self._place = random.place(context)
        self._dtype = context.output_dtypes[0].numpy
        self._drawing = Drawing(random.distribution, self._dtype.name)

    def __call__(self, launcher: Launcher, *inputs: Any) -> Any:
        given = self._place(*inputs)
        output = launcher.allocate(self._dtype, given.shape)
        size = prod(given.shape)
        if size:
            words = (size, given.key, given.start & _MASK, given.start >> 64, given.low & _MASK, given.span)
            blocks = blocks_for(-(-size // self._drawing.group))
            module = drawing_module(self._drawing)
            scalars = tuple(map(np.uint64, words))
            work = Launch(module, drawing.ENTRY, (blocks, 1, 1), (THREADS, 1, 1), 0, (output, *scalars))
            launcher.launch(work, [], [output])
        return output


@functools.cache
def drawing_module(given: Drawing) -> GeneratedModule:
    return GeneratedModule(
        f"{given.distribution} of {given.dtype}", drawing.ENTRY, functools.partial(drawing.emit, given)
    )
