"""Machine code by which an owner executes a parallel region together with threads that spin for work, in one call.

The data of a region for this is the pad, an array of words that serves one execution after another:

    word 0  1: the region has begun, and is not done
    word 1  address of the initial state (see `parallel_region`)
    word 2  address of the state of the current execution
    word 3  words of a state
    word 4  words of a frame
    word 5  index of the word of a frame that holds the address of the lane's memory
    word 6  address of the memory of the first lane
    word 7  bytes of a lane
    word 8  number of helpers to which work is offered
    word 9  address of the frames: the owner's, then one for each helper
    then, for each helper, the index of its place in the spinning queue (see `spinning`)

The owner offers work to helpers, executes tasks as they do, and withdraws the offers that no thread has accepted. An execution
ends only when no helper is in it. A helper that leaves does not notify the owner: an owner without a ready task searches again,
or returns in its next slice.
"""

from __future__ import annotations

from aioexec.devices.threads.parallel_region import ASLEEP, ENDLESS, STOPPED, LaneOutcome
from aioexec.devices.threads.spinning import FREE, HEADER as PLACES_AT, OFFERED, PLACES, TAKEN, WRITTEN

HEADER = 10
(BEGUN, TEMPLATE, STATE, STATE_WORDS, FRAME_WORDS, LANE_WORD, LANES, LANE_BYTES, HELPERS, FRAMES) = range(
    HEADER
)

