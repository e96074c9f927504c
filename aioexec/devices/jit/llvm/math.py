"""Functions of the expression language written in the language itself, and how one is chosen for the dtypes of a call.

A function is chosen by name and by the dtype its first parameter is annotated with; without annotation it is for every dtype.
All are branch-free but for tests of whole vectors, so that lanes are computed alike. float16 and bfloat16 take float32.

Every function is within 4 ulp of the exact value at every float32, denormal operands and results among them
(`python -m tests.devices.jit.ulp`), where the processor keeps denormals; a walk has it flush them, as TensorFlow does. The
bits are the same on every processor: what fuses a product and a sum says `fma`, and without that instruction it is a call.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.devices.jit import syntax
from aioexec.devices.jit.llvm.math_float32 import SOURCE as FLOAT32
from aioexec.devices.jit.llvm.math_float64 import SOURCE as FLOAT64

GENERIC = """
def floordiv_real(x, y):
    return floor(x / y)

def truncdiv_real(x, y):
    return trunc(x / y)

def safe_divisor(b):
    return where((b == 0) | (b == -1), 1, b)

def truncdiv_whole(a, b):
    q = quotient(a, safe_divisor(b))
    return where(b == 0, 0, where(b == -1, -a, q))

def truncmod_whole(a, b):
    s = safe_divisor(b)
    return where((b == 0) | (b == -1), 0, a - quotient(a, s) * s)

def truncdiv_unsigned(a, b):
    return where(b == 0, 0, quotient(a, maximum(b, 1)))

def truncmod_unsigned(a, b):
    return where(b == 0, 0, a - quotient(a, maximum(b, 1)) * b)

def floordiv_whole(a, b):
    q = truncdiv_whole(a, b)
    r = a - q * b
    return where((r != 0) & ((r ^ b) < 0) & (b != 0), q - 1, q)

def floormod_whole(a, b):
    r = truncmod_whole(a, b)
    return where((r != 0) & ((r ^ b) < 0), r + b, r)

def rsqrt(x):
    return 1.0 / sqrt(x)

def reciprocal(x):
    return 1.0 / x

def square(x):
    return x * x

def sign(x):
    return where(x > 0, 1, where(x < 0, -1, x))

def exp(x):
    return exp_sum(x, -0.0, 0)

def expm1(x):
    return where(abs(x) < 1e-30, x, expm1_quarter(x) * 4.0)

def tanh(x):
    # t / (t + 2) with t = e^2|x| - 1 loses nothing near 0, and is 1 long before 20.
    t = expm1_quarter(minimum(abs(x), 20.0) * 2.0) * 4.0
    return where(abs(x) < 1e-30, x, copysign(t / (t + 2.0), x))

def sinh(x):
    # (t + t / (t + 1)) / 2 with t = e^|x| - 1 = 2u
    u = expm1_quarter(abs(x)) * 2.0
    return where(abs(x) < 1e-30, x, copysign(u + where(u > 1e20, 0.5, u / (2.0 * u + 1.0)), x))

def cosh(x):
    # h + 1 / 4h with h = e^|x| / 2
    h = exp_sum(abs(x), -0.0, -1)
    return h + 0.25 / h

def sigmoid(x):
    # 1 / (1 + e^-x), or e^x / (1 + e^x), which is a denormal where the first is 0
    e = exp(-abs(x))
    return where(x < 0, e, 1.0) / (1.0 + e)

def softplus(x):
    return maximum(x, 0.0) + log1p(exp(-abs(x)))

def softsign(x):
    return x / (1.0 + abs(x))

def asin(x):
    # asin(a) = pi/2 - 2 asin sqrt((1 - a) / 2) above 1/2
    a = abs(x)
    z = where(a > 0.5, fma(-0.5, a, 0.5), a * a)
    p = asin_reduced(where(a > 0.5, sqrt(z), a), z)
    return copysign(where(a > 0.5, half_pi_less(2.0 * p), p), x)

def acos(x):
    a = abs(x)
    z = where(a > 0.5, fma(-0.5, a, 0.5), a * a)
    p = asin_reduced(where(a > 0.5, sqrt(z), a), z)
    far = where(x > 0, 2.0 * p, 2.0 * half_pi_less(p))
    return where(a > 0.5, far, half_pi_less(copysign(p, x)))

def atan2(y, x):
    a = abs(x)
    b = abs(y)
    low = minimum(a, b)
    high = maximum(a, b)
    t = atan(where(high == 0, 0.0, where(low == inf, 1.0, low / high)))
    r = where(b > a, half_pi_less(t), t)
    return copysign(where(copysign(1.0, x) < 0, 2.0 * half_pi_less(0.5 * r), r), y)

