"""Releases the interpreter lock for other threads, from a thread that otherwise keeps it from them.

A thread that waits for the lock requests it after the switch interval. A loop that polls sockets releases the lock several
times in that time, each for a microsecond: the waiting thread wakes up too late, finds it held again, and waits for a whole
interval anew. So a busy loop can starve the threads that build programs for seconds.
"""

from __future__ import annotations

from functools import cached_property
from time import perf_counter
from typing import Any, Final

import numpy as np

INTERVAL: Final = 0.001
"""Seconds between two releases."""
_ELEMENTS: Final = 1 << 16
"""Elements of an array for which NumPy computes without the lock for some 50 µs: as long as another thread takes to wake up."""


class LockRelease:
    """Releases the interpreter lock now and then, on event loops.

    Constant: `_array`, made at the first release. Changing: `_next`, when a release is due by perf_counter.
    """

    def __init__(self) -> None:
        self._next = 0.0

    @cached_property
    def _array(self) -> np.ndarray[Any, Any]:
        return np.ones(_ELEMENTS, np.float32)

    def release_if_due(self) -> None:
        """Release the lock for some 50 µs, unless it was released lately."""
        now = perf_counter()
        if now >= self._next:
            np.sqrt(self._array, out=self._array)  # they stay ones
            self._next = perf_counter() + INTERVAL


lock_release: Final = LockRelease()
"""The instance of this process."""
