"""Machine code by which an idle worker thread spins for work before it sleeps (spin-then-park).

To wake a sleeping thread takes 50 to 100 µs where idle processors fall asleep, and a step of a few hundred µs would pay that
at each of its hops. A spinning thread does not hold the interpreter lock, and yields the processor repeatedly, so that other
threads run first.

It polls an array of words: the number of entries in a queue, which Python code then takes; and the parallel regions that are
open, in which it executes tasks without the interpreter (see `team`).

    word 0  entries in the queue: a helper leaves its region for them
    word 1  threads that spin, and are in no region
    word 2  how often a thread has stopped spinning, to sleep
    word 3  how often one of these has been woken, or did not sleep after all; only Python code writes it
    word 4  number of places; then, for each place
            a word that is 0: free; else the sum of HELD; OPEN, if helpers may enter; and the number of lanes that are free
    then, for each place, the address of a team
"""

from __future__ import annotations

SPIN_TIMEOUT_NS = 200_000
"""How long a thread spins: as long as a client that awaits one step after another takes to begin the next."""
PAUSES = 32
"""Pause instructions between two reads of the clock: about 1 µs."""
BACKOFF_NS = 5_000
"""Back-off of a thread that has found an entry: the thread that queued it still holds the interpreter lock, and a thread that
tries to acquire a held lock falls asleep."""
HEADER = 5
ENTRIES, SPINNERS, PARKED, UNPARKED, PLACES = range(HEADER)
PLACE_WORDS = 2
FREE, HELD, OPEN = 0, 1 << 32, 1 << 33

# serve(words, nanoseconds): enter open regions, and spin for so long after the last. Returns 1: there are entries; 0: timeout.
# An owner that has opened its region counts the threads that spin; if these are too few and others sleep, it wakes those. So a
# thread that no longer counts as one that spins scans the places once more: it may have been preempted when it yielded.
SERVE = f"""
define internal i64 @serve(ptr %words, i64 %nanoseconds) {{
entry:
  %spinners.at = getelementptr i64, ptr %words, i64 {SPINNERS}
  %parked.at = getelementptr i64, ptr %words, i64 {PARKED}
  %places.at = getelementptr i64, ptr %words, i64 {PLACES}
  %places = load i64, ptr %places.at
  %first.at = getelementptr i64, ptr %words, i64 {HEADER}
  %teams.at = getelementptr i64, ptr %first.at, i64 %places
  br label %begin
begin:
  %looks = atomicrmw add ptr %spinners.at, i64 1 seq_cst
  %began = call i64 @clock()
  %until = add i64 %began, %nanoseconds
  br label %look
look:
  %n = phi i64 [ 0, %begin ], [ %n.1, %wait ], [ 0, %yield ]
  %seen = load atomic i64, ptr %words seq_cst, align 8
  %is.due = icmp ne i64 %seen, 0
  br i1 %is.due, label %seen.first, label %scan
scan:
  %k = phi i64 [ 0, %look ], [ %k.1, %skip ]
  %more = icmp ult i64 %k, %places
  br i1 %more, label %check, label %wait
check:
  %place = getelementptr i64, ptr %first.at, i64 %k
  %word = load atomic i64, ptr %place seq_cst, align 8
  %may.enter = icmp ugt i64 %word, {HELD + OPEN}
  br i1 %may.enter, label %enter, label %skip
enter:
  %fewer = sub i64 %word, 1
  %pair = cmpxchg ptr %place, i64 %word, i64 %fewer seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %help, label %skip
skip:
  %k.1 = add i64 %k, 1
  br label %scan
help:
  %looks.no.more = atomicrmw sub ptr %spinners.at, i64 1 seq_cst
  %team.at = getelementptr ptr, ptr %teams.at, i64 %k
  %team = load ptr, ptr %team.at
  call void @help(ptr %team, ptr %place, ptr %words)
  br label %begin
wait:
  call void @llvm.x86.sse2.pause()
  %n.1 = add i64 %n, 1
  %enough = icmp ugt i64 %n.1, {PAUSES}
  br i1 %enough, label %yield, label %look
yield:
  %ignored = call i32 @sched_yield()
  %now = call i64 @clock()
  %is.over = icmp sgt i64 %now, %until
  br i1 %is.over, label %over, label %look
seen.first:
  %first = call i64 @clock()
  %later = add i64 %first, {BACKOFF_NS}
  br label %back.off
back.off:
  call void @llvm.x86.sse2.pause()
  %then = call i64 @clock()
  %is.later = icmp sgt i64 %then, %later
  br i1 %is.later, label %found, label %back.off
found:
  %found.looks = atomicrmw sub ptr %spinners.at, i64 1 seq_cst
  ret i64 1
over:
  %parked = atomicrmw add ptr %parked.at, i64 1 seq_cst
  %over.looks = atomicrmw sub ptr %spinners.at, i64 1 seq_cst
  br label %last.scan
last.scan:
  %j = phi i64 [ 0, %over ], [ %j.1, %last.skip ]
  %last.more = icmp ult i64 %j, %places
  br i1 %last.more, label %last.check, label %sleep
last.check:
  %last.place = getelementptr i64, ptr %first.at, i64 %j
  %last.word = load atomic i64, ptr %last.place seq_cst, align 8
  %is.opened = icmp ugt i64 %last.word, {HELD + OPEN}
  br i1 %is.opened, label %resume, label %last.skip
last.skip:
  %j.1 = add i64 %j, 1
  br label %last.scan
resume:
  %parked.less = atomicrmw sub ptr %parked.at, i64 1 seq_cst
  br label %begin
sleep:
  ret i64 0
}}

define ptr @serve_released(ptr %self, ptr %args, i64 %nargs) {{
  %first = load ptr, ptr %args
  %words = call ptr @data_of(ptr %first)
  %second.at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second.at
  %nanoseconds = call i64 @PyLong_AsLong(ptr %second)
  %thread = call ptr @PyEval_SaveThread()
  %outcome = call i64 @serve(ptr %words, i64 %nanoseconds)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
}}
"""
