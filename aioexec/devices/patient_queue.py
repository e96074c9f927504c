"""The queue of jobs of a pool, whose takers look for a while before they sleep, in machine code if there is any.

A sleeping thread is woken by its own lock, the last to fall asleep first: it is the one whose data may still be near.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from aioexec.devices.jit.patience import PATIENCE_NS

Entry = TypeVar("Entry")

DUE, URGENT = range(2)
"""Words of `waiting`."""


class PatientQueue(Generic[Entry]):
    """First come, first served.

    `_lock` is held by who changes anything but `look`. `_entries` wait to be taken, each with whether it is urgent; `waiting`
    is how many there are, and how many urgent ones, for machine code to see; `_sleepers` are the locks of those who sleep,
    `_looking` the number of those who look. `look(waiting, nanoseconds)` waits for an entry without the interpreter; None:
    nobody looks.
    """

    def __init__(self) -> None:
        self.look: Callable[..., int] | None = None
        self._lock = threading.Lock()
        self._entries: deque[tuple[Entry, bool]] = deque()
        self.waiting = np.zeros(2, np.int64)
        self._sleepers: list[threading.Lock] = []
        self._looking = 0

    def put(self, entry: Entry, urgent: bool = True) -> None:
        """Add an entry, and wake somebody unless enough are looking; what is not urgent gives way to what is."""
        sleeper = None
        with self._lock:
            self._entries.append((entry, urgent))
            self.waiting[DUE] += 1
            self.waiting[URGENT] += urgent
            if self._sleepers and len(self._entries) > self._looking:
                sleeper = self._sleepers.pop()
        if sleeper is not None:
            sleeper.release()

    def get(self) -> Entry:
        """Take the first entry; waits for one."""
        look = self.look
        with self._lock:
            if self._entries:
                return self._take()
            self._looking += look is not None
        if look is not None:
            look(self.waiting, PATIENCE_NS)
            with self._lock:
                self._looking -= 1
        while True:
            with self._lock:
                if self._entries:
                    return self._take()
                sleeper = threading.Lock()
                sleeper.acquire()
                self._sleepers.append(sleeper)
            sleeper.acquire()

    def _take(self) -> Entry:
        entry, urgent = self._entries.popleft()
        self.waiting[DUE] -= 1
        self.waiting[URGENT] -= urgent
        return entry
