"""Regions of a worker whose helpers come by the queue of the pool (`execution.parallel_regions.RegionRun`), for exploration.

The tasks are executed by the walker's own IR, as in `region_model`. The Python code between them is modelled as IR; an
operation that is atomic under the interpreter lock is an atomic access. A helper takes entries of the queue until the owner
has closed it.

    words of a run: its lock; `_still`, 1 while it is held; how many frames there are; how many are idle; the addresses
    of the state, the words of the run, the frames, and the first lane; the most lanes; then the idle frames
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aioexec.devices.jit import walker
from aioexec.devices.threads import parallel_region
from tests.devices.jit.llvm_machine import BlockedError, Machine
from tests.devices.jit.region_model import Model, Region

_FRAME = walker.HEADER + 1
REGION_RUN = f"""
; RegionRun._enter
define ptr @run_enter(ptr %run) {{
entry:
  call void @lock(ptr %run)
  %state = call ptr @pad_pointer(ptr %run, i64 4)
  %stopped.at = getelementptr i64, ptr %state, i64 {parallel_region.STOPPED}
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %left = load atomic i64, ptr %state seq_cst, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  %is.over = icmp eq i64 %left, 0
  %is.none = or i1 %is.stopped, %is.over
  br i1 %is.none, label %refuse, label %look
look:
  %idle.at = getelementptr i64, ptr %run, i64 3
  %idle = load atomic i64, ptr %idle.at seq_cst, align 8
  %has.idle = icmp ugt i64 %idle, 0
  br i1 %has.idle, label %pop, label %fresh
pop:
  %idle.1 = sub i64 %idle, 1
  store atomic i64 %idle.1, ptr %idle.at seq_cst, align 8
  %index = add i64 %idle.1, 9
  %popped = call ptr @pad_pointer(ptr %run, i64 %index)
  call void @unlock(ptr %run)
  ret ptr %popped
fresh:
  %count.at = getelementptr i64, ptr %run, i64 2
  %count = load atomic i64, ptr %count.at seq_cst, align 8
  %most = call i64 @pad_word(ptr %run, i64 8)
  %is.full = icmp eq i64 %count, %most
  br i1 %is.full, label %refuse, label %make
make:
  %frames = call ptr @pad_pointer(ptr %run, i64 6)
  %begin = mul i64 %count, {_FRAME}
  %frame = getelementptr i64, ptr %frames, i64 %begin
  %words = call ptr @pad_pointer(ptr %run, i64 5)
  call void @copy_words(ptr %frame, ptr %words, i64 {_FRAME})
  %lanes = call i64 @pad_word(ptr %run, i64 7)
  %offset = mul i64 %count, 8
  %memory = add i64 %lanes, %offset
  %lane.at = getelementptr i64, ptr %frame, i64 {walker.HEADER}
  store i64 %memory, ptr %lane.at
  %count.1 = add i64 %count, 1
  store atomic i64 %count.1, ptr %count.at seq_cst, align 8
  call void @unlock(ptr %run)
  ret ptr %frame
refuse:
  call void @unlock(ptr %run)
  ret ptr null
}}

; RegionRun._move, under the lock
define void @run_move(ptr %run) {{
entry:
  %still.at = getelementptr i64, ptr %run, i64 1
  %still = load atomic i64, ptr %still.at seq_cst, align 8
  %is.held = icmp ne i64 %still, 0
  br i1 %is.held, label %release, label %exit
release:
  call void @unlock(ptr %still.at)
  ret void
exit:
  ret void
}}

; RegionRun._leave
define void @run_leave(ptr %run, ptr %frame) {{
  call void @lock(ptr %run)
  %idle.at = getelementptr i64, ptr %run, i64 3
  %idle = load atomic i64, ptr %idle.at seq_cst, align 8
  %index = add i64 %idle, 9
  %frame.at = getelementptr ptr, ptr %run, i64 %index
  store ptr %frame, ptr %frame.at
  %idle.1 = add i64 %idle, 1
  store atomic i64 %idle.1, ptr %idle.at seq_cst, align 8
  call void @run_move(ptr %run)
  call void @unlock(ptr %run)
  ret void
}}

