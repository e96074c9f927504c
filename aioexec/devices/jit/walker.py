"""The walker: machine code that runs a program, a table of compiled kernels, in one call from Python.

A program is a table of rows, four 64-bit words each: kernel address, block address, cost, and a spare word. A row without a
kernel is a BREAK: the walk stops there, Python runs that node, and the walk resumes behind it. If it has a block, it is a
parallel region. A walk on a worker executes the region itself as its owner, unless threads have to be woken, or a task has
failed or was cancelled (see `team`); any other walk stops. A frame holds one run:

    word 0  program counter: the row to run next, or the row the walk stopped at
    word 1  status the failed kernel returned; -1 - k: no failure, row k comes next (the kernels `jump` and `jump_unless`)
    word 2  cancel: any thread may set it to 1; checked before each row; never reset here, so a walk cancelled before it starts
            runs nothing
    word 3  fuel that is left, in the unit of the costs; the walk pauses when it is spent
    word 4  address of the rows
    word 5  number of rows
    word 6  fuel of an inline walk
    word 7  address of the stamps of a traced walk, two for each row; 0: the walk is not traced
    word 8… slots: addresses, see graph/kernels/kernel

The walk flushes denormals from entry to exit and restores the control register. There are two entries to one walker: one keeps
the interpreter lock (on the event loop: releasing it for 2 µs beside a busy thread costs 5 ms), the other releases it (on a
worker) and has fuel for a slice of time. `start` binds arrays to slots 0, 1, … by their data pointers; `resume` continues.

A traced walk reads the clock of `perf_counter_ns` before and after each row and writes the two times to the row's stamps. It is
a function of its own, chosen at the entry, so that an untraced walk does not pay for it.

Everything is emitted as LLVM IR through llvmlite; the entries are builtin functions made from their addresses.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.devices.threads import parallel_region, spinning, team

HEADER = 8
ROW_WORDS = 4
PC, STATUS, CANCEL, FUEL, ROWS, ROW_COUNT, INLINE_FUEL, STAMPS = range(8)


class Outcome:
    """How a walk ended: plain numbers, since an enum's attribute costs as much as a small kernel."""

    DONE = 0
    FAILED = 1
    CANCELLED = 2
    PAUSED = 3
    BREAK = 4
    UNALIGNED = 5  # an array given to `start` is not C-contiguous and aligned; nothing was run


Entry = Callable[..., int]


@dataclass(frozen=True, slots=True)
class Walker:
    """The entries. Each takes the frame (an int64 array); `start_*` also the arrays whose addresses go to slots 0, 1, …;
    `team_released(frame, team, waiting, until)` executes a parallel region as its owner (see `team`);
    `serve_released(waiting, nanoseconds)` waits for entries of a queue, and helps in open regions meanwhile (see `spinning`).
    `jump` and `jump_unless` are addresses of kernels.

    The caller keeps frame, rows, blocks and arrays alive until the call returns.
    """

    start_inline: Entry
    resume_inline: Entry
    start_released: Entry
    resume_released: Entry
    team_released: Entry
    serve_released: Entry
    jump: int
    jump_unless: int


