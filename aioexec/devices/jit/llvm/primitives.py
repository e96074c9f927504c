"""The primitives of the expression language: operations that are one or a few LLVM instructions.

Each takes the code under construction and its operands, all of one dtype after literals were converted. Longer operations are
written in the expression language itself (`math`); a primitive refers to them by returning `Deferred`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.jit.llvm.ir import FLOATS, INTEGERS, ITEM_SIZES, LLVM_TYPES, SIGNED, Code, Number, Value

Operand = Value | Number


@dataclass(frozen=True, slots=True)
class Deferred:
    """The operation is a function of the language: its name and operands."""

    function: str
    operands: tuple[Operand, ...]


Handler = Callable[..., "Value | Deferred"]

FOLDABLE: dict[str, Callable[..., Number]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
}


def fold(name: str, operands: Sequence[Number]) -> Number | None:
    """The value of an operation on literals, or None where only typed operands make sense."""
    return FOLDABLE[name](*operands) if name in FOLDABLE else None


def unify(code: Code, operands: Sequence[Operand]) -> list[Value]:
    """Give literals the dtype of the other operands, which must have one in common."""
    dtypes = {operand.dtype for operand in operands if isinstance(operand, Value)}
    if len(dtypes) != 1:
        raise ValueError(f"operands of different dtypes {sorted(dtypes)}" if dtypes else "only literals")
    (dtype,) = dtypes
    return [operand if isinstance(operand, Value) else code.constant(operand, dtype) for operand in operands]


def expect(value: Value, dtypes: frozenset[str], what: str) -> None:
    if value.dtype not in dtypes:
        raise ValueError(f"expected {what}, got {value.dtype}")


NUMBERS = FLOATS | INTEGERS
BITS = INTEGERS | {"bool"}


def arithmetic(on_float: str, on_integer: str) -> Handler:
    """An instruction that exists for numbers of both kinds."""

    def handler(code: Code, *operands: Operand) -> Value:
        a, b = unify(code, operands)
        expect(a, NUMBERS, "numbers")
        return code.binary(on_float if a.dtype in FLOATS else on_integer, a.dtype, a, b)

    return handler


def divide(code: Code, *operands: Operand) -> Value:
    a, b = unify(code, operands)
    expect(a, FLOATS, "floats (use // or truncdiv on integers)")
    return code.binary("fdiv", a.dtype, a, b)


def bitwise(opcode: str) -> Handler:
    def handler(code: Code, *operands: Operand) -> Value:
        a, b = unify(code, operands)
        expect(a, BITS, "bools or integers")
        return code.binary(opcode, a.dtype, a, b)

    return handler


def shift(left: bool) -> Handler:
    """A shift by any count: one outside the width shifts everything out."""

    def handler(code: Code, *operands: Operand) -> Value:
        literal = operands[1] if not isinstance(operands[1], Value) else None
        a, b = unify(code, operands)
        expect(a, INTEGERS, "integers")
        width = 8 * ITEM_SIZES[a.dtype]
        opcode = "shl" if left else "ashr" if a.dtype in SIGNED else "lshr"
        if literal is not None and 0 <= literal < width:
            return code.binary(opcode, a.dtype, a, b)
        last = code.constant(width - 1, a.dtype)
        inside = code.binary("icmp ule", "bool", b, last)
        shifted = code.binary(opcode, a.dtype, a, code.select(inside, b, last))
        if opcode == "ashr":
            return shifted
        return code.select(inside, shifted, code.constant(0, a.dtype))

    return handler


def negate(code: Code, *operands: Operand) -> Value:
    (a,) = unify(code, operands)
    expect(a, NUMBERS, "a number")
    if a.dtype in FLOATS:
        return code.add(a.dtype, f"fneg {code.typed(a)}")
    return code.binary("sub", a.dtype, code.constant(0, a.dtype), a)


def invert(code: Code, *operands: Operand) -> Value:
    (a,) = unify(code, operands)
    expect(a, BITS, "a bool or an integer")
    ones = code.constant(True if a.dtype == "bool" else -1, a.dtype)
    return code.binary("xor", a.dtype, a, ones)


def comparison(on_float: str, on_integer: str) -> Handler:
    """`on_integer` without its sign letter; equality also compares bools."""

    def handler(code: Code, *operands: Operand) -> Value:
        a, b = unify(code, operands)
        if a.dtype in FLOATS:
            return code.binary(f"fcmp {on_float}", "bool", a, b)
        if on_integer in ("eq", "ne"):
            return code.binary(f"icmp {on_integer}", "bool", a, b)
        expect(a, INTEGERS, "numbers")
        return code.binary(f"icmp {'s' if a.dtype in SIGNED else 'u'}{on_integer}", "bool", a, b)

    return handler


def where(code: Code, *operands: Operand) -> Value:
    condition, *choices = operands
    if not isinstance(condition, Value) or condition.dtype != "bool":
        raise ValueError(f"expected a bool as condition, got {getattr(condition, 'dtype', condition)!r}")
    return code.select(condition, *unify(code, choices))


def extremum(less: bool) -> Handler:
    """minimum or maximum; NaN if either is.

    A comparison and a select are one machine instruction, which yields its second operand when one is NaN. So a literal goes
    first; otherwise a NaN in the first operand is put back.
    """

    def handler(code: Code, *operands: Operand) -> Value:
        if not isinstance(operands[1], Value):
            operands = operands[::-1]
        a, b = unify(code, operands)
        if a.dtype not in FLOATS:
            expect(a, INTEGERS, "numbers")
            name = f"llvm.{'s' if a.dtype in SIGNED else 'u'}{'min' if less else 'max'}"
            return code.intrinsic(name, a.dtype, a, b)
        chosen = code.select(code.binary("fcmp olt" if less else "fcmp ogt", "bool", a, b), a, b)
        if not isinstance(operands[0], Value):
            return chosen
        return code.select(code.binary("fcmp uno", "bool", a, a), a, chosen)

    return handler


def float_intrinsic(name: str) -> Handler:
    def handler(code: Code, *operands: Operand) -> Value:
        values = unify(code, operands)
        expect(values[0], FLOATS, "floats")
        return code.intrinsic(name, values[0].dtype, *values)

    return handler


def rounding(name: str) -> Handler:
    """A rounding: integers are round already."""

    def handler(code: Code, *operands: Operand) -> Value:
        (a,) = unify(code, operands)
        expect(a, NUMBERS, "a number")
        return code.intrinsic(name, a.dtype, a) if a.dtype in FLOATS else a

    return handler


def absolute(code: Code, *operands: Operand) -> Value:
    (a,) = unify(code, operands)
    expect(a, NUMBERS, "a number")
    if a.dtype in FLOATS:
        return code.intrinsic("llvm.fabs", a.dtype, a)
    if a.dtype not in SIGNED:
        return a
    zero = code.constant(0, a.dtype)
    return code.intrinsic("llvm.smax", a.dtype, a, code.binary("sub", a.dtype, zero, a))


def is_nan(code: Code, *operands: Operand) -> Value:
    (a,) = unify(code, operands)
    expect(a, FLOATS, "a float")
    return code.binary("fcmp uno", "bool", a, a)


def against_infinity(predicate: str) -> Handler:
    def handler(code: Code, *operands: Operand) -> Value:
        (a,) = unify(code, operands)
        expect(a, FLOATS, "a float")
        size = code.intrinsic("llvm.fabs", a.dtype, a)
        return code.binary(f"fcmp {predicate}", "bool", size, code.constant(float("inf"), a.dtype))

    return handler


def horner(code: Code, *operands: Operand) -> Value:
    """`horner(x, c0, c1, ..., cn)`: c0 + x (c1 + x (...)), each step one fma."""
    x, *coefficients = unify(code, operands)
    expect(x, FLOATS, "floats")
    result = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = code.in_step(code.intrinsic("llvm.fma", x.dtype, result, x, coefficient))
    return result


def checked_division(function: str) -> Handler:
    """An integer division: lanes with a zero divisor fail (the kernel's status) and give 0. On floats, see `math`."""

    def handler(code: Code, *operands: Operand) -> Value | Deferred:
        a, b = unify(code, operands)
        expect(a, NUMBERS, "numbers")
        if a.dtype in FLOATS:
            return Deferred(f"{function}_real", (a, b))
        if not (isinstance(operands[1], int) and operands[1] != 0):
            code.failures.append(code.binary("icmp eq", "bool", b, code.constant(0, b.dtype)))
        if a.dtype not in SIGNED:
            return Deferred(f"trunc{function[5:]}_unsigned", (a, b))
        return Deferred(f"{function}_whole", (a, b))

    return handler


def quotient(code: Code, *operands: Operand) -> Value:
    """Truncating integer division, for divisors that are neither 0 nor -1.

    Processors divide no vectors of integers, but up to 32 bits the quotient of the same numbers as float64, truncated, is
    exact: a quotient below 2^32 that is no integer is further than one part in 2^32 from the nearest one.
    """
    a, b = unify(code, operands)
    expect(a, INTEGERS, "integers")
    signed = a.dtype in SIGNED
    if ITEM_SIZES[a.dtype] == 8:
        return code.binary("sdiv" if signed else "udiv", a.dtype, a, b)
    into, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    real = code.binary("fdiv", "float64", code.convert(into, a, "float64"), code.convert(into, b, "float64"))
    return code.convert(back, real, a.dtype)


def cast(code: Code, a: Value, dtype: str) -> Value:
    """Convert as C does; a float beyond an integer type saturates and NaN gives 0; a bool is "not zero"."""
    source = a.dtype
    if source == dtype:
        return a
    if source in FLOATS and dtype in FLOATS:
        return cast_float(code, a, dtype)
    if source == "bfloat16":
        return cast(code, cast_float(code, a, "float32"), dtype)
    if dtype == "bfloat16":
        return round_to_bfloat16(code, cast(code, a, "float32"))
    if dtype == "bool":
        zero = code.constant(0, source)
        return code.binary("fcmp une" if source in FLOATS else "icmp ne", "bool", a, zero)
    if source == "float16":
        return cast(code, code.convert("fpext", a, "float32"), dtype)
    if source in FLOATS:
        return saturate(code, a, dtype)
    if dtype in FLOATS:
        return code.convert("sitofp" if source in SIGNED else "uitofp", a, dtype)
    if source != "bool" and ITEM_SIZES[source] == ITEM_SIZES[dtype]:
        return bitcast(code, a, dtype)
    if source != "bool" and ITEM_SIZES[source] > ITEM_SIZES[dtype]:
        return code.convert("trunc", a, dtype)
    return code.convert("sext" if source in SIGNED else "zext", a, dtype)


def saturate(code: Code, a: Value, dtype: str) -> Value:
    """A float as an integer, truncated. (LLVM has an intrinsic, but takes vectors apart for it.)"""
    signed, bits = dtype in SIGNED, 8 * ITEM_SIZES[dtype]
    top = 1 << bits - 1 if signed else 1 << bits
    low, high = (code.constant(float(limit), a.dtype) for limit in (-top if signed else 0, top))
    at_least = code.binary("fcmp oge", "bool", a, low)
    inside = code.binary("and", "bool", at_least, code.binary("fcmp olt", "bool", a, high))
    safe = code.select(inside, a, code.constant(0.0, a.dtype))
    whole = code.convert("fptosi" if signed else "fptoui", safe, dtype)
    above = code.binary("fcmp oge", "bool", a, high)
    result = code.select(above, code.constant(top - 1, dtype), whole)
    if not signed:
        return result
    return code.select(code.binary("fcmp olt", "bool", a, low), code.constant(-top, dtype), result)


def cast_float(code: Code, a: Value, dtype: str) -> Value:
    if a.dtype == "bfloat16":
        bits = code.convert("zext", Value("uint16", a.text), "uint32")
        bits = code.binary("shl", "uint32", bits, code.constant(16, "uint32"))
        return cast(code, code.convert("bitcast", bits, "float32"), dtype)
    if dtype == "bfloat16":
        return round_to_bfloat16(code, cast(code, a, "float32"))
    if (a.dtype, dtype) == ("float64", "float16"):
        a = round_to_odd(code, a)
    wider = ITEM_SIZES[a.dtype] < ITEM_SIZES[dtype]
    return code.convert("fpext" if wider else "fptrunc", a, dtype)


def round_to_odd(code: Code, a: Value) -> Value:
    """A float64 as float32, inexact ones with an odd last bit: rounding that further is as good as rounding the original.

    No processor rounds float64 to float16 at once, and LLVM would call a library.
    """
    near = code.convert("fptrunc", a, "float32")
    back = code.convert("fpext", near, "float64")
    bits = code.convert("bitcast", near, "uint32")
    one = code.constant(1, "uint32")
    sizes = [code.intrinsic("llvm.fabs", "float64", value) for value in (back, a)]
    beyond = code.binary("fcmp ogt", "bool", *sizes)
    bits = code.select(beyond, code.binary("sub", "uint32", bits, one), bits)
    inexact = code.binary("fcmp une", "bool", back, a)
    bits = code.select(inexact, code.binary("or", "uint32", bits, one), bits)
    return code.convert("bitcast", bits, "float32")


def round_to_bfloat16(code: Code, a: Value) -> Value:
    """The upper half of the bits, ties to even; a NaN stays one."""
    bits = code.convert("bitcast", a, "uint32")
    sixteen = code.constant(16, "uint32")
    upper = code.binary("lshr", "uint32", bits, sixteen)
    odd = code.binary("and", "uint32", upper, code.constant(1, "uint32"))
    sum_ = code.binary(
        "add", "uint32", bits, code.binary("add", "uint32", odd, code.constant(0x7FFF, "uint32"))
    )
    rounded = code.binary("lshr", "uint32", sum_, sixteen)
    quiet = code.binary("or", "uint32", upper, code.constant(0x40, "uint32"))
    chosen = code.select(code.binary("fcmp uno", "bool", a, a), quiet, rounded)
    return Value("bfloat16", code.convert("trunc", chosen, "uint16").text)


def bitcast(code: Code, a: Value, dtype: str) -> Value:
    """The same bits as another type of the same size."""
    if ITEM_SIZES[a.dtype] != ITEM_SIZES[dtype] or "bool" in (a.dtype, dtype):
        raise ValueError(f"cannot reinterpret {a.dtype} as {dtype}")
    if LLVM_TYPES[a.dtype] == LLVM_TYPES[dtype]:
        return Value(dtype, a.text)
    return code.convert("bitcast", a, dtype)


PRIMITIVES: dict[str, tuple[int | None, Handler]] = {
    "add": (2, arithmetic("fadd", "add")),
    "sub": (2, arithmetic("fsub", "sub")),
    "mul": (2, arithmetic("fmul", "mul")),
    "div": (2, divide),
    "neg": (1, negate),
    "invert": (1, invert),
    "bit_and": (2, bitwise("and")),
    "bit_or": (2, bitwise("or")),
    "bit_xor": (2, bitwise("xor")),
    "shift_left": (2, shift(left=True)),
    "shift_right": (2, shift(left=False)),
    "less": (2, comparison("olt", "lt")),
    "less_equal": (2, comparison("ole", "le")),
    "greater": (2, comparison("ogt", "gt")),
    "greater_equal": (2, comparison("oge", "ge")),
    "equal": (2, comparison("oeq", "eq")),
    "not_equal": (2, comparison("une", "ne")),
    "where": (3, where),
    "minimum": (2, extremum(less=True)),
    "maximum": (2, extremum(less=False)),
    "abs": (1, absolute),
    "sqrt": (1, float_intrinsic("llvm.sqrt")),
    "fma": (3, float_intrinsic("llvm.fma")),
    "copysign": (2, float_intrinsic("llvm.copysign")),
    "floor": (1, rounding("llvm.floor")),
    "ceil": (1, rounding("llvm.ceil")),
    "trunc": (1, rounding("llvm.trunc")),
    "rint": (1, rounding("llvm.roundeven")),
    "is_nan": (1, is_nan),
    "is_inf": (1, against_infinity("oeq")),
    "is_finite": (1, against_infinity("one")),
    "horner": (None, horner),
    "floordiv": (2, checked_division("floordiv")),
    "floormod": (2, checked_division("floormod")),
    "truncdiv": (2, checked_division("truncdiv")),
    "truncmod": (2, checked_division("truncmod")),
    "quotient": (2, quotient),
}


def apply(code: Code, name: str, operands: Sequence[Operand]) -> Value | Deferred:
    """Apply a primitive to operands, at least one of which has a dtype.

    Raises:
        ValueError: wrong number or dtypes of operands; the caller knows the place.
    """
    arity, handler = PRIMITIVES[name]
    if arity is not None and len(operands) != arity:
        raise ValueError(f"{name!r} takes {arity} operands, got {len(operands)}")
    if not any(isinstance(operand, Value) and operand.dtype == "bfloat16" for operand in operands):
        return handler(code, *operands)
    result = handler(code, *[widened(code, operand) for operand in operands])
    if isinstance(result, Value) and result.dtype == "float32":
        return cast(code, result, "bfloat16")
    return result


def widened(code: Code, operand: Operand) -> Value:
    """A bfloat16, or a literal beside one, as float32; a condition as it is."""
    value = operand if isinstance(operand, Value) else code.constant(operand, "bfloat16")
    return cast(code, value, "float32") if value.dtype == "bfloat16" else value
