"""Machine code by which several threads execute a parallel region: its tasks, each of which depends on some of the others.

The state of one execution is an array of words: a header, then four words for each task.

    word 0  tasks that are not done
    word 1  1: a task has failed or was cancelled; no further task is begun
    word 2  1: a thread has left because no task was ready
    word 3  number of tasks
    word 4  address of the task table, four words a task: first row, row behind the last, first and end of its successors
    word 5  address of the successors: numbers of tasks, grouped by the task that they wait for

    task  word 0  how many tasks it waits for; -1: a thread has claimed it
          word 1  the row it has reached
          word 2  address of the frame in which it was executed
          word 3  status of the row that failed

Each thread has a frame of its own, a copy of the program's. It claims the first ready task by a compare-and-swap of the task's
word 0, executes it, decrements word 0 of the successors, and repeats. A thread that finds no ready task spins for a while; then
it sets word 2, searches once more, and leaves. So no ready task is overlooked: either the last search finds it, or the thread
that made it ready finds word 2 set and calls for another helper.

An event loop that owns the region enters it for a time slice, and leaves when the slice is over; it does not set word 2, since
it returns. It searches for a task before it reads the clock, so each slice executes at least one task if one is ready.

A helper without work spins on the spinning queue (`spinning.serve`) before it acquires the interpreter lock: at that moment the
owner needs the lock, and a thread that waits for it falls asleep. The helper does not delay if the owner waits for it.
"""

from __future__ import annotations

HEADER = 6
TASK_WORDS = 4
LEFT, STOPPED, ASLEEP, COUNT, TASKS, SUCCESSORS = range(HEADER)
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
    IDLE = 6  # no task is ready, or none is left to begin
    CALL = 7  # several tasks are ready, and a thread has left: the caller calls a helper, and enters again
    WANTED = 8  # jobs wait for this worker thread


