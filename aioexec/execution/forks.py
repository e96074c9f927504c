"""One doing of a fork: the worker that came to it, its host, and guests do its strands, each in a lane of the arena.

The host does strands like the others, so all are done though nobody comes; when there is nothing it could do it waits, but only
for strands that are being done. A guest goes when there is nothing for it, or when jobs wait for its thread; whoever makes more
ready than it can do itself calls again.

A row that fails stops the fork. What stands before it in the program is then done all the same, so it is always the first
failing row of the program that is told, and those before it have run, however many workers there are.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from threading import get_native_id
from typing import Any

import numpy as np

from aioexec.devices.jit import strands as doing, walker as walking
from aioexec.devices.jit.strands import Shift
from aioexec.devices.jit.walker import HEADER, Outcome, Walker
from aioexec.devices.workers import Workers
from aioexec.execution.linking import LinkedFork, address_of
from aioexec.execution.trace import Trace
from aioexec.planning.variant import Strand

Array = np.ndarray[Any, Any]
_HOST = np.array([-1, -1], np.int64)


class ForkRun:
    """One doing of a fork.

    Constant: `link`, `words` (the frame's). Changing: `state`, which machine code reads and
    writes; `_frames`, one for each lane, made as they are needed, and `_idle` of them, whose number is under `_lock`; `_still`,
    not locked once somebody has moved since the host looked; `_limit`, once a row has failed: its place in the program.
    """

    def __init__(
        self,
        link: LinkedFork,
        words: Array,
        arena: int,
        lane_slot: int,
        walker: Walker,
        workers: Workers,
        trace: Trace | None,
    ) -> None:
        self.link = link
        self.words = words
        self.state = link.state.copy()
        self._lanes_at = arena + link.fork.scratch
        self._lane_slot = lane_slot
        self._walker = walker
        self._workers = workers
        self._trace = trace
        self._lock = threading.Lock()
        self._frames: list[Array] = []
        self._idle: list[Array] = []
        self._still = threading.Lock()  # a tenth of an event
        self._still.acquire()
        self._limit: int | None = None

    # Doing strands

    def host(self) -> int:
        """Do the fork, in the thread of the run: DONE, CANCELLED, or FAILED, with the row and its status in the frame."""
        frame = self._enter()
        assert frame is not None
        self._workers.invite(self, min(self._workers.count, len(self.link.fork.strands)) - 1)
        while True:
            shift = self._walker.lane_released(frame, self.state, _HOST)
            if shift == Shift.CALL:
                self._workers.invite(self, 1)
            elif self.state[doing.STOPPED] or not self.state[doing.LEFT]:
                break
            else:
                self._still.acquire()
        self._leave(frame)
        return self._ended(frame)

    def run(self) -> None:
        """Be a guest."""
        frame = self._enter()
        if frame is None:
            return
        shift = int(Shift.CALL)
        while shift == Shift.CALL:
            shift = self._walker.lane_released(frame, self.state, self._workers.waiting)
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
