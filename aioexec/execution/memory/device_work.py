"""The work that one step has given to one device with memory of its own.

A partition on such a device is over only when its work is: until then the device may use the memory of the step. Copies to main
memory are awaited, everything else is in the device's own order. The event loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.devices.memory_device import MemoryDevice
from aioexec.execution.step import Step
from aioexec.planning.instruction import Instruction, locate
from aioexec.resources.buffer import Buffer, Event


class DeviceWork:
    """What a step waits for on a device.

    Constant: `device`, `step`; `on_idle` is called whenever nothing is pending any more. Changing: `pending`, how many events
    have not come.
    """

    __slots__ = ("device", "on_idle", "pending", "step")

    def __init__(self, device: MemoryDevice, step: Step, on_idle: Callable[[], object]) -> None:
        self.device = device
        self.step = step
        self.on_idle = on_idle
        self.pending = 0

    def launcher(self, instruction: Instruction) -> NodeLauncher:
        """What the kernel of a node gives its work to."""
        return NodeLauncher(self, instruction)

    def watch(self, event: Event, instruction: Instruction) -> None:
        """Take an event into account; if it ends with an error, the step fails."""
        if event.is_done:
            self._check(event, instruction)
            return
        self.pending += 1
        event.add_done_callback(lambda: self._done(event, instruction))

    def copy_in(self, value: np.ndarray[Any, Any], instruction: Instruction) -> Buffer:
        """Copy an array of the step to the device."""
        buffer = self.device.copy_in(value)
        self.watch(buffer.ready, instruction)
        return buffer

    def copy_from(self, buffer: Buffer, source: MemoryDevice, instruction: Instruction) -> Buffer:
        """Copy a buffer of another device to this one."""
        copy = self.device.copy_from(buffer, source)
        self.watch(copy.ready, instruction)
        return copy

    def copy_out(self, buffer: Buffer, instruction: Instruction) -> asyncio.Future[np.ndarray[Any, Any]]:
        """A future of a buffer's content in main memory; it is cancelled if the copy fails, as the step does."""
        array, event = self.device.copy_out(buffer)
        future: asyncio.Future[np.ndarray[Any, Any]] = asyncio.get_running_loop().create_future()

        def end() -> None:
            if future.done():
                return
            if event.error is None:
                future.set_result(array)
            else:
                future.cancel()

        self.watch(event, instruction)
        if event.is_done:
            end()
        else:
            event.add_done_callback(end)
        return future

    def _done(self, event: Event, instruction: Instruction) -> None:
        self.pending -= 1
        self._check(event, instruction)
        if not self.pending:
            self.on_idle()

    def _check(self, event: Event, instruction: Instruction) -> None:
        if event.error is not None:
            self.step.fail(locate(event.error, instruction, self.device.name))


class NodeLauncher:
    """Gives the work of one node to the device: the `Launcher` of its kernel."""

    __slots__ = ("_instruction", "_work")

    def __init__(self, work: DeviceWork, instruction: Instruction) -> None:
        self._work = work
        self._instruction = instruction

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        return self._work.device.allocate(dtype, shape)

    def launch(self, work: Any, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        self._work.watch(self._work.device.launch(work, reads, writes), self._instruction)
