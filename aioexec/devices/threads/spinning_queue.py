"""The job queue of a pool. Threads that find it empty spin before they sleep, in machine code where it is available.

Each sleeping thread waits on a lock of its own. The thread that fell asleep last is woken first: its data may still be cached.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from aioexec.devices.threads.spinning import ENTRIES, HEADER, PLACE_WORDS, PLACES, SPIN_TIMEOUT_NS, SPINNERS

Entry = TypeVar("Entry")


class SpinningQueue(Generic[Entry]):
    """A FIFO queue; `put`, `wake_up` and `get` may be called by any thread.

    `_lock` guards all fields but `look`. `_entries` are the queued entries; `waiting` holds their number and the parallel
    regions that are open, for machine code (see `spinning`); `_sleepers` are the locks of sleeping threads.
    `look(waiting, nanoseconds)` spins for an entry, and helps in open regions meanwhile, without the interpreter lock; None:
    threads sleep at once.

    Args:
        places: how many parallel regions may be open at a time.
    """

    def __init__(self, places: int = 0) -> None:
        self.look: Callable[..., int] | None = None
        self._lock = threading.Lock()
        self._entries: deque[Entry] = deque()
        self.waiting = np.zeros(HEADER + PLACE_WORDS * places, np.int64)
        self.waiting[PLACES] = places
        self._sleepers: list[threading.Lock] = []

    def put(self, entry: Entry) -> None:
        """Append an entry, and wake a thread unless enough of them spin."""
        with self._lock:
            self._entries.append(entry)
            self.waiting[ENTRIES] += 1
            if len(self._entries) > self.waiting[SPINNERS]:
                self._wake()

    def wake_up(self, count: int) -> None:
        """Wake sleeping threads until so many spin."""
        if self.waiting[SPINNERS] >= count:
            return  # the usual case needs no lock: if a thread stops spinning just now, the run has one helper less
        with self._lock:
            for _ in range(count - int(self.waiting[SPINNERS])):
                self._wake()

    def _wake(self) -> None:
        if self._sleepers:
            self._sleepers.pop().release()

    def get(self) -> Entry:
        """Take the first entry; blocks until there is one."""
        with self._lock:
            if self._entries:
                return self._take()
        while True:
            if self.look is not None:
                self.look(self.waiting, SPIN_TIMEOUT_NS)
            with self._lock:
                if self._entries:
                    return self._take()
                sleeper = threading.Lock()
                sleeper.acquire()
                self._sleepers.append(sleeper)
            sleeper.acquire()
            with self._lock:
                if self._entries:
                    return self._take()

    def _take(self) -> Entry:
        self.waiting[ENTRIES] -= 1
        return self._entries.popleft()
