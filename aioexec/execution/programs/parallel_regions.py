"""Executions of a parallel region of a program: a team of threads runs its tasks, each in a lane of the arena.

The first execution in a frame begins here. Further ones, of a region in a loop, begin in the walk on a worker, which comes back
here if threads have to be woken, or if a task failed or was cancelled.

One thread owns the execution; helper threads enter the region while they spin for work (see `devices.threads.team`). Owner and
helpers take tasks from the same counters. There are two owners, which differ in the deadline alone:

- a worker has none: it stays until all tasks are done, and sleeps between two searches for a ready task;
- the event loop leaves the region when its time slice is over, and continues later (see `program_run`).

What the second owner brings, and what it brings that helpers spin before they sleep (time of a step on two processors):

    step                              all    owned by workers   helpers do not spin
    256 branches                   370 µs             440 µs                402 µs
    MLP, inference of one image     27 µs              73 µs                 35 µs
    MLP, training step             540 µs             640 µs                637 µs

A row that fails stops the region. The rows that precede it in program order are then run all the same. So the error is always
that of the first failing row of the program, and the rows before it have run, regardless of the number of workers.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aioexec.devices.jit import walker as walking
from aioexec.devices.jit.walker import HEADER, Outcome, Walker
from aioexec.devices.threads import parallel_region as region_state, team
from aioexec.devices.threads.parallel_region import ENDLESS, LaneOutcome
from aioexec.execution.programs.linking import LinkedRegion, address_of
from aioexec.execution.programs.trace import Trace
from aioexec.planning.layout.variant import Task

if TYPE_CHECKING:
    from aioexec.devices.threads.workers import Workers
    from aioexec.planning.layout.variant import Variant

Array = np.ndarray[Any, Any]


class RegionFrame(Protocol):
    """The part of `Frame` that an execution uses."""

    words: Array
    regions: dict[int, RegionRun]


class RegionProgram(Protocol):
    """The part of `Program` that an execution uses."""

    variant: Variant
    walker: Walker
    workers: Workers
    parallel_regions: dict[int, LinkedRegion]


class RegionRun:
    """The executions of a region in one frame, one after another. While a helper is in it, the run and its memory stay alive.

    Constant: `link`, `words` (those of the frame), `_helpers` (how many there may be), `_team` (the data of the region for
    machine code). Changing: `state`, which machine code reads and writes; `_frames`, a row for the owner and one for each
    helper; `_limit`, the position in program order of the first row that failed, None before.
    """

    def __init__(self, program: RegionProgram, link: LinkedRegion, words: Array) -> None:
        region, variant = link.region, program.variant
        self.link = link
        self.words = words
        self.state = link.state.copy()
        self._walker = program.walker
        self._workers = program.workers
        self._limit: int | None = None
        self._helpers = min(program.workers.count, len(region.tasks), region.lanes) - 1
        self._frames = np.zeros((self._helpers + 1, len(words)), np.int64)
        self._team = np.zeros(team.HEADER + self._helpers, np.int64)
        self._team[: team.ALONE] = (
            0,
            address_of(link.state),
            address_of(self.state),
            len(self.state),
            len(words),
            HEADER + variant.lane_slot,
            int(words[HEADER + variant.arena_slot]) + region.scratch,
            region.lane_bytes,
            self._helpers,
            address_of(self._frames),
        )

    def execute(self, until: int = ENDLESS) -> int:
        """Begin or continue as the owner: DONE; CANCELLED; FAILED, with the row and its status in the frame; or PAUSED.

        A region is PAUSED when the time is over, or when it is stopped: `execute` must then be called without a deadline, in a
        thread that may wait until the helpers have left.
        """
        self._limit = None
        outcome = LaneOutcome.CALL  # of a walk, perhaps, that has begun the region
        while outcome == LaneOutcome.CALL:
            self._workers.wake_up(self._helpers)
            outcome = self._walker.team_released(self.words, self._team, self._workers.waiting, until)
        if outcome == LaneOutcome.OVER:
            self._team[team.BEGUN] = 0
            return self._stopped_in(self._frames[0])
        return outcome

    def cancel(self) -> None:
        """Make all lanes stop before their next row; the frame's word is set already."""
        self._frames[:, walking.CANCEL] = 1

    @property
    def team_address(self) -> int:
        """Where walks find the data of the region."""
        return address_of(self._team)

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

    def note_threads(self, trace: Trace) -> None:
        """Record which thread has run each row."""
        native = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for task, word in self._tasks():
            if (thread := native.get(int(word[region_state.BY]))) is not None:
                trace.threads[task.start : task.end] = thread


def region_run(program: RegionProgram, frame: RegionFrame, row: int) -> RegionRun:
    """The executions of the region at a row of a program, in a frame; made on first use."""
    found = frame.regions.get(row)
    if found is None:
        found = frame.regions[row] = RegionRun(program, program.parallel_regions[row], frame.words)
        frame.words[found.link.word] = found.team_address
    return found
