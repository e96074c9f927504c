"""Machine code by which one thread of a team executes tasks of a parallel region, each of which depends on some of the others.

The state of one execution is an array of words: a header, then four words for each task.

    word 0  tasks that are not done
    word 1  1: a task has failed or was cancelled; no further task is begun
    word 2  1: tasks have become ready in a closed region; the owner wakes threads
    word 3  number of tasks
    word 4  address of the task table, four words a task: first row, row behind the last, first and end of its successors
    word 5  address of the successors: numbers of tasks, grouped by the task that they wait for
    word 6  address of the word by which helpers enter the region (see `spinning`)

    task  word 0  how many tasks it waits for; -1: a thread has claimed it
          word 1  the row it has reached
          word 2  the thread that has executed it
          word 3  status of the row that failed

Each thread has a frame of its own, a copy of the program's. It repeats:

 1. Claim the first ready task by a compare-and-swap of the task's word 0.
 2. Execute it.
 3. Decrement word 0 of its successors. If several became ready, and the region was closed, open it, and request more threads.

A thread that finds no ready task spins for a while. Then a helper closes the region, so that no other one enters in vain,
searches once more, and leaves. So no ready task is overlooked: either the last search finds it, or the thread that made it
ready finds the region closed. The owner stays, or returns, until all tasks are done: the region ends even without helpers.

An event loop that owns the region enters it for a time slice, and leaves when the slice is over. It searches for a task before
it reads the clock, so each slice executes at least one task if one is ready.
"""

from __future__ import annotations

from aioexec.devices.threads.spinning import ENTRIES, HELD, OPEN

HEADER = 7
TASK_WORDS = 4
LEFT, STOPPED, CALLS, COUNT, TASKS, SUCCESSORS, PLACE = range(HEADER)
WAITS, REACHED, BY, STATUS = range(TASK_WORDS)
ENDLESS = 1 << 62
"""A deadline that is never reached."""
SPINS = 500
"""Searches for a ready task before a thread leaves, some 30 µs: waking a thread takes longer."""


class LaneOutcome:
    """Why a thread left a region; the numbers 0, 1 and 2 are those of the walker's `Outcome`. DONE: all tasks are done."""

    DONE = 0
    FAILED = 1
    CANCELLED = 2
    PAUSED = 3  # the deadline has passed
    IDLE = 6  # no task is ready
    CALL = 7  # the owner wakes threads, and enters again
    WANTED = 8  # jobs wait for this worker thread
    OVER = 9  # no further task is begun


