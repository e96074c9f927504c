"""Runs the IR of GPU kernels on the processor: the same text, compiled for this machine.

Only three things change: the target, the address spaces, and the special registers, which become variables. A kernel without
barriers is called once for each thread of the grid, one after another. A block of a kernel with barriers runs in as many
threads of this process, which wait for each other at each barrier; its shared memory is a variable, so blocks follow one
another.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from aioexec.devices.cuda.ptx.compiler import HEADER, optimise
from aioexec.devices.jit.target import host, llvm

Grid = tuple[int, int, int]
REGISTER = re.compile(r"^declare i32 @llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.([xyz])\(\)$", re.MULTILINE)
BARRIER = "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)"
NAMES = [f"{name}.{axis}" for name in ("tid", "ctaid", "ntid", "nctaid") for axis in "xyz"]
LIBC: Any = ctypes.CDLL(None)


class Block:
    """The threads of the block that runs at present: the C library's barrier, and for each thread its number.

    Compiled kernels use both without the interpreter lock.
    """

    def __init__(self) -> None:
        self.barrier = ctypes.create_string_buffer(64)
        self.key = ctypes.c_uint()
        assert LIBC.pthread_key_create(ctypes.byref(self.key), None) == 0

    def run(self, count: int, call: Callable[[], object]) -> None:
        """Make a call in so many threads."""
        LIBC.pthread_barrier_init(self.barrier, None, count)

        def enter(index: int) -> None:
            LIBC.pthread_setspecific(self.key, ctypes.c_void_p(index))
            call()

        threads = [threading.Thread(target=enter, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        LIBC.pthread_barrier_destroy(self.barrier)


BLOCK = Block()


def address(function: Any) -> int:
    found = ctypes.cast(function, ctypes.c_void_p).value
    assert found is not None
    return found


def on_processor(text: str, entry: str, parameters: str) -> str:
    """The module with variables in place of special registers, and `@run_block`, which calls the entry for each thread."""
    assert text.startswith(HEADER)
    text = re.sub(r" ?addrspace\([13]\)", "", text.removeprefix(HEADER).replace("ptx_kernel ", ""))
    has_barrier = BARRIER in text
    registers = [f"@{name} = global i32 0" for name in NAMES]

    def read(match: re.Match[str]) -> str:
        name = f"{match[1]}.{match[2]}"
        head = f"define internal i32 @emulated.{name}() alwaysinline {{\n"
        if has_barrier and name == "tid.x":
            return (
                f"{head}  %f = inttoptr i64 {address(LIBC.pthread_getspecific)} to ptr\n"
                f"  %p = call ptr %f(i32 {BLOCK.key.value})\n  %x = ptrtoint ptr %p to i32\n  ret i32 %x\n}}"
            )
        return f"{head}  %x = load i32, ptr @{name}\n  ret i32 %x\n}}"

    text = REGISTER.sub(read, text).replace("@llvm.nvvm.read.ptx.sreg.", "@emulated.")
    run = RUN_BLOCK
    if has_barrier:
        run = RUN_TOGETHER
        barrier = (
            "define internal void @emulated.barrier(i32 %all) noinline {\n"
            f"  %f = inttoptr i64 {address(LIBC.pthread_barrier_wait)} to ptr\n"
            f"  %b = inttoptr i64 {address(BLOCK.barrier)} to ptr\n"
            "  %x = call i32 %f(ptr %b)\n  ret void\n}"
        )
        text = text.replace(BARRIER, barrier)
        text = text.replace("@llvm.nvvm.barrier.cta.sync.aligned.all", "@emulated.barrier")
    return "\n".join([*registers, text, run.format(entry=entry, parameters=parameters)])


RUN_BLOCK = """\
define void @run_block({parameters}) {{
entry:
  %threads = load i32, ptr @ntid.x
  br label %thread
thread:
  %t = phi i32 [ 0, %entry ], [ %next, %thread ]
  store i32 %t, ptr @tid.x
  call void @{entry}({parameters})
  %next = add i32 %t, 1
  %more = icmp ult i32 %next, %threads
  br i1 %more, label %thread, label %exit
exit:
  ret void
}}
"""


RUN_TOGETHER = """\
define void @run_block({parameters}) {{
entry:
  %columns = load i32, ptr @nctaid.x
  %rows = load i32, ptr @nctaid.y
  %t = call i32 @emulated.tid.x()
  %is.first = icmp eq i32 %t, 0
  br label %block
block:
  %x = phi i32 [ 0, %entry ], [ %x.next, %run ]
  %y = phi i32 [ 0, %entry ], [ %y.next, %run ]
  call void @emulated.barrier(i32 0)
  br i1 %is.first, label %set, label %ready
set:
  store i32 %x, ptr @ctaid.x
  store i32 %y, ptr @ctaid.y
  br label %ready
ready:
  call void @emulated.barrier(i32 0)
  br label %run
run:
  call void @{entry}({parameters})
  %x.after = add i32 %x, 1
  %is.last = icmp eq i32 %x.after, %columns
  %x.next = select i1 %is.last, i32 0, i32 %x.after
  %y.after = add i32 %y, 1
  %y.next = select i1 %is.last, i32 %y.after, i32 %y
  %more = icmp ult i32 %y.next, %rows
  br i1 %more, label %block, label %exit
exit:
  ret void
}}
"""


class Emulated:
    """A kernel compiled for this machine."""

    def __init__(self, text: str, entry: str) -> None:
        header = re.search(rf"^define ptx_kernel void @{entry}\((.*)\) {{$", text, re.MULTILINE)
        assert header is not None
        parameters = header[1].replace(" addrspace(1)", "")
        self.has_barrier = BARRIER in text
        self.kinds = [each.split()[0] for each in parameters.split(", ")]
        binding = llvm()
        module = binding.parse_assembly(on_processor(text, entry, parameters))
        module.triple = binding.get_process_triple()
        module.verify()
        machine = binding.Target.from_triple(module.triple).create_target_machine(
            cpu=host().cpu, features=host().features, opt=1, jit=True
        )
        module.data_layout = str(machine.target_data)
        optimise(binding, machine, module)
        self.engine = binding.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        types: Any = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "double": ctypes.c_double}
        prototype = ctypes.CFUNCTYPE(None, *(types[kind] for kind in self.kinds))
        self.call = prototype(self.engine.get_function_address("run_block"))

    def launch(self, grid: Grid, threads: int, arguments: Sequence[Any]) -> None:
        """Run the kernel; arguments are arrays or NumPy scalars."""
        plain = [each.ctypes.data if isinstance(each, np.ndarray) else each.item() for each in arguments]
        assert len(plain) == len(self.kinds), f"{len(plain)} arguments for {len(self.kinds)} parameters"
        self._set("ntid", (threads, 1, 1))
        self._set("nctaid", grid)
        if self.has_barrier:
            BLOCK.run(threads, lambda: self.call(*plain))
            return
        for y, x in product(range(grid[1]), range(grid[0])):
            self._set("ctaid", (x, y, 0))
            self.call(*plain)

    def _set(self, name: str, values: Grid) -> None:
        for axis, value in zip("xyz", values, strict=True):
            address = self.engine.get_global_value_address(f"{name}.{axis}")
            ctypes.c_int32.from_address(address).value = value


@lru_cache(maxsize=64)
def emulated(text: str, entry: str) -> Emulated:
    return Emulated(text, entry)