# lane(frame, state, waiting, until): execute tasks in one lane until the time `until`. `waiting` holds the number of entries in
# the workers' queue and that of urgent ones (see `spinning_queue`); a negative number marks the owner, which stays to the end.
_LANE = """
define internal i64 @lane{suffix}(ptr %frame, ptr %state, ptr %waiting.at, i64 %until) {
entry:
  %stopped.at = getelementptr i64, ptr %state, i64 1
  %asleep.at = getelementptr i64, ptr %state, i64 2
  %count.at = getelementptr i64, ptr %state, i64 3
  %count = load i64, ptr %count.at
  %tasks.at = getelementptr i64, ptr %state, i64 4
  %tasks = load ptr, ptr %tasks.at
  %successors.at = getelementptr i64, ptr %state, i64 5
  %successors = load ptr, ptr %successors.at
  %waits.at = getelementptr i64, ptr %state, i64 {header}
  %jobs.at = getelementptr i64, ptr %waiting.at, i64 1
  %jobs.first = load atomic i64, ptr %jobs.at monotonic, align 8
  %is.owner = icmp slt i64 %jobs.first, 0
  %hurries = icmp ne i64 %until, {endless}
  br label %fresh
fresh:
  %timed = phi i1 [ 0, %entry ], [ %hurries, %take ], [ %hurries, %notified ], [ %hurries, %call ]
  br label %look
look:
  %looks = phi i64 [ 0, %fresh ], [ %looks.1, %wait ], [ %looks.2, %last ]
  %is.timed = phi i1 [ %timed, %fresh ], [ %hurries, %wait ], [ %hurries, %last ]
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %over = icmp ne i64 %stopped, 0
  br i1 %over, label %leave, label %check
check:
  %jobs = load atomic i64, ptr %jobs.at monotonic, align 8
  %wanted = icmp sgt i64 %jobs, 0
  br i1 %wanted, label %elsewhere, label %unwanted
unwanted:
  br i1 %is.timed, label %clocked, label %scan
clocked:
  %now = call i64 @clock()
  %late = icmp sgt i64 %now, %until
  br i1 %late, label %ending, label %scan
ending:
  %still.left = load atomic i64, ptr %state seq_cst, align 8
  %ended = icmp eq i64 %still.left, 0
  br i1 %ended, label %finished, label %paused
scan:
  %k = phi i64 [ 0, %unwanted ], [ 0, %clocked ], [ %k.1, %skip ]
  %some = phi i64 [ 0, %unwanted ], [ 0, %clocked ], [ %some.1, %skip ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %weigh, label %none
weigh:
  %word = mul i64 %k, 4
  %waits.k = getelementptr i64, ptr %waits.at, i64 %word
  %waits = load atomic i64, ptr %waits.k seq_cst, align 8
  %ready = icmp eq i64 %waits, 0
  br i1 %ready, label %take, label %skip
skip:
  %waiting = icmp sgt i64 %waits, 0
  %one = zext i1 %waiting to i64
  %some.1 = or i64 %some, %one
  %k.1 = add i64 %k, 1
  br label %scan
take:
  %pair = cmpxchg ptr %waits.k, i64 0, i64 -1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %walk, label %fresh
none:
  %left = load atomic i64, ptr %state seq_cst, align 8
  %done = icmp eq i64 %left, 0
  br i1 %done, label %finished, label %stay
stay:
  %nothing = icmp eq i64 %some, 0
  %not.owner = xor i1 %is.owner, true
  %useless = and i1 %nothing, %not.owner
  br i1 %useless, label %leave, label %wait.long
wait.long:
  %may.spin = icmp ult i64 %looks, {spins}
  %stays = or i1 %may.spin, %hurries
  br i1 %stays, label %wait, label %spun.out
wait:
  call void @llvm.x86.sse2.pause()
  %looks.1 = add i64 %looks, 1
  br label %look
spun.out:
  %said = icmp ugt i64 %looks, {spins}
  br i1 %said, label %leave, label %last
last:
  store atomic i64 1, ptr %asleep.at seq_cst, align 8
  %looks.2 = add i64 %looks, 1
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
  store i64 {fuel}, ptr %fuel.at
  %outcome = call i64 @walk{suffix}(ptr %frame)
  %reached.at = getelementptr i64, ptr %waits.k, i64 1
  %reached = load i64, ptr %frame
  store i64 %reached, ptr %reached.at
  %by.at = getelementptr i64, ptr %waits.k, i64 2
  store ptr %frame, ptr %by.at
  %well = icmp eq i64 %outcome, 0
  br i1 %well, label %notify, label %fail
fail:
  %frame.status.at = getelementptr i64, ptr %frame, i64 1
  %frame.status = load i64, ptr %frame.status.at
  %status.at = getelementptr i64, ptr %waits.k, i64 3
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
  %successor.word = mul i64 %successor, 4
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
  br i1 %several, label %call, label %fresh
call:
  %asleep = atomicrmw xchg ptr %asleep.at, i64 0 seq_cst
  %calls = icmp ne i64 %asleep, 0
  br i1 %calls, label %shout, label %fresh
shout:
  ret i64 7
finished:
  ret i64 0
paused:
  ret i64 3
leave:
  ret i64 6
elsewhere:
  ret i64 8
}

define internal void @linger{suffix}(i64 %outcome, ptr %state, ptr %waiting.at) {
entry:
  %jobs.at = getelementptr i64, ptr %waiting.at, i64 1
  %jobs = load atomic i64, ptr %jobs.at monotonic, align 8
  %is.owner = icmp slt i64 %jobs, 0
  %stopped.at = getelementptr i64, ptr %state, i64 1
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %asleep.at = getelementptr i64, ptr %state, i64 2
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %awaited = or i64 %stopped, %asleep
  %is.awaited = icmp ne i64 %awaited, 0
  %is.done = icmp eq i64 %outcome, 0
  %is.idle = icmp eq i64 %outcome, 6
  %is.free = or i1 %is.done, %is.idle
  %is.busy = xor i1 %is.free, true
  %cannot = or i1 %is.owner, %is.busy
  %leaves = or i1 %cannot, %is.awaited
  br i1 %leaves, label %leave, label %stay
stay:
  %ignored = call i64 @serve(ptr %waiting.at, i64 {linger})
  ret void
leave:
  ret void
}

define ptr @lane_released{suffix}(ptr %self, ptr %args, i64 %nargs) {
  %first = load ptr, ptr %args
  %frame = call ptr @data_of(ptr %first)
  %second.at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second.at
  %state = call ptr @data_of(ptr %second)
  %third.at = getelementptr ptr, ptr %args, i64 2
  %third = load ptr, ptr %third.at
  %waiting.at = call ptr @data_of(ptr %third)
  %fourth.at = getelementptr ptr, ptr %args, i64 3
  %fourth = load ptr, ptr %fourth.at
  %until = call i64 @PyLong_AsLong(ptr %fourth)
  %thread = call ptr @PyEval_SaveThread()
  %outcome = call i64 @lane{suffix}(ptr %frame, ptr %state, ptr %waiting.at, i64 %until)
  call void @linger{suffix}(i64 %outcome, ptr %state, ptr %waiting.at)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
}
"""


def lane(suffix: str, fuel: int, linger: int) -> str:
    """The functions `lane` of the walk with that suffix; each task gets `fuel`, and helpers linger for so many nanoseconds."""
    text = _LANE.replace("{suffix}", suffix).replace("{header}", str(HEADER))
    text = text.replace("{linger}", str(linger)).replace("{endless}", str(ENDLESS))
    return text.replace("{spins}", str(SPINS)).replace("{fuel}", str(fuel))
