"""The frame around the code of one GPU thread: which elements it works on, and how its parameters are declared.

All parameters of all kernels are 64 bits wide: first the addresses of the operands, then integers, then float64 numbers. A
kernel's threads share its units of work by a grid-stride loop, so any grid is right and its size is only a matter of speed.
"""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.devices.cuda.ptx.compiler import HEADER

THREADS = 256
"""Threads of a block, of kernels whose threads do not cooperate."""
MOST_BLOCKS = 4096
"""Blocks of a launch, at most: enough to fill the largest GPU several times."""

REGISTERS = ("tid", "ctaid", "ntid", "nctaid")
DECLARATIONS = "\n".join(
    f"declare i32 @llvm.nvvm.read.ptx.sreg.{name}.{axis}()" for name in REGISTERS for axis in "xyz"
)
METADATA = """\
!0 = distinct !{!0, !{!"llvm.loop.unroll.disable"}}
!1 = !{!"branch_weights", i32 1, i32 4000}"""


def blocks_for(units: int, threads: int = THREADS) -> int:
    """The number of blocks with which a kernel is launched for so many units of work."""
    return min(-(-units // threads), MOST_BLOCKS)


def parameters(pointers: int, ints: int, reals: int = 0) -> str:
    """The parameter list of a kernel: `%a<k>`, `%i<k>`, `%r<k>`."""
    return ", ".join(
        [f"ptr addrspace(1) %a{k}" for k in range(pointers)]
        + [f"i64 %i{k}" for k in range(ints)]
        + [f"double %r{k}" for k in range(reals)]
    )


def thread_index() -> list[str]:
    """`%first`, the number of this thread in the grid, and `%step`, the number of all of them."""
    lines = [f"  %{name} = call i32 @llvm.nvvm.read.ptx.sreg.{name}.x()" for name in REGISTERS]
    lines += [f"  %{name}.wide = zext i32 %{name} to i64" for name in REGISTERS]
    return [
        *lines,
        "  %before = mul i64 %ctaid.wide, %ntid.wide",
        "  %first = add i64 %before, %tid.wide",
        "  %step = mul i64 %nctaid.wide, %ntid.wide",
    ]


def module_text(parts: Sequence[str]) -> str:
    """A module of these functions and declarations."""
    return HEADER + "\n".join([*(part for part in parts if part), DECLARATIONS, METADATA]) + "\n"
