"""Executions of a parallel region (a `Fork` of a program): threads run its tasks (`Strand`s), each in a lane of the arena.

One thread owns the execution: a worker, or the event loop, which leaves it and returns (see `program_run`). The owner runs
tasks as the helper threads do, so the region ends even if none of them comes; without a task that it could run it waits, but
only for tasks that are running. A helper thread leaves when there is no task for it, or when jobs wait for its worker. A thread
that makes more tasks ready than it can run itself calls for another.

A row that fails stops the region. The rows that precede it in the program are then run all the same. So the error is always
that of the first failing row of the program, and the rows before it have run, however many workers there are.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from threading import get_native_id
from typing import TYPE_CHECKING, Any

import numpy as np

from aioexec.devices.jit import sharing, strands as doing, walker as walking
from aioexec.devices.jit.strands import Shift
from aioexec.devices.jit.walker import HEADER, Outcome, Walker
from aioexec.execution.linking import LinkedFork, address_of
from aioexec.execution.trace import Trace
from aioexec.planning.variant import Strand

if TYPE_CHECKING:
    from aioexec.execution.walk import Walk

Array = np.ndarray[Any, Any]
_HOST = np.array([-1, -1], np.int64)


class _Doing:
    """One doing of a fork.

    Constant: `link`, `words` (the frame's), `_walker`. Changing: `state`, which machine code reads and writes; `_limit`, once a
    row has failed: its place in the program.
    """

    def __init__(self, link: LinkedFork, words: Array, walker: Walker) -> None:
        self.link = link
        self.words = words
        self.state = link.state.copy()
        self._walker = walker
        self._limit: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is begun, because something has failed or all is cancelled."""
        return bool(self.state[doing.STOPPED])

    def _stopped_in(self, frame: Array) -> int:
        """CANCELLED, or FAILED, with the row and its status in the words; no strand is being done, and a frame is free."""
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


class ForkRun(_Doing):
    """One doing of a fork by a worker, its host, and others.

    Changing: `_run`, till the end, since whoever does strands needs its memory; `_frames`, one for each lane, made as they are
    needed, and `_idle` of them, whose number is under `_lock`; `_still`, not locked once somebody has moved since the host
    looked.
    """

    def __init__(self, run: Walk, link: LinkedFork) -> None:
        super().__init__(link, run.frame.words, run.walker)
        variant = run.program.variant
        self._run: Walk | None = run
        self._lanes_at = int(self.words[HEADER + variant.arena_slot]) + link.fork.scratch
        self._lane_slot = variant.lane_slot
        self._workers = run.program.workers
        self._trace = run.trace
        self._lock = threading.Lock()
        self._frames: list[Array] = []
        self._idle: list[Array] = []
        self._still = threading.Lock()  # a tenth of an event
        self._still.acquire()

    # Doing strands

    def host(self) -> int:
        """Do the fork, in the thread of the run: DONE, CANCELLED, or FAILED, with the row and its status in the frame."""
        frame = self._opened()
        while self._share(frame) != Shift.DONE and not self.state[doing.STOPPED]:
            self._still.acquire()
        self._leave(frame)
        return self._ended(frame)

    def _opened(self) -> Array:
        """The host's frame; others are called."""
        frame = self._enter()
        self._workers.invite(self, min(self._workers.count, len(self.link.fork.strands)) - 1)
        assert frame is not None
        return frame

    def _share(self, frame: Array) -> int:
        """Do strands as the host, as long as there are any."""
        shift = Shift.CALL
        while shift == Shift.CALL:
            shift = self._walker.lane_released(frame, self.state, _HOST, doing.ENDLESS)
            if shift == Shift.CALL:
                self._workers.invite(self, 1)
        return shift

    def run(self) -> None:
        """Be a guest."""
        frame = self._enter()
        if frame is None:
            return
        shift = Shift.CALL
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

    def _ended(self, frame: Array) -> int:
        """How the fork has ended, once no strand is being done."""
        is_done = not self.state[doing.LEFT]
        while (self._trace is not None or not is_done) and len(self._idle) < len(self._frames):
            self._still.acquire()
        self._run = None
        return Outcome.DONE if is_done else self._stopped_in(frame)


class SharedFork(_Doing):
    """The doings of a fork in one frame, one after the other, by an event loop that comes and goes, and its guests.

    Guests are threads that look for work: they come and go by machine code alone (see `jit.sharing`), and while one is there
    the run must be.

    `_pad` is what machine code knows of it, `_frames` has a row for the host and one for each guest.
    """

    def __init__(self, run: Walk, link: LinkedFork) -> None:
        program, fork = run.program, link.fork
        super().__init__(link, run.frame.words, program.walker)
        self._workers = program.workers
        self._guests = min(program.workers.count, len(fork.strands), fork.lanes) - 1
        self._frames = np.zeros((self._guests + 1, len(self.words)), np.int64)
        self._pad = np.zeros(sharing.HEADER + self._guests, np.int64)
        variant = program.variant
        self._pad[: sharing.HEADER] = (
            0,
            address_of(link.state),
            address_of(self.state),
            len(self.state),
            len(self.words),
            HEADER + variant.lane_slot,
            int(self.words[HEADER + variant.arena_slot]) + fork.scratch,
            fork.lane_bytes,
            self._guests,
            address_of(self._frames),
        )

    def help(self, until: int) -> int:
        """Be the host till then: DONE, or PAUSED.

        Once it is stopped somebody must wait for those who are in it: `host`, in a worker.
        """
        self._limit = None
        self._workers.wake_up(self._guests)
        shift = self._walker.share_released(self.words, self._pad, self._workers.waiting, until)
        return Outcome.DONE if shift == Shift.DONE else Outcome.PAUSED

    def host(self) -> int:
        """Go on to the end: DONE, CANCELLED, or FAILED, with the row and its status in the frame."""
        shift = self._walker.share_released(self.words, self._pad, self._workers.waiting, doing.ENDLESS)
        if shift == Shift.DONE:
            return Outcome.DONE
        self._pad[sharing.BEGUN] = 0
        return self._stopped_in(self._frames[0])

    def cancel(self) -> None:
        """Make all lanes stop before their next row; the frame's word is set already."""
        self._frames[:, walking.CANCEL] = 1


def shared_fork(run: Walk, row: int) -> SharedFork:
    """The fork at a row of a program, in the frame of a run."""
    found = run.frame.shared.get(row)
    if found is None:
        found = run.frame.shared[row] = SharedFork(run, run.program.forks[row])
    return found
