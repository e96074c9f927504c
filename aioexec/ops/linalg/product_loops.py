"""Loop bodies of matrix products: tiled products, and loops for vectors, which run at memory bandwidth."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, gemm, hand_over, large_gemm, offset
from aioexec.ops.common.epilogue_loops import call, finish

STRIP = 512
"""Columns of a row-vector product that are accumulated together, so that they stay in the L1 cache."""

MOST_TERMS = 128
"""Upper bound for the inner dimension of a product that an elementwise kernel consumes directly."""

IN_TILES, LARGE, ROWS, COLUMN = range(4)
"""How a product is computed: in tiles; by `large_gemm`; row by row; its only column at once. Shares of a product are computed
as the whole would be.
"""


def matmul_real(
    a: Pointer,
    b: Pointer,
    c: Pointer,
    bias: Pointer,
    o0: Pointer,
    o1: Pointer,
    o2: Pointer,
    o3: Pointer,
    o4: Pointer,
    o5: Pointer,
    how: int,
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
    ldb: int,
    ldc: int,
    adds: int,
    ends: int,
    kernel: int,
) -> int:
    """c = op(a) @ op(b) for outer * count products of floats; a step of 0 repeats one matrix. k >= 1.

    With `adds`, which is for products in tiles or by `large_gemm`, c += op(a) @ op(b). `lda`, `ldb`, `ldc` are the lengths of
    stored rows, of which a share may use some columns only. `ends` selects the epilogue, `o0` to `o5` are other operands of
    `kernel`, which it may call: see `epilogue_loops`.
    """
    others, beta = (o0, o1, o2, o3, o4, o5), 1.0 if adds else 0.0
    for o in range(outer):
        for i in range(count):
            left = offset(a, o * outer_a + i * step_a)
            right = offset(b, o * outer_b + i * step_b)
            result = offset(c, (o * count + i) * m * ldc)
            if how == ROWS:
                for row in range(m):
                    vector = offset(left, row * lda)
                    vector_times_matrix(
                        vector, 1, right, transpose_b != 0, ldb, offset(result, row * ldc), n, k
                    )
            elif how == COLUMN:
                vector_times_matrix(right, 1, left, transpose_a == 0, lda, result, m, k)
            elif how == LARGE:
                large_gemm(
                    transpose_a != 0, transpose_b != 0, m, n, k, 1.0, left, lda, right, ldb, beta, result, ldc
                )
            else:
                gemm(
                    transpose_a != 0, transpose_b != 0, m, n, k, 1.0, left, lda, right, ldb, beta, result, ldc
                )
            finish(result, bias, m, n, ldc, ends)
            call(c, (o * count + i) * m * ldc, others, m, n, ldc, ends, kernel)
    return 0


def product_handed_over(
    a: Pointer,
    b: Pointer,
    x0: Pointer,
    x1: Pointer,
    x2: Pointer,
    x3: Pointer,
    x4: Pointer,
    x5: Pointer,
    x6: Pointer,
    x7: Pointer,
    x8: Pointer,
    x9: Pointer,
    x10: Pointer,
    x11: Pointer,
    x12: Pointer,
    x13: Pointer,
    x14: Pointer,
    transpose_a: int,
    transpose_b: int,
    m: int,
    n: int,
    k: int,
    lda: int,
    ldb: int,
    used: int,
    place: int,
    moving: int,
    kernel: int,
) -> int:
    """Run an elementwise kernel one of whose operands is op(a) @ op(b); see `hand_over`. k <= MOST_TERMS."""
    operands = (x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14)
    hand_over(
        transpose_a != 0, transpose_b != 0, m, n, k, a, lda, b, ldb, kernel, operands, used, place, moving
    )
    return 0


def matmul_whole(
    a: Pointer,
    b: Pointer,
    c: Pointer,
    bias: Pointer,
    o0: Pointer,
    o1: Pointer,
    o2: Pointer,
    o3: Pointer,
    o4: Pointer,
    o5: Pointer,
    how: int,
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
    ldb: int,
    ldc: int,
    adds: int,
    ends: int,
    kernel: int,
) -> int:
    """As `matmul_real` for integers, always row by row, and without calls and `adds`."""
    for o in range(outer):
        for i in range(count):
            right = offset(b, o * outer_b + i * step_b)
            for row in range(m):
                left = offset(a, o * outer_a + i * step_a + (row if transpose_a else row * lda))
                result = offset(c, ((o * count + i) * m + row) * ldc)
                step = lda if transpose_a else 1
                vector_times_matrix(left, step, right, transpose_b != 0, ldb, result, n, k)
            finish(offset(c, (o * count + i) * m * ldc), bias, m, n, ldc, ends)
    return 0


def vector_times_matrix(
    x: Pointer, step: int, matrix: Pointer, transpose: bool, stride: int, y: Pointer, n: int, k: int
) -> None:
    """y[n] = x[k] @ op(matrix), where op(matrix) is [k, n] with rows `stride` apart; elements of x are `step` apart."""
    if transpose:
        for j in range(n):
            row = offset(matrix, j * stride)
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
            width = min(STRIP, n - start)
            add_rows(x, step, offset(matrix, start), offset(y, start), width, k, stride)


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
