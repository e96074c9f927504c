"""Machine code by which a team of threads executes a parallel region: its owner, and helper threads that spin for work.

The data of a team is an array of words, which serves one execution of its region after another:

    word 0  1: the region has begun, and is not done; 2: it was stopped in a walk, and every helper has left
    word 1  address of the initial state (see `parallel_region`)
    word 2  address of the state of the current execution
    word 3  words of a state
    word 4  words of a frame
    word 5  index of the word of a frame that holds the address of the lane's memory
    word 6  address of the memory of the first lane
    word 7  bytes of a lane
    word 8  number of helpers that may be in the region
    word 9  address of the frames: the owner's, then one for each helper
    word 10 stands for a place in the spinning queue, if all of them are in use
    then, for each helper's lane, 1: a helper uses it

The owner opens the region in a place of the spinning queue (see `spinning`). Threads that spin enter it there, claim a lane,
and execute tasks as the owner does. At the end the owner closes it, and waits until no helper is in it: then the memory may be
reused. A helper that leaves does not notify the owner. An owner without a ready task searches again after a while, or returns
in its next slice.
"""

from __future__ import annotations

from aioexec.devices.threads.parallel_region import ENDLESS, PLACE, LaneOutcome
from aioexec.devices.threads.spinning import (
    FREE,
    HEADER as PLACES_AT,
    HELD,
    OPEN,
    PARKED,
    PLACES,
    SPINNERS,
    UNPARKED,
)

HEADER = 11
(BEGUN, TEMPLATE, STATE, STATE_WORDS, FRAME_WORDS, LANE_WORD, LANES, LANE_BYTES, HELPERS, FRAMES, ALONE) = (
    range(HEADER)
)
ENDED = 2
"""The value of the first word of a region that was stopped in a walk."""
REST_US = 50
"""How long a worker without a ready task sleeps before it searches again, in microseconds."""
_CANCEL, _COPIED = 2, 3
"""The word of a frame that cancels its walk, and the first of those that are constant during a region (see `jit.walker`)."""

