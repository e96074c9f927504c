"""The loop nest around an elementwise body: from an `ElementwiseKernel` to the text of an LLVM module.

A kernel is one function, `i64 @symbol(ptr block, ptr frame)` (see `graph.kernel` for what the block holds):

    entry      addresses of the operands; a rank of 1 goes straight to its only row
    row        the innermost dimension: `main` takes whole groups of vectors, `rest` one vector at a time under a mask
    advance    the next row: an odometer over the outer dimensions, on the stack

The vectors are explicit, so nothing hangs on LLVM proving that operands do not overlap: within one step all loads come before
all stores, hence an output may be exactly an input. Masked-off lanes read as 1, so that no body divides by zero there.
A strided operand ("x") is gathered into a vector on the stack, element by element, and scattered from one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from aioexec.data_classes import dataclass
from aioexec.devices.jit.llvm.expressions import BodyError, Module, translate
from aioexec.devices.jit.llvm.ir import LLVM_TYPES
from aioexec.devices.jit.llvm.routines import EXTERNAL_SYMBOLS
from aioexec.devices.jit.llvm.rows import Loop, Port, main_loop, rest_loop, row
from aioexec.devices.jit.target import host
from aioexec.graph.kernels.kernel import ElementwiseKernel

__all__ = ["EXTERNAL_SYMBOLS", "BodyError", "emit"]

MAX_RANK = 16
REST_BYTES, WIDE_BYTES = 64, 256
"""Bytes of a vector in `rest`, the widest register there is; and at most, in `main` and where elements are gathered."""
CHEAP, LONG_CHAIN = 12, 45
"""Weights of a body: up to the first it is little but loads and stores, from the second on a long chain of dependencies.
Both want the widest vectors; between them half the width does, and compiles faster. Where registers are half as wide, what
does not fit in them goes through memory: there a long chain is done for two vectors of half the width, a statement of the one
in turn with a statement of the other, if most of it has to be done one after the other."""

ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
METADATA = """\
!0 = distinct !{!0, !{!"llvm.loop.unroll.disable"}, !{!"llvm.loop.vectorize.enable", i1 false}}
!1 = !{!"branch_weights", i32 1, i32 4000}"""


FIRST_ROW = """\
first:
  %f = phi i64 [ 0, %entry ], [ %f.next, %first.ok ]
  %f.dim.at = getelementptr i64, ptr %dims, i64 %f
  %f.dim = load i64, ptr %f.dim.at
  %f.empty = icmp eq i64 %f.dim, 0
  br i1 %f.empty, label %empty, label %first.ok
first.ok:
  %f.at = getelementptr i64, ptr %counters, i64 %f
  store i64 0, ptr %f.at
  %f.next = add i64 %f, 1
  %f.more = icmp ult i64 %f.next, %last
  br i1 %f.more, label %first, label %row, !llvm.loop !0
