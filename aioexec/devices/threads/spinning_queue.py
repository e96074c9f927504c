"""The job queue of a pool. Threads that find it empty spin before they sleep, in machine code where it is available.

Each sleeping thread waits on a lock of its own. The thread that fell asleep last is woken first: its data may still be cached.
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
    PARKED,
    PLACE_WORDS,
    PLACES,
    SPIN_TIMEOUT_NS,
    SPINNERS,
    UNPARKED,
)

Entry = TypeVar("Entry")


class SpinningQueue(Generic[Entry]):
    """A FIFO queue; `put`, `wake_up` and `get` may be called by any thread.

    `_lock` guards all fields but `look`. `_entries` are the queued entries; `waiting` holds their number and the parallel
    regions that are open, for machine code (see `spinning`); `_sleepers` are the locks of sleeping threads. `_is_missed`: more
    threads were to be woken than slept, so the next one that would sleep spins once more.
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
        self._is_missed = False

    def spin_with(self, look: Callable[..., int]) -> None:
        """Set `look`, if it is not set."""
        with self._lock:
            if self.look is None:
                self.look = look
                self.waiting[PARKED] += len(self._sleepers)  # no thread spins yet, which could count itself

    def put(self, entry: Entry) -> None:
        """Append an entry, and wake a thread unless enough of them spin."""
        with self._lock:
            self._entries.append(entry)
            self.waiting[ENTRIES] += 1
            if len(self._entries) > self.waiting[SPINNERS]:
                self._wake()

    def wake_up(self, count: int) -> None:
        """Wake sleeping threads until so many spin; one that is about to sleep spins once more."""
        if self.waiting[SPINNERS] >= count:
            return  # the usual case needs no lock: if a thread stops spinning just now, the run has one helper less
        with self._lock:
            for _ in range(count - int(self.waiting[SPINNERS])):
                self._is_missed = not self._wake()

    def _wake(self) -> bool:
        """Wake the thread that fell asleep last; False: none sleeps."""
        if not self._sleepers:
            return False
        self.waiting[UNPARKED] += self.look is not None
        self._sleepers.pop().release()
        return True

    def get(self) -> Entry:
        """Take the first entry; blocks until there is one."""
        with self._lock:
            if self._entries:
                return self._take()
        while True:
            look = self.look
            is_parked = look is not None and not look(self.waiting, SPIN_TIMEOUT_NS)
            with self._lock:
                if self._entries or self._continues(look is not None, is_parked):
                    self.waiting[UNPARKED] += is_parked
                    if self._entries:
                        return self._take()
                    continue
                sleeper = threading.Lock()
                sleeper.acquire()
                self._sleepers.append(sleeper)
            sleeper.acquire()
            with self._lock:
                if self._entries:
                    return self._take()

    def _continues(self, has_spun: bool, is_parked: bool) -> bool:
        """Whether a thread that found no entry spins again: all that spin see an entry, of which one takes it."""
        if has_spun is not (self.look is not None):
            return True
        is_missed, self._is_missed = self._is_missed, False
        return has_spun and (is_missed or not is_parked)

    def _take(self) -> Entry:
        self.waiting[ENTRIES] -= 1
        return self._entries.popleft()
