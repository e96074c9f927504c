"""The names that the body of a loop kernel may use, as plain Python: for linting and for running a body uncompiled.

The compiler defines these names itself, regardless of the module: `gemm` calls BLAS or a kernel of our own, whichever is faster
on this processor; casts and mathematical functions become single instructions or calls of the C library. A body may also use
`range`, `min`, `max`, `abs`, `len` of a tuple, the modules `math` and `np` (scalar functions), other functions of its module,
and constants (numbers and tuples of them). Pointers have `x[i]` and `offset(x, n)`; a bool is a byte, 0 or 1.

Literals are float64 (`0.0`) and int64, and float32 with float64 yields float64: for single precision write `float32(0.5)`.
Stores convert to the pointer's dtype.

`hand_over` and `call_elementwise` call machine code at an address, and are not implemented as plain Python: a body is run
uncompiled only with arguments for which it does not call them.
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
    "call_elementwise",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "fabs",
    "far_product",
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
    "lanes",
    "large_gemm",
    "load_vector",
    "load_widened",
    "log",
    "log1p",
    "log2",
    "log10",
    "nan",
    "offset",
    "panel_columns",
    "panel_terms",
    "prefetch",
    "sin",
    "sinh",
    "splat",
    "sqrt",
    "store_vector",
    "tan",
    "tanh",
    "tiled_product",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "vector_maximum",
    "vector_minimum",
]

LANGUAGE = frozenset(__all__) - {"LANGUAGE", "Pointer", "Real"}
"""The names that the compiler defines, whatever they are bound to in a module."""

Pointer = Any
"""The type of `x` in `x[i]`: a pointer when compiled, a one-dimensional array in plain Python."""

Real = Any
"""A floating-point scalar of either precision."""


def offset(pointer: Pointer, count: int) -> Pointer:
    """Return the pointer plus `count` elements."""
    return pointer[count:]


def panel_columns(pointer: Pointer) -> int:
    """Return the columns of a panel (see `Panels`) of elements like these; when compiled, two vectors of the processor."""
    return 8


def panel_terms(pointer: Pointer) -> int:
    """Return the most rows of a panel of elements like these that fit the L1 cache beside what else a product needs."""
    return 128


def fma(x: Real, y: Real, z: Real) -> Real:
    """Return x * y + z, rounded once when compiled; of vectors where the processor has an instruction for that."""
    return x * y + z


Vector = Any
"""A vector of as many float32 or float64 as a register holds; it supports +, -, *, and `fma`."""

_LANES = 4


def lanes(pointer: Pointer) -> int:
    """Return the number of elements of a vector of the dtype of a pointer."""
    return _LANES


def load_vector(pointer: Pointer) -> Vector:
    """Return the vector of the first elements of a pointer, which need not be aligned."""
    assert len(pointer) >= _LANES
    return pointer[:_LANES].copy()


def load_widened(narrow: Pointer, like: Pointer) -> Vector:
    """Return the vector of the first elements of a pointer to int8, to bfloat16 (uint16) or float16 (int16), as float32.

    `like` points to float32.
    """
    numbers = narrow[:_LANES]
    if numbers.dtype == np.uint16:
        return (numbers.astype(np.uint32) << 16).view(np.float32)
    if numbers.dtype == np.int16:
        numbers = numbers.view(np.float16)
    return numbers.astype(like.dtype)


def store_vector(pointer: Pointer, vector: Vector) -> None:
    """Store a vector to the first elements of a pointer."""
    pointer[:_LANES] = vector


def prefetch(pointer: Pointer) -> None:
    """Have the cache line of a pointer brought to the second-level cache; the pointer may be outside of all memory."""


def splat(pointer: Pointer, number: Real) -> Vector:
    """Return a vector of the dtype of a pointer whose elements all are a number."""
    return np.full(_LANES, number, pointer.dtype)


def vector_maximum(x: Vector, y: Vector) -> Vector:
    """Return y where it is greater than x, else x: so NaN in x is kept."""
    return np.where(x < y, y, x)


def vector_minimum(x: Vector, y: Vector) -> Vector:
    """Return y where it is less than x, else x: so NaN in x is kept."""
    return np.where(x > y, y, x)


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
"""The same for large products, for which packing both matrices pays: BLAS, if it has kernels for the processor."""


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
    """Call a float32 elementwise kernel with op(a)[m, k] @ op(b)[k, n] as one of its operands; 1 <= k <= 128.

    Args:
        kernel: its address.
        operands: its operands, `used` of them valid; the one at `place` is the product and is not read from memory.
        moving: a bit for each operand: 1 if it is as large as the product, and contiguous; 0 if it is a scalar.
    """
    raise NotImplementedError("only compiled loops call a kernel at its address")


def call_elementwise(
    kernel: int,
    y: Pointer,
    at: int,
    others: tuple[Pointer, ...],
    m: int,
    n: int,
    ldc: int,
    ends: int,
) -> None:
    """Call an elementwise kernel that replaces m rows of n elements, ldc apart, from y[at] on; see `Epilogue` for `ends`.

    Args:
        kernel: its address.
        others: its other operands: those as large as y are read from the same element on, vectors from the first.
    """
    raise NotImplementedError("only compiled loops call a kernel at its address")


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

    Rows of b and c are ldb and ldc elements apart. A faster `gemm` whose left operand may be windows of an image. Without terms
    (outer or inner is 0) nothing is done.
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


def far_product(
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
    """As `tiled_product`, for a b that is not in the caches: what follows its panel there is prefetched meanwhile."""
    tiled_product(m, n, outer, inner, a, a_row, a_outer, a_inner, b, ldb, adds, c, ldc)


def matrix(pointer: Pointer, shape: tuple[int, int], stride: int) -> np.ndarray[Any, Any]:
    """View memory as a matrix whose rows are `stride` elements apart."""
    size = pointer.itemsize
    return np.lib.stride_tricks.as_strided(pointer, shape, (stride * size, size))
