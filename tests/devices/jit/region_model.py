"""Parallel regions for exploration: the walker's own IR with owners and helpers in small memory.

The IR is that of `walker.emit`, with loops that count or measure time cut to one iteration. The Python part of the protocol is
written here as IR too; a comment names the Python function that each IR function models.

A task is two rows: the first writes to its lane's memory, the second reads it there, adds the results of the tasks before it
and writes its own, which must be 0 before.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from unittest import mock

from aioexec.devices.jit import walker
from aioexec.devices.threads import parallel_region, spinning, team
from tests.devices.jit.exploration import explore
from tests.devices.jit.llvm_machine import FaultError, Machine, Memory, State
from tests.devices.jit.llvm_text import parse

PYTHON = f"""
; RegionRun.execute, to the outcome of machine code; that it wakes threads is not modelled.
define i64 @execute(ptr %words, ptr %team, ptr %looked, i64 %until) {{
entry:
  br label %again
again:
  %outcome = call i64 @team(ptr %words, ptr %team, ptr %looked, i64 %until)
  %is.call = icmp eq i64 %outcome, {parallel_region.LaneOutcome.CALL}
  br i1 %is.call, label %again, label %exit
exit:
  ret i64 %outcome
}}

; RegionRun.execute in slices, by ProgramRun; a region that is stopped continues without a deadline, in a worker, to which the
; loop's thread hands it over.
define void @loop_owner(ptr %words, ptr %team, ptr %looked, ptr %state, i64 %regions) {{
entry:
  br label %begin
begin:
  %region = phi i64 [ 0, %entry ], [ %region.1, %reuse ]
  %more = icmp ult i64 %region, %regions
  br i1 %more, label %slice, label %exit
slice:
  %outcome = call i64 @execute(ptr %words, ptr %team, ptr %looked, i64 0)
  %is.done = icmp eq i64 %outcome, {parallel_region.LaneOutcome.DONE}
  br i1 %is.done, label %done, label %paused
paused:
  %stopped.at = getelementptr i64, ptr %state, i64 {parallel_region.STOPPED}
  %stopped = load atomic i64, ptr %stopped.at monotonic, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  br i1 %is.stopped, label %hand.over, label %slice
hand.over:
  call void @wait_to_the_end(ptr %words, ptr %team, ptr %looked)
  br label %reuse
done:
  call void @check_done(ptr %team)
  br label %reuse
reuse:
  call void @reuse(ptr %team)
  %region.1 = add i64 %region, 1
  br label %begin
exit:
  ret void
}}

; RegionRun.execute in a worker; DONE, or it has been stopped.
define void @wait_to_the_end(ptr %words, ptr %team, ptr %looked) {{
entry:
  %outcome = call i64 @execute(ptr %words, ptr %team, ptr %looked, i64 {parallel_region.ENDLESS})
  %is.done = icmp eq i64 %outcome, {parallel_region.LaneOutcome.DONE}
  br i1 %is.done, label %done, label %stopped
done:
  call void @check_done(ptr %team)
  ret void
stopped:
  call void @check_stopped(ptr %team)
  store i64 0, ptr %team
  ret void
}}

; A whole region in a worker.
define void @worker_owner(ptr %words, ptr %team, ptr %looked, i64 %regions) {{
entry:
  br label %begin
begin:
  %region = phi i64 [ 0, %entry ], [ %region.1, %again ]
  %more = icmp ult i64 %region, %regions
  br i1 %more, label %again, label %exit
again:
  call void @wait_to_the_end(ptr %words, ptr %team, ptr %looked)
  call void @reuse(ptr %team)
  %region.1 = add i64 %region, 1
  br label %begin
exit:
  ret void
}}

; SpinningQueue.get, which looks once.
define void @helper(ptr %looked) {{
  %ignored = call i64 @serve(ptr %looked, i64 1)
  ret void
}}

