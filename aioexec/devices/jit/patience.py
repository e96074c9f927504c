"""The machine code by which a thread that has nothing to do looks for work for a while, before it sleeps.

To wake a thread takes 50 to 100 µs where processors without work fall asleep, and a step of a few hundred µs would pay that at
each of its hops. One who looks holds no interpreter lock, and lets go of the processor again and again: whoever has something
to do goes first.
"""

from __future__ import annotations

PATIENCE_NS = 200_000
"""How long a thread looks: the time to the next step of a client who awaits one after the other; who just misses it costs more.
"""
PAUSES = 32
"""Pauses of the processor between two looks at the clock: about 1 µs."""
COURTESY_NS = 5_000
"""What one who has seen work leaves to whoever gave it to let go of the interpreter: who asks for it at once falls asleep."""

# look_released(words, nanoseconds): whether words[0] is not 0, at the latest when the time is over.
LOOK = f"""
define internal i64 @look(ptr %word, i64 %nanoseconds) {{
entry:
  %began = call i64 @clock()
  %until = add i64 %began, %nanoseconds
  br label %look
look:
  %n = phi i64 [ 0, %entry ], [ %n.1, %wait ], [ 0, %yield ]
  %seen = load atomic i64, ptr %word seq_cst, align 8
  %is.due = icmp ne i64 %seen, 0
  br i1 %is.due, label %seen.first, label %wait
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
  %later = add i64 %first, {COURTESY_NS}
  br label %courtesy
courtesy:
  call void @llvm.x86.sse2.pause()
  %then = call i64 @clock()
  %is.later = icmp sgt i64 %then, %later
  br i1 %is.later, label %found, label %courtesy
found:
  ret i64 1
over:
  ret i64 0
}}

define ptr @look_released(ptr %self, ptr %args, i64 %nargs) {{
  %first = load ptr, ptr %args
  %word = call ptr @data_of(ptr %first)
  %second.at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second.at
  %nanoseconds = call i64 @PyLong_AsLong(ptr %second)
  %thread = call ptr @PyEval_SaveThread()
  %outcome = call i64 @look(ptr %word, i64 %nanoseconds)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
}}
"""
