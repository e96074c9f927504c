"""One row of a loop nest: loading operands as vectors, calling the body, storing what it gives.

`main` takes whole wide vectors; `rest` narrower ones under a mask, for what is left and wherever an operand is strided. A wide
vector is several registers: LLVM interleaves them, so that the processor always finds an instruction whose operands are ready.
(A fused body is one long chain of dependent instructions, longer than a processor looks ahead.)
"""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.devices.jit.llvm.expressions import Body, Module
from aioexec.devices.jit.llvm.ir import ITEM_SIZES, LLVM_TYPES, MANGLED, scalar_constant, stored_type
from aioexec.devices.jit.llvm.routines import any_lane


@dataclass(frozen=True, slots=True)
class Port:
    """One operand as the loops see it.

    Attributes:
        index: its place among the operands of the block.
        letter: "v", "s" or "x"; an output that does not move is strided.
    """

    index: int
    dtype: str
    letter: str
    output: bool

    @property
    def memory(self) -> str:
        return stored_type(self.dtype)

    @property
    def size(self) -> int:
        return ITEM_SIZES[self.dtype]


@dataclass(frozen=True, slots=True)
class Loop:
    """One of the loops of a row: its body, for vectors of its own width.

    Attributes:
        name: "main" or "rest"; it ends the names of the loop's values.
        module: the functions the body calls, and the declarations of all.
    """

    name: str
    ports: tuple[Port, ...]
    body: Body
    module: Module

    @property
    def lanes(self) -> int:
        return self.body.lanes

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if not port.output)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.output)

    def memory(self, port: Port) -> str:
        """The type of a vector of this operand in memory."""
        return f"<{self.lanes} x {port.memory}>"

    def register(self, port: Port) -> str:
        """The type of a vector of this operand in the body."""
        return f"<{self.lanes} x {LLVM_TYPES[port.dtype]}>"

    @property
    def mask(self) -> str:
        return f"<{self.lanes} x i1>"


def row(ports: tuple[Port, ...], main: Loop | None, rest: Loop) -> str:
    """Where the row begins; scalars are loaded and spread, once."""
    lines = ["row:"]
    for port in ports:
        k = port.index
        lines.append(
            f"  %p{k} = phi ptr [ %base{k}, %entry ], [ %base{k}, %first.ok ], [ %next{k}, %advanced ]"
        )
    # In an empty row there may be no scalar to read either.
    lines += ["  %n.zero = icmp eq i64 %n, 0", "  br i1 %n.zero, label %row.end, label %spread", "spread:"]
    for port in ports:
        if port.letter == "s":
            lines.append(f"  %scalar{port.index} = load {port.memory}, ptr %p{port.index}, align {port.size}")
            lines += [line for loop in (main, rest) if loop for line in spread(loop, port)]
    if main:
        lines += [
            "  %any.whole = icmp ne i64 %whole, 0",
            "  br i1 %any.whole, label %main, label %rest.begin",
        ]
    else:
        lines.append("  br label %rest.begin")
    return "\n".join(lines)


def spread(loop: Loop, port: Port) -> list[str]:
    """A scalar in every lane of the loop's vectors."""
    k, vector, name = port.index, loop.memory(port), loop.name
    return [
        f"  %lane{k}.{name} = insertelement {vector} poison, {port.memory} %scalar{k}, i64 0",
        f"  %load{k}.{name} = shufflevector {vector} %lane{k}.{name}, {vector} poison, "
        f"<{loop.lanes} x i32> zeroinitializer",
        to_register(loop, port),
    ]


def to_register(loop: Loop, port: Port) -> str:
    """`%in`, the loaded value in the form that the body takes: a bool is one bit, set if the byte is not zero."""
    value = f"{loop.memory(port)} %load{port.index}.{loop.name}"
    if port.dtype == "bool":
        return f"  %in{port.index}.{loop.name} = icmp ne {value}, zeroinitializer"
    return f"  %in{port.index}.{loop.name} = bitcast {value} to {loop.register(port)}"


