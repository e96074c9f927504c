"""The work of a GPU: the launch of one kernel. Kernels for the device type "GPU" give it to their launcher."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.resources.buffer import Buffer


@dataclass(frozen=True, slots=True)
class Module:
    """Kernels in PTX, which a GPU's driver translates when the first of them is launched, and keeps by `ptx`.

    Attributes:
        name: for error messages.
        ptx: the text; two modules with the same text are one.
    """

    name: str
    ptx: str


@dataclass(frozen=True, slots=True)
class Address:
    """A place inside a buffer, `offset` bytes after its beginning."""

    buffer: Buffer
    offset: int


Argument: TypeAlias = Buffer | Address | np.generic
"""A parameter of a kernel: a buffer or an address is passed as a pointer of 64 bits, a NumPy scalar as its own type."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel.

    Buffers among the arguments must be among the reads or writes of the work. A launch with an empty grid does nothing.

    Attributes:
        entry: the name of the kernel in the module.
        grid: the number of blocks in x, y and z.
        block: the number of threads of a block in x, y and z.
        shared_bytes: dynamic shared memory of a block, in bytes.
        arguments: the parameters of the kernel, in order.
    """

    module: Module
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]
