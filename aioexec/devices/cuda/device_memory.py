"""The memory of one GPU device: its buffers, within its limit, and the arena that its programs share.

The compute stream does the work of one program after that of another, so what a program computes on the way, and what it copies
there to find at a fixed place, needs memory only between two points of that stream: one arena serves all programs of a device.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from math import prod
from typing import Any

import numpy as np

from aioexec.devices.cuda.driver import CudaError, Handle
from aioexec.devices.cuda.event import CudaBuffer
from aioexec.devices.cuda.open_gpu import OpenGpu
from aioexec.devices.cuda.stream import Stream
from aioexec.errors import ResourceExhaustedError


class DeviceMemory:
    """See the module.

    Changing: `limit`, in bytes; `_allocated`, bytes of the buffers that were made, of which `_freed` have been freed since,
    maybe by other threads; `_arena`, as large as the programs so far need; `_is_closed`, its streams are gone.
    """

    def __init__(self, device: str, limit: int) -> None:
        self.limit = limit
        self._device = device
        self._allocated = 0
        self._freed: deque[int] = deque()
        self._arena: CudaBuffer | None = None
        self._is_closed = False

    @property
    def used(self) -> int:
        """Bytes of the buffers that exist, apart from the arena, which is given up where memory is short."""
        return self._held() - (0 if self._arena is None else self._arena.nbytes)

    def _held(self) -> int:
        """Bytes of the buffers that exist, and of the arena."""
        while self._freed:
            self._allocated -= self._freed.popleft()
        return self._allocated

    def close(self) -> None:
        """Give up the arena; from now on memory is freed at once, since all work has ended."""
        self._arena = None
        self._is_closed = True

    def allocate(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], opened: OpenGpu, stream: Stream
    ) -> CudaBuffer:
        """A buffer for work of a stream.

        Raises:
            ResourceExhaustedError: the limit or the GPU leaves too little memory.
        """
        try:
            return self._allocate(dtype, shape, opened, stream)
        except ResourceExhaustedError:
            if self._arena is None:
                raise
        self._arena = None
        return self._allocate(dtype, shape, opened, stream)

    def arena(self, nbytes: int, opened: OpenGpu) -> CudaBuffer:
        """The arena, with at least so many bytes; another one if the present one is smaller.

        Raises:
            ResourceExhaustedError: see `allocate`.
        """
        if self._arena is None or self._arena.nbytes < nbytes:
            self._arena = None  # its memory may serve for the new one
            self._arena = self._allocate(np.dtype(np.uint8), (nbytes,), opened, opened.compute)
        return self._arena

    def _allocate(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], opened: OpenGpu, stream: Stream
    ) -> CudaBuffer:
        nbytes = int(prod(shape)) * dtype.itemsize
        pointer, free = 0, self.limit - self._held()
        try:
            if nbytes > free:
                raise self._out_of_memory(dtype, shape, nbytes, f"of {self.limit} bytes {free} are free")
            if nbytes:
                pointer = opened.gpu.driver.allocate(nbytes, opened.gpu.pool, stream.handle)
        except CudaError as error:
            if not error.is_out_of_memory:
                raise opened.gpu.located(error, self._device) from error
            left = opened.gpu.driver.free_memory()
            raise self._out_of_memory(
                dtype,
                shape,
                nbytes,
                f"of {self.limit} bytes {free} are free, but the GPU, with what else uses it, has {left}",
            ) from error
        self._allocated += nbytes
        free_buffer = partial(self._free, opened)
        return CudaBuffer(self._device, dtype, shape, nbytes, pointer, stream.handle, free_buffer)

    def _out_of_memory(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], nbytes: int, free: str
    ) -> ResourceExhaustedError:
        return ResourceExhaustedError(
            f"OOM when allocating tensor with shape {list(shape)} and type {dtype} on {self._device}: "
            f"{nbytes} bytes, {free}"
        )

    def _free(self, opened: OpenGpu, pointer: int, nbytes: int, stream: Handle) -> None:
        """Free the memory of a buffer; any thread."""
        self._freed.append(nbytes)
        if pointer:
            opened.gpu.free(pointer, None if self._is_closed else stream)
