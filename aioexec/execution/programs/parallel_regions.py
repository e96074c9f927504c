"""Executions of a parallel region of a program: threads run its tasks, each in a lane of the arena.

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

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER, Outcome, Walker
from aioexec.devices.threads import parallel_region as region_state, sharing
from aioexec.devices.threads.parallel_region import LaneOutcome
from aioexec.execution.programs.linking import LinkedRegion, address_of
from aioexec.execution.programs.trace import Trace
from aioexec.planning.layout.variant import Task

if TYPE_CHECKING:
    from aioexec.execution.programs.walk import Walk

Array = np.ndarray[Any, Any]
_OWNER = np.array([-1, -1], np.int64)


class _Execution:
    """One doing of a region.

    Constant: `link`, `words` (the frame's), `_walker`. Changing: `state`, which machine code reads and writes; `_limit`, once a
    row has failed: its place in the program.
    """

    def __init__(self, link: LinkedRegion, words: Array, walker: Walker) -> None:
        self.link = link
        self.words = words
        self.state = link.state.copy()
        self._walker = walker
        self._limit: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more is begun, because something has failed or all is cancelled."""
        return bool(self.state[region_state.STOPPED])

    def _stopped_in(self, frame: Array) -> int:
        """CANCELLED, or FAILED, with the row and its status in the words; no task is being done, and a frame is free."""
        for task, word in self._tasks():
            if word[region_state.STATUS]:
                self._fail(task, int(word[region_state.REACHED]), int(word[region_state.STATUS]))
        if self._limit is None:
            return Outcome.CANCELLED
        self._do_what_precedes(frame)
        return Outcome.FAILED

    def _tasks(self) -> Iterator[tuple[Task, Array]]:
        """The tasks, each with its words of the state."""
        words = self.state[region_state.HEADER :].reshape(-1, region_state.TASK_WORDS)
        return zip(self.link.region.tasks, words, strict=True)

    def _fail(self, task: Task, row: int, status: int) -> None:
        place = task.order[row - task.start]
        if self._limit is None or place < self._limit:
            self._limit = place
            self.words[walking.PC], self.words[walking.STATUS] = row, status

    def _do_what_precedes(self, frame: Array) -> None:
        """Do what the program has before the row that failed, of tasks that were not begun."""
        for task, word in self._tasks():
            assert self._limit is not None
            if word[region_state.WAITS] == -1:
                continue
            end = task.start + bisect_left(task.order, self._limit)
            frame[walking.PC], frame[walking.ROW_COUNT] = task.start, end
            outcome = self._walker.resume_released(frame)
            while outcome == Outcome.PAUSED:
                outcome = self._walker.resume_released(frame)
            if outcome == Outcome.FAILED:
                self._fail(task, int(frame[walking.PC]), int(frame[walking.STATUS]))
            word[region_state.REACHED] = frame[walking.PC]

    def is_of(self, row: int) -> bool:
        return self.link.region.tasks[0].start <= row < self.link.region.end

    def has_run(self, row: int) -> bool:
        """Whether a row of the region has run; of those behind one that failed, none counts."""
        for task, word in self._tasks():
            if task.start <= row < task.end:
                place = task.order[row - task.start]
                return row < word[region_state.REACHED] and (self._limit is None or place < self._limit)
        return False


class RegionRun(_Execution):
    """One doing of a region by a worker, its owner, and others.

    Changing: `_run`, till the end, since whoever does tasks needs its memory; `_frames`, one for each lane, made as they are
    needed, and `_idle` of them, whose number is under `_lock`; `_still`, not locked once somebody has moved since the owner
    looked.
    """

    def __init__(self, run: Walk, link: LinkedRegion) -> None:
        super().__init__(link, run.frame.words, run.walker)
        variant = run.program.variant
        self._run: Walk | None = run
        self._lanes_at = int(self.words[HEADER + variant.arena_slot]) + link.region.scratch
        self._lane_slot = variant.lane_slot
        self._workers = run.program.workers
        self._trace = run.trace
        self._lock = threading.Lock()
        self._frames: list[Array] = []
        self._idle: list[Array] = []
        self._still = threading.Lock()  # a tenth of an event
        self._still.acquire()

    # Doing tasks

    def execute(self) -> int:
        """Do the region, in the thread of the run: DONE, CANCELLED, or FAILED, with the row and its status in the frame."""
        frame = self._opened()
        while self._share(frame) != LaneOutcome.DONE and not self.state[region_state.STOPPED]:
            self._still.acquire()
        self._leave(frame)
        return self._ended(frame)

    def _opened(self) -> Array:
        """The owner's frame; others are called."""
        frame = self._enter()
        self._workers.offer(self, min(self._workers.count, len(self.link.region.tasks)) - 1)
        assert frame is not None
        return frame

    def _share(self, frame: Array) -> int:
        """Do tasks as the owner, as long as there are any."""
        outcome = LaneOutcome.CALL
        while outcome == LaneOutcome.CALL:
            outcome = self._walker.lane_released(frame, self.state, _OWNER, region_state.ENDLESS)
            if outcome == LaneOutcome.CALL:
                self._workers.offer(self, 1)
        return outcome

    def run(self) -> None:
        """Be a helper."""
        frame = self._enter()
        if frame is None:
            return
        outcome = LaneOutcome.CALL
        while outcome == LaneOutcome.CALL:
            outcome = self._walker.lane_released(
                frame, self.state, self._workers.waiting, region_state.ENDLESS
            )
            if outcome == LaneOutcome.CALL:
                with self._lock:
                    self._move()
                self._workers.offer(self, 1)
        self._leave(frame)
        if outcome == LaneOutcome.WANTED:
            self._workers.offer(self, 1)

    def cancel(self) -> None:
        """Make all lanes stop before their next row; the frame's word is set already."""
        for frame in list(self._frames):
            frame[walking.CANCEL] = 1

    def _enter(self) -> Array | None:
        """A frame for one more lane; None if nothing is left to do, or there are as many as the arena has memory for."""
        with self._lock:
            if self.state[region_state.STOPPED] or not self.state[region_state.LEFT]:
                return None
            if self._idle:
                return self._idle.pop()
            if len(self._frames) == self.link.region.lanes:
                return None
            frame = self.words.copy()
            frame[HEADER + self._lane_slot] = self._lanes_at + len(self._frames) * self.link.region.lane_bytes
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
        """Let the owner look again, if it waits; under the lock."""
        if self._still.locked():
            self._still.release()

    def _tell_thread(self, frame: Array, trace: Trace) -> None:
        """Tell which rows the calling thread has done."""
        me = address_of(frame)
        for task, word in self._tasks():
            if word[region_state.BY] == me:
                trace.threads[task.start : task.end] = get_native_id()
                word[region_state.BY] = 0  # the next one in this frame may be another thread

    def _ended(self, frame: Array) -> int:
        """How the region has ended, once no task is being done."""
        is_done = not self.state[region_state.LEFT]
        while (self._trace is not None or not is_done) and len(self._idle) < len(self._frames):
            self._still.acquire()
        self._run = None
        return Outcome.DONE if is_done else self._stopped_in(frame)


class SharedRegion(_Execution):
    """The doings of a region in one frame, one after the other, by an event loop that comes and goes, and its helpers.

    Helpers are threads that look for work: they come and go by machine code alone (see `jit.sharing`), and while one is there
    the run must be.

    `_pad` is what machine code knows of it, `_frames` has a row for the owner and one for each helper.
    """

    def __init__(self, run: Walk, link: LinkedRegion) -> None:
        program, region = run.program, link.region
        super().__init__(link, run.frame.words, program.walker)
        self._workers = program.workers
        self._helpers = min(program.workers.count, len(region.tasks), region.lanes) - 1
        self._frames = np.zeros((self._helpers + 1, len(self.words)), np.int64)
        self._pad = np.zeros(sharing.HEADER + self._helpers, np.int64)
        variant = program.variant
        self._pad[: sharing.HEADER] = (
            0,
            address_of(link.state),
            address_of(self.state),
            len(self.state),
            len(self.words),
            HEADER + variant.lane_slot,
            int(self.words[HEADER + variant.arena_slot]) + region.scratch,
            region.lane_bytes,
            self._helpers,
            address_of(self._frames),
        )

    def help(self, until: int) -> int:
        """Be the owner till then: DONE, or PAUSED.

        Once it is stopped somebody must wait for those who are in it: `owner`, in a worker.
        """
        self._limit = None
        self._workers.wake_up(self._helpers)
        outcome = self._walker.share_released(self.words, self._pad, self._workers.waiting, until)
        return Outcome.DONE if outcome == LaneOutcome.DONE else Outcome.PAUSED

    def execute(self) -> int:
        """Go on to the end: DONE, CANCELLED, or FAILED, with the row and its status in the frame."""
        outcome = self._walker.share_released(
            self.words, self._pad, self._workers.waiting, region_state.ENDLESS
        )
        if outcome == LaneOutcome.DONE:
            return Outcome.DONE
        self._pad[sharing.BEGUN] = 0
        return self._stopped_in(self._frames[0])

    def cancel(self) -> None:
        """Make all lanes stop before their next row; the frame's word is set already."""
        self._frames[:, walking.CANCEL] = 1


def shared_region(run: Walk, row: int) -> SharedRegion:
    """The region at a row of a program, in the frame of a run."""
    found = run.frame.shared.get(row)
    if found is None:
        found = run.frame.shared[row] = SharedRegion(run, run.program.parallel_regions[row])
    return found
