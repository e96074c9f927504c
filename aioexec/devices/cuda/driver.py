"""The calls of the CUDA driver that GPU devices use, typed, over `cuda.bindings.driver` (extra `gpu`).

`load_driver` imports it. Handles (contexts, streams, events, pools, modules) are those of the bindings and opaque here; device
pointers and addresses of page-locked memory are integers. Calls release the interpreter lock. They may be made by any thread,
if `enter` made the context current there. Every failure is a `CudaError`.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from aioexec.errors import FailedPreconditionError, InternalError

Handle: TypeAlias = Any

LEAST_VERSION = 12_000
"""The oldest driver that is used: CUDA 12.0."""

_STICKY = frozenset(
    {
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_EXTERNAL_DEVICE",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_UNKNOWN",
    }
)
"""Results after which a context is unusable: every later call in it gives the same one."""

_LARGEST_SHARED = 48 << 10
"""Dynamic shared memory of a block that needs no attribute of the kernel, in bytes."""


class CudaError(InternalError):
    """A call of the driver failed.

    Attributes:
        result: "CUDA_ERROR_OUT_OF_MEMORY" and so on.
    """

    def __init__(self, call: str, result: str, text: str) -> None:
        super().__init__(f"{call}: {result} ({text})")
        self.result = result

    @property
    def is_out_of_memory(self) -> bool:
        return self.result == "CUDA_ERROR_OUT_OF_MEMORY"

    @property
    def is_sticky(self) -> bool:
        """Whether the context is unusable from now on."""
        return self.result in _STICKY


def load_driver() -> Driver:
    """Import the bindings and initialise the driver, which reads CUDA_VISIBLE_DEVICES; no context is made.

    Raises:
        FailedPreconditionError: the bindings or the driver are missing, or too old; says what to install.
    """
    try:
        api = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise FailedPreconditionError(
            f"GPUs need the package cuda-bindings, which cannot be imported ({error}): pip install 'aioexec[gpu]'"
        ) from error
    return initialised(api)


def initialised(api: Any) -> Driver:
    """The driver behind a module with the functions of `cuda.bindings.driver`.

    Raises:
        FailedPreconditionError: see `load_driver`.
    """
    driver = Driver(api)
    try:
        driver.initialise()
        version = driver.version()
    except CudaError as error:
        raise FailedPreconditionError(f"the NVIDIA driver cannot be used: {error}") from error
    except RuntimeError as error:  # the bindings find no library, or not its functions
        raise FailedPreconditionError(f"no NVIDIA driver is installed: {error}") from error
    if version < LEAST_VERSION:
        raise FailedPreconditionError(
            f"the NVIDIA driver is for CUDA {_version_text(version)}, expected at least {_version_text(LEAST_VERSION)}"
        )
    if version // 1000 < api.CUDA_VERSION // 1000:  # the bindings call functions that such a driver lacks
        raise FailedPreconditionError(
            f"the NVIDIA driver is for CUDA {_version_text(version)}, but cuda-bindings for {_version_text(api.CUDA_VERSION)}: "
            f"pip install 'cuda-bindings<{version // 1000 + 1}', or a newer driver"
        )
    return driver


def _version_text(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


class Driver:
    """See the module.

    `has_device` is False if the driver works but there is no GPU, or none is visible. `_api` is the module of the bindings,
    `_success` the result of a call that worked.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self._success = api.CUresult.CUDA_SUCCESS
        self.has_device = True

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; returns what it gives besides its result."""
        result, *values = getattr(self._api, name)(*arguments)
        if result != self._success:
            _, text = self._api.cuGetErrorString(result)
            raise CudaError(name, result.name, text.decode() if text else "no description")
        return values[0] if len(values) == 1 else values

    # The process, and GPUs by their numbers

    def initialise(self) -> None:
        try:
            self._call("cuInit", 0)
        except CudaError as error:
            if error.result != "CUDA_ERROR_NO_DEVICE":
                raise
            self.has_device = False

    def version(self) -> int:
        """The version of CUDA that the driver supports: 12040 is 12.4."""
        return int(self._call("cuDriverGetVersion"))

    def device_count(self) -> int:
        return int(self._call("cuDeviceGetCount")) if self.has_device else 0

    def device_name(self, ordinal: int) -> str:
        return _text(self._call("cuDeviceGetName", 128, ordinal))

    def pci_bus_id(self, ordinal: int) -> str:
        return _text(self._call("cuDeviceGetPCIBusId", 16, ordinal))

    def total_memory(self, ordinal: int) -> int:
        """In bytes."""
        return int(self._call("cuDeviceTotalMem", ordinal))

    def compute_capability(self, ordinal: int) -> tuple[int, int]:
        major, minor = (self._attribute(f"COMPUTE_CAPABILITY_{part}", ordinal) for part in ("MAJOR", "MINOR"))
        return major, minor

    def numa_node(self, ordinal: int) -> int:
        """The NUMA node next to a GPU; 0 if it is not known, as to drivers before CUDA 12.2."""
        try:
            return max(self._attribute("HOST_NUMA_ID", ordinal), 0)
        except CudaError:
            return 0

    def has_pools(self, ordinal: int) -> bool:
        """Whether a GPU supports memory pools."""
        return bool(self._attribute("MEMORY_POOLS_SUPPORTED", ordinal))

    def _attribute(self, name: str, ordinal: int) -> int:
        attribute = getattr(self._api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self._call("cuDeviceGetAttribute", attribute, ordinal))

    # Contexts

    def retain_context(self, ordinal: int) -> Handle:
        """The primary context of a GPU, which every library in the process shares."""
        return self._call("cuDevicePrimaryCtxRetain", ordinal)

    def release_context(self, ordinal: int) -> None:
        self._call("cuDevicePrimaryCtxRelease", ordinal)

    def enter(self, context: Handle) -> None:
        """Make a context current in this thread."""
        self._call("cuCtxSetCurrent", context)

    @contextlib.contextmanager
    def inside(self, context: Handle) -> Iterator[None]:
        """Make a context current in this thread for a block, whatever the thread is doing."""
        self._call("cuCtxPushCurrent", context)
        try:
            yield
        finally:
            self._call("cuCtxPopCurrent")

    def free_memory(self) -> int:
        """The bytes of the current context's GPU that no process has."""
        return int(self._call("cuMemGetInfo")[0])

    # Memory

    def create_pool(self, ordinal: int, threshold: int) -> Handle:
        """A memory pool; it keeps up to `threshold` unused bytes when the host waits for the GPU."""
        api = self._api
        properties = api.CUmemPoolProps()
        properties.allocType = api.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties.location.id = ordinal
        pool = self._call("cuMemPoolCreate", properties)
        attribute = api.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._call("cuMemPoolSetAttribute", pool, attribute, api.cuuint64_t(threshold))
        return pool

    def destroy_pool(self, pool: Handle) -> None:
        self._call("cuMemPoolDestroy", pool)

    def can_access_peer(self, ordinal: int, peer: int) -> bool:
        """Whether a GPU can read and write the memory of another."""
        return bool(self._call("cuDeviceCanAccessPeer", ordinal, peer))

    def grant_access(self, pool: Handle, ordinal: int) -> None:
        """Let a GPU read and write a pool of another."""
        api = self._api
        access = api.CUmemAccessDesc()
        access.location.type = api.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        access.location.id = ordinal
        access.flags = api.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        self._call("cuMemPoolSetAccess", pool, [access], 1)

    def allocate(self, nbytes: int, pool: Handle, stream: Handle) -> int:
        """Memory that work given to the stream from now on may use."""
        return int(self._call("cuMemAllocFromPoolAsync", nbytes, pool, stream))

    def free(self, pointer: int, stream: Handle) -> None:
        """Free memory after the work that was given to the stream."""
        self._call("cuMemFreeAsync", pointer, stream)

    def free_now(self, pointer: int) -> None:
        """Free memory that nothing uses any more."""
        self._call("cuMemFree", pointer)

    def allocate_host(self, nbytes: int) -> int:
        """Page-locked memory for all contexts."""
        return int(self._call("cuMemHostAlloc", nbytes, self._api.CU_MEMHOSTALLOC_PORTABLE))

    def free_host(self, address: int) -> None:
        """Free page-locked memory; may wait for the GPU."""
        self._call("cuMemFreeHost", address)

    # Streams and events

    def create_stream(self) -> Handle:
        """A stream that does not wait for the default stream."""
        return self._call("cuStreamCreate", self._api.CUstream_flags.CU_STREAM_NON_BLOCKING.value)

    def destroy_stream(self, stream: Handle) -> None:
        self._call("cuStreamDestroy", stream)

    def create_event(self) -> Handle:
        """An event for `synchronize`, during which the thread sleeps."""
        flags = self._api.CUevent_flags
        return self._call(
            "cuEventCreate", flags.CU_EVENT_DISABLE_TIMING.value | flags.CU_EVENT_BLOCKING_SYNC.value
        )

    def destroy_event(self, event: Handle) -> None:
        self._call("cuEventDestroy", event)

    def record(self, event: Handle, stream: Handle) -> None:
        """Let an event stand for the work that was given to a stream until now."""
        self._call("cuEventRecord", event, stream)

    def wait(self, stream: Handle, event: Handle) -> None:
        """Let the later work of a stream wait for an event."""
        self._call("cuStreamWaitEvent", stream, event, 0)

    def synchronize(self, event: Handle) -> None:
        """Block until an event has occurred; raises the error of work before it."""
        self._call("cuEventSynchronize", event)

    # Graphs

    def begin_capture(self, stream: Handle) -> None:
        """From now on keep what this thread gives a stream, which does none of it."""
        mode = self._api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._call("cuStreamBeginCapture", stream, mode)

    def end_capture(self, stream: Handle) -> Handle:
        """The graph of what was kept."""
        return self._call("cuStreamEndCapture", stream)

    def instantiate(self, graph: Handle) -> Handle:
        """What can be launched; it has no part in the graph any more."""
        return self._call("cuGraphInstantiate", graph, 0)

    def destroy_graph(self, graph: Handle) -> None:
        self._call("cuGraphDestroy", graph)

    def launch_graph(self, executable: Handle, stream: Handle) -> None:
        self._call("cuGraphLaunch", executable, stream)

    def destroy_executable(self, executable: Handle) -> None:
        """Destroy an instantiated graph after the launches that were given."""
        self._call("cuGraphExecDestroy", executable)

    # Kernels and copies

    def load_module(self, ptx: str) -> Handle:
        """Translate PTX for the current context's GPU; takes up to seconds."""
        return self._call("cuModuleLoadDataEx", ptx.encode() + b"\0", 0, [], [])

    def unload_module(self, module: Handle) -> None:
        self._call("cuModuleUnload", module)

    def function(self, module: Handle, entry: str, shared_bytes: int) -> Handle:
        """A kernel of a module, allowed so much dynamic shared memory."""
        function = self._call("cuModuleGetFunction", module, entry.encode())
        if shared_bytes > _LARGEST_SHARED:
            attribute = self._api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", function, attribute, shared_bytes)
        return function

    def launch(
        self,
        function: Handle,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: Handle,
        parameters: Sequence[int | np.generic],
    ) -> None:
        """Launch a kernel; an integer is a device pointer."""
        slots = _slots(parameters)
        self._call("cuLaunchKernel", function, *grid, *block, shared_bytes, stream, slots.ctypes.data, 0)

    def copy_in(self, pointer: int, address: int, nbytes: int, stream: Handle) -> None:
        """Copy page-locked memory to a GPU."""
        self._call("cuMemcpyHtoDAsync", pointer, address, nbytes, stream)

    def copy_out(self, address: int, pointer: int, nbytes: int, stream: Handle) -> None:
        """Copy memory of a GPU to page-locked memory."""
        self._call("cuMemcpyDtoHAsync", address, pointer, nbytes, stream)

    def copy(self, to: int, source: int, nbytes: int, stream: Handle) -> None:
        """Copy memory of a GPU to other memory of it."""
        self._call("cuMemcpyDtoDAsync", to, source, nbytes, stream)

    def copy_peer(
        self, to: int, to_context: Handle, source: int, source_context: Handle, nbytes: int, stream: Handle
    ) -> None:
        """Copy memory from one GPU to another."""
        self._call("cuMemcpyPeerAsync", to, to_context, source, source_context, nbytes, stream)


def _text(value: bytes) -> str:
    """A string of the driver, up to its terminator."""
    return value.split(b"\0", 1)[0].decode()


def _slots(parameters: Sequence[int | np.generic]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The parameters of a kernel in memory: the address of each, then their values in 16 bytes each."""
    count = len(parameters)
    slots = np.empty(3 * count, np.uint64)
    slots[:count] = slots.ctypes.data + 8 * count + 16 * np.arange(count, dtype=np.uint64)
    values = [
        each.to_bytes(16, "little") if isinstance(each, int) else each.tobytes().ljust(16, b"\0")
        for each in parameters
    ]
    slots[count:] = np.frombuffer(b"".join(values), np.uint64)
    return slots
