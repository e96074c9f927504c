"""A device whose memory the processor cannot read, for tests, and as a model of how a device is written.

Values are `OpaqueBuffer`s: whatever treats one as an array fails. Work is done later than it is given, in an order that a seed
selects among those that a real device with several streams may take: each stream does its work in order, and starts nothing
before the events it waits for. Reading a buffer that is not ready, or not among those declared, ends with InternalError.

The kernels are those of the op rows (see `opaque_kernels`).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.device_program import Recording
from aioexec.devices.memory_device import MemoryDevice
from aioexec.devices.memory_limits import memory_limits
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.pools import intra_op_pools
from aioexec.devices.threads.workers import Workers
from aioexec.errors import InternalError, ResourceExhaustedError, UnavailableError, from_exception
from aioexec.resources.buffer import Buffer
from aioexec.testing.opaque_program import OpaqueProgram

DEVICE_TYPE = "OPAQUE"
Array = np.ndarray[Any, Any]
Work = Callable[..., Sequence[Array]]
"""What an opaque device does: the contents of the buffers read to those of the buffers written."""


class OpaqueEvent:
    """The end of a piece of work."""

    __slots__ = ("_callbacks", "error", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.error: Exception | None = None
        self._callbacks: list[Callable[[], object]] = []

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)

    def end(self, error: Exception | None = None) -> None:
        """Mark the work as ended, and have the loop call what waits for it."""
        self.is_done, self.error = True, error
        for callback in self._callbacks:
            asyncio.get_running_loop().call_soon(callback)
        self._callbacks.clear()


class OpaqueBuffer:
    """A value in the memory of an opaque device; the content is for that device alone."""

    __slots__ = ("_content", "_owner", "dtype", "ready", "shape")

    def __init__(self, owner: OpaqueDevice, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._owner = owner
        self._content: Array | None = None
        self.dtype = dtype
        self.shape = shape
        self.ready = OpaqueEvent()

    def __del__(self) -> None:
        self._owner.used -= self.nbytes

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def device(self) -> str:
        return self._owner.name

    def __array__(self, *arguments: Any, **options: Any) -> Array:
        raise InternalError(f"a buffer of {self.device} was read as an array; it must be copied out")

    def __bool__(self) -> bool:
        raise InternalError(f"a buffer of {self.device} was read as a truth value; it must be copied out")


@dataclass(slots=True, eq=False)
class _Task:
    """Work in a stream: what it waits for, what it does, and the event that tells its end."""

    waits: Sequence[OpaqueEvent]
    run: Callable[[], object]
    ended: OpaqueEvent


class OpaqueDevice(MemoryDevice):
    """See the module.

    Constant: `limit`, in bytes. Changing: `used`, bytes allocated; `allocations` and `launches`, how many there were;
    `refuses_at`, the number of the allocation for which there is no memory, `fails_at`, that of the launch whose work fails,
    and `fails_from`, that of the launch with which the device is lost, if any; `lost`, the error if it is; `_streams`, tasks by
    stream, in order; `_is_scheduled`, whether the loop will call `_advance`.

    Args:
        seed: selects the order of the streams' work.
        turn_seconds: the time between two of its turns, in each of which it does at most one task; 0: one turn of the loop.
        has_programs: whether it makes programs (see `opaque_program`).
    """

    def __init__(
        self,
        attributes: DeviceAttributes,
        workers: Workers,
        seed: int = 0,
        turn_seconds: float = 0.0,
        has_programs: bool = False,
    ) -> None:
        super().__init__(attributes, workers)
        self.has_programs = has_programs
        self.limit = attributes.memory_limit
        self.used = 0
        self.allocations = 0
        self.launches = 0
        self.refuses_at: int | None = None
        self.fails_at: int | None = None
        self.fails_from: int | None = None
        self.lost: UnavailableError | None = None
        self._turn_seconds = turn_seconds
        self._random = random.Random(seed)
        self._streams: dict[str, deque[_Task]] = {}
        self._is_scheduled = False

    # The interface of a device

    def allocate(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> OpaqueBuffer:
        self._check()
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        self.allocations += 1
        if self.used + nbytes > self.limit or self.allocations == self.refuses_at:
            raise ResourceExhaustedError(
                f"OOM when allocating tensor with shape {list(shape)} and type {dtype} on {self.name}: "
                f"{nbytes} bytes, of {self.limit} bytes {self.limit - self.used} are free"
            )
        self.used += nbytes
        return OpaqueBuffer(self, dtype, shape)

    def launch(self, work: Work, reads: Sequence[Buffer], writes: Sequence[Buffer]) -> OpaqueEvent:
        self._check()
        self.launches += 1
        if self.fails_from is not None and self.launches >= self.fails_from:
            self.lose()
            self._check()
        read, written = [self._own(each) for each in reads], [self._own(each) for each in writes]
        fails = self.launches == self.fails_at

        def run() -> None:
            if fails:
                raise InternalError(f"the work was aborted by {self.name}")
            for buffer, content in zip(written, work(*map(content_of, read)), strict=True):
                self._write(buffer, content)

        return self._submit("compute", [each.ready for each in read], run, written)

    def copy_in(self, value: Array) -> OpaqueBuffer:
        buffer = self.allocate(value.dtype, value.shape)
        self._submit("host to device", [], lambda: self._write(buffer, value.copy()), [buffer])
        return buffer

    def copy_out(self, buffer: Buffer) -> tuple[Array, OpaqueEvent]:
        self._check()
        source = self._own(buffer)
        array = np.empty(source.shape, source.dtype)

        def run() -> None:
            array[...] = content_of(source)

        return array, self._submit("device to host", [source.ready], run, [])

    def copy_from(self, buffer: Buffer, source: MemoryDevice) -> OpaqueBuffer:
        assert isinstance(source, OpaqueDevice)
        taken = source._own(buffer)
        copy = self.allocate(taken.dtype, taken.shape)
        self._submit(
            "device to device", [taken.ready], lambda: self._write(copy, content_of(taken).copy()), [copy]
        )
        return copy

    def compile(self, recording: Recording) -> OpaqueProgram:
        return OpaqueProgram(self, recording)

    async def sync(self) -> None:
        while last := [stream[-1].ended for stream in self._streams.values() if stream]:
            ended = asyncio.Event()
            last[0].add_done_callback(ended.set)
            await ended.wait()

    # Faults

    def lose(self) -> None:
        """Lose the device: what it has been given fails, and so does whatever is asked of it from now on."""
        self.lost = UnavailableError(f"{self.name} was lost")
        for stream in self._streams.values():
            while stream:
                stream.popleft().ended.end(self.lost)

    def _check(self) -> None:
        if self.lost is not None:
            raise UnavailableError(
                self.lost.message
            )  # an error that is raised again keeps the frames of both times

    # Streams

    def _own(self, buffer: Buffer) -> OpaqueBuffer:
        if not isinstance(buffer, OpaqueBuffer) or buffer._owner is not self:
            raise InternalError(f"{self.name} was given {type(buffer).__name__}, expected one of its buffers")
        return buffer

    def _write(self, buffer: OpaqueBuffer, content: Array) -> None:
        if content.shape != buffer.shape or content.dtype != buffer.dtype:
            raise InternalError(
                f"a buffer of {buffer.dtype} {buffer.shape} was written with {content.dtype} {content.shape}"
            )
        buffer._content = content

    def _submit(
        self,
        stream: str,
        waits: Sequence[OpaqueEvent],
        run: Callable[[], object],
        writes: Sequence[OpaqueBuffer],
    ) -> OpaqueEvent:
        ended = OpaqueEvent()
        for buffer in writes:
            buffer.ready = ended
        self._streams.setdefault(stream, deque()).append(_Task(waits, run, ended))
        self._schedule()
        return ended

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop = asyncio.get_running_loop()
            if self._turn_seconds:
                loop.call_later(self._turn_seconds, self._advance)
            else:
                loop.call_soon(self._advance)

    def _advance(self) -> None:
        """Do the next task of one of the streams that can go on, or leave this turn of the loop to others."""
        self._is_scheduled = False
        ready = [
            line for line in self._streams.values() if line and all(each.is_done for each in line[0].waits)
        ]
        if ready and self._random.random() < 0.75:
            self._do(self._random.choice(ready).popleft())
        if any(self._streams.values()):
            self._schedule()

    def _do(self, task: _Task) -> None:
        failed = next((each.error for each in task.waits if each.error is not None), None)
        if failed is None:
            try:
                with np.errstate(all="ignore"):
                    task.run()
            except Exception as error:
                # Without traceback: the event keeps the error, and must not keep the frames of the work, with their buffers.
                failed = from_exception(error.with_traceback(None))
        task.ended.end(failed)


def content_of(buffer: OpaqueBuffer) -> Array:
    """What a buffer holds; for the work of its device.

    Raises:
        InternalError: nothing was written yet.
    """
    if not buffer.ready.is_done or buffer._content is None:
        raise InternalError(f"a buffer of {buffer.device} was read before it was ready")
    return buffer._content


class OpaqueDeviceFactory(DeviceFactory):
    """Makes `device_count["OPAQUE"]` devices, by default `count`, within the limits of memory that GPUOptions set.

    `made` are the devices made last. Args: `memory_limit` is in bytes; for the others see `OpaqueDevice`.
    """

    def __init__(
        self,
        count: int = 1,
        seed: int = 0,
        memory_limit: int = 1 << 30,
        turn_seconds: float = 0.0,
        has_programs: bool = False,
    ) -> None:
        self.count = count
        self.seed = seed
        self.memory_limit = memory_limit
        self.turn_seconds = turn_seconds
        self.has_programs = has_programs
        self.made: list[OpaqueDevice] = []

    def list_physical_devices(self) -> list[str]:
        return [f"/physical_device:{DEVICE_TYPE}:{k}" for k in range(self.count)]

    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        count = options.device_count.get(DEVICE_TYPE, self.count)
        gpu_options = None if options.config is None else options.config.gpu_options
        sizes = [self.memory_limit] * count
        limits = [limit for each in memory_limits(gpu_options, sizes, sizes) for limit in each]
        pools = intra_op_pools(options, [None] * len(limits))
        self.made = [
            OpaqueDevice(
                DeviceAttributes(f"{name_prefix}/device:{DEVICE_TYPE}:{k}", DEVICE_TYPE, limit),
                workers,
                self.seed + k,
                self.turn_seconds,
                self.has_programs,
            )
            for k, (limit, workers) in enumerate(zip(limits, pools, strict=True))
        ]
        return list(self.made)