# share_released(words of the frame, pad, words of the spinning queue, until): execute the region, or continue it. Returns DONE;
# PAUSED: `until` has passed, or the region is stopped; IDLE: it is stopped, and every helper has left.
SHARE = f"""
@owner = internal constant [2 x i64] [i64 -1, i64 -1]

define internal void @help(ptr %frame, ptr %state, ptr %words) {{
entry:
  %asleep.at = getelementptr i64, ptr %state, i64 {ASLEEP}
  br label %share
share:
  %outcome = call i64 @lane(ptr %frame, ptr %state, ptr %words, i64 {ENDLESS})
  %calls = icmp eq i64 %outcome, {LaneOutcome.CALL}
  br i1 %calls, label %call, label %leave
call:
  store atomic i64 1, ptr %asleep.at seq_cst, align 8
  br label %share
leave:
  ret void
}}

define internal void @copy_words(ptr %to, ptr %from, i64 %count) {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.1, %copy ]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %copy, label %exit
copy:
  %from.at = getelementptr i64, ptr %from, i64 %k
  %word = load i64, ptr %from.at
  %to.at = getelementptr i64, ptr %to, i64 %k
  store i64 %word, ptr %to.at
  %k.1 = add i64 %k, 1
  br label %next
exit:
  ret void
}}

define internal i64 @pad_word(ptr %pad, i64 %k) {{
  %at = getelementptr i64, ptr %pad, i64 %k
  %word = load i64, ptr %at
  ret i64 %word
}}

define internal ptr @pad_pointer(ptr %pad, i64 %k) {{
  %at = getelementptr ptr, ptr %pad, i64 %k
  %pointer = load ptr, ptr %at
  ret ptr %pointer
}}

define internal ptr @frame_of(ptr %pad, i64 %lane) {{
  %frames = call ptr @pad_pointer(ptr %pad, i64 {FRAMES})
  %size = call i64 @pad_word(ptr %pad, i64 {FRAME_WORDS})
  %begin = mul i64 %lane, %size
  %frame = getelementptr i64, ptr %frames, i64 %begin
  ret ptr %frame
}}

define internal void @set_up(ptr %pad, ptr %words) {{
entry:
  %state = call ptr @pad_pointer(ptr %pad, i64 {STATE})
  %template = call ptr @pad_pointer(ptr %pad, i64 {TEMPLATE})
  %state.words = call i64 @pad_word(ptr %pad, i64 {STATE_WORDS})
  call void @copy_words(ptr %state, ptr %template, i64 %state.words)
  %helpers = call i64 @pad_word(ptr %pad, i64 {HELPERS})
  %size = call i64 @pad_word(ptr %pad, i64 {FRAME_WORDS})
  %slot = call i64 @pad_word(ptr %pad, i64 {LANE_WORD})
  %lanes = call i64 @pad_word(ptr %pad, i64 {LANES})
  %bytes = call i64 @pad_word(ptr %pad, i64 {LANE_BYTES})
  br label %next
next:
  %lane = phi i64 [ 0, %entry ], [ %lane.1, %next ]
  %frame = call ptr @frame_of(ptr %pad, i64 %lane)
  call void @copy_words(ptr %frame, ptr %words, i64 %size)
  %begin = mul i64 %lane, %bytes
  %memory = add i64 %lanes, %begin
  %slot.at = getelementptr i64, ptr %frame, i64 %slot
  store i64 %memory, ptr %slot.at
  %lane.1 = add i64 %lane, 1
  %more = icmp ule i64 %lane.1, %helpers
  br i1 %more, label %next, label %exit
exit:
  store i64 1, ptr %pad
  ret void
}}

; The word of the place in which work was offered to a helper, if it still holds that offer, else FREE. The owner of another
; region may have written its own offer there since: reading that frame synchronizes with the helper that has left.
define internal i64 @word_of(ptr %pad, ptr %looked.at, i64 %helper) {{
entry:
  %places.at = getelementptr i64, ptr %looked.at, i64 {PLACES}
  %places = load i64, ptr %places.at
  %index = add i64 %helper, {HEADER - 1}
  %k = call i64 @pad_word(ptr %pad, i64 %index)
  %word.index = add i64 %k, {PLACES_AT}
  %place = getelementptr i64, ptr %looked.at, i64 %word.index
  %word = load atomic i64, ptr %place seq_cst, align 8
  %frame.at = getelementptr ptr, ptr %place, i64 %places
  %found = load atomic ptr, ptr %frame.at acquire, align 8
  %frame = call ptr @frame_of(ptr %pad, i64 %helper)
  %is.mine = icmp eq ptr %found, %frame
  %answer = select i1 %is.mine, i64 %word, i64 {FREE}
  ret i64 %answer
}}

define internal void @offer(ptr %pad, ptr %looked.at) {{
entry:
  %places.at = getelementptr i64, ptr %looked.at, i64 {PLACES}
  %places = load i64, ptr %places.at
  %helpers = call i64 @pad_word(ptr %pad, i64 {HELPERS})
  %state = call ptr @pad_pointer(ptr %pad, i64 {STATE})
  br label %next
next:
  %helper = phi i64 [ 1, %entry ], [ %helper.1, %skip ]
  %more = icmp ule i64 %helper, %helpers
  br i1 %more, label %known, label %exit
known:
  %word = call i64 @word_of(ptr %pad, ptr %looked.at, i64 %helper)
  %is.free = icmp eq i64 %word, {FREE}
  br i1 %is.free, label %search, label %skip
search:
  %k = phi i64 [ 0, %known ], [ %k.1, %other ]
  %further = icmp ult i64 %k, %places
  br i1 %further, label %try, label %exit
try:
  %index = add i64 %k, {PLACES_AT}
  %place = getelementptr i64, ptr %looked.at, i64 %index
  %pair = cmpxchg ptr %place, i64 {FREE}, i64 {WRITTEN} seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %write, label %other
other:
  %k.1 = add i64 %k, 1
  br label %search
write:
  %frame = call ptr @frame_of(ptr %pad, i64 %helper)
  %frame.at = getelementptr ptr, ptr %place, i64 %places
  store atomic ptr %frame, ptr %frame.at release, align 8
  %state.at = getelementptr ptr, ptr %frame.at, i64 %places
  store ptr %state, ptr %state.at
  %note = add i64 %helper, {HEADER - 1}
  %note.at = getelementptr i64, ptr %pad, i64 %note
  store i64 %k, ptr %note.at
  store atomic i64 {OFFERED}, ptr %place seq_cst, align 8
  br label %skip
skip:
  %helper.1 = add i64 %helper, 1
  br label %next
exit:
  ret void
}}

define internal void @await_helpers(ptr %pad, ptr %looked.at) {{
entry:
  %helpers = call i64 @pad_word(ptr %pad, i64 {HELPERS})
  br label %next
next:
  %helper = phi i64 [ 1, %entry ], [ %helper.1, %gone ]
  %more = icmp ule i64 %helper, %helpers
  br i1 %more, label %look, label %exit
look:
  %word = call i64 @word_of(ptr %pad, ptr %looked.at, i64 %helper)
  %is.offered = icmp eq i64 %word, {OFFERED}
  br i1 %is.offered, label %withdraw, label %check
withdraw:
  %note = add i64 %helper, {HEADER - 1}
  %k = call i64 @pad_word(ptr %pad, i64 %note)
  %index = add i64 %k, {PLACES_AT}
  %place = getelementptr i64, ptr %looked.at, i64 %index
  %pair = cmpxchg ptr %place, i64 {OFFERED}, i64 {FREE} seq_cst seq_cst
  br label %look
check:
  %is.there = icmp eq i64 %word, {TAKEN}
  br i1 %is.there, label %wait, label %gone
wait:
  call void @llvm.x86.sse2.pause()
  %ignored = call i32 @sched_yield()
  br label %look
gone:
  %helper.1 = add i64 %helper, 1
  br label %next
exit:
  ret void
}}

define internal i64 @share(ptr %words, ptr %pad, ptr %looked.at, i64 %until) {{
entry:
  %begun = load i64, ptr %pad
  %is.begun = icmp ne i64 %begun, 0
  br i1 %is.begun, label %go, label %begin
begin:
  call void @set_up(ptr %pad, ptr %words)
  call void @offer(ptr %pad, ptr %looked.at)
  br label %go
go:
  %frame = call ptr @frame_of(ptr %pad, i64 0)
  %state = call ptr @pad_pointer(ptr %pad, i64 {STATE})
  %stopped.at = getelementptr i64, ptr %state, i64 {STOPPED}
  %is.endless = icmp eq i64 %until, {ENDLESS}
  br label %share
share:
  %outcome = call i64 @lane(ptr %frame, ptr %state, ptr @owner, i64 %until)
  switch i64 %outcome, label %halted [
    i64 {LaneOutcome.DONE}, label %done
    i64 {LaneOutcome.CALL}, label %call
    i64 {LaneOutcome.PAUSED}, label %paused
    i64 {LaneOutcome.IDLE}, label %idle
  ]
call:
  call void @offer(ptr %pad, ptr %looked.at)
  br label %share
idle:
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  br i1 %is.stopped, label %halted, label %rest
rest:
  %ignored = call i32 @sched_yield()
  br label %share
done:
  call void @await_helpers(ptr %pad, ptr %looked.at)
  store i64 0, ptr %pad
  ret i64 {LaneOutcome.DONE}
paused:
  ret i64 {LaneOutcome.PAUSED}
halted:
  br i1 %is.endless, label %over, label %paused
over:
  call void @await_helpers(ptr %pad, ptr %looked.at)
  ret i64 {LaneOutcome.IDLE}
}}

define ptr @share_released(ptr %self, ptr %args, i64 %nargs) {{
  %first = load ptr, ptr %args
  %words = call ptr @data_of(ptr %first)
  %second.at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second.at
  %pad = call ptr @data_of(ptr %second)
  %third.at = getelementptr ptr, ptr %args, i64 2
  %third = load ptr, ptr %third.at
  %looked.at = call ptr @data_of(ptr %third)
  %fourth.at = getelementptr ptr, ptr %args, i64 3
  %fourth = load ptr, ptr %fourth.at
  %until = call i64 @PyLong_AsLong(ptr %fourth)
  %thread = call ptr @PyEval_SaveThread()
  %outcome = call i64 @share(ptr %words, ptr %pad, ptr %looked.at, i64 %until)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
}}
"""
