"""The names a loop kernel's body may use, as plain Python: for reading, linting, and running a body as it is.

When a body is compiled these names mean their compiled forms, whatever the module says: `gemm` a call of
BLAS or code of our own, whichever is faster on this processor, casts and mathematics single instructions or
calls of the C library. Besides them a body may use `range`, `min`, `max`, `abs`, `len` of a tuple, modules
`math` and `np` (scalar functions), other functions of its module, and constants (numbers and tuples of them).
Pointers have `x[i]` and `offset(x, n)`; a bool is a byte, 0 or 1.

Literals are float64 (`0.0`) and int64, and float32 with float64 gives float64: to stay in single precision,
write `float32(0.5)`. What is stored is converted to the pointer's dtype.
"""

from __future__ import annotations

from math import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    ceil,
    copysign,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    expm1,
    fabs,
    floor,
    fmod,
    hypot,
    inf,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    log10,
    nan,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from typing import Any

import numpy as np
from numpy import float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

__all__ = [
    "LANGUAGE",
    "Pointer",
    "Real",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "fabs",
    "float32",
    "float64",
    "floor",
    "fma",
    "fmod",
    "gemm",
    "hand_over",
    "hypot",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isfinite",
    "isinf",
    "isnan",
    "large_gemm",
    "log",
    "log1p",
    "log2",
    "log10",
    "nan",
    "offset",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tiled_product",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

LANGUAGE = frozenset(__all__) - {"LANGUAGE", "Pointer", "Real"}
"""The names the compiler gives its own meaning, whatever a module means by them."""

Pointer = Any
"""What `x[i]` works on: a pointer when compiled, a one-dimensional array in plain Python."""

Real = Any
"""A floating-point scalar of either precision."""


def offset(pointer: Pointer, count: int) -> Pointer:
    """Return the pointer `count` elements further on."""
    return pointer[count:]


def fma(x: Real, y: Real, z: Real) -> Real:
    """Return x * y + z, rounded once when compiled."""
    return x * y + z


def gemm(
    trans_a: bool,
    trans_b: bool,
    m: int,
    n: int,
    k: int,
    alpha: Real,
    a: Pointer,
    lda: int,
    b: Pointer,
    ldb: int,
    beta: Real,
    c: Pointer,
    ldc: int,
) -> None:
    """Set c[m, n] to alpha * op(a)[m, k] @ op(b)[k, n] + beta * c; rows are lda, ldb, ldc elements apart."""
    left = matrix(a, (k, m), lda).T if trans_a else matrix(a, (m, k), lda)
    right = matrix(b, (n, k), ldb).T if trans_b else matrix(b, (k, n), ldb)
    result = matrix(c, (m, n), ldc)
    product = alpha * (left @ right)
    result[...] = product if beta == 0 else product + beta * result


large_gemm = gemm
"""The same for products so large that copying both matrices pays: BLAS, where it has kernels for the processor."""


def hand_over(
    trans_a: bool,
    trans_b: bool,
    m: int,
    n: int,
    k: int,
    a: Pointer,
    lda: int,
    b: Pointer,
    ldb: int,
    kernel: int,
    operands: tuple[Pointer, ...],
    used: int,
    place: int,
    moving: int,
) -> None:
    """Call an elementwise kernel of floats with op(a)[m, k] @ op(b)[k, n] as one of its operands; 1 <= k <= 128.

    Args:
        kernel: its address.
        operands: all of its operands, of which it has `used`; the one at `place` is not looked at.
        moving: for each operand a bit: 1, it is as large as the product, and contiguous; 0, it is a scalar.
    """
    raise NotImplementedError("addresses are for machine code")


def tiled_product(
    m: int,
    n: int,
    outer: int,
    inner: int,
    a: Pointer,
    a_row: int,
    a_outer: int,
    a_inner: int,
    b: Pointer,
    ldb: int,
    adds: bool,
    c: Pointer,
    ldc: int,
) -> None:
    """Set c[i, j] to (or add) the sum over o < outer, p < inner of a[i a_row + o a_outer + p a_inner] * b[o inner + p, j].

    Rows of b and c are ldb and ldc elements apart. A product like `gemm`, and faster, whose left side may be windows of
    an image. Without terms (outer or inner is 0) nothing is done.
    """
    if outer <= 0 or inner <= 0 or m <= 0 or n <= 0:
        return
    size = a.itemsize
    left = np.lib.stride_tricks.as_strided(
        a, (m, outer, inner), (a_row * size, a_outer * size, a_inner * size)
    )
    result = matrix(c, (m, n), ldc)
    product = left.reshape(m, outer * inner) @ matrix(b, (outer * inner, n), ldb)
    result[...] = result + product if adds else product


def matrix(pointer: Pointer, shape: tuple[int, int], stride: int) -> np.ndarray[Any, Any]:
    """View memory as a matrix whose rows are `stride` elements apart."""
    size = pointer.itemsize
    return np.lib.stride_tricks.as_strided(pointer, shape, (stride * size, size))
