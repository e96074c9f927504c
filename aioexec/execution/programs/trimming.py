"""Trimming: programs that have not run for a while give back the arenas they keep between their runs.

A session has one timer, and only while some program of it keeps an arena: after `IDLE_SECONDS` it looks which of them have not
run since it looked last. An arena that a run holds is not among those a program keeps, so nobody loses one under a run.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

from aioexec.devices.jit.walker import Walker
from aioexec.devices.threads.workers import Workers
from aioexec.execution.programs.arena_limit import DEFAULT_BYTES, ArenaLimit
from aioexec.execution.programs.frame import IDLE_FRAMES, MAPPED_BYTES, Frame
from aioexec.execution.programs.program import Program
from aioexec.graph.kernels.kernel import Kernel
from aioexec.planning.layout.variant import Variant

IDLE_SECONDS = 10.0


class Trimmer:
    """Looks after the programs of a session that keep arenas.

    Changing: `_watched`, those that do, each with its `last_used` when it was looked at last; `_timer`, None while there are
    none.
    """

    def __init__(self) -> None:
        self._watched: weakref.WeakKeyDictionary[TrimmedProgram, int] = weakref.WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, program: TrimmedProgram) -> None:
        """A program keeps an arena from now on."""
        program.is_watched = True
        self._watched[program] = program.last_used
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._look)

    def _look(self) -> None:
        self._timer = None
        for program, last_used in list(self._watched.items()):
            if program.last_used == last_used:
                del self._watched[program]
                program.is_watched = False
                program.trim()
            else:
                self._watched[program] = program.last_used
        if self._watched:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._look)

    def stop(self) -> None:
        """The session closes."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()


class TrimmedProgram(Program):
    """A program with an arena.

    Constant: `arena_bytes`; `limit`, which admits runs that hold an arena while they wait for a worker. `is_watched` while it
    may keep arenas that nobody uses.
    """

    def __init__(
        self,
        variant: Variant,
        walker: Walker,
        address: Callable[[Kernel], int],
        device: str,
        workers: Workers,
        trimmer: Trimmer,
        limit: ArenaLimit,
    ) -> None:
        super().__init__(variant, walker, address, device, workers)
        self.arena_bytes = variant.arena_bytes
        self.limit = limit
        self.trimmer = trimmer
        self.is_watched = False
        if self.arena_bytes >= MAPPED_BYTES:
            self.most_idle = max(IDLE_FRAMES, DEFAULT_BYTES // self.arena_bytes)

    @property
    def has_room(self) -> bool:
        return self.limit.admits(self)

    def lease_for_worker(self) -> Frame:
        frame = self.limit.take(self)
        if frame is None:
            return self._admitted(None)
        frame.is_admitted = True
        return frame

    async def lease_in_turn(self) -> Frame:
        turn = asyncio.get_running_loop().create_future()
        self.limit.wait(self, turn)
        try:
            return self._admitted(await turn)
        except asyncio.CancelledError:
            self.limit.give_up(self, turn)
            raise

    def move_to_worker(self, frame: Frame) -> None:
        if not frame.is_admitted:
            self.limit.count(self)
            frame.is_admitted = True

    def release(self, frame: Frame) -> None:
        if frame.is_admitted:
            frame.is_admitted = False
            self.limit.give_back(self, frame)
        else:
            self.put_idle(frame)
        if not self.is_watched:
            self.trimmer.watch(self)

    def trim(self) -> None:
        """Give the arenas back that no run has."""
        self.frames.clear()

    def _admitted(self, idle: Frame | None) -> Frame:
        """The frame of a run that `limit` has admitted: the idle one it gave, or a new one."""
        try:
            frame = idle or self.new_frame()
        except MemoryError:
            self.limit.give_back(self, None)
            raise
        frame.is_admitted = True
        return frame
