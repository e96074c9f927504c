"""Programs of GPUs: the work of an item on fixed memory, which becomes a CUDA graph.

A run copies the inputs into the arena of the device, launches the graph, and copies the outputs to buffers of their own. All of
it is consecutive in the compute stream, so the runs of all programs follow one another, and share the arena. The contents of
variables are where the variables have them. A graph holds for the addresses of the arena and of these: if they are others, the
work is given piece by piece, and captured again when a second run finds them.

Rejected: to give the nodes of the graph other parameters in each run, in place of copies. That is a call of the driver for each
node, and cuBLASLt does not say which parameter of its kernels is which.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import cast

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.driver import Handle
from aioexec.devices.cuda.event import Accepted, CudaBuffer, CudaEvent, restore_if_refused
from aioexec.devices.cuda.graph import CudaGraph
from aioexec.devices.cuda.launch import Address, Launch
from aioexec.devices.cuda.open_gpu import OpenGpu
from aioexec.devices.cuda.work import WorkingDevice
from aioexec.devices.device_program import Call, DeviceProgram, Location, Place, Recording
from aioexec.errors import OpError
from aioexec.resources.buffer import Buffer
from aioexec.resources.device_variable import DeviceVariable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Where the memory of places is."""

    arena: int
    constants: tuple[int, ...]
    variables: tuple[int, ...]

    def of(self, place: Place) -> int:
        root = place.root
        if root.location is Location.CONSTANT:
            return self.constants[root.number]
        if root.location is Location.VARIABLE:
            return self.variables[root.number]
        return self.arena + (root.offset or 0)

    def pointer(self, place: Buffer | Address) -> int:
        """The address of an argument of recorded work."""
        if isinstance(place, Address):
            return self.of(cast(Place, place.buffer)) + place.offset
        return self.of(cast(Place, place))


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """What a run needs until the stream has it: it keeps the buffers.

    Attributes:
        event: its end.
        update: the end of its work, before the outputs are copied: from then on the variables have their next contents.
        arena: see `DeviceMemory`.
        contents: the memory of the variables.
        staged: what is copied first, and to where.
        needed: the work that comes before it.
    """

    event: CudaEvent
    update: CudaEvent
    arena: CudaBuffer
    contents: Sequence[CudaBuffer]
    staged: Sequence[tuple[CudaBuffer, int]]
    outputs: Sequence[CudaBuffer]
    needed: Sequence[CudaEvent]


