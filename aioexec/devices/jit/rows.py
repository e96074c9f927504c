"""One row of a loop nest: loading operands as vectors, calling the body, storing what it gives.

`main` takes whole groups of vectors, `rest` one vector at a time under a mask. See `templates` for what surrounds them.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioexec.devices.jit.expressions import Body, Module
from aioexec.devices.jit.ir import ITEM_SIZES, LLVM_TYPES, MANGLED, scalar_constant, stored_type
from aioexec.devices.jit.routines import any_lane


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
class Nest:
    """What the pieces of the loop nest have in common."""

    ports: tuple[Port, ...]
    body: Body
    lanes: int
    unroll: int  # 0: no main loop

    @property
    def inputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if not port.output)

    @property
    def outputs(self) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if port.output)

    def memory_vector(self, port: Port) -> str:
        return f"<{self.lanes} x {port.memory}>"

    def vector(self, port: Port) -> str:
        return f"<{self.lanes} x {LLVM_TYPES[port.dtype]}>"

    @property
    def mask(self) -> str:
        return f"<{self.lanes} x i1>"


def row(nest: Nest) -> str:
    """Where the row begins; scalars are loaded and spread, once."""
    lines = ["row:"]
    for port in nest.ports:
        k = port.index
        lines.append(
            f"  %p{k} = phi ptr [ %base{k}, %entry ], [ %base{k}, %first.ok ], [ %next{k}, %advanced ]"
        )
    if any(port.letter == "s" for port in nest.ports):
        # With an empty row there may be no scalar to read either.
        lines += [
            "  %n.zero = icmp eq i64 %n, 0",
            "  br i1 %n.zero, label %row.end, label %spread",
            "spread:",
        ]
    for port in nest.ports:
        if port.letter == "s":
            k, vector = port.index, nest.memory_vector(port)
            lines += [
                f"  %scalar{k} = load {port.memory}, ptr %p{k}, align {port.size}",
                f"  %lane{k} = insertelement {vector} poison, {port.memory} %scalar{k}, i64 0",
                f"  %m{k} = shufflevector {vector} %lane{k}, {vector} poison, <{nest.lanes} x i32> zeroinitializer",
                register(nest, port, f"%m{k}", f"%s{k}"),
            ]
    if nest.unroll:
        lines += [
            "  %any.whole = icmp ne i64 %whole, 0",
            "  br i1 %any.whole, label %main, label %rest.begin",
        ]
    else:
        lines += ["  br label %rest.begin"]
    return "\n".join(lines)


def register(nest: Nest, port: Port, memory: str, name: str) -> str:
    """What was loaded as the body wants it: a bool is one bit there. A bool is true if it is not zero."""
    if port.dtype == "bool":
        return f"  {name} = icmp ne {nest.memory_vector(port)} {memory}, zeroinitializer"
    return f"  {name} = bitcast {nest.vector(port)} {memory} to {nest.vector(port)}"


def call_body(nest: Nest, suffix: str, mask: str | None) -> list[str]:
    """Call the body on `%in<k><suffix>`; its outputs, as they go to memory, are `%out<k><suffix>`."""
    arguments = ", ".join(
        f"{nest.vector(port)} " + (f"%s{port.index}" if port.letter == "s" else f"%in{port.index}{suffix}")
        for port in nest.inputs
    )
    kind = nest.body.result_type
    lines = [f"  %results{suffix} = call {kind} @body({arguments})"]
    for place, port in enumerate(nest.outputs):
        k = port.index
        target = f"%bit{k}{suffix}" if port.dtype == "bool" else f"%out{k}{suffix}"
        lines.append(f"  {target} = extractvalue {kind} %results{suffix}, {place}")
        if port.dtype == "bool":
            lines.append(f"  %out{k}{suffix} = zext {nest.mask} {target} to {nest.memory_vector(port)}")
    if nest.body.fallible:
        lines += note_failure(nest, suffix, mask)
    return lines


def note_failure(nest: Nest, suffix: str, mask: str | None) -> list[str]:
    """Set the status to 1 if any lane that counts has failed."""
    lines = [
        f"  %failed{suffix} = extractvalue {nest.body.result_type} %results{suffix}, {len(nest.outputs)}"
    ]
    failed = f"%failed{suffix}"
    if mask:
        failed = f"%active.failed{suffix}"
        lines.append(f"  {failed} = and {nest.mask} %failed{suffix}, {mask}")
    return [
        *lines,
        f"  %any.failed{suffix} = call i1 @llvm.vector.reduce.or.v{nest.lanes}i1({nest.mask} {failed})",
        f"  %fresh.status{suffix} = zext i1 %any.failed{suffix} to i64",
        f"  %old.status{suffix} = load i64, ptr %status",
        f"  %new.status{suffix} = or i64 %old.status{suffix}, %fresh.status{suffix}",
        f"  store i64 %new.status{suffix}, ptr %status",
    ]


def main_loop(nest: Nest) -> str:
    """Whole groups of `unroll` vectors: no mask."""
    lines = ["main:", f"  %i = phi i64 [ 0, {row_exit(nest)} ], [ %i.next, %main ]"]
    moving = [port for port in nest.ports if port.letter == "v"]
    for port in moving:
        k = port.index
        lines.append(f"  %i.bytes{k} = mul i64 %i, {port.size}")
        lines.append(f"  %at{k} = getelementptr i8, ptr %p{k}, i64 %i.bytes{k}")
    for u in range(nest.unroll):
        for port in moving:
            k, vector = port.index, nest.memory_vector(port)
            lines.append(f"  %at{k}.{u} = getelementptr i8, ptr %at{k}, i64 {u * nest.lanes * port.size}")
            if not port.output:
                lines.append(f"  %load{k}.{u} = load {vector}, ptr %at{k}.{u}, align {port.size}")
                lines.append(register(nest, port, f"%load{k}.{u}", f"%in{k}.{u}"))
    for u in range(nest.unroll):
        lines += call_body(nest, f".{u}", None)
    for u in range(nest.unroll):
        for port in nest.outputs:
            k = port.index
            lines.append(f"  store {nest.memory_vector(port)} %out{k}.{u}, ptr %at{k}.{u}, align {port.size}")
    lines += [
        f"  %i.next = add nuw nsw i64 %i, {nest.unroll * nest.lanes}",
        "  %i.more = icmp ult i64 %i.next, %whole",
        "  br i1 %i.more, label %main, label %main.end, !llvm.loop !0",
        "main.end:",
        "  br label %rest.begin",
    ]
    return "\n".join(lines)


def row_exit(nest: Nest) -> str:
    """The block that leads from the start of a row into its loops."""
    return "%spread" if any(port.letter == "s" for port in nest.ports) else "%row"


def rest_loop(nest: Nest, module: Module) -> str:
    """What is left of the row, a vector at a time, with a mask for its last lanes."""
    start = f"phi i64 [ 0, {row_exit(nest)} ]" + (", [ %whole, %main.end ]" if nest.unroll else "")
    lanes = nest.lanes
    lines = [
        "rest.begin:",
        f"  %j.begin = {start}",
        "  %j.any = icmp ult i64 %j.begin, %n",
        "  br i1 %j.any, label %rest, label %row.end",
        "rest:",
        "  %j = phi i64 [ %j.begin, %rest.begin ], [ %j.next, %rest.end ]",
        "  %left = sub i64 %n, %j",
        f"  %few = call i64 @llvm.umin.i64(i64 %left, i64 {lanes})",
        f"  %off = sub i64 {lanes}, %few",
        f"  %off.narrow = trunc i64 %off to i{lanes}" if lanes < 64 else "  %off.narrow = or i64 %off, 0",
        f"  %bits = lshr i{lanes} -1, %off.narrow",
        f"  %mask = bitcast i{lanes} %bits to {nest.mask}",
    ]
    module.declarations["@llvm.umin.i64"] = "declare i64 @llvm.umin.i64(i64, i64)"
    if nest.body.fallible:
        module.declare(*any_lane(lanes))
    for port in nest.ports:
        if port.letter == "v":
            lines.append(f"  %j.bytes{port.index} = mul i64 %j, {port.size}")
        elif port.letter == "x":
            lines.append(f"  %j.bytes{port.index} = mul i64 %j, %stride{port.index}")
        if port.letter != "s":
            lines.append(f"  %r{port.index} = getelementptr i8, ptr %p{port.index}, i64 %j.bytes{port.index}")
    for port in nest.inputs:
        if port.letter != "s":
            lines += masked_load(nest, port, module) if port.letter == "v" else gather(nest, port)
    lines += call_body(nest, ".r", "%mask")
    for port in nest.outputs:
        lines += masked_store(nest, port, module) if port.letter == "v" else scatter(nest, port)
    lines += [
        "  br label %rest.end",
        "rest.end:",
        f"  %j.next = add nuw nsw i64 %j, {lanes}",
        "  %j.more = icmp ult i64 %j.next, %n",
        "  br i1 %j.more, label %rest, label %row.end, !llvm.loop !0",
    ]
    return "\n".join(lines)


def masked_load(nest: Nest, port: Port, module: Module) -> list[str]:
    k, vector = port.index, nest.memory_vector(port)
    name = f"@llvm.masked.load.{overload(nest, port)}.p0"
    module.declarations[name] = f"declare {vector} {name}(ptr, i32 immarg, {nest.mask}, {vector})"
    return [
        f"  %load{k}.r = call {vector} {name}(ptr %r{k}, i32 {port.size}, {nest.mask} %mask, {vector} {ones(port)})",
        register(nest, port, f"%load{k}.r", f"%in{k}.r"),
    ]


def masked_store(nest: Nest, port: Port, module: Module) -> list[str]:
    k, vector = port.index, nest.memory_vector(port)
    name = f"@llvm.masked.store.{overload(nest, port)}.p0"
    module.declarations[name] = f"declare void {name}({vector}, ptr, i32 immarg, {nest.mask})"
    return [f"  call void {name}({vector} %out{k}.r, ptr %r{k}, i32 {port.size}, {nest.mask} %mask)"]


def ones(port: Port) -> str:
    """A vector of ones, as they lie in memory: what lanes outside the row hold."""
    return f"splat ({port.memory} {'1' if port.dtype == 'bool' else scalar_constant(1, port.dtype)})"


def overload(nest: Nest, port: Port) -> str:
    return f"v{nest.lanes}{MANGLED.get(port.memory, port.memory)}"


def gather(nest: Nest, port: Port) -> list[str]:
    """Collect strided elements on the stack, over lanes of ones."""
    k, vector, item = port.index, nest.memory_vector(port), port.memory
    return [
        f"  store {vector} {ones(port)}, ptr %pack{k}, align 64",
        *element_loop(f"gather{k}", f"%r{k}", f"%stride{k}", f"%pack{k}", item, port.size),
        f"  %load{k}.r = load {vector}, ptr %pack{k}, align 64",
        register(nest, port, f"%load{k}.r", f"%in{k}.r"),
    ]


def scatter(nest: Nest, port: Port) -> list[str]:
    """Spread a vector on the stack over strided elements."""
    k, vector = port.index, nest.memory_vector(port)
    return [
        f"  store {vector} %out{k}.r, ptr %pack{k}, align 64",
        *element_loop(f"scatter{k}", f"%r{k}", f"%stride{k}", f"%pack{k}", port.memory, port.size),
    ]


def element_loop(name: str, strided: str, stride: str, packed: str, item: str, size: int) -> list[str]:
    """Copy `%few` elements: from strided to packed memory when gathering, back when scattering."""
    source, target = ("from", "to") if name.startswith("gather") else ("to", "from")
    return [
        f"  br label %{name}.begin",
        f"{name}.begin:",
        f"  br label %{name}",
        f"{name}:",
        f"  %{name}.i = phi i64 [ 0, %{name}.begin ], [ %{name}.next, %{name} ]",
        f"  %{name}.from = phi ptr [ {strided}, %{name}.begin ], [ %{name}.moved, %{name} ]",
        f"  %{name}.to = getelementptr {item}, ptr {packed}, i64 %{name}.i",
        f"  %{name}.item = load {item}, ptr %{name}.{source}, align {size}",
        f"  store {item} %{name}.item, ptr %{name}.{target}, align {size}",
        f"  %{name}.moved = getelementptr i8, ptr %{name}.from, i64 {stride}",
        f"  %{name}.next = add i64 %{name}.i, 1",
        f"  %{name}.more = icmp ult i64 %{name}.next, %few",
        f"  br i1 %{name}.more, label %{name}, label %{name}.end, !llvm.loop !0",
        f"{name}.end:",
    ]
