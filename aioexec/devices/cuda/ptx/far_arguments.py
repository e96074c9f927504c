"""What the C library does for the CPU's kernels in rare lanes, as LLVM IR: a GPU has no such library.

`sin`, `cos` and `tan` of arguments from 10^6 on. With x = m 2^e for a whole m of 53 bits, x 2/pi modulo 4 is m times a window
of 192 bits of 2/pi: bits before it contribute multiples of 4, and those after it less than 2^-137. The two bits on the left
are the quadrant; the rest times pi/2 is an angle of at most pi/4, which the polynomials of the expression language take.

`fmod` divides bit by bit, which is exact. Functions of float32 are those of float64, rounded.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from aioexec.devices.jit.llvm import math
from aioexec.devices.jit.llvm.expressions import Module

WORDS = 20
"""Words of 64 bits of the table: one of zeros, then 2/pi."""

C_FUNCTION = re.compile(r"@(sin|cos|tan|fmod|atan2)(f?)\(")
"""Calls and declarations of the C functions that bodies may use (`routines.EXTERNAL_SYMBOLS`)."""


def define_c_functions(texts: Iterable[str]) -> list[str]:
    """The same functions and declarations with every C function renamed, and followed by the definitions of those."""
    kept = [C_FUNCTION.sub(r"@far.\1\2(", text) for text in texts if not _declares(text)]
    used = {match[0] for text in kept for match in re.finditer(r"@far\.\w+", text)}
    if not used:
        return kept
    present = {
        match[1] for text in kept for match in re.finditer(r"(?m)^(?:define|declare) [^@]*(@[^(]+)\(", text)
    }
    own = [text for symbol, text in _library() if symbol not in present]
    return [*kept, *own]


def _declares(text: str) -> bool:
    return text.startswith("declare") and C_FUNCTION.search(text) is not None


@functools.cache
def _library() -> list[tuple[str, str]]:
    """All definitions, by symbol; those that a kernel does not use are dropped when it is compiled."""
    module = Module(1)
    for name, dtypes in (("circular", ["float64", "int64"]), ("atan2", ["float64", "float64"])):
        module.instance(*math.resolve(name, dtypes))
    words = two_over_pi()
    table = ", ".join(f"i64 {word - (1 << 64) if word >> 63 else word}" for word in words)
    own = {
        "@far.table": f"@far.table = internal constant [{WORDS} x i64] [{table}]",
        "@far.angle": ANGLE,
        "@far.sin": CIRCULAR.format(name="sin", turn=0, sign=-(1 << 63)),
        "@far.cos": CIRCULAR.format(name="cos", turn=1, sign=0),
        "@far.tan": TAN,
        "@far.atan2": ATAN2,
        "@far.fmod": FMOD,
    }
    for name, count in (("sin", 1), ("cos", 1), ("tan", 1), ("fmod", 2), ("atan2", 2)):
        own[f"@far.{name}f"] = narrow(name, count)
    return [*module.functions.items(), *module.declarations.items(), *own.items()]


def two_over_pi() -> list[int]:
    """Words of 2/pi, after one of zeros. Pi is 16 atan(1/5) - 4 atan(1/239)."""
    bits = 64 * (WORDS - 1)
    precision = bits + 128

    def arctan_of_inverse(x: int) -> int:
        power, total, n = (1 << precision) // x, 0, 1
        while power:
            total += power // n if n % 4 == 1 else -(power // n)
            power //= x * x
            n += 2
        return total

    pi = 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)
    fraction = (2 << 2 * precision) // pi >> precision - bits
    return [0, *(fraction >> bits - 64 * k & (1 << 64) - 1 for k in range(1, WORDS))]


def narrow(name: str, count: int) -> str:
    parameters = ", ".join(f"float %x{k}" for k in range(count))
    wide = "\n".join(f"  %w{k} = fpext float %x{k} to double" for k in range(count))
    arguments = ", ".join(f"double %w{k}" for k in range(count))
    return f"""\
