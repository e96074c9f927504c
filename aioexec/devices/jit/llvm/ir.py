"""LLVM IR as text: types, constants, and straight-line vector code of one fixed number of lanes.

Every value here is a vector `<lanes x type>`; a bool is one bit in a register and one byte in memory. The text is meant to be
nearly final: explicit vectors, no fast-math flags (a product and a sum are fused only where `fma` says so), so that a result
depends neither on the lane nor on the loop it was computed in.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import field

from aioexec.data_classes import dataclass

# bfloat16 is the upper half of a float32, kept as bits: LLVM's own type needs a library call where the processor has none.
LLVM_TYPES = {
    "float16": "half",
    "bfloat16": "i16",
    "float32": "float",
    "float64": "double",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "bool": "i1",
}
ITEM_SIZES = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bool": 1,
}
MANGLED = {"half": "f16", "float": "f32", "double": "f64"}
"""How intrinsics spell a type that is not an integer."""

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
SHORT_FLOATS = frozenset({"float16", "bfloat16"})
SIGNED = frozenset({"int8", "int16", "int32", "int64"})
UNSIGNED = frozenset({"uint8", "uint16", "uint32", "uint64"})
INTEGERS = SIGNED | UNSIGNED

WEIGHTS = {"fdiv": 8, "sdiv": 60, "udiv": 60, "frem": 200, "bitcast": 0}
"""The cost of instructions that are more, or less, expensive than an addition."""
INTRINSIC_WEIGHTS = {"llvm.sqrt": 10}

Number = int | float | bool


@dataclass(frozen=True, slots=True)
class Value:
    """A vector in a register (or a constant): its element type and how LLVM calls it."""

    dtype: str
    text: str


def stored_type(dtype: str) -> str:
    """The LLVM type of one element in memory."""
    return "i8" if dtype == "bool" else LLVM_TYPES[dtype]


def mangled(lanes: int, dtype: str) -> str:
    """The suffix of an overloaded intrinsic on vectors of this type."""
    name = LLVM_TYPES[dtype]
    return f"v{lanes}{MANGLED.get(name, name)}"


def real_constant(number: float, dtype: str) -> str:
    """A real number, rounded to the type, in LLVM's exact hexadecimal notation."""
    if dtype == "float64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
    if dtype == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
    if dtype == "bfloat16":
        return str(bfloat16_bits(number))
    try:
        narrow = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        narrow = float("inf") if number > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', narrow))[0]:016X}"


