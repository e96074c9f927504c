"""Memory in huge pages, for packed constants that each step reads once, at the speed of memory.

In small pages the prefetcher of the processor stops at the end of each, and a core reads 13 GB/s instead of 20. NumPy requests
huge pages for arrays of 4 MiB or more, but does not align them: small ones have none, and large ones have small pages at both
ends. Here, arrays share chunks that begin on a huge page. A chunk is unmapped when no array is left in it and another one has
been begun. Any thread may call.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import threading
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PAGE = 1 << 21
"""Bytes of a huge page of x86-64 and, with small pages of 4 KiB, of aarch64."""
CHUNK_BYTES = 16 * PAGE
LEAST_BYTES = 1 << 20
"""Bytes of an array from which it is placed in a chunk: less stays in the caches from step to step."""
_ALIGNMENT = 64


class HugePages:
    """Hands out memory from chunks, one after another.

    Changing, under `_lock`: `_chunk`, the latest; `_used`, the bytes of it that are handed out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._chunk = np.empty(0, np.uint8)
        self._used = 0

    def empty(self, nbytes: int) -> Array:
        """Bytes of any content that begin on a cache line.

        Raises:
            MemoryError: the system has none.
        """
        if nbytes < LEAST_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
            return aligned(np.empty(nbytes + _ALIGNMENT, np.uint8), _ALIGNMENT, nbytes)
        if nbytes > CHUNK_BYTES // 2:
            return _mapped(nbytes)
        with self._lock:
            if self._used + nbytes > len(self._chunk):
                self._chunk, self._used = _mapped(CHUNK_BYTES), 0
            start = self._used
            self._used = -(-(start + nbytes) // _ALIGNMENT) * _ALIGNMENT
            return self._chunk[start : start + nbytes]


def aligned(memory: Array, alignment: int, nbytes: int) -> Array:
    """So many of the bytes, from the first aligned one on."""
    start = -int(memory.__array_interface__["data"][0]) % alignment
    return memory[start : start + nbytes]


def _mapped(nbytes: int) -> Array:
    return aligned(map_memory(nbytes + PAGE, in_huge_pages=True), PAGE, nbytes)


def map_memory(nbytes: int, in_huge_pages: bool) -> Array:
    """Memory of the system, in huge pages if it has them; it returns to the system with the last view of the array.

    Raises:
        MemoryError: the system has none.
    """
    try:
        mapped = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        if error.errno != errno.ENOMEM:
            raise
        raise MemoryError(f"unable to map {nbytes} bytes") from error
    if in_huge_pages and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # the system has no huge pages
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(mapped, np.uint8)


huge_pages = HugePages()
"""Those of this process."""
