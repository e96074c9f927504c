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
from aioexec.resources.device_variable import DeviceVariable


class Launcher(Protocol):
    """Gives the work of one node in one step to its device."""

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        """A buffer that the work of this node will write.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """
        ...

    def next_content(
        self, variable: DeviceVariable, dtype: np.dtype[Any], shape: tuple[int, ...], keep: bool
    ) -> Buffer:
        """The buffer in which this node writes the next content of a variable, which it then passes to `replace`.

        It is the present content if that fits and nothing else refers to it, so work must be right in both cases.

        Args:
            keep: the buffer holds the present content when the node's work begins; needs `MemoryDevice.copy`.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """
        ...

    def view(self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        """The same memory as a value of another dtype or shape and the same size; needs `MemoryDevice.view`."""
        ...

    def launch(self, work: Any, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        """Give the device work, of a type that the device defines, on these buffers.

        If it fails, so does the step, with this node named.
        """
        ...
