"""Regions of a worker whose guests come by the queue of the pool (`execution.forks.ForkRun`), for exploration.

The tasks are done by the walker's own IR, as in `region_model`. What Python does between is IR here; what it does in one go
under the interpreter's lock is an atomic access. A guest gets entries of the queue until the host has closed it.

    words of a fork: its lock; `_still`, 1 while it is held; how many frames there are; how many are idle; the addresses of the
    state, the words of the run, the frames, and the first lane; the most lanes; then the idle frames
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aioexec.devices.jit import strands, walker
from tests.devices.jit.llvm_machine import BlockedError, Machine
from tests.devices.jit.region_model import Model, Region

_FRAME = walker.HEADER + 1
FORKS = f"""
; ForkRun._enter
define ptr @fork_enter(ptr %fork) {{
entry:
  call void @lock(ptr %fork)
  %state = call ptr @pad_pointer(ptr %fork, i64 4)
  %stopped.at = getelementptr i64, ptr %state, i64 {strands.STOPPED}
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %left = load atomic i64, ptr %state seq_cst, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  %is.over = icmp eq i64 %left, 0
  %is.none = or i1 %is.stopped, %is.over
  br i1 %is.none, label %refuse, label %look
look:
  %idle.at = getelementptr i64, ptr %fork, i64 3
  %idle = load atomic i64, ptr %idle.at seq_cst, align 8
  %has.idle = icmp ugt i64 %idle, 0
  br i1 %has.idle, label %pop, label %fresh
pop:
  %idle.1 = sub i64 %idle, 1
  store atomic i64 %idle.1, ptr %idle.at seq_cst, align 8
  %index = add i64 %idle.1, 9
  %popped = call ptr @pad_pointer(ptr %fork, i64 %index)
  call void @unlock(ptr %fork)
  ret ptr %popped
fresh:
  %count.at = getelementptr i64, ptr %fork, i64 2
  %count = load atomic i64, ptr %count.at seq_cst, align 8
  %most = call i64 @pad_word(ptr %fork, i64 8)
  %is.full = icmp eq i64 %count, %most
  br i1 %is.full, label %refuse, label %make
make:
  %frames = call ptr @pad_pointer(ptr %fork, i64 6)
  %begin = mul i64 %count, {_FRAME}
  %frame = getelementptr i64, ptr %frames, i64 %begin
  %words = call ptr @pad_pointer(ptr %fork, i64 5)
  call void @copy_words(ptr %frame, ptr %words, i64 {_FRAME})
  %lanes = call i64 @pad_word(ptr %fork, i64 7)
  %offset = mul i64 %count, 8
  %memory = add i64 %lanes, %offset
  %lane.at = getelementptr i64, ptr %frame, i64 {walker.HEADER}
  store i64 %memory, ptr %lane.at
  %count.1 = add i64 %count, 1
  store atomic i64 %count.1, ptr %count.at seq_cst, align 8
  call void @unlock(ptr %fork)
  ret ptr %frame
refuse:
  call void @unlock(ptr %fork)
  ret ptr null
}}

; ForkRun._move, under the lock
define void @fork_move(ptr %fork) {{
entry:
  %still.at = getelementptr i64, ptr %fork, i64 1
  %still = load atomic i64, ptr %still.at seq_cst, align 8
  %is.held = icmp ne i64 %still, 0
  br i1 %is.held, label %release, label %exit
release:
  call void @unlock(ptr %still.at)
  ret void
exit:
  ret void
}}

; ForkRun._leave
define void @fork_leave(ptr %fork, ptr %frame) {{
  call void @lock(ptr %fork)
  %idle.at = getelementptr i64, ptr %fork, i64 3
  %idle = load atomic i64, ptr %idle.at seq_cst, align 8
  %index = add i64 %idle, 9
  %frame.at = getelementptr ptr, ptr %fork, i64 %index
  store ptr %frame, ptr %frame.at
  %idle.1 = add i64 %idle, 1
  store atomic i64 %idle.1, ptr %idle.at seq_cst, align 8
  call void @fork_move(ptr %fork)
  call void @unlock(ptr %fork)
  ret void
}}

