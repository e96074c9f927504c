"""The work that one step has given to one device with memory of its own.

A partition on such a device is over only when its work is: until then the device may use the memory of the step. Copies to main
memory are awaited, everything else is in the device's own order. The event loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from aioexec.devices.memory_device import MemoryDevice
from aioexec.execution.programs.trace import note_node
from aioexec.execution.step import Step
from aioexec.planning.instruction import locate_node
from aioexec.planning.subgraph import Node
from aioexec.resources.buffer import Buffer, Event
from aioexec.resources.device_variable import DeviceVariable
from aioexec.resources.variable import Variable


class DeviceWork:
    """What a step waits for on a device.

    Constant: `device`, `step`; `on_idle` is called whenever nothing is pending any more. Changing: `pending`, how many events
    have not come; `_last`, the one given last that had not come then.
    """

    __slots__ = ("_last", "device", "on_idle", "pending", "step")

    def __init__(self, device: MemoryDevice, step: Step, on_idle: Callable[[], object]) -> None:
        self.device = device
        self.step = step
        self.on_idle = on_idle
        self.pending = 0
        self._last: Event | None = None

    def launcher(self, node: Node) -> NodeLauncher:
        """What the work of a node, which begins now, is given to."""
        return NodeLauncher(self, node)

    def bring(self, value: Any, node: Node) -> Buffer | None:
        """A received value in the memory of this device; None: that failed, and so did the step."""
        launcher = self.launcher(node)
        try:
            if isinstance(value, np.ndarray):
                buffer = launcher.copy_in(value)
            else:
                source = self.step.engine.devices[value.device]
                assert isinstance(source, MemoryDevice)
                buffer = launcher.copy_from(value, source)
        except Exception as error:
            error.__traceback__ = None  # its frames would keep the value as long as the error is kept
            self.step.fail(locate_node(error, node, self.device.name))
            return None
        launcher.finish([buffer])
        return buffer

    def watch(self, event: Event, launcher: NodeLauncher) -> None:
        """Take an event into account; if it ends with an error, the step fails."""
        if event.is_done:
            self._check(event, launcher)
            return
        self.pending += 1
        self._last = event
        launcher.pending += 1
        event.add_done_callback(lambda: self._done(event, launcher))

    def take_last(self) -> Event | None:
        """The last event taken into account since the last call, if it has not come."""
        last, self._last = self._last, None
        return None if last is None or last.is_done else last

    def _done(self, event: Event, launcher: NodeLauncher) -> None:
        self.pending -= 1
        launcher.pending -= 1
        self._check(event, launcher)
        launcher.record_if_done()
        if not self.pending:
            self.on_idle()

    def _check(self, event: Event, launcher: NodeLauncher) -> None:
        if event.error is not None:
            self.step.fail(locate_node(event.error, launcher.node, self.device.name))


class NodeLauncher:
    """Gives the work of one node to the device: the `Launcher` of its kernel. `finish` must be called when all is given.

    Changing: `node`, with a program the first, or the one that has failed; `pending`, how many events of it have not come;
    `_outputs`, those of the node once all is given, if the step is traced.
    """

    __slots__ = ("_began", "_outputs", "_work", "node", "pending")

    def __init__(self, work: DeviceWork, node: Node) -> None:
        self.node = node
        self.pending = 0
        self._work = work
        self._outputs: Sequence[Any] | None = None
        self._began = 0 if work.step.collector is None else perf_counter_ns()

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        return self._work.device.allocate(dtype, shape)

    def next_content(
        self, variable: DeviceVariable, dtype: np.dtype[Any], shape: tuple[int, ...], keep: bool
    ) -> Buffer:
        if variable.may_be_written(dtype, shape):
            return variable.content()
        fresh = self.allocate(dtype, shape)
        if keep:
            self._work.watch(self._work.device.copy(variable.content(), fresh), self)
        return fresh

    def view(self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Buffer:
        return self._work.device.view(buffer, dtype, shape)

    def launch(self, work: Any, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> None:
        self._work.watch(self._work.device.launch(work, reads, writes), self)

    def copy_in(self, value: np.ndarray[Any, Any]) -> Buffer:
        """Copy an array of the step to the device."""
        buffer = self._work.device.copy_in(value)
        self._work.watch(buffer.ready, self)
        return buffer

    def copy_from(self, buffer: Buffer, source: MemoryDevice) -> Buffer:
        """Copy a buffer of another device to this one."""
        copy = self._work.device.copy_from(buffer, source)
        self._work.watch(copy.ready, self)
        return copy

    def copy_out(self, buffer: Buffer) -> asyncio.Future[np.ndarray[Any, Any]]:
        """A future of a buffer's content in main memory; it is cancelled if the copy fails, as the step does."""
        array, event = self._work.device.copy_out(buffer)
        future: asyncio.Future[np.ndarray[Any, Any]] = asyncio.get_running_loop().create_future()

        def end() -> None:
            if future.done():
                return
            if event.error is None:
                future.set_result(array)
            else:
                future.cancel()

        self._work.watch(event, self)
        if event.is_done:
            end()
        else:
            event.add_done_callback(end)
        self.finish([array])
        return future

    def wait_for_inputs(self, inputs: Sequence[Any]) -> None:
        """Have the step end after the work that writes its node's inputs, maybe that of another step.

        An assignment gives the device no work: a buffer becomes the content of a variable, which it is no longer if that fails.
        """
        for each in inputs:
            if not isinstance(each, np.ndarray | Variable) and not each.ready.is_done:
                self._work.watch(each.ready, self)

    def finish(self, outputs: Sequence[Any]) -> None:
        """Mark that everything is given; a traced step records the node when the device has done it."""
        if self._work.step.collector is not None:
            self._outputs = outputs
            self.record_if_done()

    def record_if_done(self) -> None:
        """Record the node, from when its work was given to when that ended, unless the step has failed."""
        step, outputs = self._work.step, self._outputs
        if self.pending or outputs is None or step.error is not None:
            return
        assert step.collector is not None
        now = perf_counter_ns()
        note_node(step.collector, self.node, self._work.device.name, self._began, self._began, now, outputs)
