"""The queue of jobs of a pool, whose takers look for a while before they sleep, in machine code if there is any.

A sleeping thread is woken by its own lock, the last to fall asleep first: it is the one whose data may still be near.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from aioexec.devices.threads.spinning import (
    ENTRIES,
    HEADER,
    PLACE_WORDS,
    PLACES,
    SPIN_TIMEOUT_NS,
    SPINNERS,
    URGENT,
)

Entry = TypeVar("Entry")


class SpinningQueue(Generic[Entry]):
    """First come, first served.

    `_lock` is held by who changes anything but `look`. `_entries` wait to be taken, each with whether it is urgent; `waiting`
    is for machine code to see (see `jit.spinning`); `_sleepers` are the locks of those who sleep. `look(waiting, nanoseconds)`
    waits for an entry, and does other things meanwhile, without the interpreter; None: nobody looks.

    Args:
        places: for offers to regions.
    """

    def __init__(self, places: int = 0) -> None:
        self.look: Callable[..., int] | None = None
        self._lock = threading.Lock()
        self._entries: deque[tuple[Entry, bool]] = deque()
        self.waiting = np.zeros(HEADER + PLACE_WORDS * places, np.int64)
        self.waiting[PLACES] = places
        self._sleepers: list[threading.Lock] = []

    def put(self, entry: Entry, urgent: bool = True) -> None:
        """Add an entry, and wake somebody unless enough are looking; what is not urgent gives way to what is."""
        with self._lock:
            self._entries.append((entry, urgent))
            self.waiting[ENTRIES] += 1
            self.waiting[URGENT] += urgent
            if len(self._entries) > self.waiting[SPINNERS]:
                self._wake()

    def wake_up(self, count: int) -> None:
        """Have so many look, if there are sleepers."""
        if self.waiting[SPINNERS] >= count:
            return  # the usual case needs no lock: who stops looking just now has missed a run, no more
        with self._lock:
            for _ in range(count - int(self.waiting[SPINNERS])):
                self._wake()

    def _wake(self) -> None:
        if self._sleepers:
            self._sleepers.pop().release()

    def get(self) -> Entry:
        """Take the first entry; waits for one."""
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
        entry, urgent = self._entries.popleft()
        self.waiting[ENTRIES] -= 1
        self.waiting[URGENT] -= urgent
        return entry
