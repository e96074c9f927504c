"""The limit on arenas where a session sets none: who may hold one while it waits for a worker, first come first served.

A run that begins and ends in one callback of the loop needs no permission: there is one of them at a time. A run that is queued
for a worker holds its arena until it ends; of those, as many are queued as fit into a few megabytes, and at least two for each
thread. The others wait in the loop without an arena, so memory does not grow with them.

One object a loop and pool, shared by the sessions that use both. Everything here happens on the event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Protocol
from weakref import WeakKeyDictionary

from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs.frame import Frame

DEFAULT_BYTES = 16 << 20
"""Arenas of queued runs: many short runs at once, in what the caches of a few cores hold."""
_RUNS_PER_THREAD = 2  # one is computed, the next is there when it ends


class NoRoomError(Exception):
    """There is no room for another arena now; nothing was run."""


class ArenaOwner(Protocol):
    """A program, as far as its arenas go: they are `arena_bytes` each; `frames` are the idle ones."""

    arena_bytes: int
    frames: list[Frame]

    def put_idle(self, frame: Frame) -> None: ...


class ArenaLimit:
    """Admits runs that hold an arena.

    Constant: `bound`, bytes; `least_runs`, which are admitted whatever their arenas take. Changing: `used`, bytes of admitted
    runs; `runs`, their number; `_waiting`, runs without an arena, in the order they came: the future of each one's turn, and
    its program.
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
        # `admits` and `_reserve`, written out: most runs of a few rows come through here.
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
        """Let a run wait for what `take` would have given: `turn` is done then."""
        self._waiting[turn] = owner
        self._let_in()

    def give_up(self, owner: ArenaOwner, turn: asyncio.Future[Frame | None]) -> None:
        """A run that waited was cancelled, perhaps after it had been admitted."""
        if turn in self._waiting:
            del self._waiting[turn]
            self._let_in()
        elif not turn.cancelled():
            self.give_back(owner, turn.result())

    def give_back(self, owner: ArenaOwner, frame: Frame | None) -> None:
        """A run has ended; None: it has no frame any more."""
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