_DECLARATIONS = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLong(i64)
declare i64 @PyLong_AsLong(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_yield()
declare i32 @usleep(i32)
declare i64 @pthread_self()
declare ptr @memcpy(ptr, ptr, i64)

define internal ptr @data_of(ptr %array) {
  %at = getelementptr i8, ptr %array, i64 16
  %data = load ptr, ptr %at
  ret ptr %data
}
"""

_CLOCK = f"""
define internal i64 @clock() {{
  %time = alloca {{ i64, i64 }}
  %ignored = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  ret i64 %now
}}
"""

# The time in nanoseconds goes to word `index` of the stamps.
_STAMP = f"""
define internal void @stamp(ptr %frame, i64 %index) {{
  %now = call i64 @clock()
  %stamps.at = getelementptr i64, ptr %frame, i64 {STAMPS}
  %stamps = load ptr, ptr %stamps.at
  %stamp.at = getelementptr i64, ptr %stamps, i64 %index
  store i64 %now, ptr %stamp.at
  ret void
}}
"""

_WALK = """
define internal i64 @walk_{name}(ptr %frame) {
entry:
{flush}
  %status.at = getelementptr i64, ptr %frame, i64 1
  %cancel.at = getelementptr i64, ptr %frame, i64 2
  %fuel.at = getelementptr i64, ptr %frame, i64 3
  %rows.at = getelementptr i64, ptr %frame, i64 4
  %count.at = getelementptr i64, ptr %frame, i64 5
  %rows = load ptr, ptr %rows.at
  %count = load i64, ptr %count.at
  %pc.0 = load i64, ptr %frame
  %fuel.0 = load i64, ptr %fuel.at
  br label %next
next:
  %pc = phi i64 [ %pc.0, %entry ], [ %pc.1, %after ], [ %target, %jump ]{region.pc}
  %fuel = phi i64 [ %fuel.0, %entry ], [ %fuel.1, %after ], [ %fuel.1, %jump ]{region.fuel}
  %more = icmp ult i64 %pc, %count
  br i1 %more, label %look, label %exit
look:
  %cancel = load volatile i64, ptr %cancel.at
  %cancelled = icmp ne i64 %cancel, 0
  br i1 %cancelled, label %exit, label %fuelled
fuelled:
  %spent = icmp slt i64 %fuel, 0
  br i1 %spent, label %exit, label %row
row:
  %offset = mul i64 %pc, 4
  %row.at = getelementptr i64, ptr %rows, i64 %offset
  %kernel = load ptr, ptr %row.at
  %break = icmp eq ptr %kernel, null
  br i1 %break, label %{stop}, label %run
{region}
run:
  %block.at = getelementptr i64, ptr %row.at, i64 1
  %cost.at = getelementptr i64, ptr %row.at, i64 2
  %block = load ptr, ptr %block.at
  %cost = load i64, ptr %cost.at
  %fuel.1 = sub i64 %fuel, %cost
{before}
  %status = call i64 %kernel(ptr %block, ptr %frame)
{after}
  %plain = icmp eq i64 %status, 0
  br i1 %plain, label %after, label %reported
after:
  %pc.1 = add i64 %pc, 1
  br label %next
reported:
  %jumps = icmp slt i64 %status, 0
  br i1 %jumps, label %jump, label %exit
jump:
  %target = sub i64 -1, %status
  br label %next
exit:
  %outcome = phi i64 [ 0, %next ], [ 2, %look ], [ 3, %fuelled ], [ 4, %{stop.before} ], [ 1, %reported ]{region.outcome}
  %final = phi i64 [ 0, %next ], [ 0, %look ], [ 0, %fuelled ], [ 0, %{stop.before} ], [ %status, %reported ]{region.final}
  store i64 %pc, ptr %frame
  store i64 %final, ptr %status.at
{restore}
  ret i64 %outcome
}
"""
_STOPS = {
    "{stop}": "exit",
    "{stop.before}": "row",
    "{region}": "",
    "{region.pc}": "",
    "{region.fuel}": "",
    "{region.outcome}": "",
    "{region.final}": "",
}
"""The placeholders of a walk that stops at parallel regions."""
_REGION = """
stop:
  %region.block.at = getelementptr i64, ptr %row.at, i64 1
  %region.block = load ptr, ptr %region.block.at
  %is.region = icmp ne ptr %region.block, null
  br i1 %is.region, label %region, label %exit
region:
  %region.cost.at = getelementptr i64, ptr %row.at, i64 2
  %region.cost = load i64, ptr %region.cost.at
  %region.fuel = sub i64 %fuel, %region.cost
  %region.end = call i64 @region(ptr %region.block, ptr %frame)
  %is.done = icmp ne i64 %region.end, 0
  br i1 %is.done, label %next, label %exit
"""
_EXECUTES = {
    "{stop}": "stop",
    "{stop.before}": "stop",
    "{region}": _REGION,
    "{region.pc}": ", [ %region.end, %region ]",
    "{region.fuel}": ", [ %region.fuel, %region ]",
    "{region.outcome}": f", [ {Outcome.BREAK}, %region ]",
    "{region.final}": ", [ 0, %region ]",
}
"""Those of a walk that executes them."""
_CHOICE = """
define internal i64 @{name}(ptr %frame) {
  %stamps.at = getelementptr i64, ptr %frame, i64 {stamps}
  %stamps = load i64, ptr %stamps.at
  %is.traced = icmp ne i64 %stamps, 0
  br i1 %is.traced, label %traced, label %plain
traced:
  %stamped = call i64 @walk_traced(ptr %frame)
  ret i64 %stamped
plain:
  %outcome = call i64 @{plain}(ptr %frame)
  ret i64 %outcome
}
"""
_STAMP_BEFORE = """
  %stamp.before = mul i64 %pc, 2
  call void @stamp(ptr %frame, i64 %stamp.before)
"""
_STAMP_AFTER = """
  %stamp.after = add i64 %stamp.before, 1
  call void @stamp(ptr %frame, i64 %stamp.after)
"""

# Denormals as zero (0x40) and flush to zero (0x8000) in the control register of the vector unit.
_FLUSH_X86 = """
  %csr.old = alloca i32
  %csr.new = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %csr.old)
  %csr = load i32, ptr %csr.old
  %csr.flushing = or i32 %csr, 32832
  store i32 %csr.flushing, ptr %csr.new
  call void @llvm.x86.sse.ldmxcsr(ptr %csr.new)
