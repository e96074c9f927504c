"""Loop body of products with a constant right matrix, which a program holds in panels (see `Panels`)."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import (
    Pointer,
    fma,
    lanes,
    load_widened,
    offset,
    panel_columns,
    panel_terms,
    splat,
    store_vector,
    tiled_product,
)
from aioexec.ops.common.epilogue_loops import call, finish

BLOCK_ROWS = 168
"""The most rows of the left matrix for which a panel is read once: of these, the terms of a part stay in the L2 cache."""
WHOLE_TILES = 42
"""Rows that are whole tiles on every processor."""
LEFT_ELEMENTS = 2**16
"""Elements of the left matrix that stay in the L2 cache, while panels are read in pieces of as many terms: long ones, since the
prefetcher of the processor begins anew at each piece (one row @ 768 x 3072: 14 GB/s in pieces of one part, 20 whole)."""
FEW_ROWS = 2
"""Rows for which narrow panels are widened in registers, once for each row; for more a piece is widened in memory."""
STRIPE = 4
"""Panels after which the epilogue is applied: its loops are long enough, and the results still in the cache."""


def multiply_panels(
    a: Pointer, panels: Pointer, c: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, m: int, n: int, k: int, lda: int, ldc: int, ends: int, kernel: int,
) -> int:  # fmt: skip
    """c[m, n] = a[m, k] @ b[k, n], then the epilogue `ends`; k >= 1. Rows of a and c are `lda` and `ldc` apart.

    Each element is a sum of its terms in order, in parts whose length depends on k alone, so its bits do not depend on the
    share of rows or columns of a call.
    """
    others = (o0, o1, o2, o3, o4, o5)
    wide, deepest = panel_columns(c), panel_terms(c)
    parts = (k + deepest - 1) // deepest
    most = (k + parts - 1) // parts
    blocks = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
    tall = (m + blocks * WHOLE_TILES - 1) // (blocks * WHOLE_TILES) * WHOLE_TILES
    for block in range(blocks):
        row = block * tall
        height = min(tall, m - row)
        together = max(LEFT_ELEMENTS // (height * most), 1)
        for group in range((parts + together - 1) // together):
            first = group * together
            last = min(first + together, parts)
            for stripe in range((n + STRIPE * wide - 1) // (STRIPE * wide)):
                j = stripe * STRIPE * wide
                count = min(STRIPE * wide, n - j)
                result = offset(c, row * ldc + j)
                for number in range((count + wide - 1) // wide):
                    begin = number * wide
                    width = min(wide, count - begin)
                    for part in range(first, last):
                        p = part * most
                        tiled_product(
                            height,
                            width,
                            1,
                            min(most, k - p),
                            offset(a, row * lda + p),
                            lda,
                            0,
                            1,
                            offset(panels, (j + begin) * k + p * wide),
                            wide,
                            p > 0,
                            offset(result, begin),
                            ldc,
                        )
                if last == parts:
                    finish(result, offset(bias, j), height, count, ldc, ends)
        call(c, row * ldc, others, height, n, ldc, ends, kernel)
    return 0


def multiply_narrow_panels(
    a: Pointer, panels: Pointer, c: Pointer, scales: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer,
    o4: Pointer, o5: Pointer, piece: Pointer, m: int, n: int, k: int, lda: int, ldc: int, scaled: int, ends: int, kernel: int,
) -> int:  # fmt: skip
    """As `multiply_panels`, of panels in a narrow dtype: a piece of one is widened in `piece`, then multiplied.

    If `scaled`, each column of the product is multiplied by its scale.
    """
    others = (o0, o1, o2, o3, o4, o5)
    wide, most = panel_columns(c), panel_terms(c)
    for stripe in range((n + STRIPE * wide - 1) // (STRIPE * wide)):
        j = stripe * STRIPE * wide
        count = min(STRIPE * wide, n - j)
        result = offset(c, j)
        done = 0
        if m <= FEW_ROWS and count == STRIPE * wide:
            for row in range(m):
                multiply_row(offset(a, row * lda), offset(panels, j * k), offset(result, row * ldc), k)
            done = STRIPE
        for number in range(done, (count + wide - 1) // wide):
            begin = number * wide
            width = min(wide, count - begin)
            for part in range((k + most - 1) // most):
                p = part * most
                depth = min(most, k - p)
                widen(offset(panels, (j + begin) * k + p * wide), piece, depth * wide)
                tiled_product(
                    m, width, 1, depth, offset(a, p), lda, 0, 1, piece, wide, p > 0, offset(result, begin), ldc
                )  # fmt: skip
        if scaled:
            scale_columns(result, offset(scales, j), m, count, ldc)
        finish(result, offset(bias, j), m, count, ldc, ends)
    call(c, 0, others, m, n, ldc, ends, kernel)
    return 0


def multiply_row(a: Pointer, panels: Pointer, c: Pointer, k: int) -> None:
    """Multiply a row by STRIPE narrow panels side by side, which are widened in registers."""
    step, pitch = lanes(c), 2 * lanes(c) * k
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = splat(c, 0.0)
    for p in range(k):
        x, place = splat(c, a[p]), offset(panels, 2 * step * p)
        s0 = fma(x, load_widened(place, c), s0)
        s1 = fma(x, load_widened(offset(place, step), c), s1)
        s2 = fma(x, load_widened(offset(place, pitch), c), s2)
        s3 = fma(x, load_widened(offset(place, pitch + step), c), s3)
        s4 = fma(x, load_widened(offset(place, 2 * pitch), c), s4)
        s5 = fma(x, load_widened(offset(place, 2 * pitch + step), c), s5)
        s6 = fma(x, load_widened(offset(place, 3 * pitch), c), s6)
        s7 = fma(x, load_widened(offset(place, 3 * pitch + step), c), s7)
    store_vector(c, s0)
    store_vector(offset(c, step), s1)
    store_vector(offset(c, 2 * step), s2)
    store_vector(offset(c, 3 * step), s3)
    store_vector(offset(c, 4 * step), s4)
    store_vector(offset(c, 5 * step), s5)
    store_vector(offset(c, 6 * step), s6)
    store_vector(offset(c, 7 * step), s7)


def widen(narrow: Pointer, piece: Pointer, count: int) -> None:
    """Convert so many numbers, a multiple of a panel's columns, to float32."""
    for i in range(count // lanes(piece)):
        at = i * lanes(piece)
        store_vector(offset(piece, at), load_widened(offset(narrow, at), piece))


def scale_columns(y: Pointer, scales: Pointer, m: int, n: int, ldc: int) -> None:
    """Multiply m rows of n elements, ldc apart, by scales."""
    for row in range(m):
        line = offset(y, row * ldc)
        for j in range(n):
            line[j] = line[j] * scales[j]
