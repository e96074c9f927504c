"""Executions of a parallel region of a program: threads run its tasks, each in a lane of the arena.

One thread owns the execution: a worker (`RegionRun`), or the event loop (`SharedRegion`), which leaves it and returns (see
`program_run`). The owner runs tasks as the helper threads do, so the region ends even without helpers; when no task is ready it
waits, but only for tasks that other threads are running. A helper leaves when no task is ready, or when jobs wait for its
worker thread. A thread that makes several tasks ready requests another helper.

A row that fails stops the region. The rows that precede it in program order are then run all the same. So the error is always
that of the first failing row of the program, and the rows before it have run, regardless of the number of workers.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from threading import get_native_id
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER, Outcome, Walker
from aioexec.devices.threads import parallel_region as region_state, sharing
from aioexec.devices.threads.parallel_region import LaneOutcome
from aioexec.execution.programs.linking import LinkedRegion, address_of
from aioexec.execution.programs.trace import Trace
from aioexec.planning.layout.variant import Task

if TYPE_CHECKING:
    from aioexec.devices.threads.workers import Workers
    from aioexec.planning.layout.variant import Variant

Array = np.ndarray[Any, Any]
_OWNER = np.array([-1, -1], np.int64)


class RegionFrame(Protocol):
    """The part of `Frame` that an execution uses."""

    words: Array
    shared: dict[int, SharedRegion]


class RegionProgram(Protocol):
    """The part of `Program` that an execution uses."""

    variant: Variant
    walker: Walker
    workers: Workers
    parallel_regions: dict[int, LinkedRegion]


class RegionOwner(Protocol):
    """The part of `Walk` that an execution uses: the run whose region it is."""

    walker: Walker
    trace: Trace | None

    @property
    def frame(self) -> RegionFrame: ...
    @property
    def program(self) -> RegionProgram: ...


class _Execution:
    """One execution of a region.

    Constant: `link`, `words` (those of the run's frame), `_walker`. Changing: `state`, which machine code reads and writes;
    `_limit`, the position in program order of the first row that failed, None before.
    """

    def __init__(self, link: LinkedRegion, words: Array, walker: Walker) -> None:
        self.link = link
        self.words = words
        self.state = link.state.copy()
        self._walker = walker
        self._limit: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether no further task is begun, because one has failed or the run is cancelled."""
        return bool(self.state[region_state.STOPPED])

    def _stopped_in(self, frame: Array) -> int:
        """The outcome of a stopped region: CANCELLED, or FAILED, with the row and its status in the words.

        No thread executes a task any more; `frame` is one that no lane uses.
        """
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
        """Run the rows that precede the failed one in program order, of tasks that were not begun."""
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

    def contains(self, row: int) -> bool:
        return self.link.region.tasks[0].start <= row < self.link.region.end

    def has_run(self, row: int) -> bool:
        """Whether a row of the region has run; False for rows after the one that failed."""
        for task, word in self._tasks():
            if task.start <= row < task.end:
                place = task.order[row - task.start]
                return row < word[region_state.REACHED] and (self._limit is None or place < self._limit)
        return False


class RegionRun(_Execution):
    """One execution of a region owned by a worker thread; helpers take it from the job queue of the pool.

    Changing: `_run`, kept until the end, since the lanes use its memory; `_frames`, one for each lane, made when a thread
    enters; `_idle`, those of them that no thread uses. `_lock` guards both lists. `_still` is an event of a lock: held, until
    a helper has left or has made tasks ready since the owner last searched.
    """

    def __init__(self, run: RegionOwner, link: LinkedRegion) -> None:
        super().__init__(link, run.frame.words, run.walker)
        variant = run.program.variant
        self._run: RegionOwner | None = run
        self._lanes_at = int(self.words[HEADER + variant.arena_slot]) + link.region.scratch
        self._lane_slot = variant.lane_slot
        self._workers = run.program.workers
        self._trace = run.trace
        self._lock = threading.Lock()
        self._frames: list[Array] = []
        self._idle: list[Array] = []
        self._still = threading.Lock()  # a tenth of the cost of an Event
        self._still.acquire()

    # Executing tasks

    def execute(self) -> int:
        """Execute the region as its owner: DONE, CANCELLED, or FAILED, with the row and its status in the run's frame."""
        frame = self._opened()
        while self._share(frame) != LaneOutcome.DONE and not self.state[region_state.STOPPED]:
            self._still.acquire()
        self._leave(frame)
        return self._ended(frame)

    def _opened(self) -> Array:
        """Enter as the owner, and offer the other lanes to helpers; returns the owner's frame."""
        frame = self._enter()
        self._workers.offer(self, min(self._workers.count, len(self.link.region.tasks)) - 1)
        assert frame is not None
        return frame

    def _share(self, frame: Array) -> int:
        """Execute tasks as the owner while any is ready."""
        outcome = LaneOutcome.CALL
        while outcome == LaneOutcome.CALL:
            outcome = self._walker.lane_released(frame, self.state, _OWNER, region_state.ENDLESS)
            if outcome == LaneOutcome.CALL:
                self._workers.offer(self, 1)
        return outcome

    def run(self) -> None:
        """Execute tasks as a helper: the job of a worker thread."""
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
        """A frame for one more lane; None: no task is left, or all lanes that the arena has memory for are in use."""
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
            self._record_thread(frame, self._trace)
        with self._lock:
            self._idle.append(frame)
            self._move()

    def _move(self) -> None:
        """Wake the owner, if it waits; called under the lock."""
        if self._still.locked():
            self._still.release()

    def _record_thread(self, frame: Array, trace: Trace) -> None:
        """Record which rows the calling thread has executed."""
        me = address_of(frame)
        for task, word in self._tasks():
            if word[region_state.BY] == me:
                trace.threads[task.start : task.end] = get_native_id()
                word[region_state.BY] = 0  # the next thread to use this frame may be another

    def _ended(self, frame: Array) -> int:
        """Wait until no thread executes a task; returns the outcome of the region."""
        is_done = not self.state[region_state.LEFT]
        while (self._trace is not None or not is_done) and len(self._idle) < len(self._frames):
            self._still.acquire()
        self._run = None
        return Outcome.DONE if is_done else self._stopped_in(frame)


class SharedRegion(_Execution):
    """The executions of a region in one frame, one after another, owned by an event loop that enters in time slices.

    Its helpers are threads that spin for work: they enter and leave by machine code alone (see `jit.sharing`). While a helper
    is in the region, the run and its memory must stay alive.

    `_pad` holds the data of the region for machine code; `_frames` has a row for the owner and one for each helper.
    """

    def __init__(self, run: RegionOwner, link: LinkedRegion) -> None:
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
        """Execute the region as its owner until a time: DONE, or PAUSED.

        If the region is stopped, `execute` must be called in a worker: it waits until the helpers have left.
        """
        self._limit = None
        self._workers.wake_up(self._helpers)
        outcome = self._walker.share_released(self.words, self._pad, self._workers.waiting, until)
        return Outcome.DONE if outcome == LaneOutcome.DONE else Outcome.PAUSED

    def execute(self) -> int:
        """Continue to the end: DONE, CANCELLED, or FAILED, with the row and its status in the run's frame."""
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


def shared_region(run: RegionOwner, row: int) -> SharedRegion:
    """The region at a row of a program, in the frame of a run; made on first use, and kept for the frame's next runs."""
    found = run.frame.shared.get(row)
    if found is None:
        found = run.frame.shared[row] = SharedRegion(run, run.program.parallel_regions[row])
    return found
