"""Admission control for arenas of sessions without a bound of their own: which runs may hold one while they wait for a worker.

A run that begins and ends in one callback of the loop needs no admission: there is one of them at a time. A run that is queued
for a worker holds its arena until it ends. Runs are admitted in FIFO order, as many as fit into a few megabytes, and at least
two for each thread. The others wait on the loop without an arena, so memory does not grow with their number.

There is one object for each pair of loop and pool, shared by the sessions that use both. The event loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol
from weakref import WeakKeyDictionary

from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs.frame import Frame

DEFAULT_BYTES = 16 << 20
"""Bytes of the arenas of queued runs: many short runs, within the caches of a few cores."""
_RUNS_PER_THREAD = 2  # one is computed, the next one is ready when it ends


class NoRoomError(Exception):
    """The bound admits no further arena now; nothing was run."""


class ArenaOwner(Protocol):
    """The owner of arenas, which is a program: each takes `arena_bytes`; `frames` are the idle ones."""

    arena_bytes: int
    frames: list[Frame]

    def put_idle(self, frame: Frame) -> None: ...


class ArenaLimit:
    """Admits runs that hold an arena.

    Constant: `bound`, in bytes; `least_runs`, the number of runs that are admitted regardless of the size of their arenas.
    Changing: `used`, the bytes of admitted runs; `runs`, their number; `_waiting`, a FIFO queue of runs without an arena: the
    future of each, and its program.
    """

    def __init__(self, bound: int, least_runs: int = 0) -> None:
        self.bound = bound
        self.least_runs = least_runs
        self.used = 0
        self.runs = 0
        self._waiting: OrderedDict[asyncio.Future[Frame | None], ArenaOwner] = OrderedDict()

    def admits(self, owner: ArenaOwner) -> bool:
        """Whether `take` would succeed."""
        return not self._waiting and self._has_room_for(owner)

    def take(self, owner: ArenaOwner) -> Frame | None:
        """Admit a run: an idle frame, or None: the caller makes one.

        Raises:
            NoRoomError: it must wait.
        """
        # `admits` and `_reserve`, inlined: most runs of a few rows take this path.
        nbytes = owner.arena_bytes
        if self._waiting or (self.runs >= self.least_runs and self.used + nbytes > self.bound):
            raise NoRoomError
        self.used += nbytes
        self.runs += 1
        return owner.frames.pop() if owner.frames else None

    def count(self, owner: ArenaOwner) -> None:
        """Admit a run that has a frame already."""
        self.used += owner.arena_bytes
        self.runs += 1

    def wait(self, owner: ArenaOwner, turn: asyncio.Future[Frame | None]) -> None:
        """Queue a run; the result of `turn` will be what `take` would have returned."""
        self._waiting[turn] = owner
        self._let_in()

    def give_up(self, owner: ArenaOwner, turn: asyncio.Future[Frame | None]) -> None:
        """Remove a run that was cancelled while it waited, perhaps after it had been admitted."""
        if turn in self._waiting:
            del self._waiting[turn]
            self._let_in()
        elif not turn.cancelled():
            self.give_back(owner, turn.result())

    def give_back(self, owner: ArenaOwner, frame: Frame | None) -> None:
        """Release the admission of a run that has ended; None: it has no frame any more."""
        self.used -= owner.arena_bytes
        self.runs -= 1
        if frame is not None:
            self._keep(owner, frame)
        if self._waiting:
            self._let_in()

    def _has_room_for(self, owner: ArenaOwner) -> bool:
        return self.runs < self.least_runs or self.used + owner.arena_bytes <= self.bound

    def _let_in(self) -> None:
        while self._waiting:
            turn, owner = next(iter(self._waiting.items()))
            if not (turn.done() or self._has_room_for(owner)):
                return
            del self._waiting[turn]
            if not turn.done():  # else it was cancelled, and its task has not run yet
                turn.set_result(self._reserve(owner))

    def _reserve(self, owner: ArenaOwner) -> Frame | None:
        self.count(owner)
        return owner.frames.pop() if owner.frames else None

    def _keep(self, owner: ArenaOwner, frame: Frame) -> None:
        owner.put_idle(frame)

    def check_invariants(self) -> None:
        assert self.used >= 0
        assert self.runs >= 0
        if self._waiting:
            turn, first = next(iter(self._waiting.items()))
            assert turn.cancelled() or not self._has_room_for(first), "a run waits though there is room"


_limits: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakKeyDictionary[Workers, ArenaLimit]] = (
    WeakKeyDictionary()
)


def limit_of(loop: asyncio.AbstractEventLoop, workers: Workers) -> ArenaLimit:
    """The limit of a loop's runs in a pool."""
    pools = _limits.setdefault(loop, WeakKeyDictionary())
    found = pools.get(workers)
    if found is None:
        found = pools[workers] = ArenaLimit(DEFAULT_BYTES, _RUNS_PER_THREAD * workers.count)
    return found