"""
_RESTORE_X86 = "  call void @llvm.x86.sse.ldmxcsr(ptr %csr.old)"

# NumPy's array object: data at byte 16, flags at byte 64; 0x101 is C_CONTIGUOUS and ALIGNED.
_START = """
define ptr @start_{mode}(ptr %self, ptr %args, i64 %nargs) {
entry:
  %first = load ptr, ptr %args
  %frame = call ptr @data_of(ptr %first)
  store i64 0, ptr %frame
  br label %check
check:
  %i = phi i64 [ 1, %entry ], [ %i.next, %bind ]
  %more = icmp slt i64 %i, %nargs
  br i1 %more, label %look, label %go
look:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %array = load ptr, ptr %arg.at
  %flags.at = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags.at
  %wanted = and i32 %flags, 257
  %fits = icmp eq i32 %wanted, 257
  br i1 %fits, label %bind, label %unaligned
bind:
  %data = call ptr @data_of(ptr %array)
  %word = add i64 %i, 7
  %slot = getelementptr i64, ptr %frame, i64 %word
  store ptr %data, ptr %slot
  %i.next = add i64 %i, 1
  br label %check
go:
{fuel}
{call}
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
unaligned:
  %refused = call ptr @PyLong_FromLong(i64 5)
  ret ptr %refused
}

define ptr @resume_{mode}(ptr %self, ptr %args, i64 %nargs) {
  %first = load ptr, ptr %args
  %frame = call ptr @data_of(ptr %first)
{fuel}
{call}
  %result = call ptr @PyLong_FromLong(i64 %outcome)
  ret ptr %result
}
"""

# Block of a jump: the predicate's frame word and byte offset (not read by `jump`), the target row.
_JUMPS = """
define i64 @jump(ptr %block, ptr %frame) {
  %target.at = getelementptr i64, ptr %block, i64 2
  %target = load i64, ptr %target.at
  %status = sub i64 -1, %target
  ret i64 %status
}

define i64 @jump_unless(ptr %block, ptr %frame) {
  %word = load i64, ptr %block
  %offset.at = getelementptr i64, ptr %block, i64 1
  %offset = load i64, ptr %offset.at
  %slot.at = getelementptr i64, ptr %frame, i64 %word
  %slot = load ptr, ptr %slot.at
  %predicate.at = getelementptr i8, ptr %slot, i64 %offset
  %predicate = load i8, ptr %predicate.at
  %holds = icmp ne i8 %predicate, 0
  %otherwise = call i64 @jump(ptr %block, ptr %frame)
  %status = select i1 %holds, i64 0, i64 %otherwise
  ret i64 %status
}
"""

_FUEL_INLINE = """
  %budget.at = getelementptr i64, ptr %frame, i64 6
  %budget = load i64, ptr %budget.at
  %fuel.at = getelementptr i64, ptr %frame, i64 3
  store i64 %budget, ptr %fuel.at