class CudaProgram(DeviceProgram):
    """See the module.

    Constant: `_prepared`, what workers prepare for its work; `_is_early`, of each output, whether it is copied before the work
    begins; `_constants`, the addresses of the constants. Changing: `_is_prepared`, all of the former and the constants are
    there; `_addresses`, of the last run; `_graph`, the one that was captured last, or is being captured.
    """

    def __init__(self, device: WorkingDevice, recording: Recording) -> None:
        self._device = device
        self._recording = recording
        works = [call.work for call in recording.calls if call.work is not None]
        self._prepared = {work.module if isinstance(work, Launch) else work.product for work in works}
        self._is_early = [recording.is_early(place) for place in recording.outputs]
        self._constants = tuple(device.own(buffer).pointer for buffer in recording.constants)
        self._is_prepared = False
        self._addresses: _Addresses | None = None
        self._graph: CudaGraph | None = None

    def begin(
        self, inputs: Sequence[Buffer], variables: Sequence[DeviceVariable]
    ) -> tuple[Sequence[CudaBuffer], CudaEvent]:
        device, recording = self._device, self._recording
        self.failed = None
        opened = device.usable()
        arena = device.memory.arena(recording.arena_bytes, opened)
        outputs = [self._allocate(place, opened) for place in recording.outputs]
        moved = {
            k: self._allocate(recording.variables[k], opened)
            for k in recording.written
            if not variables[k].may_be_written(recording.variables[k].dtype, recording.variables[k].shape)
        }
        present = [device.own(each.content()) for each in variables]
        staged = [
            (device.own(buffer), arena.pointer + place.offset)
            for place, buffer in zip(recording.inputs, inputs, strict=True)
            if place.offset is not None
        ]
        staged += [(present[k], moved[k].pointer) for k in moved if k in recording.read]
        in_place = [k for k in recording.written if k not in moved]
        needed = [buffer.ready for buffer, _ in staged]
        needed += [present[k].ready for k in {*recording.read, *in_place}]
        if not self._is_prepared:
            needed += [device.own(buffer).ready for buffer in recording.constants]
        contents = [moved.get(k, buffer) for k, buffer in enumerate(present)]
        run = _Run(device.begin_work(), device.begin_work(), arena, contents, staged, outputs, needed)
        before = {k: present[k].ready for k in in_place}
        for buffer in outputs:
            buffer.ready = run.event
        for k in recording.written:
            contents[k].ready = run.update
        self._give(run, opened)
        for k in in_place:
            restore_if_refused(present[k], before[k], run.update)
        for k, buffer in moved.items():
            variables[k].replace(buffer, validate_shape=False, accepted=Accepted(run.update))
        return outputs, run.event

    def _allocate(self, place: Place, opened: OpenGpu) -> CudaBuffer:
        return self._device.memory.allocate(place.dtype, place.shape, opened, opened.compute)

    def _give(self, run: _Run, opened: OpenGpu) -> None:
        """Give the stream a run when nothing that it needs is held."""
        device, gpu = self._device, opened.gpu
        preparing: list[CudaEvent] = []
        if not self._is_prepared:
            preparing = [device.preparing(each, gpu) for each in self._prepared if not gpu.has(each)]
            copies = [device.own(buffer).ready for buffer in self._recording.constants]
            self._is_prepared = not preparing and all(each.is_done and not each.error for each in copies)

        def end(error: Exception | None) -> None:
            if run.update.is_held:
                device.end_work(run.update, error)
            device.end_work(run.event, error)

        device.when_released([*run.needed, *preparing], lambda: self._enqueue(run, opened), end)

    def _enqueue(self, run: _Run, opened: OpenGpu) -> None:
        compute, copy = opened.compute, opened.gpu.driver.copy
        addresses = self._addresses_of(run)
        for event in run.needed:
            compute.wait_for(event)
        batch = compute.batch()
        for buffer, target in run.staged:
            copy(target, buffer.pointer, buffer.nbytes, compute.handle)
        self._copy_outputs(run, addresses, opened, is_early=True)
        graph = self._graph
        if graph is not None and graph.key == addresses and graph.is_ready:
            graph.launch(compute.handle)
        else:
            for k, call in enumerate(self._recording.calls):
                self.failed = k
                self._perform(call, addresses, opened, compute.handle)
            self.failed = None
            self._note_addresses(addresses, opened)
        batch.add(run.update, partial(self._device.end_work, run.update))
        self._copy_outputs(run, addresses, opened, is_early=False)
        batch.add(run.event, partial(self._device.end_work, run.event))

    def _addresses_of(self, run: _Run) -> _Addresses:
        return _Addresses(
            run.arena.pointer, self._constants, tuple(buffer.pointer for buffer in run.contents)
        )

    def _copy_outputs(self, run: _Run, addresses: _Addresses, opened: OpenGpu, is_early: bool) -> None:
        """Copy the outputs that are to be copied before, or after, the work."""
        for buffer, place, early in zip(run.outputs, self._recording.outputs, self._is_early, strict=True):
            if early is is_early and buffer.nbytes:
                opened.gpu.driver.copy(
                    buffer.pointer, addresses.of(place), buffer.nbytes, opened.compute.handle
                )

    def _perform(self, call: Call, addresses: _Addresses, opened: OpenGpu, stream: Handle) -> None:
        """Give a stream one piece of the work."""
        if call.work is not None:
            self._device.perform(call.work, opened, stream, addresses.pointer)
            return
        (source,), (target,) = call.reads, call.writes
        if source.nbytes:
            opened.gpu.driver.copy(addresses.of(target), addresses.of(source), source.nbytes, stream)

    # Graphs

    def _note_addresses(self, addresses: _Addresses, opened: OpenGpu) -> None:
        """Have a worker capture the work, the first time, and later where a second run finds the same addresses."""
        graph = self._graph
        is_wanted = graph is None or (graph.key != addresses and self._addresses == addresses)
        self._addresses = addresses
        if is_wanted:
            self._graph = CudaGraph(opened.gpu, addresses)
            self._device.graphs.add(self._graph)
            self._device.in_worker(partial(self._capture, self._graph, addresses, opened))

    def _capture(self, graph: CudaGraph, addresses: _Addresses, opened: OpenGpu) -> None:
        """Capture the work; in a worker. Without a graph it is given piece by piece."""

        def give(stream: Handle) -> None:
            for call in self._recording.calls:
                self._perform(call, addresses, opened, stream)

        try:
            graph.capture(give)
        except OpError as error:
            logger.warning("%s: work is given without a CUDA graph: %s", self._device.name, error)
