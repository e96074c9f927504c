"""Devices with memory of their own: the processor sees values there only as `Buffer`s, and copies them in and out.

A device does the work it is given in an order that gives the same values as that in which it was given. Everything here is
called on the event loop, and returns without waiting: the device reports the end of work through the `Event` of it.
docs/guide/memory_devices.md describes how a third party writes such a device.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.devices.device import Device
from aioexec.devices.device_program import DeviceProgram, Recording
from aioexec.errors import UnimplementedError
from aioexec.resources.buffer import Buffer, Event


class MemoryDevice(Device, abc.ABC):
    """A device with memory of its own; it runs the kernels registered for its type, and no others.

    All methods raise UnavailableError once the device is lost.

    Attributes:
        has_programs: whether `compile` makes programs. Then kernels must do nothing else than to give their launcher work that
            depends on nothing but the dtypes and shapes of their inputs and the content of those in main memory.
    """

    has_own_memory = True
    has_programs = False

    @abc.abstractmethod
    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        """Memory for a value, whose content is undefined until work has written it.

        Raises:
            ResourceExhaustedError: there is not enough; says how much was asked for, and how much is free.
        """

    @abc.abstractmethod
    def launch(self, work: Any, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> Event:
        """Begin work on buffers of this device, which stay allocated until it has ended."""

    @abc.abstractmethod
    def copy_in(self, value: np.ndarray[Any, Any]) -> Buffer:
        """Begin to copy an array from main memory, which must not change until the buffer is ready.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """

    @abc.abstractmethod
    def copy_out(self, buffer: Buffer) -> tuple[np.ndarray[Any, Any], Event]:
        """Begin to copy a buffer of this device to main memory: the array, and the event after which it may be read."""

    def host_array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """An array in main memory, with any content, for a value that will be copied in: where that is fastest from."""
        return np.empty(shape, dtype)

    @abc.abstractmethod
    def copy_from(self, buffer: Buffer, source: MemoryDevice) -> Buffer:
        """Begin to copy a buffer of another device into this one.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """

    def copy(self, source: Buffer, target: Buffer) -> Event:
        """Begin to copy a buffer of this device to another of the same size; for kernels that keep a variable's content."""
        raise UnimplementedError(f"{self.name} copies nothing inside of its memory")

    def view(self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        """The memory of a buffer as a value of another dtype or shape and the same size; for kernels that ask for views."""
        raise UnimplementedError(f"{self.name} has no views")

    def compile(self, recording: Recording) -> DeviceProgram | None:
        """A program for recorded work; None: the device has none for this, and is given the work node by node."""
        return None

    @abc.abstractmethod
    async def sync(self) -> None:
        """Wait until all work submitted to the device so far is done."""
