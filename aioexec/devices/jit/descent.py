"""What a product is for, done while it is in the nearest caches: c = old - rate * (op(a) @ op(b)), a step of gradient descent.

The gradient itself is never written to memory: some rows of it at a time are made in memory on the stack, and taken from what
was there line by line. That may be in the same place.

Like `loops.py`, which loads it, this file is for the compiler child and imports nothing of aioexec.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

ROWS = 84
"""Rows made at once: whole tiles, be they 6 or 14 high, and with a strip of the right matrix in the second-level cache."""


def make_descend(tiles: ModuleType, products: ModuleType, offset: Any, options: dict[str, Any]) -> Any:
    """The function `descend` of the loop language; `products` is the module with the parts of `gemm`."""
    compiled = numba.njit(**options)
    fill_strip, lanes_of = products.make_fill_strip(tiles, offset, compiled), products.make_lanes_of(tiles)
    copy_rows = products.make_copy_rows(tiles, offset, compiled)
    product = products.make_panel_product(tiles, compiled)
    subtract_vectors = make_subtract_vectors(tiles, products)
    vector_bytes = tiles.registers().vector_bytes
    line, deepest = products.line_bytes(tiles), products.depth_of(tiles)
    sums_at = products.strip_bytes(tiles)
    block_at = sums_at + ROWS * line
    memory_of = products.make_memory(
        lambda size: block_at + ROWS * (deepest * size + vector_bytes), vector_bytes
    )
    is_copied = products.is_high(tiles)

    @compiled  # type: ignore[untyped-decorator]
    def subtract(
        old: Any, c: Any, ldc: Any, rate: Any, sums: Any, columns: Any, rows: Any, count: Any
    ) -> None:
        lanes = lanes_of(c)
        whole = count // lanes
        for i in range(rows):
            before, after, line = offset(old, i * ldc), offset(c, i * ldc), offset(sums, i * columns)
            subtract_vectors(before, after, line, rate, whole)
            for j in range(whole * lanes, count):
                after[j] = before[j] - rate * line[j]

    @compiled  # type: ignore[untyped-decorator]
    def descend(
        trans_a: Any, trans_b: Any, m: Any, n: Any, k: Any, rate: Any, a: Any, lda: Any, b: Any, ldb: Any, old: Any, c: Any,
        ldc: Any,
    ) -> None:  # fmt: skip
        strip = memory_of(c)
        lanes = lanes_of(c)
        wide, columns = 2 * lanes, line * lanes // vector_bytes
        sums = offset(strip, sums_at * lanes // vector_bytes)
        block = offset(strip, block_at * lanes // vector_bytes)
        pitch, block_pitch = k * wide + products.PADDING * lanes // vector_bytes, deepest + lanes
        a_row, a_inner = (1, lda) if trans_a else (lda, 1)
        for stripe in range((n + columns - 1) // columns):
            j = stripe * columns
            count = min(columns, n - j)
            fill_strip(trans_b, offset(b, j * ldb if trans_b else j), ldb, 1, strip, pitch, k, count)
            for number in range((m + ROWS - 1) // ROWS):
                row = number * ROWS
                rows = min(ROWS, m - row)
                left, left_row, left_inner = offset(a, row * a_row), a_row, a_inner
                if is_copied:
                    copy_rows(left, a_row, a_inner, block, block_pitch, rows, k)
                    left, left_row, left_inner = block, block_pitch, 1
                for panel in range((count + wide - 1) // wide):
                    right, result = offset(strip, panel * pitch), offset(sums, panel * wide)
                    product(rows, wide, k, left, left_row, left_inner, right, wide, False, result, columns)
                place = row * ldc + j
                subtract(offset(old, place), offset(c, place), ldc, rate, sums, columns, rows, count)

    return descend


def make_subtract_vectors(tiles: ModuleType, products: ModuleType) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]  # numba has no types
    def subtract_vectors(
        typing_context: Any, before: Any, after: Any, sums: Any, rate: Any, count: Any
    ) -> Any:
        """after = before - rate * sums, `count` vectors; before and after may be one."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            before, after, sums, rate, count = args
            element = context.get_value_type(signature.args[0].dtype)
            tile = tiles.Tile(builder, tiles.Shape(1, 1, False), element, None)
            step, factor = tiles.WORD(tile.lanes), tile.splat(rate)
            moving = ((before, step), (after, step), (sums, step))
            with (
                builder.if_then(builder.icmp_signed(">", count, tiles.WORD(0))),
                products.repeated(builder, count, *moving) as (old, new, line),
            ):
                scaled = builder.fmul(factor, tile.load(line, 0))
                tile.store(builder.fsub(tile.load(old, 0), scaled), new, 0)
            return context.get_dummy_value()

        return types.none(before, after, sums, before.dtype, types.int64), generate

    return subtract_vectors
