"""The machine code by which several threads do one region: tasks of rows, each of which waits for some of the others.

The state of one doing is an array of words: a header, then four words for each task.

    word 0  tasks that are not done
    word 1  1: a task has failed or was cancelled, none is begun any more
    word 2  1: somebody has left because nothing was ready
    word 3  number of tasks
    word 4  address of the tasks, four words each: first row, row behind the last, first and last of their successors
    word 5  address of the successors: numbers of tasks that wait for one

    task  word 0  how many tasks it waits for; -1: somebody does it, or has done it
            word 1  the row it has come to
            word 2  address of the frame of whoever does it
            word 3  status of the row that failed

Whoever comes has a frame of his own, with the slots of the program's, and takes the first task that is ready, until there is
none. The counts are changed atomically, and one who is about to leave says so before he looks for the last time: so either he
sees the task that has become ready, or whoever made it ready sees that somebody has to be called.

An event loop that is the owner comes for a while and goes again, whether or not it has found anything: it has other things to
do. It says nothing when it leaves, since it comes back. It looks for a task before it looks at the clock: each time it comes
it does one, if one is ready.

A helper for whom nothing is left lingers, and looks for other work, before it asks for the interpreter: that is just when its
owner needs it, and who has to wait for the interpreter falls asleep. It does not if somebody waits for it to come back.
"""

from __future__ import annotations

HEADER = 6
TASK_WORDS = 4
LEFT, STOPPED, ASLEEP, COUNT, TASKS, SUCCESSORS = range(HEADER)
WAITS, REACHED, BY, STATUS = range(TASK_WORDS)
ENDLESS = 1 << 62
"""Until when somebody stays who has time."""
SPINS = 500
"""Looks for a task before one leaves, some 30 µs: waking a thread takes longer."""


class LaneOutcome:
    """Why somebody left a region: 0, 1 and 2 are the outcomes of walks; DONE: all tasks are. Numbers, like those."""

    DONE = 0
    FAILED = 1
    CANCELLED = 2
    PAUSED = 3  # the time is over
    IDLE = 6  # nothing is ready, or nothing is left to begin
    CALL = 7  # there is more than one could do, and somebody has left: call, and go on
    WANTED = 8  # jobs wait for this thread


# Waiting: how many jobs and helpers wait for a thread, and how many jobs (see `spinning_queue`); negative: this one stays until
# the region ends, whatever comes. Until: by the clock, when to leave.
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
  %timed = phi i1 [ 0, %entry ], [ %hurries, %take ], [ %hurries, %told ], [ %hurries, %call ]
  br label %look
look:
  %looks = phi i64 [ 0, %fresh ], [ %looks.1, %wait ], [ %looks.2, %last ]
  %is.timed = phi i1 [ %timed, %fresh ], [ %hurries, %wait ], [ %hurries, %last ]
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %over = icmp ne i64 %stopped, 0
  br i1 %over, label %leave, label %asked
asked:
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
  br i1 %stays, label %wait, label %tired
wait:
  call void @llvm.x86.sse2.pause()
  %looks.1 = add i64 %looks, 1
  br label %look
tired:
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
  br i1 %well, label %tell, label %fail
fail:
  %frame.status.at = getelementptr i64, ptr %frame, i64 1
  %frame.status = load i64, ptr %frame.status.at
  %status.at = getelementptr i64, ptr %waits.k, i64 3
  store i64 %frame.status, ptr %status.at
  store atomic i64 1, ptr %stopped.at seq_cst, align 8
  ret i64 %outcome
tell:
  %begin.at = getelementptr i64, ptr %task, i64 2
  %begin = load i64, ptr %begin.at
  %stop.at = getelementptr i64, ptr %task, i64 3
  %stop = load i64, ptr %stop.at
  br label %each
each:
  %s = phi i64 [ %begin, %tell ], [ %s.1, %less ]
  %released = phi i64 [ 0, %tell ], [ %released.1, %less ]
  %another = icmp ult i64 %s, %stop
  br i1 %another, label %less, label %told
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
told:
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
    """The functions of the walk with that suffix; `fuel` is what a task has, and helpers linger for so many nanoseconds."""
    text = _LANE.replace("{suffix}", suffix).replace("{header}", str(HEADER))
    text = text.replace("{linger}", str(linger)).replace("{endless}", str(ENDLESS))
    return text.replace("{spins}", str(SPINS)).replace("{fuel}", str(fuel))