empty:
  ret i64 0"""
"""Set the odometer to zero; with an empty outer dimension there is no row at all."""


def emit(kernel: ElementwiseKernel, symbol: str, features: str | None = None) -> str:
    """Write the LLVM module that defines `symbol` as this kernel.

    Args:
        features: LLVM's feature string of the processor; None for this machine's. What is written for "" suits all.

    Raises:
        BodyError: the body is not in the language, or does not fit the operands.
    """
    nest = prepare(kernel, host().features if features is None else features)
    loops = [loop for loop in (nest.main, nest.rest) if loop]
    parts = [
        entry(nest, symbol),
        FIRST_ROW,
        row(nest.ports, nest.main, nest.rest),
        main_loop(nest.main) if nest.main else "",
        rest_loop(nest.rest, after_main=nest.main is not None),
        advance(nest),
        "}",
        *(text for loop in loops for text in (loop.body.text, *loop.module.functions.values())),
        *nest.rest.module.declarations.values(),
        ATTRIBUTES,
        METADATA,
    ]
    return "\n".join(part for part in parts if part) + "\n"


@dataclass(frozen=True, slots=True)
class Nest:
    """A kernel on its way to text: its operands and its loops; no `main` where an operand is strided."""

    ports: tuple[Port, ...]
    main: Loop | None
    rest: Loop

    @property
    def fallible(self) -> bool:
        return self.rest.body.fallible


def prepare(kernel: ElementwiseKernel, features: str) -> Nest:
    """Translate the body for each loop and decide how wide their vectors are."""
    ports = tuple(operand_ports(kernel))
    widest = max(port.size for port in ports)
    strided = any(port.letter == "x" for port in ports)
    declarations: dict[str, str] = {}
    narrow = Module(min(64, WIDE_BYTES // widest) if strided else REST_BYTES // widest, 0, declarations)
    rest = Loop("rest", ports, translate(kernel, narrow), narrow)
    if strided:
        return Nest(ports, None, rest)
    is_long = rest.body.weight >= LONG_CHAIN
    halved = rest.body.weight > CHEAP and not (is_long and has_wide_registers(features))
    is_serial = ";" in kernel.body and 3 * rest.body.chain > 2 * rest.body.weight
    streams = 2 if halved and is_long and is_serial else 1
    wide = Module(
        (WIDE_BYTES // 2 if halved else WIDE_BYTES) // widest, scarce_register(features), declarations
    )
    return Nest(ports, Loop("main", ports, translate(kernel, wide, streams), wide), rest)


@functools.cache
def has_wide_registers(features: str) -> bool:
    """Whether vectors of 512 bits are registers."""
    return "+avx512f" in features.split(",")


@functools.cache
def scarce_register(features: str) -> int:
    """Bytes of a vector register, if there are so few registers that LLVM reorders instructions to save some.

    Those of 512 bits are 32.
    """
    return 32 if "+avx2" in features.split(",") and not has_wide_registers(features) else 0


def operand_ports(kernel: ElementwiseKernel) -> Iterator[Port]:
    operands = [*kernel.inputs, *kernel.outputs]
    unknown = [dtype for _, dtype in operands if dtype not in LLVM_TYPES]
    if unknown or len(kernel.pattern) != len(operands) or set(kernel.pattern) - set("vsx"):
        raise BodyError(
            f"kernel body {kernel.body!r}: bad dtypes or pattern {kernel.pattern!r} for {operands!r}"
        )
    for index, ((_, dtype), letter) in enumerate(zip(operands, kernel.pattern, strict=True)):
        output = index >= len(kernel.inputs)
        yield Port(index, dtype, "x" if output and letter == "s" else letter, output)


def entry(nest: Nest, symbol: str) -> str:
    """The head of the function: stack memory, operand addresses, dimensions and strides."""
    lines = [f"define i64 @{symbol}(ptr noundef %block, ptr noundef %frame) align 64 #0 {{", "entry:"]
    if nest.fallible:
        lines += ["  %status = alloca i64", "  store i64 0, ptr %status"]
    lines += [f"  %counters = alloca [{MAX_RANK} x i64]"]
    for port in nest.ports:
        if port.letter == "x":
            lines.append(f"  %pack{port.index} = alloca {nest.rest.memory(port)}, align 64")
    for port in nest.ports:
        lines += address(port.index)
    lines += geometry(nest)
    lines += ["  %nested = icmp ugt i64 %rank, 1", "  br i1 %nested, label %first, label %row"]
    return "\n".join(lines)


def address(k: int) -> list[str]:
    """`%base<k>`: frame[block[2k]] + block[2k + 1]."""
    return [
        f"  %word.at{k} = getelementptr i64, ptr %block, i64 {2 * k}",
        f"  %word{k} = load i64, ptr %word.at{k}",
        f"  %slot{k} = getelementptr i64, ptr %frame, i64 %word{k}",
        f"  %address{k} = load ptr, ptr %slot{k}",
        f"  %offset.at{k} = getelementptr i64, ptr %block, i64 {2 * k + 1}",
        f"  %offset{k} = load i64, ptr %offset.at{k}",
        f"  %base{k} = getelementptr i8, ptr %address{k}, i64 %offset{k}",
    ]


def geometry(nest: Nest) -> list[str]:
    """`%n`, the innermost dimension; `%whole`, how much of it `main` does; `%strides<k>`, where an operand's strides are."""
    first = 2 * len(nest.ports)
    lines = [
        f"  %rank.at = getelementptr i64, ptr %block, i64 {first}",
        "  %rank = load i64, ptr %rank.at",
        f"  %dims = getelementptr i64, ptr %block, i64 {first + 1}",
        "  %last = sub i64 %rank, 1",
        "  %n.at = getelementptr i64, ptr %dims, i64 %last",
        "  %n = load i64, ptr %n.at",
    ]
    if nest.main:
        lines.append(f"  %whole = and i64 %n, {-nest.main.lanes}")
    for port in nest.ports:
        k = port.index
        lines += [
            f"  %strides.step{k} = mul i64 %rank, {k + 1}",
            f"  %strides{k} = getelementptr i64, ptr %dims, i64 %strides.step{k}",
        ]
        if port.letter == "x":
            lines += [
                f"  %stride.at{k} = getelementptr i64, ptr %strides{k}, i64 %last",
                f"  %stride{k} = load i64, ptr %stride.at{k}",
            ]
    return lines


def advance(nest: Nest) -> str:
    """Count the outer dimensions up, innermost of them first, moving every pointer; then the next row, or the end."""
    ports = [port.index for port in nest.ports]
    lines = [
        "row.end:",
        "  br i1 %nested, label %advance.begin, label %exit",
        "advance.begin:",
        "  %d.begin = sub i64 %last, 1",
        "  br label %advance",
        "advance:",
        "  %d = phi i64 [ %d.begin, %advance.begin ], [ %d.next, %carry ]",
        *[f"  %q{k} = phi ptr [ %p{k}, %advance.begin ], [ %back{k}, %carry ]" for k in ports],
        "  %count.at = getelementptr i64, ptr %counters, i64 %d",
        "  %count = load i64, ptr %count.at",
        "  %d.dim.at = getelementptr i64, ptr %dims, i64 %d",
        "  %d.dim = load i64, ptr %d.dim.at",
        *[f"  %d.at{k} = getelementptr i64, ptr %strides{k}, i64 %d" for k in ports],
        *[f"  %d.by{k} = load i64, ptr %d.at{k}" for k in ports],
        "  %count.next = add i64 %count, 1",
        "  %wrapped = icmp uge i64 %count.next, %d.dim",
        "  br i1 %wrapped, label %carry, label %advanced",
        "advanced:",
        "  store i64 %count.next, ptr %count.at",
        *[f"  %next{k} = getelementptr i8, ptr %q{k}, i64 %d.by{k}" for k in ports],
        "  br label %row",
        "carry:",
        "  store i64 0, ptr %count.at",
        "  %minus = sub i64 0, %count",
        *[f"  %d.back{k} = mul i64 %d.by{k}, %minus" for k in ports],
        *[f"  %back{k} = getelementptr i8, ptr %q{k}, i64 %d.back{k}" for k in ports],
        "  %d.next = sub i64 %d, 1",
        "  %d.done = icmp eq i64 %d, 0",
        "  br i1 %d.done, label %exit, label %advance",
        "exit:",
    ]
    if nest.fallible:
        return "\n".join([*lines, "  %end.status = load i64, ptr %status", "  ret i64 %end.status"])
    return "\n".join([*lines, "  ret i64 0"])
