"""Writes the text of LLVM functions instruction by instruction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aioexec.devices.jit.llvm.expressions import Body
from aioexec.devices.jit.llvm.ir import LLVM_TYPES, stored_type

BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"
BARRIER_DECLARATION = f"declare void @{BARRIER}(i32)"
GLOBAL, SHARED = "ptr addrspace(1)", "ptr addrspace(3)"


class Writer:
    """The instructions of one function so far; names of values are numbered. `block` is the label of the present block."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.block = "entry"
        self._count = 0

    def set(self, instruction: str) -> str:
        """Append an instruction; returns the name of its result."""
        self._count += 1
        name = f"%t{self._count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {instruction}")

    def label(self, name: str) -> str:
        """A new label."""
        self._count += 1
        return f"{name}{self._count}"

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.block = label

    def register(self, name: str, axis: str = "x") -> str:
        """A special register, as 64 bits."""
        return self.set(f"zext i32 {self.set(f'call i32 @llvm.nvvm.read.ptx.sreg.{name}.{axis}()')} to i64")

    def barrier(self) -> None:
        """Wait for all threads of the block."""
        self.do(f"call void @{BARRIER}(i32 0)")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Execute what is written meanwhile only if a condition holds."""
        inside, after = self.label("then"), self.label("after")
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self.begin(inside)
        yield
        self.do(f"br label %{after}")
        self.begin(after)

    @contextmanager
    def loop(
        self, first: str, end: str, step: str, carried: Sequence[tuple[str, str]] = ()
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """Repeat what is written meanwhile for each i64 number from `first` to before `end`.

        Yields the number, and two lists: the names of the carried values (type and first value of each) on entry, and an
        empty one to which the body appends what they become. After the loop the first list holds their last values.
        """
        head, body, after = self.label("head"), self.label("body"), self.label("done")
        before = self.block
        self.do(f"br label %{head}")
        self.begin(head)
        place = len(self.lines)
        number = self.set("phi")
        values = [self.set("phi") for _ in carried]
        more = self.set(f"icmp slt i64 {number}, {end}")
        self.do(f"br i1 {more}, label %{body}, label %{after}")
        self.begin(body)
        becomes: list[str] = []
        yield number, values, becomes
        following = self.set(f"add i64 {number}, {step}")
        last = self.block
        self.do(f"br label %{head}")
        self.lines[place] = f"  {number} = phi i64 [ {first}, %{before} ], [ {following}, %{last} ]"
        for k, ((kind, initial), value, next_) in enumerate(zip(carried, values, becomes, strict=True)):
            self.lines[place + 1 + k] = (
                f"  {value} = phi {kind} [ {initial}, %{before} ], [ {next_}, %{last} ]"
            )
        self.begin(after)

    def indices(self, number: str, dims: Sequence[str]) -> list[str]:
        """The indices of the element with a number below 2^31 in an array of these dimensions, outermost first."""
        if len(dims) == 1:
            return [number]
        found: list[str] = []
        rest = self.set(f"trunc i64 {number} to i32")
        for dim in reversed(dims[1:]):
            short = self.set(f"trunc i64 {dim} to i32")
            quotient = self.set(f"udiv i32 {rest}, {short}")
            whole = self.set(f"mul i32 {quotient}, {short}")
            found.append(self.set(f"zext i32 {self.set(f'sub i32 {rest}, {whole}')} to i64"))
            rest = quotient
        found.append(self.set(f"zext i32 {rest} to i64"))
        return found[::-1]

    def offset(self, indices: Sequence[str], strides: Sequence[str]) -> str:
        """The sum of indices times strides."""
        total = "0"
        for index, stride in zip(indices, strides, strict=True):
            product = self.set(f"mul i64 {index}, {stride}")
            total = product if total == "0" else self.set(f"add i64 {total}, {product}")
        return total

    def at(self, pointer: str, offset: str, space: str = GLOBAL) -> str:
        """An address so many bytes on."""
        return self.set(f"getelementptr i8, {space} {pointer}, i64 {offset}")

    def load(self, dtype: str, pointer: str, space: str = GLOBAL) -> str:
        """An element as a vector of one lane, as bodies take it."""
        memory = stored_type(dtype)
        value = self.set(f"load {memory}, {space} {pointer}")
        if dtype == "bool":
            value = self.set(f"icmp ne {memory} {value}, 0")
        return self.lane(dtype, value)

    def lane(self, dtype: str, value: str) -> str:
        """A scalar as a vector of one lane."""
        kind = LLVM_TYPES[dtype]
        return self.set(f"insertelement <1 x {kind}> poison, {kind} {value}, i32 0")

    def store(self, dtype: str, value: str, pointer: str, space: str = GLOBAL) -> None:
        """Store a vector of one lane."""
        kind, memory = LLVM_TYPES[dtype], stored_type(dtype)
        scalar = self.set(f"extractelement <1 x {kind}> {value}, i32 0")
        if dtype == "bool":
            scalar = self.set(f"zext i1 {scalar} to i8")
        self.do(f"store {memory} {scalar}, {space} {pointer}")

    def apply(self, symbol: str, body: Body, *arguments: tuple[str, str]) -> str:
        """Call a body on (dtype, value) pairs; returns its first output."""
        given = ", ".join(f"<1 x {LLVM_TYPES[dtype]}> {value}" for dtype, value in arguments)
        result = self.set(f"call {body.result_type} @{symbol}({given})")
        return self.set(f"extractvalue {body.result_type} {result}, 0")