; ProgramRun.finish: a run that a worker has to end, with a step that may be cancelled (Job.result, Walk.cancel). The words
; of the job: 1, it is put; 2, there is none; and 1, it is done.
define void @handing_over(ptr %words, ptr %team, ptr %looked, ptr %job, i64 %helpers) {{
entry:
  %done.at = getelementptr i64, ptr %job, i64 1
  %outcome = call i64 @execute(ptr %words, ptr %team, ptr %looked, i64 0)
  %is.done = icmp eq i64 %outcome, {parallel_region.LaneOutcome.DONE}
  br i1 %is.done, label %done, label %choose
done:
  store atomic i64 2, ptr %job seq_cst, align 8
  call void @check_done(ptr %team)
  br label %over
choose:
  %when = call i64 @choose()
  %is.first = icmp eq i64 %when, 1
  br i1 %is.first, label %cancel.first, label %put
cancel.first:
  call void @cancel(ptr %words, ptr %team, i64 %helpers)
  store atomic i64 1, ptr %job seq_cst, align 8
  br label %wait
put:
  store atomic i64 1, ptr %job seq_cst, align 8
  %is.cancelled = call i64 @choose()
  %cancels = icmp eq i64 %is.cancelled, 1
  br i1 %cancels, label %cancel, label %wait
cancel:
  call void @cancel(ptr %words, ptr %team, i64 %helpers)
  br label %wait
wait:
  %finished = load atomic i64, ptr %done.at seq_cst, align 8
  %is.finished = icmp ne i64 %finished, 0
  br i1 %is.finished, label %over, label %wait
over:
  call void @reuse(ptr %team)
  ret void
}}

; Worker threads: the job of `handing_over`. Walk.released executes a region that has begun even if all is cancelled.
define void @taking_over(ptr %words, ptr %team, ptr %looked, ptr %job) {{
entry:
  br label %get
get:
  %put = load atomic i64, ptr %job seq_cst, align 8
  switch i64 %put, label %get [
    i64 1, label %owner
    i64 2, label %exit
  ]
owner:
  call void @wait_to_the_end(ptr %words, ptr %team, ptr %looked)
  %done.at = getelementptr i64, ptr %job, i64 1
  store atomic i64 1, ptr %done.at seq_cst, align 8
  ret void
exit:
  ret void
}}

; A helper that is in the first place, and whose owner waits for it before it searches for tasks itself.
define void @helper_first(ptr %words, ptr %team, ptr %looked) {{
  call void @set_up(ptr %team, ptr %words)
  call void @open(ptr %team, ptr %looked)
  %place = getelementptr i64, ptr %looked, i64 {spinning.HEADER}
  %entered = atomicrmw sub ptr %place, i64 1 seq_cst
  call void @help(ptr %team, ptr %place, ptr %looked)
  call void @check_untouched(ptr %team)
  call void @wait_to_the_end(ptr %words, ptr %team, ptr %looked)
  ret void
}}

; Walk.cancel, then RegionRun.cancel.
define void @cancel(ptr %words, ptr %team, i64 %helpers) {{
entry:
  %first.at = getelementptr i64, ptr %words, i64 {walker.CANCEL}
  store atomic i64 1, ptr %first.at monotonic, align 8
  br label %next
next:
  %lane = phi i64 [ 0, %entry ], [ %lane.1, %next ]
  %frame = call ptr @frame_of(ptr %team, i64 %lane)
  %cancel.at = getelementptr i64, ptr %frame, i64 {walker.CANCEL}
  store atomic i64 1, ptr %cancel.at monotonic, align 8
  %lane.1 = add i64 %lane, 1
  %more = icmp ule i64 %lane.1, %helpers
  br i1 %more, label %next, label %exit
exit:
  ret void
}}

; SpinningQueue.put of a job, which another thread takes.
define void @put(ptr %looked) {{
  store atomic i64 1, ptr %looked monotonic, align 8
  store atomic i64 0, ptr %looked monotonic, align 8
  ret void
}}
"""
_LONG_AGO, _LATE = 0, 1 << 60
FIRST_ROW, SECOND_ROW, FAILING_ROW = 101, 102, 103


def portable_text() -> str:
    """The walker's IR without instructions that only some machines have."""
    with mock.patch.object(platform, "machine", return_value="any"):
        return walker.emit()