def call_body(loop: Loop, mask: str | None) -> list[str]:
    """Call the body on the `%in`s; its outputs, as they go to memory, are the `%out`s."""
    name, kind = loop.name, loop.body.result_type
    arguments = ", ".join(f"{loop.register(port)} %in{port.index}.{name}" for port in loop.inputs)
    lines = [f"  %results.{name} = call {kind} {loop.body.symbol}({arguments})"]
    for place, port in enumerate(loop.outputs):
        k = port.index
        target = f"%bit{k}.{name}" if port.dtype == "bool" else f"%out{k}.{name}"
        lines.append(f"  {target} = extractvalue {kind} %results.{name}, {place}")
        if port.dtype == "bool":
            lines.append(f"  %out{k}.{name} = zext {loop.mask} {target} to {loop.memory(port)}")
    return [*lines, *note_failure(loop, mask)] if loop.body.fallible else lines


def note_failure(loop: Loop, mask: str | None) -> list[str]:
    """Set the status to 1 if any lane that counts has failed."""
    name, place = loop.name, len(loop.outputs)
    lines = [f"  %failed.{name} = extractvalue {loop.body.result_type} %results.{name}, {place}"]
    failed = f"%failed.{name}"
    if mask:
        failed = f"%active.failed.{name}"
        lines.append(f"  {failed} = and {loop.mask} %failed.{name}, {mask}")
    return [
        *lines,
        f"  %any.failed.{name} = call i1 {any_lane(loop.lanes)[0]}({loop.mask} {failed})",
        f"  %fresh.status.{name} = zext i1 %any.failed.{name} to i64",
        f"  %old.status.{name} = load i64, ptr %status",
        f"  %new.status.{name} = or i64 %old.status.{name}, %fresh.status.{name}",
        f"  store i64 %new.status.{name}, ptr %status",
    ]


def main_loop(loop: Loop) -> str:
    """Whole vectors, without a mask."""
    lines = ["main:", "  %i = phi i64 [ 0, %spread ], [ %i.next, %main ]"]
    if loop.body.fallible:
        loop.module.declare(*any_lane(loop.lanes))
    moving = [port for port in loop.ports if port.letter == "v"]
    for port in moving:
        k = port.index
        lines.append(f"  %i.bytes{k} = mul i64 %i, {port.size}")
        lines.append(f"  %at{k} = getelementptr i8, ptr %p{k}, i64 %i.bytes{k}")
        if not port.output:
            lines.append(f"  %load{k}.main = load {loop.memory(port)}, ptr %at{k}, align {port.size}")
            lines.append(to_register(loop, port))
    lines += call_body(loop, None)
    for port in loop.outputs:
        k = port.index
        lines.append(f"  store {loop.memory(port)} %out{k}.main, ptr %at{k}, align {port.size}")
    lines += [
        f"  %i.next = add nuw nsw i64 %i, {loop.lanes}",
        "  %i.more = icmp ult i64 %i.next, %whole",
        "  br i1 %i.more, label %main, label %main.end, !llvm.loop !0",
        "main.end:",
        "  br label %rest.begin",
    ]
    return "\n".join(lines)


def rest_loop(loop: Loop, after_main: bool) -> str:
    """What is left of the row, a vector at a time, with a mask for its last lanes."""
    start = "phi i64 [ 0, %spread ]" + (", [ %whole, %main.end ]" if after_main else "")
    lines = [
        "rest.begin:",
        f"  %j.begin = {start}",
        "  %j.any = icmp ult i64 %j.begin, %n",
        "  br i1 %j.any, label %rest, label %row.end",
        "rest:",
        "  %j = phi i64 [ %j.begin, %rest.begin ], [ %j.next, %rest.end ]",
        *active_lanes(loop.lanes),
    ]
    loop.module.declare("@llvm.umin.i64", "declare i64 @llvm.umin.i64(i64, i64)")
    if loop.body.fallible:
        loop.module.declare(*any_lane(loop.lanes))
    for port in loop.ports:
        k = port.index
        if port.letter != "s":
            step = port.size if port.letter == "v" else f"%stride{k}"
            lines.append(f"  %j.bytes{k} = mul i64 %j, {step}")
            lines.append(f"  %r{k} = getelementptr i8, ptr %p{k}, i64 %j.bytes{k}")
    for port in loop.inputs:
        if port.letter != "s":
            lines += masked_load(loop, port) if port.letter == "v" else gather(loop, port)
    lines += call_body(loop, "%mask")
    for port in loop.outputs:
        lines += masked_store(loop, port) if port.letter == "v" else scatter(loop, port)
    lines += [
        "  br label %rest.end",
        "rest.end:",
        f"  %j.next = add nuw nsw i64 %j, {loop.lanes}",
        "  %j.more = icmp ult i64 %j.next, %n",
        "  br i1 %j.more, label %rest, label %row.end, !llvm.loop !0",
    ]
    return "\n".join(lines)


