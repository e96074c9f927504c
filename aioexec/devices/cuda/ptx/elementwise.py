"""Elementwise kernels for GPUs: from an `ElementwiseKernel` to the text of an LLVM module.

The body is the CPU's, translated for vectors of one lane, so both compute the same bits. A thread works on every `%step`-th
element. It takes the element's number apart into indices, innermost dimension first, and adds index times stride for each
operand. Within one element all loads come before all stores, hence an output may be exactly an input.

Where all operands are contiguous or scalars, a thread works on several elements at a time, which it loads with one
instruction of 16 bytes; the first threads do the rest, one element each.

A body may also use `at0`, `at1`, ...: the index of the element in that dimension of the launch, int64.

The integer parameters: the number of elements, the dimensions, outermost first, and for each operand its strides in bytes. A
failed lane (an integer divided by zero) gives 0, as on TensorFlow's GPUs, and no error.
"""

from __future__ import annotations

import re

from aioexec.data_classes import dataclass
from aioexec.devices.cuda.ptx.far_arguments import define_c_functions
from aioexec.devices.cuda.ptx.threads import module_text, parameters, thread_index
from aioexec.devices.jit.llvm.expressions import Body, BodyError, Module, translate
from aioexec.devices.jit.llvm.ir import ITEM_SIZES, LLVM_TYPES, stored_type
from aioexec.graph.kernels.kernel import ElementwiseKernel

ENTRY = "aioexec_elementwise"
VECTOR_BYTES = 16
"""Bytes that one instruction of a thread loads, at most; also the alignment of operands that are loaded so."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of a kernel.

    Attributes:
        rank: the number of dimensions.
        is_short: the elements are fewer than 2^31, so that indices have 32 bits.
        vector: for rank 1: whether all operands but scalars are contiguous and begin at multiples of VECTOR_BYTES; then the
            letters "v" and "s" of the operands.
    """

    rank: int
    is_short: bool
    vector: str = ""


def lanes_of(kernel: ElementwiseKernel) -> int:
    """The number of elements that a thread of the vector variant works on at a time."""
    widest = max(ITEM_SIZES[dtype] for _, dtype in (*kernel.inputs, *kernel.outputs))
    return VECTOR_BYTES // widest


def positions(body: str) -> tuple[int, ...]:
    """The dimensions whose index a body uses."""
    return tuple(sorted({int(found) for found in re.findall(r"\bat(\d+)\b", body)}))


def count_of_ints(operands: int, rank: int) -> int:
    return 1 + rank + operands * rank


def emit(kernel: ElementwiseKernel, variant: Variant) -> str:
    """Write the module that defines ENTRY as a variant of this kernel; the kernel's own pattern plays no part.

    Raises:
        BodyError: the body is not in the language, or does not fit the operands.
    """
    unknown = [dtype for _, dtype in (*kernel.inputs, *kernel.outputs) if dtype not in LLVM_TYPES]
    if unknown:
        raise BodyError(f"kernel body {kernel.body!r}: dtypes {unknown} are unknown")
    declarations: dict[str, str] = {}
    widths = [lanes_of(kernel), 1] if variant.vector else [1]
    modules = [Module(lanes, 0, declarations) for lanes in dict.fromkeys(widths)]
    places = positions(kernel.body)
    indexed = ElementwiseKernel(
        kernel.body, (*kernel.inputs, *((f"at{d}", "int64") for d in places)), kernel.outputs, ""
    )
    bodies = [translate(indexed, module) for module in modules]
    functions: dict[str, str] = {}
    for module in modules:
        functions |= module.functions
    loop = (
        vector_loops(kernel, variant, bodies) if variant.vector else element_loop(kernel, variant, bodies[0])
    )
    texts = [*(body.text for body in bodies), *functions.values(), *declarations.values()]
    return module_text([*loop, *define_c_functions(texts)])


def head(kernel: ElementwiseKernel, rank: int) -> list[str]:
    count = len(kernel.inputs) + len(kernel.outputs)
    signature = parameters(count, count_of_ints(count, rank))
    return [f"define ptx_kernel void @{ENTRY}({signature}) {{", "entry:", *thread_index()]


