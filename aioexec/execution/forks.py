"""One doing of a fork: whoever came to it, its host, and guests do its strands, each in a lane of the arena.

The host is a worker, or an event loop that comes and goes (see `hosting`). It does strands like the others, so all are done
though nobody comes; when there is nothing it could do it waits, but only for strands that are being done. A guest goes when
there is nothing for it, or when jobs wait for its thread; whoever makes more ready than it can do itself calls again.

A row that fails stops the fork. What stands before it in the program is then done all the same, so it is always the first
failing row of the program that is told, and those before it have run, however many workers there are.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from threading import get_native_id
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.devices.jit import strands as doing, walker as walking
from aioexec.devices.jit.strands import Shift
from aioexec.devices.jit.walker import HEADER, Outcome
from aioexec.execution.linking import LinkedFork, address_of
from aioexec.execution.trace import Trace
from aioexec.planning.variant import Strand

if TYPE_CHECKING:
    from aioexec.execution.program import Run

Array = np.ndarray[Any, Any]
_HOST = np.array([-1, -1], np.int64)


class ForkRun:
    """One doing of a fork.

    Constant: `link`, `words` (the frame's). Changing: `state`, which machine code reads and writes; `_run`, till the end,
    since whoever does strands needs its memory; `_frames`, one for each lane, made as they are needed, and `_idle` of them,
    whose number is under `_lock`; `_still`, not locked once somebody has moved since the host looked; `_mine`, the frame of a
    host who has gone and comes back; `_limit`, once a row has failed: its place in the program.
    """

    def __init__(self, run: Run, link: LinkedFork) -> None:
        variant = run.program.variant
        self._run: Run | None = run
        self.link = link
        self.words = run.frame.words
        self.state = link.state.copy()
        self._lanes_at = int(self.words[HEADER + variant.arena_slot]) + link.fork.scratch
        self._lane_slot = variant.lane_slot
        self._walker = run.walker
        self._workers = run.program.workers
        self._trace = run.trace
        self._lock = threading.Lock()
        self._frames: list[Array] = []
        self._idle: list[Array] = []
        self._still = threading.Lock()  # a tenth of an event
        self._still.acquire()
        self._mine: Array | None = None
        self._limit: int | None = None

    # Doing strands

    def host(self) -> int:
        """Do the fork, in the thread of the run: DONE, CANCELLED, or FAILED, with the row and its status in the frame."""
        frame = self._opened()
        while self._share(frame, doing.ENDLESS) != Shift.DONE and not self.state[doing.STOPPED]:
            self._still.acquire()
        self._leave(frame)
        return self._ended(frame)

    def help(self, until: int) -> int:
        """Be the host till then, in an event loop: DONE, or PAUSED.

        Once it is stopped somebody must wait for those who are in it: `host`, in a worker.
        """
        frame = self._opened()
        if self._share(frame, until) != Shift.DONE:
            self._mine = frame
            return Outcome.PAUSED
        self._leave(frame)
        self._run = None
        return Outcome.DONE

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is begun, because something has failed or all is cancelled."""
        return bool(self.state[doing.STOPPED])

    def _opened(self) -> Array:
        """The host's frame; when it first comes others are called."""
        frame, self._mine = self._mine, None
        if frame is None:
            frame = self._enter()
            self._workers.invite(self, min(self._workers.count, len(self.link.fork.strands)) - 1)
        assert frame is not None
        return frame

    def _share(self, frame: Array, until: int) -> int:
        """Do strands as the host, as long as there are any."""
        shift = int(Shift.CALL)
        while shift == Shift.CALL:
            shift = self._walker.lane_released(frame, self.state, _HOST, until)
            if shift == Shift.CALL:
                self._workers.invite(self, 1)
        return shift

    def run(self) -> None:
        """Be a guest."""
        frame = self._enter()
        if frame is None:
            return
        shift = int(Shift.CALL)
        while shift == Shift.CALL:
            shift = self._walker.lane_released(frame, self.state, self._workers.waiting, doing.ENDLESS)
            if shift == Shift.CALL:
                with self._lock:
                    self._move()
                self._workers.invite(self, 1)
        self._leave(frame)
        if shift == Shift.WANTED:
            self._workers.invite(self, 1)

    def cancel(self) -> None:
        """Make all lanes stop before their next row; the frame's word is set already."""
        for frame in list(self._frames):
            frame[walking.CANCEL] = 1

    def _enter(self) -> Array | None:
        """A frame for one more lane; None if nothing is left to do, or there are as many as the arena has memory for."""
        with self._lock:
            if self.state[doing.STOPPED] or not self.state[doing.LEFT]:
                return None
            if self._idle:
                return self._idle.pop()
            if len(self._frames) == self.link.fork.lanes:
                return None
            frame = self.words.copy()
            frame[HEADER + self._lane_slot] = self._lanes_at + len(self._frames) * self.link.fork.lane_bytes
            self._frames.append(frame)
        frame[walking.CANCEL] = self.words[walking.CANCEL]  # after the list has it: `cancel` misses none
        return frame

    def _leave(self, frame: Array) -> None:
        if self._trace is not None:
            self._tell_thread(frame, self._trace)
        with self._lock:
            self._idle.append(frame)
            self._move()

    def _move(self) -> None:
        """Let the host look again, if it waits; under the lock."""
        if self._still.locked():
            self._still.release()

    def _tell_thread(self, frame: Array, trace: Trace) -> None:
        """Tell which rows the calling thread has done."""
        me = address_of(frame)
        for strand, word in self._strands():
            if word[doing.BY] == me:
                trace.threads[strand.start : strand.end] = get_native_id()
                word[doing.BY] = 0  # the next one in this frame may be another thread

    # The end

    def _ended(self, frame: Array) -> int:
        """How the fork has ended, once no strand is being done."""
        is_done = not self.state[doing.LEFT]
        while (self._trace is not None or not is_done) and len(self._idle) < len(self._frames):
            self._still.acquire()
        self._run = None
        if is_done:
            return Outcome.DONE
        for strand, word in self._strands():
            if word[doing.STATUS]:
                self._fail(strand, int(word[doing.REACHED]), int(word[doing.STATUS]))
        if self._limit is None:
            return Outcome.CANCELLED
        self._do_what_precedes(frame)
        return Outcome.FAILED

    def _strands(self) -> Iterator[tuple[Strand, Array]]:
        """The strands, each with its words of the state."""
        words = self.state[doing.HEADER :].reshape(-1, doing.STRAND_WORDS)
        return zip(self.link.fork.strands, words, strict=True)

    def _fail(self, strand: Strand, row: int, status: int) -> None:
        place = strand.order[row - strand.start]
        if self._limit is None or place < self._limit:
            self._limit = place
            self.words[walking.PC], self.words[walking.STATUS] = row, status

    def _do_what_precedes(self, frame: Array) -> None:
        """Do what the program has before the row that failed, of strands that were not begun."""
        for strand, word in self._strands():
            assert self._limit is not None
            if word[doing.WAITS] == -1:
                continue
            end = strand.start + bisect_left(strand.order, self._limit)
            frame[walking.PC], frame[walking.ROW_COUNT] = strand.start, end
            outcome = self._walker.resume_released(frame)
            while outcome == Outcome.PAUSED:
                outcome = self._walker.resume_released(frame)
            if outcome == Outcome.FAILED:
                self._fail(strand, int(frame[walking.PC]), int(frame[walking.STATUS]))
            word[doing.REACHED] = frame[walking.PC]

    def is_of(self, row: int) -> bool:
        return self.link.fork.strands[0].start <= row < self.link.fork.end

    def has_run(self, row: int) -> bool:
        """Whether a row of the fork has run; of those behind one that failed, none counts."""
        for strand, word in self._strands():
            if strand.start <= row < strand.end:
                place = strand.order[row - strand.start]
                return row < word[doing.REACHED] and (self._limit is None or place < self._limit)
        return False
