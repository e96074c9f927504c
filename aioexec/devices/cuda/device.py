"""A GPU as a device of a session: "GPU:0".

Three streams: one computes, one copies in, one copies out. Work begins in each in the order it was given, apart from work that
is held: while its module is translated, or an array is copied to page-locked memory, by the device's workers. Work that reads a
buffer of other streams waits for it there, so neither the event loop nor a worker waits for the GPU. Memory is allocated and
freed in the order of the streams: a buffer that is dropped is freed after the work on it, and reused by the work that follows.

The GPU is used from `prepare` or the first call on: a new device has no context. All other methods are for the event loop's
thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.devices.cuda.cublaslt import WORKSPACE, open_library
from aioexec.devices.cuda.device_memory import DeviceMemory
from aioexec.devices.cuda.driver import CudaError
from aioexec.devices.cuda.event import UNWRITTEN, Batch, CudaBuffer, CudaEvent, view_of
from aioexec.devices.cuda.gpu import Gpu, GPUs
from aioexec.devices.cuda.kernel_table import ensure_kernels
from aioexec.devices.cuda.launch import Address, Launch, Module
from aioexec.devices.cuda.matrix_product import MatrixProduct, ProductCall
from aioexec.devices.cuda.open_gpu import OpenGpu
from aioexec.devices.cuda.pinned import SMALL, Block, is_page_locked
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.memory_device import MemoryDevice
from aioexec.devices.threads.workers import Job, Workers
from aioexec.errors import InternalError, OpError, UnavailableError, from_exception
from aioexec.in_thread import in_thread
from aioexec.resources.buffer import Buffer, Event

Array = np.ndarray[Any, Any]


class CudaDevice(MemoryDevice):
    """See the module.

    Constant: `memory`; `_gpus`, `_ordinal`. Changing: `_open`, once the GPU is in use, guarded by `_opening` until then;
    `_is_closed`; `_preparations`, the last of each module or product by a worker; `_pending`, how much work has not ended;
    `_idle`, what waits for its end.

    Args:
        ordinal: of the GPU in `gpus`.
    """

    def __init__(self, attributes: DeviceAttributes, workers: Workers, gpus: GPUs, ordinal: int) -> None:
        super().__init__(attributes, workers)
        self._gpus = gpus
        self._ordinal = ordinal
        self.memory = DeviceMemory(self.name, attributes.memory_limit)
        self._opening = threading.Lock()
        self._open: OpenGpu | None = None
        self._is_closed = False
        self._preparations: dict[Module | MatrixProduct, CudaEvent] = {}
        self._pending = 0
        self._idle: list[asyncio.Future[None]] = []

    # The interface of a device

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> CudaBuffer:
        opened = self._usable()
        return self.memory.allocate(dtype, shape, opened, opened.compute)

    def launch(
        self, work: Launch | ProductCall, reads: Sequence[Buffer], writes: Sequence[Buffer]
    ) -> CudaEvent:
        opened = self._usable()
        written = [self._own(each) for each in writes]
        needed = [self._own(each).ready for each in reads]
        needed += [each.ready for each in written if each.ready is not UNWRITTEN]  # in part, by work before
        event = self._begin()
        for each in written:
            each.ready = event
        gates, prepared = [*needed], work.module if isinstance(work, Launch) else work.product
        if not opened.gpu.has(prepared):
            gates.append(self._preparing(prepared, opened.gpu))
        # The arguments of the launch keep the buffers while it is held.
        self._when_released(
            gates, lambda: self._launch(work, needed, event, opened), partial(self._end, event)
        )
        return event

    def copy_in(self, value: Array) -> CudaBuffer:
        opened = self._usable()
        buffer = self.memory.allocate(value.dtype, value.shape, opened, opened.incoming)
        buffer.ready = self._begin()
        self._copy_in(value, buffer, opened)
        return buffer

    def copy_out(self, buffer: Buffer) -> tuple[Array, CudaEvent]:
        opened = self._usable()
        source, event = self._own(buffer), self._begin()
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
            theirs, opened = source._usable(), self._usable()
            if self._reads(opened, theirs):
                return self._copy_peer(source._own(buffer), theirs.gpu, opened)
        array, ended = source.copy_out(buffer)
        opened = self._usable()
        copy = self.memory.allocate(buffer.dtype, buffer.shape, opened, opened.incoming)
        copy.ready = self._begin()
        _when_done(ended, lambda: self._copy_in_after(ended, array, copy, opened))
        return copy

    def copy(self, source: Buffer, target: Buffer) -> CudaEvent:
        opened = self._usable()
        read, written = self._own(source), self._own(target)
        needed, event = read.ready, self._begin()
        written.ready = event

        def enqueue() -> None:
            opened.compute.wait_for(needed)
            batch = opened.compute.batch()
            if read.nbytes:
                opened.gpu.driver.copy(written.pointer, read.pointer, read.nbytes, opened.compute.handle)
            batch.add(event, partial(self._end, event))

        self._when_released([needed], enqueue, partial(self._end, event))
        return event

    def view(self, buffer: Buffer, dtype: np.dtype[Any], shape: tuple[int, ...]) -> CudaBuffer:
        return view_of(self._own(buffer), dtype, shape)

    async def sync(self) -> None:
        while self._pending:
            if self._open is not None:
                for stream in self._open.streams:
                    stream.seal()
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    def prepare(self) -> None:
        """Register the kernels, load libraries, and make a context; if that fails, so does the first use."""
        open_library()
        ensure_kernels()
        with contextlib.suppress(OpError):
            self._opened()

    def dismiss(self) -> None:
        super().dismiss()
        if self._open is not None:
            for stream in self._open.streams:
                stream.dismiss()

    async def close(self) -> None:
        """Drop all state, wait for the work, and release the GPU and the workers; their threads have ended."""
        try:
            await self.sync()
        finally:
            self._is_closed = True
            self.resources.clear()
            opened, self._open = self._open, None
            self.memory.close()
            if opened is not None:
                for stream in opened.streams:
                    await stream.close()
                await in_thread(self._release, opened)
            await super().close()

    def _release(self, opened: OpenGpu) -> None:
        """Give back what the device uses of its GPU; in a thread, since the driver may wait for the GPU."""
        opened.close(partial(self._gpus.release, self._ordinal))

    # State

    def _usable(self) -> OpenGpu:
        """The GPU, whose context is made current.

        Raises:
            UnavailableError: it is lost, or the device is closed.
            FailedPreconditionError: its driver cannot be used.
            InternalError: it fails at the first use.
        """
        opened = self._open or self._opened()
        if opened.gpu.lost is not None:
            raise UnavailableError(opened.gpu.lost)
        opened.gpu.driver.enter(opened.gpu.context)
        return opened

    def _opened(self) -> OpenGpu:
        """The GPU, maybe for the first time, which takes up to a second; any thread."""
        with self._opening:
            if self._is_closed:
                raise UnavailableError(f"{self.name} is closed")
            if self._open is None:
                gpu = self._gpus.hold(self._ordinal)
                try:
                    self._open = OpenGpu(gpu, self.name)
                except BaseException:
                    self._gpus.release(self._ordinal)
                    raise
            return self._open

    def _own(self, buffer: Buffer) -> CudaBuffer:
        if not isinstance(buffer, CudaBuffer) or buffer.device != self.name:
            raise InternalError(f"{self.name} was given {type(buffer).__name__}, expected one of its buffers")
        return buffer

    def _begin(self) -> CudaEvent:
        self._pending += 1
        return CudaEvent()

    def _end(self, event: CudaEvent, error: Exception | None = None) -> None:
        event.end(error)
        self._pending -= 1
        if not self._pending:
            idle, self._idle = self._idle, []
            for each in idle:
                if not each.done():
                    each.set_result(None)

    # Work

    def _when_released(
        self,
        gates: Sequence[CudaEvent],
        enqueue: Callable[[], object],
        end: Callable[[Exception | None], object],
    ) -> None:
        """Give a stream work when none of the other work it needs is held; if that or this call fails, the work has ended."""
        held = [gate for gate in gates if gate.is_held]
        left = len(held)

        def release() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._enqueue(gates, enqueue, end)

        if not held:
            self._enqueue(gates, enqueue, end)
        for gate in held:
            gate.add_enqueued_callback(release)

    def _enqueue(
        self,
        gates: Sequence[CudaEvent],
        enqueue: Callable[[], object],
        end: Callable[[Exception | None], object],
    ) -> None:
        failed = next((gate.error for gate in gates if gate.error is not None), None)
        if failed is None:
            try:
                self._usable()
                enqueue()
            except Exception as error:
                late = self._blamed(error)
                if late is not None:
                    late.add(CudaEvent(), end)
                    return
                failed = self._located(error)
        if failed is not None:
            end(failed)

    def _blamed(self, error: Exception) -> Batch | None:
        """Work given before, if its error may be what a call reports: then it is to fail first, so that the step names it."""
        if self._open is None or not isinstance(error, CudaError) or not error.is_sticky:
            return None
        is_exact = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
        return None if is_exact or self._open.gpu.lost is not None else self._open.compute.unfinished

    def _located(self, error: Exception) -> OpError:
        """The error of work, given what a call raised; without its frames, which would keep buffers."""
        error.__traceback__ = None
        if isinstance(error, CudaError) and self._open is not None:
            return self._open.gpu.located(error, self.name)
        return from_exception(error)

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
        if isinstance(work, ProductCall):
            self._multiply(work, opened)
        else:
            self._run(work, opened)
        batch.add(event, partial(self._end, event))

    def _run(self, work: Launch, opened: OpenGpu) -> None:
        gpu = opened.gpu
        if 0 not in work.grid:
            function = gpu.function(work.module, work.entry, work.shared_bytes)
            parameters = [
                each if isinstance(each, np.generic) else self._pointer(each) for each in work.arguments
            ]
            stream = opened.compute.handle
            gpu.driver.launch(function, work.grid, work.block, work.shared_bytes, stream, parameters)

    def _multiply(self, work: ProductCall, opened: OpenGpu) -> None:
        plan = opened.gpu.products.plan(work.product)
        if plan is None:
            self._run(work.otherwise, opened)
            return
        if plan.workspace and opened.workspace is None:
            opened.workspace = self.memory.allocate(np.dtype(np.uint8), (WORKSPACE,), opened, opened.compute)
        a, b, result = map(self._pointer, work.operands)
        opened.multiply(plan, (a, b, result))

    def _pointer(self, place: Buffer | Address) -> int:
        if isinstance(place, Address):
            return self._own(place.buffer).pointer + place.offset
        return self._own(place).pointer

    def _preparing(self, needed: Module | MatrixProduct, gpu: Gpu) -> CudaEvent:
        """The event after which a worker has prepared what work needs."""
        gate = self._preparations.get(needed)
        if gate is None or not gate.is_held:
            gate = self._preparations[needed] = self._in_worker(lambda: gpu.prepare(needed))
        return gate

    def _in_worker(self, call: Callable[[], object]) -> CudaEvent:
        """Have a worker make a call: the event of its end. Without workers, at the end of the session, make it now."""
        gate = self._begin()

        def end(job: Job[object]) -> None:
            try:
                job.outcome()
            except Exception as error:
                self._end(gate, self._located(error))
            else:
                self._end(gate)

        if self.workers.closed:
            job: Job[object] = Job(asyncio.get_running_loop(), call, end)
            asyncio.get_running_loop().call_soon(job.run_here)
        else:
            self.workers.submit(call, end)
        return gate

    # Copies

    def _staging(self, opened: OpenGpu, nbytes: int, use: Callable[[Block], object]) -> CudaEvent:
        """Use a block of page-locked memory, here or in a worker, after which the event comes."""
        if nbytes > SMALL:
            return self._in_worker(lambda: use(opened.pinned.take(nbytes)))
        gate = self._begin()
        try:
            use(opened.pinned.take(nbytes))
        except Exception as error:
            self._end(gate, self._located(error))
        else:
            self._end(gate)
        return gate

    def _give_back(self, opened: OpenGpu, blocks: Sequence[Block]) -> None:
        """Give back the block of a copy, if it has one, here or by a worker."""
        for block in blocks:
            if block.nbytes > SMALL:
                self._in_worker(partial(opened.pinned.give, block))
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
        self._when_released(gates, enqueue, finish)

    def _end_copy(self, buffer: CudaBuffer, opened: OpenGpu, error: Exception | None) -> None:
        """The copy into a new buffer has ended: from now on only work that computes uses it."""
        if error is None:
            buffer.stream = opened.compute.handle
        self._end(buffer.ready, error)

    def _copy_in_after(self, ended: Event, array: Array, buffer: CudaBuffer, opened: OpenGpu) -> None:
        """Copy what other work has written to an array into a new buffer."""
        if ended.error is not None:
            self._end(buffer.ready, ended.error)
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
                gate = self._in_worker(read)
                _when_done(gate, lambda: end(gate.error))
                return
            if error is None and blocks:
                read()
            end(error)

        def end(error: Exception | None) -> None:
            self._give_back(opened, blocks)
            self._end(event, error)

        gates = [written]
        if source.nbytes:
            gates.append(self._staging(opened, source.nbytes, blocks.append))
        self._when_released(gates, enqueue, end)

    def _copy_out_directly(self, source: CudaBuffer, array: Array, event: CudaEvent, opened: OpenGpu) -> None:
        """Copy a buffer to an array that has page-locked memory."""
        outgoing, written, end = opened.outgoing, source.ready, partial(self._end, event)

        def enqueue() -> None:
            outgoing.wait_for(written)
            batch = outgoing.batch()
            opened.gpu.driver.copy_out(array.ctypes.data, source.pointer, source.nbytes, outgoing.handle)
            batch.add(event, end, (source, array))

        self._when_released([written], enqueue, end)

    def _reads(self, opened: OpenGpu, source: OpenGpu) -> bool:
        """Whether this GPU can copy from the memory of another."""
        try:
            return opened.gpu.can_read(source.gpu)
        except CudaError as error:
            raise opened.gpu.located(error, self.name) from error

    def _copy_peer(self, source: CudaBuffer, gpu: Gpu, opened: OpenGpu) -> CudaBuffer:
        """Copy a buffer of another device directly."""
        copy = self.memory.allocate(source.dtype, source.shape, opened, opened.incoming)
        event, written = self._begin(), source.ready
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

        self._when_released([written], enqueue, end)
        return copy


def _when_done(event: Event, callback: Callable[[], object]) -> None:
    """Call this when an event has ended."""
    if event.is_done:
        callback()
    else:
        event.add_done_callback(callback)
