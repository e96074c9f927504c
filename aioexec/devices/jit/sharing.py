"""The machine code by which an event loop does a fork with the threads that look for work, in one call.

What a fork needs for that lies in a pad, an array of words, for one run after another:

    word 0  1: the fork has begun, and is not done
    word 1  address of the state from which each doing starts (see `strands`)
    word 2  address of the state of this one
    word 3  words of a state
    word 4  words of a frame
    word 5  which of these is the address of a lane's memory
    word 6  address of the memory of the first lane
    word 7  bytes of a lane
    word 8  guests to be invited
    word 9  address of the frames: the host's, then one for each guest
    then, for each guest, the place of its invitation (see `patience`)

The host invites guests, does strands as they do, and takes back invitations that nobody has followed. It ends no doing while a
guest is there. A guest that leaves tells nobody: if nothing is ready the host looks on, or comes again.
"""

from __future__ import annotations

from aioexec.devices.jit.patience import FREE, HEADER as PLACES_AT, INVITED, PLACES, TAKEN, WRITTEN
from aioexec.devices.jit.strands import ASLEEP, ENDLESS, STOPPED, Shift

HEADER = 10
(BEGUN, TEMPLATE, STATE, STATE_WORDS, FRAME_WORDS, LANE_WORD, LANES, LANE_BYTES, GUESTS, FRAMES) = range(
    HEADER
)

# share_released(words of the frame, pad, words of those who look, until): do the fork, or go on with it: DONE; PAUSED, the time
# is over, or something has stopped it; IDLE: it has been stopped, and every guest is gone.
SHARE = f"""
@host = internal constant [2 x i64] [i64 -1, i64 -1]

define internal void @be_guest(ptr %frame, ptr %state, ptr %words) {{
entry:
  %asleep.at = getelementptr i64, ptr %state, i64 {ASLEEP}
  br label %share
share:
  %shift = call i64 @lane(ptr %frame, ptr %state, ptr %words, i64 {ENDLESS})
  %calls = icmp eq i64 %shift, {Shift.CALL}
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
  %guests = call i64 @pad_word(ptr %pad, i64 {GUESTS})
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
  %more = icmp ule i64 %lane.1, %guests
  br i1 %more, label %next, label %exit
exit:
  store i64 1, ptr %pad
  ret void
}}

; The word of the place where a guest was invited, if it is still about that guest, else free. The host of another fork may
; write its own guest's frame there meanwhile: who reads it knows that the guest before has left, and what it did.
define internal i64 @word_of(ptr %pad, ptr %looked.at, i64 %guest) {{
entry:
  %places.at = getelementptr i64, ptr %looked.at, i64 {PLACES}
  %places = load i64, ptr %places.at
  %index = add i64 %guest, {HEADER - 1}
  %k = call i64 @pad_word(ptr %pad, i64 %index)
  %word.index = add i64 %k, {PLACES_AT}
  %place = getelementptr i64, ptr %looked.at, i64 %word.index
  %word = load atomic i64, ptr %place seq_cst, align 8
  %frame.at = getelementptr ptr, ptr %place, i64 %places
  %found = load atomic ptr, ptr %frame.at acquire, align 8
  %frame = call ptr @frame_of(ptr %pad, i64 %guest)
  %is.mine = icmp eq ptr %found, %frame
  %answer = select i1 %is.mine, i64 %word, i64 {FREE}
  ret i64 %answer
}}

define internal void @invite(ptr %pad, ptr %looked.at) {{
entry:
  %places.at = getelementptr i64, ptr %looked.at, i64 {PLACES}
  %places = load i64, ptr %places.at
  %guests = call i64 @pad_word(ptr %pad, i64 {GUESTS})
  %state = call ptr @pad_pointer(ptr %pad, i64 {STATE})
  br label %next
next:
  %guest = phi i64 [ 1, %entry ], [ %guest.1, %skip ]
  %more = icmp ule i64 %guest, %guests
  br i1 %more, label %known, label %exit
known:
  %word = call i64 @word_of(ptr %pad, ptr %looked.at, i64 %guest)
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
  %frame = call ptr @frame_of(ptr %pad, i64 %guest)
  %frame.at = getelementptr ptr, ptr %place, i64 %places
  store atomic ptr %frame, ptr %frame.at release, align 8
  %state.at = getelementptr ptr, ptr %frame.at, i64 %places
  store ptr %state, ptr %state.at
  %note = add i64 %guest, {HEADER - 1}
  %note.at = getelementptr i64, ptr %pad, i64 %note
  store i64 %k, ptr %note.at
  store atomic i64 {INVITED}, ptr %place seq_cst, align 8
  br label %skip
skip:
  %guest.1 = add i64 %guest, 1
  br label %next
exit:
  ret void
}}

define internal void @see_off(ptr %pad, ptr %looked.at) {{
entry:
  %guests = call i64 @pad_word(ptr %pad, i64 {GUESTS})
  br label %next
next:
  %guest = phi i64 [ 1, %entry ], [ %guest.1, %gone ]
  %more = icmp ule i64 %guest, %guests
  br i1 %more, label %look, label %exit
look:
  %word = call i64 @word_of(ptr %pad, ptr %looked.at, i64 %guest)
  %is.invited = icmp eq i64 %word, {INVITED}
  br i1 %is.invited, label %withdraw, label %asked
withdraw:
  %note = add i64 %guest, {HEADER - 1}
  %k = call i64 @pad_word(ptr %pad, i64 %note)
  %index = add i64 %k, {PLACES_AT}
  %place = getelementptr i64, ptr %looked.at, i64 %index
  %pair = cmpxchg ptr %place, i64 {INVITED}, i64 {FREE} seq_cst seq_cst
  br label %look
asked:
  %is.there = icmp eq i64 %word, {TAKEN}
  br i1 %is.there, label %wait, label %gone
wait:
  call void @llvm.x86.sse2.pause()
  %ignored = call i32 @sched_yield()
  br label %look
gone:
  %guest.1 = add i64 %guest, 1
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
  call void @invite(ptr %pad, ptr %looked.at)
  br label %go
go:
  %frame = call ptr @frame_of(ptr %pad, i64 0)
  %state = call ptr @pad_pointer(ptr %pad, i64 {STATE})
  %stopped.at = getelementptr i64, ptr %state, i64 {STOPPED}
  %is.endless = icmp eq i64 %until, {ENDLESS}
  br label %share
share:
  %shift = call i64 @lane(ptr %frame, ptr %state, ptr @host, i64 %until)
  switch i64 %shift, label %halted [
    i64 {Shift.DONE}, label %done
    i64 {Shift.CALL}, label %call
    i64 {Shift.PAUSED}, label %paused
    i64 {Shift.IDLE}, label %idle
  ]
call:
  call void @invite(ptr %pad, ptr %looked.at)
  br label %share
idle:
  %stopped = load atomic i64, ptr %stopped.at seq_cst, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  br i1 %is.stopped, label %halted, label %rest
rest:
  %ignored = call i32 @sched_yield()
  br label %share
done:
  call void @see_off(ptr %pad, ptr %looked.at)
  store i64 0, ptr %pad
  ret i64 {Shift.DONE}
paused:
  ret i64 {Shift.PAUSED}
halted:
  br i1 %is.endless, label %over, label %paused
over:
  call void @see_off(ptr %pad, ptr %looked.at)
  ret i64 {Shift.IDLE}
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
