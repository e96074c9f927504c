"""Functions of the expression language written in the language itself, and how one is chosen for the dtypes of a call.

A function is chosen by name and by the dtype its first parameter is annotated with; without annotation it is for every dtype.
All are branch-free, so that a vector computes them in every lane. float16 and bfloat16 are computed in float32.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass

from aioexec.devices.jit.math_float32 import SOURCE as FLOAT32
from aioexec.devices.jit.math_float64 import SOURCE as FLOAT64

GENERIC = '''
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
    return exp_scaled(x, 0)

def expm1(x):
    return where(abs(x) < 1e-30, x, expm1_quarter(x) * 4.0)

def tanh(x):
    # t / (t + 2) with t = e^2|x| - 1 loses nothing near 0, and is 1 long before 20.
    t = expm1_quarter(minimum(abs(x), 20.0) * 2.0) * 4.0
    return where(abs(x) < 1e-30, x, copysign(t / (t + 2.0), x))

def sigmoid(x):
    return 1.0 / (1.0 + exp(-x))

def softplus(x):
    return maximum(x, 0.0) + log1p(exp(-abs(x)))
'''


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
    for statement in ast.parse(source).body:
        assert isinstance(statement, ast.FunctionDef), ast.dump(statement)
        arguments = statement.args.args
        dtypes = tuple(item.annotation.id if isinstance(item.annotation, ast.Name) else None for item in arguments)
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
