"""The protocol of kernels for devices with memory of their own.

Such a kernel is registered for the device's type by `register_kernel`, as any other, and called `compute(launcher, *inputs)` on
the event loop: it allocates the outputs, gives the device its work and returns the outputs at once. An input is a `Buffer`, or
an ndarray if it is one of the kernel's `host_memory`; a variable is passed as the object. Work that the device is given later
comes after it, so no kernel waits for its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from aioexec.resources.buffer import Buffer


class Launcher(Protocol):
    """Gives the work of one node in one step to its device."""

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        """A buffer that the work of this node will write.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """
        ...

    def launch(self, work: Any, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        """Give the device work, of a type that the device defines, on these buffers.

        If it fails, so does the step, with this node named.
        """
        ...