def element_loop(kernel: ElementwiseKernel, variant: Variant, body: Body) -> list[str]:
    """The kernel that works on one element at a time."""
    rank, word = variant.rank, "i32" if variant.is_short else "i64"
    count = len(kernel.inputs) + len(kernel.outputs)
    lines = head(kernel, rank)
    first, step = "%first", "%step"
    if variant.is_short:
        lines += ["  %first.word = trunc i64 %first to i32", "  %step.word = trunc i64 %step to i32"]
        lines += [f"  %dim{d} = trunc i64 %i{1 + d} to i32" for d in range(rank)]
        lines += ["  %n = trunc i64 %i0 to i32"]
        first, step = "%first.word", "%step.word"
    else:
        lines += [f"  %dim{d} = add i64 %i{1 + d}, 0" for d in range(rank)] + ["  %n = add i64 %i0, 0"]
    lines += [
        f"  %some = icmp ult {word} {first}, %n",
        "  br i1 %some, label %loop, label %exit",
        "loop:",
        f"  %at = phi {word} [ {first}, %entry ], [ %next, %loop ]",
    ]
    rest = "%at"
    for d in reversed(range(1, rank)):
        lines += [f"  %q{d} = udiv {word} {rest}, %dim{d}", f"  %whole{d} = mul {word} %q{d}, %dim{d}"]
        lines.append(f"  %index{d} = sub {word} {rest}, %whole{d}")
        rest = f"%q{d}"
    lines.append(f"  %index0 = add {word} {rest}, 0")
    for d in range(rank):
        extend = f"zext i32 %index{d} to i64" if variant.is_short else f"add i64 %index{d}, 0"
        lines.append(f"  %place{d} = {extend}")
    for k in range(count):
        at = f"%a{k}"
        for d in range(rank):
            lines += [
                f"  %by{k}.{d} = mul i64 %place{d}, %i{1 + rank + k * rank + d}",
                f"  %p{k}.{d} = getelementptr i8, ptr addrspace(1) {at}, i64 %by{k}.{d}",
            ]
            at = f"%p{k}.{d}"
        lines.append(f"  %p{k} = getelementptr i8, ptr addrspace(1) {at}, i64 0")
    lines += apply(kernel, body, "", [False] * count)
    lines += [
        f"  %next = add {word} %at, {step}",
        f"  %more = icmp ult {word} %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]
    return lines


def vector_loops(kernel: ElementwiseKernel, variant: Variant, bodies: list[Body]) -> list[str]:
    """The kernel that works on vectors, then on single elements."""
    operands = [*kernel.inputs, *kernel.outputs]
    is_scalar = [letter == "s" for letter in variant.vector]
    lanes = bodies[0].lanes
    lines = head(kernel, 1)
    lines += [f"  %vectors = udiv i64 %i0, {lanes}", f"  %whole = mul i64 %vectors, {lanes}"]
    lines += ["  %some = icmp ult i64 %first, %vectors", "  br i1 %some, label %vector, label %rest.begin"]
    for name, width, body in (("vector", lanes, bodies[0]), ("rest", 1, bodies[-1])):
        tag = name[0]
        if name == "rest":
            lines += [
                "rest.begin:",
                "  %rest.first = add i64 %whole, %first",
                "  %rest.some = icmp ult i64 %rest.first, %i0",
                "  br i1 %rest.some, label %rest, label %exit",
                "rest:",
                "  %at.r = phi i64 [ %rest.first, %rest.begin ], [ %next.r, %rest ]",
            ]
        else:
            lines += ["vector:", "  %at.v = phi i64 [ %first, %entry ], [ %next.v, %vector ]"]
        for k, (_, dtype) in enumerate(operands):
            size = 0 if is_scalar[k] else ITEM_SIZES[dtype] * width
            lines += [
                f"  %by{k}.{tag} = mul i64 %at.{tag}, {size}",
                f"  %p{k}.{tag} = getelementptr i8, ptr addrspace(1) %a{k}, i64 %by{k}.{tag}",
            ]
        lines += apply(kernel, body, f".{tag}", is_scalar)
        bound, after = ("%vectors", "rest.begin") if name == "vector" else ("%i0", "exit")
        lines += [
            f"  %next.{tag} = add i64 %at.{tag}, %step",
            f"  %more.{tag} = icmp ult i64 %next.{tag}, {bound}",
            f"  br i1 %more.{tag}, label %{name}, label %{after}",
        ]
    return [*lines, "exit:", "  ret void", "}"]


def apply(kernel: ElementwiseKernel, body: Body, tag: str, is_scalar: list[bool]) -> list[str]:
    """Load the inputs from `%p<k><tag>`, call the body, store the outputs."""
    lines: list[str] = []
    lanes, arguments = body.lanes, []
    for k, (_, dtype) in enumerate(kernel.inputs):
        kind, memory = LLVM_TYPES[dtype], stored_type(dtype)
        vector = f"<{lanes} x {memory}>"
        if is_scalar[k]:
            lines += [
                f"  %one{k}{tag} = load {memory}, ptr addrspace(1) %p{k}{tag}, align {ITEM_SIZES[dtype]}",
                f"  %lane{k}{tag} = insertelement {vector} poison, {memory} %one{k}{tag}, i64 0",
                f"  %load{k}{tag} = shufflevector {vector} %lane{k}{tag}, {vector} poison, "
                f"<{lanes} x i32> zeroinitializer",
            ]
        else:
            align = lanes * ITEM_SIZES[dtype]
            lines.append(f"  %load{k}{tag} = load {vector}, ptr addrspace(1) %p{k}{tag}, align {align}")
        opcode = "icmp ne" if dtype == "bool" else "bitcast"
        into = ", zeroinitializer" if dtype == "bool" else f" to <{lanes} x {kind}>"
        lines.append(f"  %in{k}{tag} = {opcode} {vector} %load{k}{tag}{into}")
        arguments.append(f"<{lanes} x {kind}> %in{k}{tag}")
    for d in positions(kernel.body):
        lines.append(f"  %at{d}.lane{tag} = insertelement <1 x i64> poison, i64 %place{d}, i64 0")
        arguments.append(f"<1 x i64> %at{d}.lane{tag}")
    lines.append(f"  %results{tag} = call {body.result_type} {body.symbol}({', '.join(arguments)})")
    for j, (_, dtype) in enumerate(kernel.outputs):
        k = len(kernel.inputs) + j
        kind, vector = f"<{lanes} x {LLVM_TYPES[dtype]}>", f"<{lanes} x {stored_type(dtype)}>"
        lines.append(f"  %out{k}{tag} = extractvalue {body.result_type} %results{tag}, {j}")
        opcode = "zext" if dtype == "bool" else "bitcast"
        lines.append(f"  %store{k}{tag} = {opcode} {kind} %out{k}{tag} to {vector}")
        align = lanes * ITEM_SIZES[dtype]
        lines.append(f"  store {vector} %store{k}{tag}, ptr addrspace(1) %p{k}{tag}, align {align}")
    return lines