; RegionRun.execute; `close` ends the helpers, which is not Python's.
define void @run_owner(ptr %run, ptr %pad, ptr %queue, i64 %offered, i64 %closes) {{
entry:
  %frame = call ptr @run_enter(ptr %run)
  %at.first = atomicrmw add ptr %queue, i64 %offered seq_cst
  %state = call ptr @pad_pointer(ptr %run, i64 4)
  %still.at = getelementptr i64, ptr %run, i64 1
  %stopped.at = getelementptr i64, ptr %state, i64 {parallel_region.STOPPED}
  br label %share
share:
  %outcome = call i64 @lane(ptr %frame, ptr %state, ptr @owner, i64 {parallel_region.ENDLESS})
  switch i64 %outcome, label %look [
    i64 {parallel_region.LaneOutcome.DONE}, label %leave
    i64 {parallel_region.LaneOutcome.CALL}, label %call
  ]
call:
  %more = atomicrmw add ptr %queue, i64 1 seq_cst
  br label %share
look:
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  br i1 %is.stopped, label %leave, label %wait
wait:
  call void @lock(ptr %still.at)
  br label %share
leave:
  call void @run_leave(ptr %run, ptr %frame)
  %left = load atomic i64, ptr %state seq_cst, align 8
  %is.done = icmp eq i64 %left, 0
  br i1 %is.done, label %done, label %count
count:
  %idle.at = getelementptr i64, ptr %run, i64 3
  %idle = load atomic i64, ptr %idle.at seq_cst, align 8
  %count.at = getelementptr i64, ptr %run, i64 2
  %count = load atomic i64, ptr %count.at seq_cst, align 8
  %is.used = icmp ult i64 %idle, %count
  br i1 %is.used, label %rest, label %stopped.all
rest:
  call void @lock(ptr %still.at)
  br label %count
done:
  call void @check_done(ptr %pad)
  br label %over
stopped.all:
  call void @check_stopped(ptr %pad)
  br label %over
over:
  call void @reuse_run(ptr %pad)
  %close.at = getelementptr i64, ptr %queue, i64 1
  store atomic i64 %closes, ptr %close.at seq_cst, align 8
  ret void
}}

; Workers._work, with RegionRun.run as the only job.
define void @run_helper(ptr %run, ptr %queue, ptr %looked) {{
entry:
  %state = call ptr @pad_pointer(ptr %run, i64 4)
  br label %get
get:
  %got = call i64 @take(ptr %queue)
  %is.one = icmp ne i64 %got, 0
  br i1 %is.one, label %enter, label %exit
enter:
  %frame = call ptr @run_enter(ptr %run)
  %is.none = icmp eq ptr %frame, null
  br i1 %is.none, label %get, label %share
share:
  %outcome = call i64 @lane(ptr %frame, ptr %state, ptr %looked, i64 {parallel_region.ENDLESS})
  call void @linger(i64 %outcome, ptr %state, ptr %looked)
  switch i64 %outcome, label %leave [
    i64 {parallel_region.LaneOutcome.CALL}, label %call
    i64 {parallel_region.LaneOutcome.WANTED}, label %wanted
  ]
call:
  call void @lock(ptr %run)
  call void @run_move(ptr %run)
  call void @unlock(ptr %run)
  %more = atomicrmw add ptr %queue, i64 1 seq_cst
  br label %share
leave:
  call void @run_leave(ptr %run, ptr %frame)
  br label %get
wanted:
  call void @run_leave(ptr %run, ptr %frame)
  %again = atomicrmw add ptr %queue, i64 1 seq_cst
  br label %get
exit:
  ret void
}}
"""


class QueuedRegionModel(Model):
    """One region by an owner and helpers; see `Model`."""

    def __init__(
        self,
        tasks: Sequence[Sequence[int]],
        helpers: int = 1,
        failing: int | None = None,
        python: str = REGION_RUN,
    ) -> None:
        super().__init__(0)
        self._text += python
        region = self.region(tasks, helpers, failing)
        queue = self.memory.allocate([0, 0])
        template = self.memory.words[region.template_at >> 3 :][: parallel_region.HEADER + 4 * len(tasks)]
        for place, word in enumerate(template):
            self.memory.words[(region.state >> 3) + place] = word
        addresses = (region.state, region.words, region.frames, region.lanes, helpers + 1)
        run = self.memory.allocate([0, 1, 0, 0, *addresses, *[0] * (helpers + 1)])
        self.thread("run_owner", run, region.pad, queue, helpers, 1)
        for _ in range(helpers):
            self.thread("run_helper", run, queue, self.looked)

    def intrinsics(self) -> dict[str, Callable[..., int | None]]:
        return super().intrinsics() | {
            "lock": _lock,
            "unlock": lambda machine, lock: machine.store_atomic(0, lock, True),
            "take": _take,
            "reuse_run": self._reuse_run,
        }

    def _reuse_run(self, machine: Machine, pad: int) -> None:
        """The memory of the run serves others; state and frames are the region's."""
        region: Region = self._regions[pad]
        for address, count in ((region.results, region.count), (region.lanes, region.helpers + 1)):
            for k in range(count):
                machine.store(0, address + 8 * k)


def _lock(machine: Machine, lock: int) -> None:
    if machine.load_atomic(lock):
        raise BlockedError
    machine.store_atomic(1, lock, False)


def _take(machine: Machine, queue: int) -> int:
    entries, is_closed = machine.load_atomic(queue), machine.load_atomic(queue + 8)
    if not entries and not is_closed:
        raise BlockedError
    if not entries:
        return 0
    machine.rmw("sub", queue, 1)
    return 1