"""
RELEASED_FUEL_NS = 5_000_000
"""Estimated time after which a walk on a worker checks whether jobs wait for the thread."""
_FUEL_RELEASED = f"""
  %fuel.at = getelementptr i64, ptr %frame, i64 3
  store i64 {RELEASED_FUEL_NS}, ptr %fuel.at
"""
_CALL_INLINE = "  %outcome = call i64 @walk(ptr %frame)"
_CALL_RELEASED = """
  %state = call ptr @PyEval_SaveThread()
  %outcome = call i64 @walk_on_worker(ptr %frame)
  call void @PyEval_RestoreThread(ptr %state)
"""


def emit() -> str:
    """The module text for this machine."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    text = _DECLARATIONS + _CLOCK + _STAMP + _JUMPS + parallel_region.LANE + team.TEAM + spinning.SERVE
    for name, plain in (("walk", "walk_plain"), ("walk_on_worker", "walk_executing")):
        choice = _CHOICE.replace("{name}", name).replace("{plain}", plain)
        text += choice.replace("{stamps}", str(STAMPS))
    for name, before, after, stops in (
        ("plain", "", "", _STOPS),
        ("executing", "", "", _EXECUTES),
        ("traced", _STAMP_BEFORE, _STAMP_AFTER, _STOPS),
    ):
        walk = _WALK.replace("{name}", name).replace("{before}", before).replace("{after}", after)
        for placeholder, content in stops.items():
            walk = walk.replace(placeholder, content)
        text += walk
    for mode, fuel, call in (
        ("inline", _FUEL_INLINE, _CALL_INLINE),
        ("released", _FUEL_RELEASED, _CALL_RELEASED),
    ):
        text += _START.replace("{mode}", mode).replace("{fuel}", fuel).replace("{call}", call)
    text = text.replace("{flush}", _FLUSH_X86 if x86 else "").replace(
        "{restore}", _RESTORE_X86 if x86 else ""
    )
    if not x86:
        text = "\n".join(line for line in text.splitlines() if "llvm.x86" not in line)
    return text


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_METH_FASTCALL = 0x0080
_lock = threading.Lock()
_kept: list[Any] = []  # keeps the compiled module and the method definitions alive


@functools.cache
def _compile() -> Walker | None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(emit())
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    for name in ("PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLong", "PyLong_AsLong"):
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    for name in ("clock_gettime", "sched_yield", "usleep", "pthread_self", "memcpy"):
        llvm.add_symbol(name, ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _kept.append(engine)

    def entry(name: str) -> Entry:
        return _builtin(name, engine.get_function_address(name))

    found = Walker(
        entry("start_inline"),
        entry("resume_inline"),
        entry("start_released"),
        entry("resume_released"),
        entry("team_released"),
        entry("serve_released"),
        engine.get_function_address("jump"),
        engine.get_function_address("jump_unless"),
    )
    return found if _reads_arrays(found) else None


def _builtin(name: str, address: int) -> Entry:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p]
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL, b"Walk a program.")
    _kept.append(definition)
    entry: Entry = make(ctypes.byref(definition), None, None)
    return entry


def _reads_arrays(walker: Walker) -> bool:
    """Whether arrays have the memory layout that the entries assume: bind two to an empty program and compare the slots."""
    frame = np.zeros(HEADER + 2, np.int64)
    one, two = np.zeros(3, np.float32), np.zeros((2, 2), np.int64)
    if not frame.flags.c_contiguous or not isinstance(frame.__array_interface__["data"][0], int):
        return False
    expected = [array.__array_interface__["data"][0] for array in (one, two)]
    outcome = walker.start_inline(frame, one, two)
    return outcome == Outcome.DONE and frame[HEADER:].tolist() == expected


def walker() -> Walker | None:
    """The walker of this process, compiled by the first call (about 20 ms: not on the event loop); None: not available."""
    with _lock:
        return _compile()