# team_released(words of the frame, team, words of the spinning queue, until): execute the region, or continue it. Returns DONE;
# PAUSED: `until` has passed, or the region is stopped; CALL: the caller wakes threads, and continues; OVER: the region is
# stopped, and every helper has left, which is awaited only if `until` is ENDLESS.
TEAM = f"""
@owner = internal constant i64 -1

define internal i64 @team_word(ptr %team, i64 %k) {{
  %at = getelementptr i64, ptr %team, i64 %k
  %word = load i64, ptr %at
  ret i64 %word
}}

define internal ptr @team_pointer(ptr %team, i64 %k) {{
  %at = getelementptr ptr, ptr %team, i64 %k
  %pointer = load ptr, ptr %at
  ret ptr %pointer
}}

define internal ptr @frame_of(ptr %team, i64 %lane) {{
  %frames = call ptr @team_pointer(ptr %team, i64 {FRAMES})
  %size = call i64 @team_word(ptr %team, i64 {FRAME_WORDS})
  %begin = mul i64 %lane, %size
  %frame = getelementptr i64, ptr %frames, i64 %begin
  ret ptr %frame
}}

; Another thread may cancel the run meanwhile, in the run's own frame first: its word is read when that of the lane is set.
define internal void @set_up(ptr %team, ptr %words) {{
entry:
  %state = call ptr @team_pointer(ptr %team, i64 {STATE})
  %template = call ptr @team_pointer(ptr %team, i64 {TEMPLATE})
  %state.words = call i64 @team_word(ptr %team, i64 {STATE_WORDS})
  %state.bytes = mul i64 %state.words, 8
  call ptr @memcpy(ptr %state, ptr %template, i64 %state.bytes)
  %helpers = call i64 @team_word(ptr %team, i64 {HELPERS})
  %size = call i64 @team_word(ptr %team, i64 {FRAME_WORDS})
  %slot = call i64 @team_word(ptr %team, i64 {LANE_WORD})
  %lanes = call i64 @team_word(ptr %team, i64 {LANES})
  %bytes = call i64 @team_word(ptr %team, i64 {LANE_BYTES})
  %copied.words = sub i64 %size, {_COPIED}
  %copied.bytes = mul i64 %copied.words, 8
  %copied = getelementptr i64, ptr %words, i64 {_COPIED}
  %run.cancel.at = getelementptr i64, ptr %words, i64 {_CANCEL}
  br label %next
next:
  %lane = phi i64 [ 0, %entry ], [ %lane.1, %next ]
  %frame = call ptr @frame_of(ptr %team, i64 %lane)
  %copy = getelementptr i64, ptr %frame, i64 {_COPIED}
  call ptr @memcpy(ptr %copy, ptr %copied, i64 %copied.bytes)
  %begin = mul i64 %lane, %bytes
  %memory = add i64 %lanes, %begin
  %slot.at = getelementptr i64, ptr %frame, i64 %slot
  store i64 %memory, ptr %slot.at
  %cancel.at = getelementptr i64, ptr %frame, i64 {_CANCEL}
  store atomic i64 0, ptr %cancel.at seq_cst, align 8
  %cancel = load atomic i64, ptr %run.cancel.at seq_cst, align 8
  %before = atomicrmw or ptr %cancel.at, i64 %cancel seq_cst
  %lane.1 = add i64 %lane, 1
  %more = icmp ule i64 %lane.1, %helpers
  br i1 %more, label %next, label %exit
exit:
  store i64 1, ptr %team
  ret void
}}

define internal void @open(ptr %team, ptr %waiting) {{
entry:
  %helpers = call i64 @team_word(ptr %team, i64 {HELPERS})
  %closed = add i64 %helpers, {HELD}
  %places.at = getelementptr i64, ptr %waiting, i64 {PLACES}
  %places = load i64, ptr %places.at
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.1, %other ]
  %more = icmp ult i64 %k, %places
  br i1 %more, label %try, label %alone
try:
  %index = add i64 %k, {PLACES_AT}
  %place = getelementptr i64, ptr %waiting, i64 %index
  %pair = cmpxchg ptr %place, i64 {FREE}, i64 %closed seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %write, label %other
other:
  %k.1 = add i64 %k, 1
  br label %next
write:
  %team.at = getelementptr ptr, ptr %place, i64 %places
  store ptr %team, ptr %team.at
  br label %open
alone:
  %word = getelementptr i64, ptr %team, i64 {ALONE}
  br label %open
open:
  %found = phi ptr [ %place, %write ], [ %word, %alone ]
  %state = call ptr @team_pointer(ptr %team, i64 {STATE})
  %place.at = getelementptr ptr, ptr %state, i64 {PLACE}
  store ptr %found, ptr %place.at
  %opened = add i64 %closed, {OPEN}
  store atomic i64 %opened, ptr %found seq_cst, align 8
  ret void
}}

; The loop ends when every helper has left; a helper that enters or opens the region meanwhile is awaited too.
define internal void @close(ptr %team, ptr %place) {{
entry:
  %helpers = call i64 @team_word(ptr %team, i64 {HELPERS})
  %closed = add i64 %helpers, {HELD}
  br label %look
look:
  %before = atomicrmw and ptr %place, i64 {~OPEN} seq_cst
  %pair = cmpxchg ptr %place, i64 %closed, i64 {FREE} seq_cst seq_cst
  %is.free = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %is.free, label %exit, label %wait
wait:
  call void @llvm.x86.sse2.pause()
  %ignored = call i32 @sched_yield()
  br label %look
exit:
  ret void
}}

; A helper that has entered: one of the lanes is or becomes free.
define internal void @help(ptr %team, ptr %place, ptr %waiting) {{
entry:
  %helpers = call i64 @team_word(ptr %team, i64 {HELPERS})
  %state = call ptr @team_pointer(ptr %team, i64 {STATE})
  br label %next
next:
  %lane = phi i64 [ 1, %entry ], [ %lane.2, %used ]
  %flag = add i64 %lane, {HEADER - 1}
  %flag.at = getelementptr i64, ptr %team, i64 %flag
  %pair = cmpxchg ptr %flag.at, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %enter, label %used
used:
  %lane.1 = add i64 %lane, 1
  %more = icmp ule i64 %lane.1, %helpers
  %lane.2 = select i1 %more, i64 %lane.1, i64 1
  br label %next
enter:
  %frame = call ptr @frame_of(ptr %team, i64 %lane)
  %outcome = call i64 @lane(ptr %frame, ptr %state, ptr %waiting, i64 {ENDLESS})
  store atomic i64 0, ptr %flag.at seq_cst, align 8
  %left = atomicrmw add ptr %place, i64 1 seq_cst
  ret void
}}

define internal i64 @team(ptr %words, ptr %team, ptr %waiting, i64 %until) {{
entry:
  %spinners.at = getelementptr i64, ptr %waiting, i64 {SPINNERS}
  %begun = load i64, ptr %team
  switch i64 %begun, label %go [
    i64 0, label %begin
    i64 {ENDED}, label %ended
  ]
ended:
  ret i64 {LaneOutcome.OVER}
begin:
  call void @set_up(ptr %team, ptr %words)
  call void @open(ptr %team, ptr %waiting)
  br label %go
go:
  %is.new = phi i1 [ 0, %entry ], [ 1, %begin ]
  %frame = call ptr @frame_of(ptr %team, i64 0)
  %state = call ptr @team_pointer(ptr %team, i64 {STATE})
  %place = call ptr @team_pointer(ptr %state, i64 {PLACE})
  %is.endless = icmp eq i64 %until, {ENDLESS}
  br i1 %is.new, label %call, label %share
share:
  %outcome = call i64 @lane(ptr %frame, ptr %state, ptr @owner, i64 %until)
  switch i64 %outcome, label %stopped [
    i64 {LaneOutcome.DONE}, label %done
    i64 {LaneOutcome.CALL}, label %call
    i64 {LaneOutcome.PAUSED}, label %paused
    i64 {LaneOutcome.IDLE}, label %rest
  ]
call:
  %word = load atomic i64, ptr %place seq_cst, align 8
  %free = and i64 %word, {HELD - 1}
  %spinners = load atomic i64, ptr %spinners.at seq_cst, align 8
  %enough = icmp ule i64 %free, %spinners
  br i1 %enough, label %share, label %few
few:
  %parked.at = getelementptr i64, ptr %waiting, i64 {PARKED}
  %parked = load atomic i64, ptr %parked.at seq_cst, align 8
  %unparked.at = getelementptr i64, ptr %waiting, i64 {UNPARKED}
  %unparked = load atomic i64, ptr %unparked.at seq_cst, align 8
  %none = icmp eq i64 %parked, %unparked
  br i1 %none, label %share, label %wake
wake:
  ret i64 {LaneOutcome.CALL}
rest:
  %ignored = call i32 @usleep(i32 {REST_US})
  br label %share
done:
  call void @close(ptr %team, ptr %place)
  store i64 0, ptr %team
  ret i64 {LaneOutcome.DONE}
paused:
  ret i64 {LaneOutcome.PAUSED}
stopped:
  br i1 %is.endless, label %over, label %paused
over:
  call void @close(ptr %team, ptr %place)
  ret i64 {LaneOutcome.OVER}
}}

; A walk executes a region as its owner. Block of a region: the frame word that holds the address of the team, 0 before its
; first execution; the row behind the region; the address of the spinning queue. Returns that row; 0: Python executes or
; continues the region.
define internal i64 @region(ptr %block, ptr %frame) {{
entry:
  %word = load i64, ptr %block
  %end.at = getelementptr i64, ptr %block, i64 1
  %end = load i64, ptr %end.at
  %waiting.at = getelementptr ptr, ptr %block, i64 2
  %waiting = load ptr, ptr %waiting.at
  %team.at = getelementptr ptr, ptr %frame, i64 %word
  %team = load ptr, ptr %team.at
  %is.made = icmp ne ptr %team, null
  br i1 %is.made, label %made, label %python
made:
  %outcome = call i64 @team(ptr %frame, ptr %team, ptr %waiting, i64 {ENDLESS})
  switch i64 %outcome, label %python [
    i64 {LaneOutcome.DONE}, label %done
    i64 {LaneOutcome.OVER}, label %over
  ]
done:
  ret i64 %end
over:
  store i64 {ENDED}, ptr %team
  br label %python
python:
  ret i64 0
}}

define ptr @team_released(ptr %self, ptr %args, i64 %nargs) {{
  %first = load ptr, ptr %args
  %words = call ptr @data_of(ptr %first)
  %second.at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second.at
  %team = call ptr @data_of(ptr %second)
  %third.at = getelementptr ptr, ptr %args, i64 2
  %third = load ptr, ptr %third.at
  %waiting = call ptr @data_of(ptr %third)
  %fourth.at = getelementptr ptr, ptr %args, i64 3
  %fourth = load ptr, ptr %fourth.at
  %until = call i64 @PyLong_AsLong(ptr %fourth)
  %thread = call ptr @PyEval_SaveThread()
  %outcome = call i64 @team(ptr %words, ptr %team, ptr %waiting, i64 %until)
  call void @PyEval_RestoreThread(ptr %thread)
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
}}
"""
