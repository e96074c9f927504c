"""A stub of `cuda.bindings.driver`: GPUs without hardware, for tests of GPU devices. It proves nothing about a real driver.

The functions that `aioexec.devices.cuda` calls are here, with the arguments and results of the bindings; types and constants
are those of the bindings. Memory of a GPU is host memory at addresses of its own, which only copies and kernels reach. Work
stands in streams until it is performed, in an order that a seed selects among those that a GPU may take: when a thread waits
for an event, unless the test holds the stub, or when the test calls `perform`.

What a GPU would not forgive ends with CUDA_ERROR_ILLEGAL_ADDRESS, and is noted in `faults`: use of memory before the stream has
allocated it, or after it was freed, a copy from or to memory that is not page-locked, an exception of a kernel.
"""

from __future__ import annotations

import ctypes
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.testing.cuda_graphs import StubGraphs

Array = np.ndarray[Any, Any]
POINTER = "pointer"
_bindings = import_module("cuda.bindings.driver")
_Result = _bindings.CUresult
OK = _Result.CUDA_SUCCESS
STICKY = (_Result.CUDA_ERROR_ILLEGAL_ADDRESS, _Result.CUDA_ERROR_LAUNCH_FAILED, _Result.CUDA_ERROR_UNKNOWN)


@dataclass(slots=True, eq=False)
class Memory:
    """Memory of a GPU; `is_live` between the allocation and the free in the order of the streams."""

    gpu: int
    content: Array
    is_live: bool = False


@dataclass(slots=True, eq=False)
class Work:
    """Work in a stream. `is_ready`: whether what it waits for has happened."""

    run: Callable[[], object]
    is_ready: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class StubKernel:
    """A kernel of the test.

    Attributes:
        types: of its parameters: `POINTER`, or the type of a NumPy scalar.
        compute: is called with the grid and block, six numbers, and the parameters; a pointer is the bytes from there to the
            end of the memory, to read and write.
    """

    types: Sequence[Any]
    compute: Callable[..., object]


class Fault(Exception):
    """What a GPU would not forgive."""