def asinh(x):
    # log1p(a + a*a / (1 + sqrt(1 + a*a))); where a*a would overflow, log(2a)
    a = abs(x)
    big = a > 1e15
    b = where(big, 0.0, a)
    s = b * b
    y = log1p(where(big, a, b + s / (1.0 + sqrt(1.0 + s)))) + where(big, 0.6931471805599453, like(b, 0.0))
    return where(a < 1e-30, x, copysign(y, x))

def acosh(x):
    big = x > 1e15
    t = where(big, 0.0, x - 1.0)
    y = log1p(where(big, x, t + sqrt(t * (t + 2.0)))) + where(big, 0.6931471805599453, like(t, 0.0))
    return where(x < 1.0, nan, y)

def atanh(x):
    a = abs(x)
    return copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x)

def erfc_joined(x, a, r):
    # erfc(a) = r e^(-a*a), the square being the sum of its rounded value and an error; then erfc(x)
    s = a * a
    y = r * exp_sum(-s, -fma(a, a, -s), 0)
    return where(is_nan(x) | (a < 0.7), 1.0 - erf_near(x), where(x < 0, 2.0 - y, y))

def pow(x, y):
    # The sign and the special cases; the rest is for each dtype.
    whole = floor(y) == y
    odd = whole & (floor(0.5 * y) != 0.5 * y)
    r = pow_positive(abs(x), y)
    signed = where(odd & (copysign(1.0, x) < 0), -r, r)
    defined = where((x < 0) & is_finite(x) & ~whole, nan, signed)
    one = (y == 0) | (x == 1) | ((x == -1) & is_inf(y))
    return where(one, 1.0, where(is_nan(x) | is_nan(y), nan, defined))

def remainder(x, y, q):
    # x - q y, exactly, where q = trunc(x / y) may be one too far from 0
    r = fma(-q, y, x)
    return where(r * copysign(1.0, x) < 0, r + copysign(y, x), r)

def floormod_real(x, y):
    r = truncmod_real(x, y)
    return where((r != 0) & ((r < 0) != (y < 0)), r + y, r)

def xlogy(x, y):
    return where(x == 0, 0.0, x * log(y))

def xdivy(x, y):
    return where(x == 0, 0.0, x / y)

def xlog1py(x, y):
    return where(x == 0, 0.0, x * log1p(y))
"""


@dataclass(frozen=True, slots=True)
class Definition:
    """A function of the language: its parameters, their dtypes (None: any), and its statements."""

    name: str
    parameters: tuple[str, ...]
    dtypes: tuple[str | None, ...]
    body: tuple[ast.stmt, ...]
    source: str


def parse(source: str) -> list[Definition]:
    """Read the functions of a source text."""
    found = []
    for statement in syntax.parse(source).body:
        assert isinstance(statement, ast.FunctionDef), ast.dump(statement)
        arguments = statement.args.args
        dtypes = tuple(
            item.annotation.id if isinstance(item.annotation, ast.Name) else None for item in arguments
        )
        names = tuple(item.arg for item in arguments)
        found.append(Definition(statement.name, names, dtypes, tuple(statement.body), source))
    return found


@functools.cache
def definitions() -> dict[str, dict[str | None, Definition]]:
    """Every function: name, then dtype of its first parameter."""
    table: dict[str, dict[str | None, Definition]] = {}
    for source in (GENERIC, FLOAT32, FLOAT64):
        for definition in parse(source):
            versions = table.setdefault(definition.name, {})
            assert definition.dtypes[0] not in versions, definition
            versions[definition.dtypes[0]] = definition
    return table


def names() -> frozenset[str]:
    return frozenset(definitions())


def resolve(name: str, dtypes: Sequence[str | None]) -> tuple[Definition, tuple[str, ...]]:
    """The version of a function for operands of these dtypes (None: a literal), and the dtypes of its parameters.

    Raises:
        ValueError: there is none.
    """
    versions = definitions()[name]
    known = [dtype for dtype in dtypes if dtype is not None]
    definition = next((versions[dtype] for dtype in (*known, None) if dtype in versions), None)
    if definition is None or not known:
        raise ValueError(f"{name!r} is not defined for {known}")
    if len(definition.parameters) != len(dtypes):
        raise ValueError(f"{name!r} takes {len(definition.parameters)} operands, got {len(dtypes)}")
    wanted = tuple(dtype or known[0] for dtype in definition.dtypes)
    if any(got is not None and got != expected for got, expected in zip(dtypes, wanted, strict=True)):
        raise ValueError(f"{name!r} expects operands {wanted}, got {tuple(dtypes)}")
    return definition, wanted
