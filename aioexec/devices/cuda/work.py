"""How a GPU device is opened and closed, and how its work begins and ends: what copies, launches and programs have in common.

Work is held while something that the host does for it is missing; then a stream has it. An event reports its end, or its error.
For the thread of the event loop, apart from `prepare`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakSet

import numpy as np

from aioexec.devices.cuda.cublaslt import WORKSPACE, open_library
from aioexec.devices.cuda.device_memory import DeviceMemory
from aioexec.devices.cuda.driver import CudaError, Handle
from aioexec.devices.cuda.event import Batch, CudaBuffer, CudaEvent
from aioexec.devices.cuda.gpu import Gpu, GPUs
from aioexec.devices.cuda.graph import CudaGraph
from aioexec.devices.cuda.launch import Address, Launch, Module
from aioexec.devices.cuda.matrix_product import MatrixProduct, ProductCall
from aioexec.devices.cuda.open_gpu import OpenGpu
from aioexec.devices.device import DeviceAttributes
from aioexec.devices.memory_device import MemoryDevice
from aioexec.devices.threads.workers import Job, Workers
from aioexec.errors import InternalError, OpError, UnavailableError, from_exception
from aioexec.in_thread import in_thread
from aioexec.resources.buffer import Buffer


class WorkingDevice(MemoryDevice):
    """See the module.

    Constant: `memory`; `_gpus`, `_ordinal`. Changing: `_open`, once the GPU is in use, guarded by `_opening` until then;
    `_is_closed`; `_preparations`, the last of each module or product by a worker; `_pending`, how much work has not ended;
    `_idle`, what waits for its end; `graphs`, those of programs.

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
        self.graphs: WeakSet[CudaGraph] = WeakSet()

    async def sync(self) -> None:
        while self._pending:
            if self._open is not None:
                for stream in self._open.streams:
                    stream.seal()
            idle = asyncio.get_running_loop().create_future()
            self._idle.append(idle)
            await idle

    def prepare(self) -> None:
        """Load libraries, and make a context; if that fails, so does the first use."""
        open_library()
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
            for graph in [*self.graphs]:
                graph.destroy()
            if opened is not None:
                for stream in opened.streams:
                    await stream.close()
                await in_thread(self._release, opened)
            await super().close()

    def _release(self, opened: OpenGpu) -> None:
        """Give back what the device uses of its GPU; in a thread, since the driver may wait for the GPU."""
        opened.close(partial(self._gpus.release, self._ordinal))

    # State

    def usable(self) -> OpenGpu:
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

    def own(self, buffer: Buffer) -> CudaBuffer:
        if not isinstance(buffer, CudaBuffer) or buffer.device != self.name:
            raise InternalError(f"{self.name} was given {type(buffer).__name__}, expected one of its buffers")
        return buffer

    def begin_work(self) -> CudaEvent:
        self._pending += 1
        return CudaEvent()

    def end_work(self, event: CudaEvent, error: Exception | None = None) -> None:
        event.end(error)
        self._pending -= 1
        if not self._pending:
            idle, self._idle = self._idle, []
            for each in idle:
                if not each.done():
                    each.set_result(None)

    # Work

    def when_released(
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
                self.usable()
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

    def perform(
        self,
        work: Launch | ProductCall,
        opened: OpenGpu,
        stream: Handle,
        pointer: Callable[[Buffer | Address], int],
    ) -> None:
        """Give a stream work for which everything is prepared.

        Args:
            pointer: gives the addresses of its places.
        """
        if isinstance(work, ProductCall):
            plan = opened.gpu.products.plan(work.product)
            if plan is not None:
                if plan.workspace and opened.workspace is None:
                    nbytes = (WORKSPACE,)
                    opened.workspace = self.memory.allocate(
                        np.dtype(np.uint8), nbytes, opened, opened.compute
                    )
                a, b, result = map(pointer, work.operands)
                opened.multiply(plan, (a, b, result), stream)
                return
            work = work.otherwise
        if 0 not in work.grid:
            function = opened.gpu.function(work.module, work.entry, work.shared_bytes)
            parameters = [each if isinstance(each, np.generic) else pointer(each) for each in work.arguments]
            opened.gpu.driver.launch(function, work.grid, work.block, work.shared_bytes, stream, parameters)

    def pointer(self, place: Buffer | Address) -> int:
        """The address of a buffer of this device, or of a place inside one."""
        if isinstance(place, Address):
            return self.own(place.buffer).pointer + place.offset
        return self.own(place).pointer

    def preparing(self, needed: Module | MatrixProduct, gpu: Gpu) -> CudaEvent:
        """The event after which a worker has prepared what work needs."""
        gate = self._preparations.get(needed)
        if gate is None or not gate.is_held:
            gate = self._preparations[needed] = self.in_worker(lambda: gpu.prepare(needed))
        return gate

    def in_worker(self, call: Callable[[], object]) -> CudaEvent:
        """Have a worker make a call: the event of its end. Without workers, at the end of the session, make it now."""
        gate = self.begin_work()

        def end(job: Job[object]) -> None:
            try:
                job.outcome()
            except Exception as error:
                self.end_work(gate, self._located(error))
            else:
                self.end_work(gate)

        if self.workers.closed:
            job: Job[object] = Job(asyncio.get_running_loop(), call, end)
            asyncio.get_running_loop().call_soon(job.run_here)
        else:
            self.workers.submit(call, end)
        return gate