define internal float @far.{name}f({parameters}) nounwind {{
{wide}
  %y = call double @far.{name}({arguments})
  %z = fptrunc double %y to float
  ret float %z
}}"""


ANGLE = """\
define internal { double, i64 } @far.angle(double %x) nounwind {
  %bits = bitcast double %x to i64
  %field = lshr i64 %bits, 52
  %biased = and i64 %field, 2047
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  ; the window begins at bit e + 62 = biased - 1013 of the table
  %start = sub i64 %biased, 1013
  %word = lshr i64 %start, 6
  %shift = and i64 %start, 63
  %at0 = getelementptr i64, ptr @far.table, i64 %word
  %at1 = getelementptr i64, ptr %at0, i64 1
  %at2 = getelementptr i64, ptr %at0, i64 2
  %at3 = getelementptr i64, ptr %at0, i64 3
  %w0 = load i64, ptr %at0
  %w1 = load i64, ptr %at1
  %w2 = load i64, ptr %at2
  %w3 = load i64, ptr %at3
  %t2 = call i64 @llvm.fshl.i64(i64 %w0, i64 %w1, i64 %shift)
  %t1 = call i64 @llvm.fshl.i64(i64 %w1, i64 %w2, i64 %shift)
  %t0 = call i64 @llvm.fshl.i64(i64 %w2, i64 %w3, i64 %shift)
  %m.wide = zext i64 %m to i128
  %t0.wide = zext i64 %t0 to i128
  %t1.wide = zext i64 %t1 to i128
  %low = mul i128 %t0.wide, %m.wide
  %low.carry = lshr i128 %low, 64
  %middle.product = mul i128 %t1.wide, %m.wide
  %middle.sum = add i128 %middle.product, %low.carry
  %middle = trunc i128 %middle.sum to i64
  %middle.carry.wide = lshr i128 %middle.sum, 64
  %middle.carry = trunc i128 %middle.carry.wide to i64
  %high.product = mul i64 %t2, %m
  %high = add i64 %high.product, %middle.carry
  %rounded = add i64 %high, 2305843009213693952
  %quadrant = lshr i64 %rounded, 62
  %part = call i64 @llvm.fshl.i64(i64 %high, i64 %middle, i64 2)
  %less = shl i64 %middle, 2
  %part.real = sitofp i64 %part to double
  %less.real = uitofp i64 %less to double
  %less.scaled = fmul double %less.real, 0x3BF0000000000000
  %turns = fadd double %part.real, %less.scaled
  %scaled = fmul double %turns, 0x3BF0000000000000
  %angle = fmul double %scaled, 0x3FF921FB54442D18
  %r0 = insertvalue { double, i64 } poison, double %angle, 0
  %r1 = insertvalue { double, i64 } %r0, i64 %quadrant, 1
  ret { double, i64 } %r1
}
declare i64 @llvm.fshl.i64(i64, i64, i64)"""
"""The angle in [-pi/4, pi/4] and the quadrant of a finite number of absolute value 1 or more; of its absolute value, if it is
negative."""

CIRCULAR = """\
define internal double @far.{name}(double %x) nounwind {{
entry:
  %nothing = fsub double %x, %x
  %is.finite = fcmp oeq double %nothing, 0.0
  br i1 %is.finite, label %finite, label %special
special:
  ret double %nothing
finite:
  %angle = call {{ double, i64 }} @far.angle(double %x)
  %r = extractvalue {{ double, i64 }} %angle, 0
  %q = extractvalue {{ double, i64 }} %angle, 1
  %turned = add i64 %q, {turn}
  %r.lane = insertelement <1 x double> poison, double %r, i32 0
  %q.lane = insertelement <1 x i64> poison, i64 %turned, i32 0
  %y.lane = call <1 x double> @"circular.float64.int64.v1"(<1 x double> %r.lane, <1 x i64> %q.lane)
  %y = extractelement <1 x double> %y.lane, i32 0
  %x.bits = bitcast double %x to i64
  %sign = and i64 %x.bits, {sign}
  %y.bits = bitcast double %y to i64
  %signed = xor i64 %y.bits, %sign
  %z = bitcast i64 %signed to double
  ret double %z
}}"""
"""`sign` is the mask of the bit that an odd function takes from its argument."""

TAN = """\
define internal double @far.tan(double %x) nounwind {
  %sine = call double @far.sin(double %x)
  %cosine = call double @far.cos(double %x)
  %y = fdiv double %sine, %cosine
  ret double %y
}"""

ATAN2 = """\
define internal double @far.atan2(double %y, double %x) nounwind {
  %y.lane = insertelement <1 x double> poison, double %y, i32 0
  %x.lane = insertelement <1 x double> poison, double %x, i32 0
  %z.lane = call <1 x double> @"atan2.float64.float64.v1"(<1 x double> %y.lane, <1 x double> %x.lane)
  %z = extractelement <1 x double> %z.lane, i32 0
  ret double %z
}"""

FMOD = """\
define internal double @far.fmod(double %x, double %y) nounwind {
entry:
  %x.bits = bitcast double %x to i64
  %y.bits = bitcast double %y to i64
  %x.size = and i64 %x.bits, 9223372036854775807
  %y.size = and i64 %y.bits, 9223372036854775807
  %x.special = icmp uge i64 %x.size, 9218868437227405312
  %y.nan = icmp ugt i64 %y.size, 9218868437227405312
  %y.zero = icmp eq i64 %y.size, 0
  %bad = or i1 %x.special, %y.nan
  %invalid = or i1 %bad, %y.zero
  br i1 %invalid, label %nan, label %ordered
nan:
  ret double 0x7FF8000000000000
ordered:
  %is.smaller = icmp ult i64 %x.size, %y.size
  br i1 %is.smaller, label %unchanged, label %divide
unchanged:
  ret double %x
divide:
  ; both as whole multiples of powers of two; the exponents of denormals are those of the smallest normals
  %x.field = lshr i64 %x.size, 52
  %y.field = lshr i64 %y.size, 52
  %x.exponent = call i64 @llvm.umax.i64(i64 %x.field, i64 1)
  %y.exponent = call i64 @llvm.umax.i64(i64 %y.field, i64 1)
  %x.fraction = and i64 %x.size, 4503599627370495
  %y.fraction = and i64 %y.size, 4503599627370495
  %x.normal = call i64 @llvm.umin.i64(i64 %x.field, i64 1)
  %y.normal = call i64 @llvm.umin.i64(i64 %y.field, i64 1)
  %x.hidden = shl i64 %x.normal, 52
  %y.hidden = shl i64 %y.normal, 52
  %mx = or i64 %x.fraction, %x.hidden
  %my = or i64 %y.fraction, %y.hidden
  %shifts = sub i64 %x.exponent, %y.exponent
  %r.first = urem i64 %mx, %my
  %none = icmp eq i64 %shifts, 0
  br i1 %none, label %done, label %step
step:
  %r = phi i64 [ %r.first, %divide ], [ %r.next, %step ]
  %left = phi i64 [ %shifts, %divide ], [ %left.next, %step ]
  %doubled = shl i64 %r, 1
  %lessened = sub i64 %doubled, %my
  %fits = icmp uge i64 %doubled, %my
  %r.next = select i1 %fits, i64 %lessened, i64 %doubled
  %left.next = sub i64 %left, 1
  %more = icmp ne i64 %left.next, 0
  br i1 %more, label %step, label %done, !llvm.loop !0
done:
  %rest = phi i64 [ %r.first, %divide ], [ %r.next, %step ]
  %rest.real = uitofp i64 %rest to double
  %unit.bits = shl i64 %y.exponent, 52
  %unit = bitcast i64 %unit.bits to double
  %small = fmul double %rest.real, 0x3CB0000000000000
  %size = fmul double %small, %unit
  %size.bits = bitcast double %size to i64
  %sign = and i64 %x.bits, -9223372036854775808
  %signed = or i64 %size.bits, %sign
  %z = bitcast i64 %signed to double
  ret double %z
}
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)"""
