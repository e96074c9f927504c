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
from collections.abc import Sequence
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
WAIT, INDEX = ctypes.CFUNCTYPE(None), ctypes.CFUNCTYPE(ctypes.c_int32)


class Block:
    """The threads of the block that runs at present, for kernels with barriers."""

    def __init__(self) -> None:
        self.local = threading.local()
        self.barrier = threading.Barrier(1)
        self.wait = WAIT(lambda: void(self.barrier.wait()))
        self.index = INDEX(lambda: int(self.local.index))


def void(_: object) -> None:
    """ctypes takes no value from a function without a result."""


BLOCK = Block()


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
            address = ctypes.cast(BLOCK.index, ctypes.c_void_p).value
            return f"{head}  %f = inttoptr i64 {address} to ptr\n  %x = call i32 %f()\n  ret i32 %x\n}}"
        return f"{head}  %x = load i32, ptr @{name}\n  ret i32 %x\n}}"

    text = REGISTER.sub(read, text).replace("@llvm.nvvm.read.ptx.sreg.", "@emulated.")
    if has_barrier:
        address = ctypes.cast(BLOCK.wait, ctypes.c_void_p).value
        head = "define internal void @emulated.barrier(i32 %all) alwaysinline {\n"
        text = text.replace(
            BARRIER, f"{head}  %f = inttoptr i64 {address} to ptr\n  call void %f()\n  ret void\n}}"
        ).replace("@llvm.nvvm.barrier.cta.sync.aligned.all", "@emulated.barrier")
    return "\n".join([*registers, text, RUN_BLOCK.format(entry=entry, parameters=parameters)])


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
        name = entry if self.has_barrier else "run_block"
        prototype = ctypes.CFUNCTYPE(None, *(types[kind] for kind in self.kinds))
        self.call = prototype(self.engine.get_function_address(name))

    def launch(self, grid: Grid, threads: int, arguments: Sequence[Any]) -> None:
        """Run the kernel; arguments are arrays or NumPy scalars."""
        plain = [each.ctypes.data if isinstance(each, np.ndarray) else each.item() for each in arguments]
        assert len(plain) == len(self.kinds), f"{len(plain)} arguments for {len(self.kinds)} parameters"
        self._set("ntid", (threads, 1, 1))
        self._set("nctaid", grid)
        for index in product(*(range(count) for count in reversed(grid))):
            self._set("ctaid", tuple(reversed(index)))  # type: ignore[arg-type]
            if self.has_barrier:
                self._run_together(threads, plain)
            else:
                self.call(*plain)

    def _set(self, name: str, values: Grid) -> None:
        for axis, value in zip("xyz", values, strict=True):
            address = self.engine.get_global_value_address(f"{name}.{axis}")
            ctypes.c_int32.from_address(address).value = value

    def _run_together(self, count: int, arguments: Sequence[Any]) -> None:
        BLOCK.barrier = threading.Barrier(count)

        def run(index: int) -> None:
            BLOCK.local.index = index
            self.call(*arguments)

        threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


@lru_cache(maxsize=64)
def emulated(text: str, entry: str) -> Emulated:
    return Emulated(text, entry)
