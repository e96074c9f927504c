"""Page-locked memory of one device, through which all copies to and from its GPU go.

A block is used for one copy (`take`, `give`), or is the memory of an array (`lend`), to and from which a GPU copies directly.
What a GPU copies to main memory is in such an array while there are unused blocks, and so are large values that other tasks
send to a GPU. A block comes back when nothing references its array any more.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from aioexec.devices.cuda.driver import CudaError, Driver, Handle
from aioexec.errors import ResourceExhaustedError

SMALL = 1 << 17
"""Bytes up to which the event loop copies an array and allocates page-locked memory itself: about 10 µs a copy."""
_LEAST = 1 << 12
_KEPT = 1 << 28
"""Bytes of unused blocks that are kept, and of blocks that arrays have."""


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


class _Loan:
    """What an array references that has a block, until nothing references it."""

    __slots__ = ("_owner", "block")

    def __init__(self, block: Block, owner: PinnedMemory) -> None:
        self.block = block
        self._owner = owner

    @property
    def __array_interface__(self) -> dict[str, Any]:
        address = self.block.address, False
        return {"version": 3, "typestr": "|u1", "shape": (self.block.nbytes,), "data": address}

    def __del__(self) -> None:
        self._owner.end_loan(self.block)


def is_page_locked(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array has a block of its own, from which a GPU can copy it as it is."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, _Loan) and array.flags.c_contiguous


class PinnedMemory:
    """Blocks of page-locked memory, whose sizes are powers of two; from any thread.

    `_lock` guards `_unused`, blocks by size, `_unused_bytes`, `_lent_bytes`, and `_is_closed`. `_returned` are the blocks of
    arrays that have ended, maybe in a garbage collection while this thread has the lock, which therefore only appends to it.
    `_on_last_return` is called when the last of the arrays has ended that were there when it was closed.
    """

    def __init__(self, driver: Driver, context: Handle) -> None:
        self._driver = driver
        self._context = context
        self._lock = threading.RLock()
        self._unused: dict[int, list[Block]] = {}
        self._unused_bytes = 0
        self._lent_bytes = 0
        self._returned: deque[Block] = deque()
        self._on_last_return: Callable[[], object] | None = None
        self._is_closed = False

    def take(self, nbytes: int) -> Block:
        """A block of at least so many bytes; may allocate it, which takes about a millisecond for four megabytes.

        Raises:
            ResourceExhaustedError: there is not enough memory.
        """
        block = self._take_unused(nbytes)
        if block is not None:
            return block
        size = _size_of(nbytes)
        self._driver.enter(self._context)
        try:
            return Block(self._driver.allocate_host(size), size)
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
            raise ResourceExhaustedError(f"OOM when allocating {size} bytes of page-locked memory") from error

    def _take_unused(self, nbytes: int) -> Block | None:
        with self._lock:
            self._take_back()
            blocks = self._unused.get(_size_of(nbytes))
            if not blocks:
                return None
            block = blocks.pop()
            self._unused_bytes -= block.nbytes
            return block

    def give(self, block: Block) -> None:
        """Give a block back, which nothing uses any more; what is above the limit is freed, which may take milliseconds."""
        with self._lock:
            self._take_back()
            if not self._is_closed and self._unused_bytes + block.nbytes <= _KEPT:
                self._keep(block)
                return
        self._free(block)

    def lend(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
        """An array with an unused block; None if there is none, or arrays have too many. Allocates nothing."""
        nbytes = int(prod(shape)) * dtype.itemsize
        if (
            not nbytes
            or self._lent_bytes + _size_of(nbytes) > _KEPT
            or (block := self._take_unused(nbytes)) is None
        ):
            return None
        with self._lock:
            self._lent_bytes += block.nbytes
        memory = np.asarray(_Loan(block, self))
        return memory[:nbytes].view(dtype).reshape(shape)

    def end_loan(self, block: Block) -> None:
        """The array of a block has ended."""
        self._returned.append(block)
        if self._is_closed:
            with self._lock:
                self._take_back()

    def close(self, on_last_return: Callable[[], object]) -> None:
        """Free all blocks, and from now on those that are given back; may wait for the GPU.

        Args:
            on_last_return: is called, by any thread, when no array has a block any more.
        """
        with self._lock:
            self._is_closed = True
            self._on_last_return = on_last_return
            unused, self._unused = self._unused, {}
            for blocks in unused.values():
                for block in blocks:
                    self._free(block)
            self._take_back()

    def _take_back(self) -> None:
        """Keep the blocks of arrays that have ended, or free them once this is closed."""
        while self._returned:
            block = self._returned.popleft()
            self._lent_bytes -= block.nbytes
            if self._is_closed:
                self._free(block)
            else:
                self._keep(block)
        if self._is_closed and not self._lent_bytes and self._on_last_return is not None:
            call, self._on_last_return = self._on_last_return, None
            call()

    def _keep(self, block: Block) -> None:
        self._unused_bytes += block.nbytes
        self._unused.setdefault(block.nbytes, []).append(block)

    def _free(self, block: Block) -> None:
        with contextlib.suppress(CudaError), self._driver.inside(self._context):  # it may be unusable
            self._driver.free_host(block.address)


def _size_of(nbytes: int) -> int:
    """The size of the block for so many bytes."""
    return max(_LEAST, 1 << (nbytes - 1).bit_length())
