"""A GPU as a device of a session: "GPU:0".

Three streams: one computes, one copies in, one copies out. Work begins in each in the order it was given, apart from work that
is held: while its module is translated, or an array is copied to page-locked memory, by the device's workers. Work that reads a
buffer of other streams waits for it there, so neither the event loop nor a worker waits for the GPU. Memory is allocated and
freed in the order of the streams: a buffer that is dropped is freed after the work on it, and reused by the work that follows.

The GPU is used from `prepare` or the first call on: a new device has no context. All other methods are for the event loop's
thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.devices.cuda.driver import CudaError
from aioexec.devices.cuda.event import UNWRITTEN, CudaBuffer, CudaEvent, view_of
from aioexec.devices.cuda.gpu import Gpu
from aioexec.devices.cuda.launch import Launch
from aioexec.devices.cuda.matrix_product import ProductCall
from aioexec.devices.cuda.open_gpu import OpenGpu
from aioexec.devices.cuda.pinned import SMALL, Block, is_page_locked
from aioexec.devices.cuda.program import CudaProgram
from aioexec.devices.cuda.work import WorkingDevice
from aioexec.devices.device_program import Recording
from aioexec.devices.memory_device import MemoryDevice
from aioexec.resources.buffer import Buffer, Event

Array = np.ndarray[Any, Any]


class CudaDevice(WorkingDevice):
    """See the module."""

    has_programs = True

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> CudaBuffer:
        opened = self.usable()
        return self.memory.allocate(dtype, shape, opened, opened.compute)

    def launch(
        self, work: Launch | ProductCall, reads: Sequence[Buffer], writes: Sequence[Buffer]
    ) -> CudaEvent:
        opened = self.usable()
        written = [self.own(each) for each in writes]
        needed = [self.own(each).ready for each in reads]
        needed += [each.ready for each in written if each.ready is not UNWRITTEN]  # in part, by work before
        event = self.begin_work()
        for each in written:
            each.ready = event
        gates, prepared = [*needed], work.module if isinstance(work, Launch) else work.product
        if not opened.gpu.has(prepared):
            gates.append(self.preparing(prepared, opened.gpu))
        # The arguments of the launch keep the buffers while it is held.
        self.when_released(
            gates, lambda: self._launch(work, needed, event, opened), partial(self.end_work, event)
        )
        return event

    def copy_in(self, value: Array) -> CudaBuffer:
        opened = self.usable()
        buffer = self.memory.allocate(value.dtype, value.shape, opened, opened.incoming)
        buffer.ready = self.begin_work()
        self._copy_in(value, buffer, opened)
        return buffer

    def copy_out(self, buffer: Buffer) -> tuple[Array, CudaEvent]:
        opened = self.usable()
        source, event = self.own(buffer), self.begin_work()
        array = opened.pinned.lend(source.dtype, source.shape)
        if array is not None:
            self._copy_out_directly(source, array, event, opened)
            return array, event
        array = np.empty(source.shape, source.dtype)
        self._copy_out(source, array, event, opened)
        return array, event

    def host_array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        lent = None if self._open is None else self._open.pinned.lend(dtype, shape)
        return super().host_array(dtype, shape) if lent is None else lent

    def copy_from(self, buffer: Buffer, source: MemoryDevice) -> CudaBuffer:
        if isinstance(source, CudaDevice):
            theirs, opened = source.usable(), self.usable()
            if self._reads(opened, theirs):
                return self._copy_peer(source.own(buffer), theirs.gpu, opened)
        array, ended = source.copy_out(buffer)
        opened = self.usable()
        copy = self.memory.allocate(buffer.dtype, buffer.shape, opened, opened.incoming)
        copy.ready = self.begin_work()
        _when_done(ended, lambda: self._copy_in_after(ended, array, copy, opened))
        return copy

    def copy(self, source: Buffer, target: Buffer) -> CudaEvent:
        opened = self.usable()
        read, written = self.own(source), self.own(target)
        needed, event = read.ready, self.begin_work()
        written.ready = event

        def enqueue() -> None:
            opened.compute.wait_for(needed)
            batch = opened.compute.batch()
            if read.nbytes:
                opened.gpu.driver.copy(written.pointer, read.pointer, read.nbytes, opened.compute.handle)
            batch.add(event, partial(self.end_work, event))

        self.when_released([needed], enqueue, partial(self.end_work, event))
        return event

    def compile(self, recording: Recording) -> CudaProgram | None:
        """A program, unless it is one launch, or errors are to name the very kernel."""
        if len(recording.calls) < 2 or os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
            return None
        return CudaProgram(self, recording)

    def view(self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> CudaBuffer:
        return view_of(self.own(buffer), dtype, shape)

    def _launch(
        self,
        work: Launch | ProductCall,
        needed: Sequence[CudaEvent],
        event: CudaEvent,
        opened: OpenGpu,
    ) -> None:
        compute = opened.compute
        for each in needed:
            compute.wait_for(each)
        batch = compute.batch()
        self.perform(work, opened, compute.handle, self.pointer)
        batch.add(event, partial(self.end_work, event))

    # Copies

    def _staging(self, opened: OpenGpu, nbytes: int, use: Callable[[Block], object]) -> CudaEvent:
        """Use a block of page-locked memory, here or in a worker, after which the event comes."""
        if nbytes > SMALL:
            return self.in_worker(lambda: use(opened.pinned.take(nbytes)))
        gate = self.begin_work()
        try:
            use(opened.pinned.take(nbytes))
        except Exception as error:
            self.end_work(gate, self._located(error))
        else:
            self.end_work(gate)
        return gate

    def _give_back(self, opened: OpenGpu, blocks: Sequence[Block]) -> None:
        """Give back the block of a copy, if it has one, here or by a worker."""
        for block in blocks:
            if block.nbytes > SMALL:
                self.in_worker(partial(opened.pinned.give, block))
            else:
                opened.pinned.give(block)

    def _copy_in(self, value: Array, buffer: CudaBuffer, opened: OpenGpu) -> None:
        """Copy an array, through page-locked memory unless it has some, into a new buffer, whose event has begun."""
        event, blocks, is_staged = buffer.ready, list[Block](), not is_page_locked(value)

        def stage(block: Block) -> None:
            blocks.append(block)
            np.copyto(block.array(value.dtype, value.shape), value)

        def enqueue() -> None:
            if not buffer.nbytes:
                finish()
                return
            batch = opened.incoming.batch()
            address = blocks[0].address if is_staged else value.ctypes.data
            opened.gpu.driver.copy_in(buffer.pointer, address, buffer.nbytes, opened.incoming.handle)
            batch.add(event, finish, () if is_staged else (value,))

        def finish(error: Exception | None = None) -> None:
            self._give_back(opened, blocks)
            self._end_copy(buffer, opened, error)

        gates = [self._staging(opened, buffer.nbytes, stage)] if buffer.nbytes and is_staged else []
        self.when_released(gates, enqueue, finish)

    def _end_copy(self, buffer: CudaBuffer, opened: OpenGpu, error: Exception | None) -> None:
        """The copy into a new buffer has ended: from now on only work that computes uses it."""
        if error is None:
            buffer.stream = opened.compute.handle
        self.end_work(buffer.ready, error)

    def _copy_in_after(self, ended: Event, array: Array, buffer: CudaBuffer, opened: OpenGpu) -> None:
        """Copy what other work has written to an array into a new buffer."""
        if ended.error is not None:
            self.end_work(buffer.ready, ended.error)
        else:
            self._copy_in(array, buffer, opened)

    def _copy_out(self, source: CudaBuffer, array: Array, event: CudaEvent, opened: OpenGpu) -> None:
        """Copy a buffer to page-locked memory, and when that is done, to an array."""
        outgoing, written, blocks = opened.outgoing, source.ready, list[Block]()

        def enqueue() -> None:
            outgoing.wait_for(written)
            batch = outgoing.batch()
            if blocks:
                opened.gpu.driver.copy_out(blocks[0].address, source.pointer, source.nbytes, outgoing.handle)
            batch.add(event, finish, (source,))

        def read() -> None:
            np.copyto(array, blocks[0].array(array.dtype, array.shape))

        def finish(error: Exception | None) -> None:
            if error is None and array.nbytes > SMALL:
                gate = self.in_worker(read)
                _when_done(gate, lambda: end(gate.error))
                return
            if error is None and blocks:
                read()
            end(error)

        def end(error: Exception | None) -> None:
            self._give_back(opened, blocks)
            self.end_work(event, error)

        gates = [written]
        if source.nbytes:
            gates.append(self._staging(opened, source.nbytes, blocks.append))
        self.when_released(gates, enqueue, end)

    def _copy_out_directly(self, source: CudaBuffer, array: Array, event: CudaEvent, opened: OpenGpu) -> None:
        """Copy a buffer to an array that has page-locked memory."""
        outgoing, written, end = opened.outgoing, source.ready, partial(self.end_work, event)

        def enqueue() -> None:
            outgoing.wait_for(written)
            batch = outgoing.batch()
            opened.gpu.driver.copy_out(array.ctypes.data, source.pointer, source.nbytes, outgoing.handle)
            batch.add(event, end, (source, array))

        self.when_released([written], enqueue, end)

    def _reads(self, opened: OpenGpu, source: OpenGpu) -> bool:
        """Whether this GPU can copy from the memory of another."""
        try:
            return opened.gpu.can_read(source.gpu)
        except CudaError as error:
            raise opened.gpu.located(error, self.name) from error

    def _copy_peer(self, source: CudaBuffer, gpu: Gpu, opened: OpenGpu) -> CudaBuffer:
        """Copy a buffer of another device directly."""
        copy = self.memory.allocate(source.dtype, source.shape, opened, opened.incoming)
        event, written = self.begin_work(), source.ready
        copy.ready, end = event, partial(self._end_copy, copy, opened)

        def enqueue() -> None:
            incoming = opened.incoming
            incoming.wait_for(written)
            batch = incoming.batch()
            if copy.nbytes:
                opened.gpu.driver.copy_peer(
                    copy.pointer,
                    opened.gpu.context,
                    source.pointer,
                    gpu.context,
                    copy.nbytes,
                    incoming.handle,
                )
            batch.add(event, end, (source,))

        self.when_released([written], enqueue, end)
        return copy


def _when_done(event: Event, callback: Callable[[], object]) -> None:
    """Call this when an event has ended."""
    if event.is_done:
        callback()
    else:
        event.add_done_callback(callback)