def bfloat16_bits(number: float) -> int:
    """Round to the upper half of a float32, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    if number != number:
        return int(bits >> 16) | 0x40
    return int(bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def scalar_constant(number: Number, dtype: str) -> str:
    """A literal as an element of this type.

    Raises:
        ValueError: the type cannot hold it.
    """
    if dtype == "bool":
        if not isinstance(number, bool):
            raise ValueError(f"literal {number!r} where a bool is expected")
        return "true" if number else "false"
    if dtype in FLOATS:
        return real_constant(float(number), dtype)
    bits = 8 * ITEM_SIZES[dtype]
    if not isinstance(number, int) or not -(1 << bits - 1) <= number < 1 << bits:
        raise ValueError(f"literal {number!r} where {dtype} is expected")
    number = int(number) & (1 << bits) - 1
    return str(number - (1 << bits) if number >> bits - 1 else number)


@dataclass(slots=True)
class Code:
    """Straight-line vector code under construction: the body of one LLVM function.

    Attributes:
        lanes: elements of every vector.
        lines: instructions so far.
        declarations: intrinsics and functions they call, shared by all code of a module.
        failures: for each division, the lanes (bool) whose divisor is zero.
        weight: what it costs, in full-width vector instructions of the cheap kind.
        register: bytes of those that vectors are kept in step by; see `in_step`.
    """

    lanes: int
    declarations: dict[str, str]
    register: int = 0
    lines: list[str] = field(default_factory=list)
    failures: list[Value] = field(default_factory=list)
    weight: int = 0

    def type(self, dtype: str) -> str:
        return f"<{self.lanes} x {LLVM_TYPES[dtype]}>"

    def typed(self, value: Value) -> str:
        return f"{self.type(value.dtype)} {value.text}"

    def constant(self, number: Number, dtype: str) -> Value:
        return Value(dtype, f"splat ({LLVM_TYPES[dtype]} {scalar_constant(number, dtype)})")

    def add(self, dtype: str, instruction: str) -> Value:
        """Append an instruction; return its result."""
        registers = max(1, self.lanes * ITEM_SIZES[dtype] // 64)
        self.weight += registers * WEIGHTS.get(instruction.partition(" ")[0], 1)
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {instruction}")
        return Value(dtype, name)

    def binary(self, opcode: str, dtype: str, a: Value, b: Value) -> Value:
        """An instruction on two operands of one type."""
        return self.add(dtype, f"{opcode} {self.typed(a)}, {b.text}")

    def either(self, a: Value, b: Value) -> Value:
        """Where any of two conditions holds."""
        return self.binary("or", "bool", a, b)

    def convert(self, opcode: str, a: Value, dtype: str) -> Value:
        return self.add(dtype, f"{opcode} {self.typed(a)} to {self.type(dtype)}")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.add(a.dtype, f"select {self.typed(condition)}, {self.typed(a)}, {self.typed(b)}")

    def call(self, function: str, dtype: str, *arguments: Value, weight: int = 1) -> Value:
        """Call a function of this module that costs `weight`."""
        self.weight += weight - 1
        return self.add(dtype, f"call {self.type(dtype)} {function}({', '.join(map(self.typed, arguments))})")

    def part(self, value: Value, k: int, count: int) -> Value:
        """One of so many vectors of `lanes` elements that a longer one is made of."""
        return self._cut(value, k * self.lanes, self.lanes, self.lanes * count) if count > 1 else value

    def joined(self, parts: Sequence[Value]) -> Value:
        """Concatenate one or two vectors."""
        if len(parts) == 1:
            return parts[0]
        first, second = parts
        return self._behind(first, second, self.lanes)

    def in_step(self, value: Value) -> Value:
        """The same value, of which no register is used before all of them are computed.

        A long vector is several registers, computed by independent instructions. LLVM tends to schedule all uses of one
        register before those of the next, which takes fewer registers; but then each instruction depends on the previous one,
        and the processor's out-of-order window is too short to overlap others. An empty inline assembly that takes all of
        them preserves the order written here.
        """
        lanes = self.register // ITEM_SIZES[value.dtype]
        if not 0 < lanes < self.lanes or value.dtype not in ("float32", "float64"):
            return value
        parts = [self._cut(value, at, lanes, self.lanes) for at in range(0, self.lanes, lanes)]
        kind, count = f"<{lanes} x {LLVM_TYPES[value.dtype]}>", len(parts)
        struct_, name = "{ " + ", ".join([kind] * count) + " }", f"%v{len(self.lines)}"
        constraints = ",".join(["=x"] * count + [str(k) for k in range(count)])
        arguments = ", ".join(f"{kind} {part.text}" for part in parts)
        self.lines.append(f'  {name} = call {struct_} asm "", "{constraints}"({arguments})')
        for k in range(count):
            parts[k] = Value(value.dtype, f"%v{len(self.lines)}")
            self.lines.append(f"  {parts[k].text} = extractvalue {struct_} {name}, {k}")
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._behind(first, second, lanes) for first, second in pairs]
            lanes *= 2
        return parts[0]

    def _cut(self, value: Value, first: int, lanes: int, whole: int) -> Value:
        """So many lanes of a vector of `whole` lanes, from the first on."""
        vector = f"<{whole} x {LLVM_TYPES[value.dtype]}>"
        return self._shuffled(
            value.dtype, f"{vector} {value.text}, {vector} poison", range(first, first + lanes)
        )

    def _behind(self, first: Value, second: Value, lanes: int) -> Value:
        """Concatenate two vectors of so many lanes."""
        vector = f"<{lanes} x {LLVM_TYPES[first.dtype]}>"
        return self._shuffled(first.dtype, f"{vector} {first.text}, {vector} {second.text}", range(2 * lanes))

    def _shuffled(self, dtype: str, operands: str, lanes: range) -> Value:
        name, places = f"%v{len(self.lines)}", ", ".join(f"i32 {lane}" for lane in lanes)
        self.lines.append(f"  {name} = shufflevector {operands}, <{len(lanes)} x i32> <{places}>")
        return Value(dtype, name)

    def intrinsic(self, name: str, dtype: str, *arguments: Value) -> Value:
        """Call an LLVM intrinsic, declaring it; its name ends with the type of its result."""
        suffix = f".{mangled(self.lanes, dtype)}"
        types = ", ".join(self.type(argument.dtype) for argument in arguments)
        self.declarations[f"@{name}{suffix}"] = f"declare {self.type(dtype)} @{name}{suffix}({types})"
        weight = INTRINSIC_WEIGHTS.get(name, 1)
        return self.call(f"@{name}{suffix}", dtype, *arguments, weight=weight)