# lane(frame, state, waiting, until): execute tasks in one lane until the time `until`. `waiting` holds the number of entries in
# the workers' queue (see `spinning`); a negative number marks the owner, which stays to the end.
LANE = f"""
define internal i64 @lane(ptr %frame, ptr %state, ptr %waiting, i64 %until) {{
entry:
  %stopped.at = getelementptr i64, ptr %state, i64 {STOPPED}
  %calls.at = getelementptr i64, ptr %state, i64 {CALLS}
  %count.at = getelementptr i64, ptr %state, i64 {COUNT}
  %count = load i64, ptr %count.at
  %tasks.at = getelementptr i64, ptr %state, i64 {TASKS}
  %tasks = load ptr, ptr %tasks.at
  %successors.at = getelementptr i64, ptr %state, i64 {SUCCESSORS}
  %successors = load ptr, ptr %successors.at
  %place.at = getelementptr i64, ptr %state, i64 {PLACE}
  %place = load ptr, ptr %place.at
  %waits.at = getelementptr i64, ptr %state, i64 {HEADER}
  %entries.at = getelementptr i64, ptr %waiting, i64 {ENTRIES}
  %entries.first = load atomic i64, ptr %entries.at monotonic, align 8
  %is.owner = icmp slt i64 %entries.first, 0
  %hurries = icmp ne i64 %until, {ENDLESS}
  br label %look
fresh:
  br i1 %is.owner, label %heed, label %look
heed:
  %calls = load atomic i64, ptr %calls.at seq_cst, align 8
  %is.called = icmp ne i64 %calls, 0
  br i1 %is.called, label %call, label %look
call:
  store atomic i64 0, ptr %calls.at seq_cst, align 8
  ret i64 {LaneOutcome.CALL}
look:
  %looks = phi i64 [ 0, %entry ], [ 0, %fresh ], [ 0, %heed ], [ %looks.1, %wait ], [ %looks.2, %close ]
  %is.timed = phi i1 [ 0, %entry ], [ %hurries, %fresh ], [ %hurries, %heed ], [ %hurries, %wait ], [ 0, %close ]
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  br i1 %is.stopped, label %over, label %check
check:
  %entries = load atomic i64, ptr %entries.at monotonic, align 8
  %is.wanted = icmp sgt i64 %entries, 0
  br i1 %is.wanted, label %wanted, label %unwanted
unwanted:
  br i1 %is.timed, label %clocked, label %scan
clocked:
  %now = call i64 @clock()
  %late = icmp sgt i64 %now, %until
  br i1 %late, label %ending, label %scan
ending:
  %still.left = load atomic i64, ptr %state seq_cst, align 8
  %ended = icmp eq i64 %still.left, 0
  br i1 %ended, label %done, label %paused
scan:
  %k = phi i64 [ 0, %unwanted ], [ 0, %clocked ], [ %k.1, %skip ]
  %some = phi i64 [ 0, %unwanted ], [ 0, %clocked ], [ %some.1, %skip ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %weigh, label %none
weigh:
  %word = mul i64 %k, {TASK_WORDS}
  %waits.k = getelementptr i64, ptr %waits.at, i64 %word
  %waits = load atomic i64, ptr %waits.k seq_cst, align 8
  %ready = icmp eq i64 %waits, 0
  br i1 %ready, label %take, label %skip
skip:
  %is.waiting = icmp sgt i64 %waits, 0
  %one = zext i1 %is.waiting to i64
  %some.1 = or i64 %some, %one
  %k.1 = add i64 %k, 1
  br label %scan
take:
  %pair = cmpxchg ptr %waits.k, i64 0, i64 -1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %walk, label %fresh
none:
  %left = load atomic i64, ptr %state seq_cst, align 8
  %is.done = icmp eq i64 %left, 0
  br i1 %is.done, label %done, label %stay
stay:
  %nothing = icmp eq i64 %some, 0
  %is.helper = xor i1 %is.owner, true
  %useless = and i1 %nothing, %is.helper
  br i1 %useless, label %over, label %spin
spin:
  %may.spin = icmp ult i64 %looks, {SPINS}
  %stays = or i1 %may.spin, %hurries
  br i1 %stays, label %wait, label %spun.out
spun.out:
  %has.closed = icmp ugt i64 %looks, {SPINS}
  %leaves = or i1 %has.closed, %is.owner
  br i1 %leaves, label %idle, label %close
close:
  %opened = atomicrmw and ptr %place, i64 {~OPEN} seq_cst
  %looks.2 = add i64 %looks, 1
  br label %look
wait:
  call void @llvm.x86.sse2.pause()
  %looks.1 = add i64 %looks, 1
  br label %look
walk:
  %task = getelementptr i64, ptr %tasks, i64 %word
  %first = load i64, ptr %task
  %end.at = getelementptr i64, ptr %task, i64 1
  %end = load i64, ptr %end.at
  store i64 %first, ptr %frame
  %rows.end.at = getelementptr i64, ptr %frame, i64 5
  store i64 %end, ptr %rows.end.at
  %fuel.at = getelementptr i64, ptr %frame, i64 3
  store i64 {ENDLESS}, ptr %fuel.at
  %outcome = call i64 @walk(ptr %frame)
  %reached.at = getelementptr i64, ptr %waits.k, i64 {REACHED}
  %reached = load i64, ptr %frame
  store i64 %reached, ptr %reached.at
  %by.at = getelementptr i64, ptr %waits.k, i64 {BY}
  %thread = call i64 @pthread_self()
  store i64 %thread, ptr %by.at
  %well = icmp eq i64 %outcome, 0
  br i1 %well, label %notify, label %fail
fail:
  %frame.status.at = getelementptr i64, ptr %frame, i64 1
  %frame.status = load i64, ptr %frame.status.at
  %status.at = getelementptr i64, ptr %waits.k, i64 {STATUS}
  store i64 %frame.status, ptr %status.at
  store atomic i64 1, ptr %stopped.at seq_cst, align 8
  ret i64 %outcome
notify:
  %begin.at = getelementptr i64, ptr %task, i64 2
  %begin = load i64, ptr %begin.at
  %stop.at = getelementptr i64, ptr %task, i64 3
  %stop = load i64, ptr %stop.at
  br label %each
each:
  %s = phi i64 [ %begin, %notify ], [ %s.1, %less ]
  %released = phi i64 [ 0, %notify ], [ %released.1, %less ]
  %another = icmp ult i64 %s, %stop
  br i1 %another, label %less, label %notified
less:
  %successor.at = getelementptr i64, ptr %successors, i64 %s
  %successor = load i64, ptr %successor.at
  %successor.word = mul i64 %successor, {TASK_WORDS}
  %successor.waits = getelementptr i64, ptr %waits.at, i64 %successor.word
  %before = atomicrmw sub ptr %successor.waits, i64 1 seq_cst
  %was.last = icmp eq i64 %before, 1
  %counted = zext i1 %was.last to i64
  %released.1 = add i64 %released, %counted
  %s.1 = add i64 %s, 1
  br label %each
notified:
  %ignored = atomicrmw sub ptr %state, i64 1 seq_cst
  %several = icmp ugt i64 %released, 1
  br i1 %several, label %open, label %fresh
open:
  %place.word = atomicrmw or ptr %place, i64 {OPEN} seq_cst
  %was.closed = icmp ult i64 %place.word, {HELD + OPEN}
  br i1 %was.closed, label %request, label %fresh
request:
  store atomic i64 1, ptr %calls.at seq_cst, align 8
  br label %fresh
done:
  %done.opened = atomicrmw and ptr %place, i64 {~OPEN} seq_cst
  ret i64 {LaneOutcome.DONE}
paused:
  ret i64 {LaneOutcome.PAUSED}
idle:
  ret i64 {LaneOutcome.IDLE}
wanted:
  ret i64 {LaneOutcome.WANTED}
over:
  %last.opened = atomicrmw and ptr %place, i64 {~OPEN} seq_cst
  ret i64 {LaneOutcome.OVER}
}}
"""