def walker_text() -> str:
    """The same, with every spin loop cut to one iteration."""
    with mock.patch.object(parallel_region, "SPINS", 0):
        text = portable_text()
    text = changed(text, "%looks.1 = add i64 %looks, 1", "%looks.1 = or i64 %looks, 1")
    return changed(text, f"icmp ugt i64 %n.1, {spinning.PAUSES}", "icmp ugt i64 %n.1, 0")


def changed(text: str, old: str, new: str) -> str:
    """A text in which something that occurs once is replaced."""
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    return text.replace(old, new)


class Region:
    """The memory of one run's region.

    Args:
        successors: for each task, the tasks that wait for it.
        helpers: the number of helpers that may be in the region.
        failing: a task whose second row fails.
    """

    def __init__(
        self, memory: Memory, successors: Sequence[Sequence[int]], helpers: int, failing: int | None = None
    ) -> None:
        count = len(successors)
        self.count, self.helpers, self.failing = count, helpers, failing
        self.results = memory.allocate([0] * count)
        lanes = memory.allocate([0] * (helpers + 1))
        rows = []
        for task in range(count):
            before = [k for k in range(count) if task in successors[k]]
            block = memory.allocate([task, self.results, len(before), *before], constant=True)
            rows += [FIRST_ROW, block, 1, 0]
            rows += [FAILING_ROW if task == failing else SECOND_ROW, block, 1, 0]
        rows_at = memory.allocate(rows, constant=True)
        table: list[int] = []
        flat: list[int] = []
        for task, after in enumerate(successors):
            table += [2 * task, 2 * task + 2, len(flat), len(flat) + len(after)]
            flat += after
        tasks_at = memory.allocate(table, constant=True)
        flat_at = memory.allocate(flat or [0], constant=True)
        template = [count, 0, 0, count, tasks_at, flat_at, 0]
        for task in range(count):
            template += [sum(task in after for after in successors), 0, 0, 0]
        template_at = memory.allocate(template, constant=True)
        self.state = memory.allocate([0] * len(template))
        frame = [0] * (walker.HEADER + 1)
        frame[walker.ROWS], frame[walker.ROW_COUNT] = rows_at, 2 * count
        self.words = memory.allocate(frame)
        frames = memory.allocate([0] * (len(frame) * (helpers + 1)))
        self.frames_of_lanes = [frames + 8 * len(frame) * lane for lane in range(helpers + 1)]
        self.team = memory.allocate(
            [
                *(
                    0,
                    template_at,
                    self.state,
                    len(template),
                    len(frame),
                    walker.HEADER,
                    lanes,
                    8,
                    helpers,
                    frames,
                    0,
                ),
                *[0] * helpers,
            ]
        )
        self.expected: list[int] = []
        for task in range(count):
            self.expected.append(
                task + 1 + sum(self.expected[k] for k in range(task) if task in successors[k])
            )


