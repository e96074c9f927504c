"""Loop bodies of matrix products: BLAS, and our own loop for vectors, where BLAS spends its time packing the matrix."""

from __future__ import annotations

from aioexec.graph.loop_language import Pointer, gemm, offset

STRIP = 512
"""Columns of a row-vector product that are accumulated together, so that they stay in the first-level cache."""

FEW = 3
"""Up to so many rows our loop beats BLAS (784 x 512 in float32: 16 µs a row, against 60 µs for any few)."""


def matmul_real(
    a: Pointer,
    b: Pointer,
    c: Pointer,
    transpose_a: int,
    transpose_b: int,
    m: int,
    n: int,
    k: int,
    outer: int,
    outer_a: int,
    outer_b: int,
    count: int,
    step_a: int,
    step_b: int,
    lda: int,
) -> int:
    """c = op(a) @ op(b) for outer * count products of floats; a step of 0 uses one matrix again and again. k >= 1.

    `lda` is the length of a row of a as it lies, which is more than m where this does some columns of a transposed one.
    """
    for o in range(outer):
        for i in range(count):
            left = offset(a, o * outer_a + i * step_a)
            right = offset(b, o * outer_b + i * step_b)
            result = offset(c, (o * count + i) * m * n)
            if n == 1 or m == 1 or (m <= FEW and not transpose_a):
                vectors, matrix = (right, left) if n == 1 else (left, right)
                rows, width = (1, m) if n == 1 else (m, n)
                flip = not transpose_a if n == 1 else transpose_b != 0
                for row in range(rows):
                    vector_times_matrix(
                        offset(vectors, row * k), 1, matrix, flip, offset(result, row * n), width, k
                    )
            else:
                ldb = k if transpose_b else n
                gemm(transpose_a != 0, transpose_b != 0, m, n, k, 1.0, left, lda, right, ldb, 0.0, result, n)
    return 0


def matmul_whole(
    a: Pointer,
    b: Pointer,
    c: Pointer,
    transpose_a: int,
    transpose_b: int,
    m: int,
    n: int,
    k: int,
    outer: int,
    outer_a: int,
    outer_b: int,
    count: int,
    step_a: int,
    step_b: int,
    lda: int,
) -> int:
    """The same for integers, which BLAS does not know."""
    for o in range(outer):
        for i in range(count):
            right = offset(b, o * outer_b + i * step_b)
            for row in range(m):
                left = offset(a, o * outer_a + i * step_a + (row if transpose_a else row * lda))
                result = offset(c, ((o * count + i) * m + row) * n)
                vector_times_matrix(left, lda if transpose_a else 1, right, transpose_b != 0, result, n, k)
    return 0


def vector_times_matrix(
    x: Pointer, step: int, matrix: Pointer, transpose: bool, y: Pointer, n: int, k: int
) -> None:
    """y[n] = x[k] @ op(matrix), where op(matrix) is [k, n]; the elements of x are `step` apart."""
    if transpose:
        for j in range(n):
            row = offset(matrix, j * k)
            total = x[0] * row[0]
            if step == 1:
                for p in range(1, k):
                    total += x[p] * row[p]
            else:
                for p in range(1, k):
                    total += x[p * step] * row[p]
            y[j] = total
    else:
        for start in range(0, n, STRIP):
            add_rows(x, step, offset(matrix, start), offset(y, start), min(STRIP, n - start), k, n)


def add_rows(x: Pointer, step: int, matrix: Pointer, y: Pointer, width: int, k: int, stride: int) -> None:
    """y[i] = sum over p < k of x[p * step] * matrix[p * stride + i], i < width, four rows at a time."""
    for i in range(width):
        y[i] = 0
    whole = k - k % 4
    for p in range(0, whole, 4):
        w, q, r, s = x[p * step], x[(p + 1) * step], x[(p + 2) * step], x[(p + 3) * step]
        first = offset(matrix, p * stride)
        second = offset(first, stride)
        third = offset(second, stride)
        fourth = offset(third, stride)
        for i in range(width):
            y[i] += (w * first[i] + q * second[i]) + (r * third[i] + s * fourth[i])
    for p in range(whole, k):
        w = x[p * step]
        row = offset(matrix, p * stride)
        for i in range(width):
            y[i] += w * row[i]