def active_lanes(lanes: int) -> list[str]:
    """`%few`, how many elements this vector has, and `%mask`, the lanes that have one."""
    return [
        "  %left = sub i64 %n, %j",
        f"  %few = call i64 @llvm.umin.i64(i64 %left, i64 {lanes})",
        f"  %off = sub i64 {lanes}, %few",
        f"  %off.narrow = trunc i64 %off to i{lanes}" if lanes < 64 else "  %off.narrow = or i64 %off, 0",
        f"  %bits = lshr i{lanes} -1, %off.narrow",
        f"  %mask = bitcast i{lanes} %bits to <{lanes} x i1>",
    ]


def masked_load(loop: Loop, port: Port) -> list[str]:
    k, vector, size = port.index, loop.memory(port), port.size
    name = f"@llvm.masked.load.{overload(loop, port)}.p0"
    loop.module.declare(name, f"declare {vector} {name}(ptr, i32 immarg, {loop.mask}, {vector})")
    arguments = f"ptr %r{k}, i32 {size}, {loop.mask} %mask, {vector} {ones(port)}"
    return [f"  %load{k}.rest = call {vector} {name}({arguments})", to_register(loop, port)]


def masked_store(loop: Loop, port: Port) -> list[str]:
    k, vector = port.index, loop.memory(port)
    name = f"@llvm.masked.store.{overload(loop, port)}.p0"
    loop.module.declare(name, f"declare void {name}({vector}, ptr, i32 immarg, {loop.mask})")
    return [f"  call void {name}({vector} %out{k}.rest, ptr %r{k}, i32 {port.size}, {loop.mask} %mask)"]


def ones(port: Port) -> str:
    """A vector of ones, as they lie in memory: what lanes outside the row hold."""
    return f"splat ({port.memory} {'1' if port.dtype == 'bool' else scalar_constant(1, port.dtype)})"


def overload(loop: Loop, port: Port) -> str:
    return f"v{loop.lanes}{MANGLED.get(port.memory, port.memory)}"


def gather(loop: Loop, port: Port) -> list[str]:
    """Collect strided elements on the stack, over lanes of ones."""
    k, vector, item = port.index, loop.memory(port), port.memory
    return [
        f"  store {vector} {ones(port)}, ptr %pack{k}, align 64",
        *element_loop(f"gather{k}", f"%r{k}", f"%stride{k}", f"%pack{k}", item, port.size),
        f"  %load{k}.rest = load {vector}, ptr %pack{k}, align 64",
        to_register(loop, port),
    ]


def scatter(loop: Loop, port: Port) -> list[str]:
    """Spread a vector on the stack over strided elements."""
    k, vector = port.index, loop.memory(port)
    return [
        f"  store {vector} %out{k}.rest, ptr %pack{k}, align 64",
        *element_loop(f"scatter{k}", f"%r{k}", f"%stride{k}", f"%pack{k}", port.memory, port.size),
    ]


def element_loop(name: str, strided: str, stride: str, packed: str, item: str, size: int) -> list[str]:
    """Copy `%few` elements: from strided to packed memory when gathering, back when scattering."""
    source, target = ("strided", "packed") if name.startswith("gather") else ("packed", "strided")
    return [
        f"  br label %{name}.begin",
        f"{name}.begin:",
        f"  br label %{name}",
        f"{name}:",
        f"  %{name}.i = phi i64 [ 0, %{name}.begin ], [ %{name}.next, %{name} ]",
        f"  %{name}.strided = phi ptr [ {strided}, %{name}.begin ], [ %{name}.moved, %{name} ]",
        f"  %{name}.packed = getelementptr {item}, ptr {packed}, i64 %{name}.i",
        f"  %{name}.item = load {item}, ptr %{name}.{source}, align {size}",
        f"  store {item} %{name}.item, ptr %{name}.{target}, align {size}",
        f"  %{name}.moved = getelementptr i8, ptr %{name}.strided, i64 {stride}",
        f"  %{name}.next = add i64 %{name}.i, 1",
        f"  %{name}.more = icmp ult i64 %{name}.next, %few",
        f"  br i1 %{name}.more, label %{name}, label %{name}.end, !llvm.loop !0",
        f"{name}.end:",
    ]