; ForkRun.host; `close` ends the guests, which is not Python's.
define void @fork_host(ptr %fork, ptr %pad, ptr %queue, i64 %invited, i64 %closes) {{
entry:
  %frame = call ptr @fork_enter(ptr %fork)
  %at.first = atomicrmw add ptr %queue, i64 %invited seq_cst
  %state = call ptr @pad_pointer(ptr %fork, i64 4)
  %still.at = getelementptr i64, ptr %fork, i64 1
  %stopped.at = getelementptr i64, ptr %state, i64 {strands.STOPPED}
  br label %share
share:
  %shift = call i64 @lane(ptr %frame, ptr %state, ptr @host, i64 {strands.ENDLESS})
  switch i64 %shift, label %look [
    i64 {strands.Shift.DONE}, label %leave
    i64 {strands.Shift.CALL}, label %call
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
  call void @fork_leave(ptr %fork, ptr %frame)
  %left = load atomic i64, ptr %state seq_cst, align 8
  %is.done = icmp eq i64 %left, 0
  br i1 %is.done, label %done, label %count
count:
  %idle.at = getelementptr i64, ptr %fork, i64 3
  %idle = load atomic i64, ptr %idle.at seq_cst, align 8
  %count.at = getelementptr i64, ptr %fork, i64 2
  %count = load atomic i64, ptr %count.at seq_cst, align 8
  %somebody = icmp ult i64 %idle, %count
  br i1 %somebody, label %rest, label %stopped.all
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

; Workers._work, with ForkRun.run as the only job.
define void @fork_guest(ptr %fork, ptr %queue, ptr %looked) {{
entry:
  %state = call ptr @pad_pointer(ptr %fork, i64 4)
  br label %get
get:
  %got = call i64 @take(ptr %queue)
  %is.one = icmp ne i64 %got, 0
  br i1 %is.one, label %enter, label %exit
enter:
  %frame = call ptr @fork_enter(ptr %fork)
  %is.none = icmp eq ptr %frame, null
  br i1 %is.none, label %get, label %share
share:
  %shift = call i64 @lane(ptr %frame, ptr %state, ptr %looked, i64 {strands.ENDLESS})
  call void @linger(i64 %shift, ptr %state, ptr %looked)
  switch i64 %shift, label %leave [
    i64 {strands.Shift.CALL}, label %call
    i64 {strands.Shift.WANTED}, label %wanted
  ]
call:
  call void @lock(ptr %fork)
  call void @fork_move(ptr %fork)
  call void @unlock(ptr %fork)
  %more = atomicrmw add ptr %queue, i64 1 seq_cst
  br label %share
leave:
  call void @fork_leave(ptr %fork, ptr %frame)
  br label %get
wanted:
  call void @fork_leave(ptr %fork, ptr %frame)
  %again = atomicrmw add ptr %queue, i64 1 seq_cst
  br label %get
exit:
  ret void
}}
"""


class ForkModel(Model):
    """One region by a host and guests; see `Model`."""

    def __init__(
        self,
        tasks: Sequence[Sequence[int]],
        guests: int = 1,
        failing: int | None = None,
        python: str = FORKS,
    ) -> None:
        super().__init__(0)
        self._text += python
        region = self.region(tasks, guests, failing)
        queue = self.memory.allocate([0, 0])
        template = self.memory.words[region.template_at >> 3 :][: strands.HEADER + 4 * len(tasks)]
        for place, word in enumerate(template):
            self.memory.words[(region.state >> 3) + place] = word
        addresses = (region.state, region.words, region.frames, region.lanes, guests + 1)
        fork = self.memory.allocate([0, 1, 0, 0, *addresses, *[0] * (guests + 1)])
        self.thread("fork_host", fork, region.pad, queue, guests, 1)
        for _ in range(guests):
            self.thread("fork_guest", fork, queue, self.looked)

    def intrinsics(self) -> dict[str, Callable[..., int | None]]:
        return super().intrinsics() | {
            "lock": _lock,
            "unlock": lambda machine, lock: machine.store_atomic(0, lock, True),
            "take": _take,
            "reuse_run": self._reuse_run,
        }

    def _reuse_run(self, machine: Machine, pad: int) -> None:
        """The memory of the run serves others; state and frames are the fork's."""
        region: Region = self._regions[pad]
        for address, count in ((region.results, region.count), (region.lanes, region.guests + 1)):
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
