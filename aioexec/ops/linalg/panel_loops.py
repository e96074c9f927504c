"""Loop body of products with a constant right matrix, which a program holds in panels (see `Panels`)."""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, offset, panel_columns, panel_terms, tiled_product
from aioexec.ops.common.epilogue_loops import call, finish

BLOCK_ROWS = 168
"""The most rows of the left matrix for which a panel is read once: of these, the terms of a part stay in the L2 cache."""
WHOLE_TILES = 42
"""Rows that are whole tiles on every processor."""
LEFT_ELEMENTS = 2**16
"""Elements of the left matrix that stay in the L2 cache, while panels are read in pieces of as many terms: long ones, since the
prefetcher of the processor begins anew at each piece (one row @ 768 x 3072: 14 GB/s in pieces of one part, 20 whole)."""
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