class Model:
    """Threads in regions: at their end every place is free, and no thread spins.

    Args:
        text: the IR, perhaps changed.
    """

    def __init__(self, places: int = 1, text: str | None = None) -> None:
        self.memory = Memory()
        self.looked = self.memory.allocate([0, 0, 0, 0, places] + [0] * (spinning.PLACE_WORDS * places))
        self.places = places
        self._text = (text or walker_text()) + PYTHON
        self._regions: dict[int, Region] = {}
        self._threads: list[tuple[str, tuple[int, ...]]] = []

    def region(
        self, successors: Sequence[Sequence[int]], helpers: int = 1, failing: int | None = None
    ) -> Region:
        region = Region(self.memory, successors, helpers, failing)
        self._regions[region.team] = region
        return region

    def thread(self, function: str, *arguments: int) -> None:
        self._threads.append((function, arguments))

    def intrinsics(self) -> dict[str, Callable[..., int | None]]:
        return {
            "clock": lambda machine: _LATE if machine.choose() else _LONG_AGO,
            "clock_at_begin": lambda machine: _LONG_AGO,
            "clock_late": lambda machine: _LATE,
            "choose": lambda machine: machine.choose(),
            "sched_yield": lambda machine: 0,
            "usleep": lambda machine, microseconds: 0,
            "pthread_self": lambda machine: 0,
            "memcpy": _memcpy,
            "kernel": self._kernel,
            "check_done": self._check_done,
            "check_stopped": self._check_stopped,
            "check_untouched": self._check_untouched,
            "reuse": self._reuse,
        }

    def explore(self) -> int:
        """Return how many states there are; see `exploration.explore`."""
        text = self._text
        stays = self.memory.allocate([-1], constant=True)
        text = text.replace("ptr @owner,", f"ptr {stays},")
        text = changed(text, "%began = call i64 @clock()", "%began = call i64 @clock_at_begin()")
        text = changed(text, "%first = call i64 @clock()", "%first = call i64 @clock_at_begin()")
        text = changed(text, "%then = call i64 @clock()", "%then = call i64 @clock_late()")
        functions = {
            name: function
            for name, function in parse(text).items()
            if not name.endswith(("_released", "_inline", "_traced", "clock"))
        }
        machine = Machine(functions, self.intrinsics(), frozenset(self.memory.constant))
        threads = tuple(machine.call(name, *arguments) for name, arguments in self._threads)
        return explore(machine, State(tuple(self.memory.words), threads), self._check_end)

    @staticmethod
    def _kernel(machine: Machine, kernel: int, block: int, frame: int) -> int:
        """A row of a task."""
        task, results, count = (machine.load(block + 8 * k) for k in range(3))
        lane = machine.load(frame + 8 * walker.HEADER)
        if kernel == FIRST_ROW:
            machine.store(task, lane)
            return 0
        if machine.load(lane) != task:
            raise FaultError(f"another task wrote into the lane of task {task}")
        if kernel == FAILING_ROW:
            return 1
        before = [machine.load(results + 8 * machine.load(block + 8 * (3 + k))) for k in range(count)]
        if machine.load(results + 8 * task):
            raise FaultError(f"task {task} is done twice")
        if not all(before):
            raise FaultError(f"task {task} is done before what it waits for")
        machine.store(task + 1 + sum(before), results + 8 * task)
        return 0

    def _check_done(self, machine: Machine, at: int) -> None:
        region = self._regions[at]
        found = [machine.load(region.results + 8 * k) for k in range(region.count)]
        if found != region.expected:
            raise FaultError(f"expected the results {region.expected}, got {found}")

    def _check_untouched(self, machine: Machine, at: int) -> None:
        region = self._regions[at]
        if any(machine.load(region.results + 8 * k) for k in range(region.count)):
            raise FaultError("a task is done")

    def _check_stopped(self, machine: Machine, at: int) -> None:
        """Every result is complete, and no thread is in the region: Python reads the words of the state now."""
        region = self._regions[at]
        for k in range(region.count):
            if machine.load(region.results + 8 * k) not in (0, region.expected[k]):
                raise FaultError("a result is neither there nor not")
            for word in range(parallel_region.TASK_WORDS):
                machine.load(
                    region.state + 8 * (parallel_region.HEADER + parallel_region.TASK_WORDS * k + word)
                )

    def _reuse(self, machine: Machine, at: int) -> None:
        """The run is over: its memory serves others, which write it."""
        region = self._regions[at]
        begin, end = region.results >> 3, (region.team >> 3) + team.HEADER + region.helpers
        for word in range(begin, end):
            if machine.memory[word] is not None and word not in self.memory.constant:
                is_result = word < begin + region.count
                machine.store(0 if is_result else machine.memory[word] or 0, word * 8)

    def _check_end(self, state: State) -> None:
        looked = state.memory[self.looked >> 3 :]
        assert looked[spinning.SPINNERS] == 0, "no thread spins any more"
        places = looked[spinning.HEADER : spinning.HEADER + self.places]
        assert set(places) <= {spinning.FREE}, f"places are left behind: {places}"
        for region in self._regions.values():
            cancelled = [
                state.memory[(at >> 3) + walker.CANCEL] for at in (region.words, *region.frames_of_lanes)
            ]
            assert not cancelled[0] or all(cancelled), "a lane is not cancelled"


def _memcpy(machine: Machine, to: int, source: int, count: int) -> None:
    for offset in range(0, count, 8):
        machine.store(machine.load(source + offset), to + offset)
