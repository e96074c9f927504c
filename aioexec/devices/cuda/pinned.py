"""Page-locked memory of one device, through which all copies to and from its GPU go."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from typing import Any

import numpy as np

from aioexec.devices.cuda.driver import CudaError, Driver, Handle
from aioexec.errors import ResourceExhaustedError

SMALL = 1 << 17
"""Bytes up to which the event loop copies an array and allocates page-locked memory itself: about 10 µs a copy."""
_LEAST = 1 << 12
_KEPT = 1 << 28
"""Bytes of unused blocks that are kept."""


class Block:
    """Page-locked memory: `nbytes` at `address`."""

    __slots__ = ("address", "nbytes")

    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Its beginning as an array, which must not be used after the block is given back."""
        memory = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        return np.ndarray(shape, dtype, memoryview(memory))


class PinnedMemory:
    """Blocks of page-locked memory, whose sizes are powers of two; from any thread.

    `_lock` guards `_unused`, blocks by size, `_unused_bytes`, and `_is_closed`.
    """

    def __init__(self, driver: Driver, context: Handle) -> None:
        self._driver = driver
        self._context = context
        self._lock = threading.Lock()
        self._unused: dict[int, list[Block]] = {}
        self._unused_bytes = 0
        self._is_closed = False

    def take(self, nbytes: int) -> Block:
        """A block of at least so many bytes; may allocate it, which takes about a millisecond for four megabytes.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """
        size = max(_LEAST, 1 << (nbytes - 1).bit_length())
        with self._lock:
            blocks = self._unused.get(size)
            if blocks:
                self._unused_bytes -= size
                return blocks.pop()
        self._driver.enter(self._context)
        try:
            return Block(self._driver.allocate_host(size), size)
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
            raise ResourceExhaustedError(f"OOM when allocating {size} bytes of page-locked memory") from error

    def give(self, block: Block) -> None:
        """Give a block back, which nothing uses any more; what is above the limit is freed, which may take milliseconds."""
        with self._lock:
            if not self._is_closed and self._unused_bytes + block.nbytes <= _KEPT:
                self._unused_bytes += block.nbytes
                self._unused.setdefault(block.nbytes, []).append(block)
                return
        self._free(block)

    def close(self) -> None:
        """Free all blocks, and from now on those that are given back; may wait for the GPU."""
        with self._lock:
            self._is_closed = True
            unused, self._unused = self._unused, {}
        for blocks in unused.values():
            for block in blocks:
                self._free(block)

    def _free(self, block: Block) -> None:
        with contextlib.suppress(CudaError):  # the context may be unusable
            self._driver.enter(self._context)
            self._driver.free_host(block.address)