class Refusal(Exception):
    """A call that ends with another result than success."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


class StubDriver(StubGraphs):
    """See the module.

    Attributes:
        version, capability: what the driver says of itself and its GPUs; CUDA_VERSION: what the bindings say of themselves.
        kernels: by name; every module has all of them.
        calls: the names of the functions called, in order.
        counts: how many of each kind exist: "stream", "event", "pool", "module", "context", "pinned", "memory", "graph",
            "executable".
        used: bytes of memory allocated, by GPU.
        faults: what a GPU would not forgive.
        is_held: work is performed by `perform` alone.
        reaches: pairs of GPUs of which the first can access the memory of the second.

    `_condition` guards everything, and is notified of progress.

    Args:
        gpus: how many.
        memory: of each, in bytes.
    """

    def __init__(self, gpus: int = 1, memory: int = 8 << 30, seed: int = 0) -> None:
        super().__init__()
        self.gpus = gpus
        self.memory = memory
        self.version = 13_000
        self.CUDA_VERSION = 12_090  # of the bindings
        self.capability = (9, 0)
        self.kernels: dict[str, StubKernel] = {}
        self.calls: list[str] = []
        self.counts: Counter[str] = Counter()
        self.used: Counter[int] = Counter()
        self.faults: list[str] = []
        self.is_held = False
        self.reaches: set[tuple[int, int]] = set()
        self._random = random.Random(seed)
        self._condition = threading.Condition()
        self._failures: dict[str, tuple[int, Any]] = {}
        self._broken: dict[int, Any] = {}
        self._thread = threading.local()
        self._holders: Counter[int] = Counter()
        self._streams: dict[int, tuple[int, deque[Work]]] = {}
        self._events: dict[int, list[bool]] = {}
        self._pools: dict[int, int] = {}
        self._grants: set[tuple[int, int]] = set()
        self._memory: dict[int, Memory] = {}
        self._pinned: dict[int, Array] = {}
        self._functions: dict[int, StubKernel] = {}
        self._next = 1 << 8

    # For tests

    def kernel(self, name: str, *types: Any) -> Callable[[Callable[..., object]], Callable[..., object]]:
        """Decorate the function that is a kernel; see `StubKernel`."""

        def register(compute: Callable[..., object]) -> Callable[..., object]:
            self.kernels[name] = StubKernel(types, compute)
            return compute

        return register

    def fail(self, name: str, result: str, after: int = 0) -> None:
        """Let a call of a function, after some that succeed, end with CUDA_ERROR_{result}."""
        self._failures[name] = (after, getattr(_Result, f"CUDA_ERROR_{result}"))

    def perform(self) -> bool:
        """Perform the next work of some stream; False if no stream can go on."""
        with self._condition:
            return self._perform()

    @property
    def pending(self) -> int:
        """How much work stands in the streams."""
        with self._condition:
            return sum(len(work) for _, work in self._streams.values())

    # Calls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu") and not name.startswith("cuuint"):
            function = object.__getattribute__(self, f"_{name}")
            return lambda *arguments: self._answer(name, function, arguments)
        return getattr(_bindings, name)

    def _answer(self, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, ...]:
        with self._condition:
            self.calls.append(name)
            try:
                self._fail(name)
                value = function(*arguments)
            except Refusal as refusal:
                return (refusal.result, None)
            finally:
                self._condition.notify_all()
            return (OK, *value) if isinstance(value, tuple) else (OK,) if value is None else (OK, value)

    def _fail(self, name: str) -> None:
        """Refuse the call, if the test said so."""
        if name not in self._failures:
            return
        after, result = self._failures.pop(name)
        if after:
            self._failures[name] = (after - 1, result)
            return
        if result in STICKY:
            self._broken[self._gpu()] = result
        raise Refusal(result)

    def _handle(self, kind: str) -> int:
        self.counts[kind] += 1
        self._next += 1
        return self._next

    def _gpu(self) -> int:
        """The GPU of the current context, which is usable."""
        stack = getattr(self._thread, "stack", [])
        if not stack or not stack[-1]:
            raise Refusal(_Result.CUDA_ERROR_INVALID_CONTEXT)
        gpu: int = stack[-1] - 1
        if gpu in self._broken:
            raise Refusal(self._broken[gpu])
        return gpu

    # The process, and GPUs

    def _cuInit(self, flags: int) -> None:
        if not self.gpus:
            raise Refusal(_Result.CUDA_ERROR_NO_DEVICE)

    def _cuGetErrorString(self, result: Any) -> bytes:
        return f"description of {int(result)}".encode()

    def _cuDriverGetVersion(self) -> int:
        return self.version

    def _cuDeviceGetCount(self) -> int:
        return self.gpus

    def _cuDeviceGetName(self, length: int, ordinal: int) -> bytes:
        return f"Stub {ordinal}".encode().ljust(length, b"\0")

    def _cuDeviceGetPCIBusId(self, length: int, ordinal: int) -> bytes:
        return f"0000:{ordinal + 1:02x}:00.0".encode().ljust(length, b"\0")

    def _cuDeviceTotalMem(self, ordinal: int) -> int:
        return self.memory

    def _cuDeviceGetAttribute(self, attribute: Any, ordinal: int) -> int:
        return {
            "COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "HOST_NUMA_ID": -1,
            "MEMORY_POOLS_SUPPORTED": 1,
        }[attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDeviceCanAccessPeer(self, ordinal: int, peer: int) -> int:
        return int((ordinal, peer) in self.reaches)

    def _cuDevicePrimaryCtxRetain(self, ordinal: int) -> int:
        self.counts["context"] += 1
        self._holders[ordinal] += 1
        return ordinal + 1

    def _cuDevicePrimaryCtxRelease(self, ordinal: int) -> None:
        self.counts["context"] -= 1
        self._holders[ordinal] -= 1
        if not self._holders[ordinal]:  # the context ends with all that it has
            left = [pointer for pointer, memory in self._memory.items() if memory.gpu == ordinal]
            for pointer in left:
                del self._memory[pointer]
            self.counts["memory"] -= len(left)
            self.used[ordinal] = 0

    def _cuCtxSetCurrent(self, context: int) -> None:
        self._thread.stack = [*getattr(self._thread, "stack", [])[:-1], context]

    def _cuCtxPushCurrent(self, context: int) -> None:
        self._thread.stack = [*getattr(self._thread, "stack", []), context]

    def _cuCtxPopCurrent(self) -> int:
        context: int = self._thread.stack.pop()
        return context

    # Memory

    def _cuMemGetInfo(self) -> tuple[int, int]:
        return self.memory - self.used[self._gpu()], self.memory

    def _cuMemPoolCreate(self, properties: Any) -> int:
        pool = self._handle("pool")
        self._pools[pool] = properties.location.id
        return pool

    def _cuMemPoolDestroy(self, pool: int) -> None:
        del self._pools[pool]
        self.counts["pool"] -= 1

    def _cuMemPoolSetAttribute(self, pool: int, attribute: Any, value: Any) -> None:
        assert pool in self._pools

    def _cuMemPoolSetAccess(self, pool: int, access: Sequence[Any], count: int) -> None:
        self._grants |= {(each.location.id, self._pools[pool]) for each in access[:count]}

    def _cuMemAllocFromPoolAsync(self, nbytes: int, pool: int, stream: int) -> int:
        gpu = self._pools[pool]
        if self.used[gpu] + nbytes > self.memory:
            raise Refusal(_Result.CUDA_ERROR_OUT_OF_MEMORY)
        self.used[gpu] += nbytes
        pointer = (gpu + 1 << 44) + (self._next + 511 & ~511)
        self._next += nbytes + 1024  # addresses are never used again
        self.counts["memory"] += 1
        memory = self._memory[pointer] = Memory(gpu, np.zeros(nbytes, np.uint8))
        self._submit(stream, lambda: setattr(memory, "is_live", True))
        return pointer

    def _cuMemFreeAsync(self, pointer: int, stream: int) -> None:
        self._submit(stream, self._forget(pointer))

    def _cuMemFree(self, pointer: int) -> None:
        self._gpu()
        self._forget(pointer)()

    def _forget(self, pointer: int) -> Callable[[], object]:
        memory = self._memory[pointer]
        self.counts["memory"] -= 1
        self.used[memory.gpu] -= memory.content.nbytes

        def free() -> None:
            if not memory.is_live:
                raise Fault("memory was freed before it was allocated, or twice")
            memory.is_live = False
            del self._memory[pointer]

        return free

    def _cuMemHostAlloc(self, nbytes: int, flags: int) -> int:
        block = np.zeros(nbytes, np.uint8)
        self._pinned[block.ctypes.data] = block
        self.counts["pinned"] += 1
        return block.ctypes.data

    def _cuMemFreeHost(self, address: int) -> None:
        del self._pinned[address]
        self.counts["pinned"] -= 1

    def _reached(self, pointer: int) -> Array:
        """The bytes from a pointer to the end of its memory."""
        for base, memory in self._memory.items():
            offset = pointer - base
            if 0 <= offset < memory.content.nbytes and memory.is_live:
                return memory.content[offset:]
        raise Fault(f"{pointer:#x} is no memory that is allocated at this time")

    def _host(self, address: int, nbytes: int) -> Array:
        for base, block in self._pinned.items():
            offset = address - base
            if 0 <= offset <= block.nbytes - nbytes:
                return block[offset : offset + nbytes]
        raise Fault(f"{address:#x} is no page-locked memory")

    # Streams and events

    def _cuStreamCreate(self, flags: int) -> int:
        stream = self._handle("stream")
        self._streams[stream] = (self._gpu(), deque())
        return stream

    def _cuStreamDestroy(self, stream: int) -> None:
        while self._streams[stream][1] and self._perform():
            pass
        del self._streams[stream]
        self.counts["stream"] -= 1

    def _cuEventCreate(self, flags: int) -> int:
        event = self._handle("event")
        self._events[event] = [False]
        return event

    def _cuEventDestroy(self, event: int) -> None:
        del self._events[event]
        self.counts["event"] -= 1

    def _cuEventRecord(self, event: int, stream: int) -> None:
        happened = self._events[event]
        self._submit(stream, lambda: happened.__setitem__(0, True))

    def _cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> None:
        happened = self._events[event]
        self._submit(stream, lambda: None, lambda: happened[0])

    def _cuEventSynchronize(self, event: int) -> None:
        happened, gpu = self._events[event], self._gpu()
        while not happened[0]:
            if gpu in self._broken:
                raise Refusal(self._broken[gpu])
            if self.is_held or not self._perform():
                self._condition.wait()
        self._gpu()

    def _submit(
        self, stream: int, run: Callable[[], object], is_ready: Callable[[], bool] = lambda: True
    ) -> None:
        gpu, work = self._streams[stream]
        if gpu != self._gpu():
            raise Refusal(_Result.CUDA_ERROR_INVALID_CONTEXT)
        if stream in self.captures:
            self.captures[stream].append(run)
        else:
            work.append(Work(run, is_ready))

    def _perform(self) -> bool:
        ready = [
            (gpu, work)
            for gpu, work in self._streams.values()
            if work and (gpu in self._broken or work[0].is_ready())
        ]
        if not ready:
            return False
        gpu, work = self._random.choice(ready)
        first = work.popleft()
        if gpu not in self._broken:
            try:
                first.run()
            except Exception as error:  # a kernel's own too
                self.faults.append(str(error))
                self._broken[gpu] = _Result.CUDA_ERROR_ILLEGAL_ADDRESS
        self._condition.notify_all()
        return True

    # Kernels and copies

    def _cuModuleLoadDataEx(self, image: bytes, count: int, options: Any, values: Any) -> int:
        self._gpu()
        if not image.endswith(b"\0"):
            raise Refusal(_Result.CUDA_ERROR_INVALID_PTX)
        return self._handle("module")

    def _cuModuleUnload(self, module: int) -> None:
        self.counts["module"] -= 1

    def _cuModuleGetFunction(self, module: int, name: bytes) -> int:
        kernel = self.kernels.get(name.decode())
        if kernel is None:
            raise Refusal(_Result.CUDA_ERROR_NOT_FOUND)
        self._next += 1
        self._functions[self._next] = kernel
        return self._next

    def _cuFuncSetAttribute(self, function: int, attribute: Any, value: int) -> None:
        assert function in self._functions

    def _cuLaunchKernel(self, function: int, *rest: Any) -> None:
        *shape, _shared_bytes, stream, parameters, _extra = rest
        if not all(0 < each < 1 << 31 for each in shape) or prod(shape[3:]) > 1024:
            raise Refusal(_Result.CUDA_ERROR_INVALID_VALUE)
        kernel = self._functions[function]
        addresses = (ctypes.c_uint64 * len(kernel.types)).from_address(parameters)
        given = [_read(address, kind) for address, kind in zip(addresses, kernel.types, strict=True)]

        def run() -> None:
            arguments = [
                self._reached(int(value)) if kind == POINTER else value
                for value, kind in zip(given, kernel.types, strict=True)
            ]
            kernel.compute(shape, *arguments)

        self._submit(stream, run)

    def _cuMemcpyHtoDAsync(self, pointer: int, address: int, nbytes: int, stream: int) -> None:
        self._submit(stream, lambda: _copy(self._reached(pointer), self._host(address, nbytes), nbytes))

    def _cuMemcpyDtoHAsync(self, address: int, pointer: int, nbytes: int, stream: int) -> None:
        self._submit(stream, lambda: _copy(self._host(address, nbytes), self._reached(pointer), nbytes))

    def _cuMemcpyDtoDAsync(self, pointer: int, source: int, nbytes: int, stream: int) -> None:
        self._submit(stream, lambda: _copy(self._reached(pointer), self._reached(source), nbytes))

    def _cuMemcpyPeerAsync(
        self, pointer: int, context: int, source: int, source_context: int, nbytes: int, stream: int
    ) -> None:
        def run() -> None:
            if context != source_context and (context - 1, source_context - 1) not in self._grants:
                raise Fault("the memory of a GPU is used by another without permission")
            _copy(self._reached(pointer), self._reached(source), nbytes)

        self._submit(stream, run)


def _copy(to: Array, source: Array, nbytes: int) -> None:
    if min(to.nbytes, source.nbytes) < nbytes:
        raise Fault(f"a copy of {nbytes} bytes goes beyond the memory")
    to[:nbytes] = source[:nbytes]


def _read(address: int, kind: Any) -> Any:
    """A parameter at an address."""
    dtype = np.dtype(np.uint64 if kind == POINTER else kind)
    memory = (ctypes.c_uint8 * dtype.itemsize).from_address(address)
    return np.frombuffer(bytes(memory), dtype)[0]
