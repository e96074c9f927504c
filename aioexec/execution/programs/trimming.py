"""Trimming: programs that have not run for a while release the idle arenas that they keep between runs.

A session has one timer, which runs only while some program keeps an arena: every `IDLE_SECONDS` it releases the arenas of
programs that have not run since the previous check. The arena of an active run is not among the idle ones. The event loop's
thread only.
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
RELEASE_SECONDS = (2.0, 20.0)
"""After which, when a large program is there, the memory is returned that its steps took before: some may still run first."""
LARGE_ARENA = 16 << 20
"""Bytes of the arena of a large program."""


class Trimmer:
    """The programs of a session that keep idle arenas.

    Constant: `_release`, which returns free memory of the process to the system, from another thread. Changing: `_watched`,
    these programs, each with its `last_used` at the previous check; `_timer`, None while there are none; `_releases`, the
    timers of `_release`.
    """

    def __init__(self, release: Callable[[], object]) -> None:
        self._release = release
        self._releases: list[asyncio.TimerHandle] = []
        self._watched: weakref.WeakKeyDictionary[TrimmedProgram, int] = weakref.WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, program: TrimmedProgram) -> None:
        """Add a program that keeps an arena from now on."""
        program.is_watched = True
        self._watched[program] = program.last_used
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._look)

    def on_built(self, arena_bytes: int) -> None:
        """Take into account that a program is there, so that reference kernels need memory no more."""
        if arena_bytes < LARGE_ARENA:
            return
        self._cancel_releases()
        loop = asyncio.get_running_loop()
        self._releases = [loop.call_later(seconds, self._release) for seconds in RELEASE_SECONDS]

    def _cancel_releases(self) -> None:
        for timer in self._releases:
            timer.cancel()

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
        """Stop the timers, as the session closes."""
        self._watched.clear()
        self._cancel_releases()
        if self._timer is not None:
            self._timer.cancel()


class TrimmedProgram(Program):
    """A program with an arena.

    Constant: `arena_bytes`; `limit`, which admits runs that hold an arena while they wait for a worker. `is_watched` while it
    may keep idle arenas.
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
            return self._admit(None)
        frame.is_admitted = True
        return frame

    async def lease_in_turn(self) -> Frame:
        turn = asyncio.get_running_loop().create_future()
        self.limit.wait(self, turn)
        try:
            return self._admit(await turn)
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
        """Release the idle arenas."""
        self.frames.clear()

    def _admit(self, idle: Frame | None) -> Frame:
        """The frame of a run that `limit` has admitted: the idle one that it returned, or a new one."""
        try:
            frame = idle or self.new_frame()
        except MemoryError:
            self.limit.give_back(self, None)
            raise
        frame.is_admitted = True
        return frame
