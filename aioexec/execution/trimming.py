"""Trimming: programs that have not run for a while give back the arenas they keep between their runs.

A session has one timer, and only while some program of it keeps an arena: after `IDLE_SECONDS` it looks which of them have not
run since it looked last. An arena that a run holds is not among those a program keeps, so nobody loses one under a run.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

from aioexec.devices.jit.walker import Walker
from aioexec.devices.workers import Workers
from aioexec.execution.frame import Frame
from aioexec.execution.program import Program
from aioexec.graph.kernel import Kernel
from aioexec.planning.variant import Variant

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
    """A program with an arena; `is_watched` while it may keep some that nobody uses."""

    def __init__(
        self,
        variant: Variant,
        walker: Walker,
        address: Callable[[Kernel], int],
        device: str,
        workers: Workers,
        trimmer: Trimmer,
    ) -> None:
        super().__init__(variant, walker, address, device, workers)
        self.trimmer = trimmer
        self.is_watched = False

    def release(self, frame: Frame) -> None:
        self.keep(frame)
        if not self.is_watched:
            self.trimmer.watch(self)

    keep = Program.release
    """A run is over: its frame is for the next."""

    def trim(self) -> None:
        """Give the arenas back that no run has."""
        self.frames.clear()
