"""General matrix products made of `tiled_product`, for processors where that is faster than BLAS.

OpenBLAS, as bundled with NumPy, has its own kernels for some processors with 512-bit vectors only; elsewhere it uses half of
such a vector, and half of the speed.

The right matrix is copied panel by panel, a panel being as wide as a tile and `DEPTH` terms deep, into memory on the stack:
if it is transposed (the copy turns it, in registers), to be scaled, or large and of use for several tiles. Like `loops.py`,
which loads it, this file is for the compiler child and imports nothing of aioexec.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WORD = ir.IntType(64)
DEPTH = 256
LARGE = 3 * 2**20
"""Bytes of a right matrix from which on reading it line by line wastes more than a copy costs."""


def make_gemm(tiles: ModuleType, offset: Any, options: dict[str, Any]) -> Any:
    """The function `gemm` of the loop language."""
    compiled = numba.njit(no_cpython_wrapper=True, **options)
    prepare, fill_panel = make_prepare(offset, compiled), make_fill_panel(tiles, offset, compiled)
    tiled_product, lanes_of, panel_memory = (
        tiles.tiled_product,
        make_lanes_of(tiles),
        make_panel_memory(tiles),
    )
    vector_bytes, tallest = tiles.registers().vector_bytes, tiles.registers().heights[0]

    @compiled  # type: ignore[untyped-decorator]
    def gemm(
        trans_a: Any, trans_b: Any, m: Any, n: Any, k: Any, alpha: Any, a: Any, lda: Any, b: Any, ldb: Any, beta: Any,
        c: Any, ldc: Any,
    ) -> None:  # fmt: skip
        if beta != 1 and (beta != 0 or k <= 0):
            prepare(m, n, beta, c, ldc)
        adds = beta != 0
        a_row, a_inner = (1, lda) if trans_a else (lda, 1)
        wide = 2 * lanes_of(c)
        large = n * k * vector_bytes // lanes_of(c) >= LARGE and m > tallest
        if not trans_b and alpha == 1 and not large:
            tiled_product(m, n, 1, k, a, a_row, 0, a_inner, b, ldb, adds, c, ldc)
            return
        panel = panel_memory(c)
        for part in range((k + DEPTH - 1) // DEPTH):
            p = part * DEPTH
            depth = min(k - p, DEPTH)
            left = offset(a, p * a_inner)
            for number in range((n + wide - 1) // wide):
                j = number * wide
                width = min(wide, n - j)
                place = j * ldb + p if trans_b else p * ldb + j
                fill_panel(trans_b, offset(b, place), ldb, alpha, panel, wide, depth, width)
                result = offset(c, j)
                tiled_product(
                    m, width, 1, depth, left, a_row, 0, a_inner, panel, wide, adds or p > 0, result, ldc
                )

    return gemm


def make_prepare(offset: Any, compiled: Any) -> Any:
    @compiled  # type: ignore[untyped-decorator]
    def prepare(m: Any, n: Any, beta: Any, c: Any, ldc: Any) -> None:
        """Multiply what is added to; nothing is left of it by 0, not even NaN."""
        for i in range(m):
            line = offset(c, i * ldc)
            for j in range(n):
                line[j] = line[j] * beta if beta != 0 else 0

    return prepare


def make_fill_panel(tiles: ModuleType, offset: Any, compiled: Any) -> Any:
    turn_block = make_turn_block(tiles)

    @compiled  # type: ignore[untyped-decorator]
    def turn_half(b: Any, ldb: Any, panel: Any, wide: Any, depth: Any, width: Any) -> None:
        """Transpose into the columns of one vector, or the first `width` of them."""
        lanes = wide // 2
        whole = depth // lanes if width >= lanes else 0
        for block in range(whole):
            p = block * lanes
            turn_block(offset(b, p), ldb, offset(panel, p * wide), wide)
        for j in range(min(width, lanes)):
            for p in range(whole * lanes, depth):
                panel[p * wide + j] = b[j * ldb + p]

    @compiled  # type: ignore[untyped-decorator]
    def fill_panel(
        trans_b: Any, b: Any, ldb: Any, alpha: Any, panel: Any, wide: Any, depth: Any, width: Any
    ) -> None:
        """Copy `depth` terms of `width` columns, whose first element is at b."""
        if trans_b:
            for half in range(2):
                first = half * (wide // 2)
                turn_half(offset(b, first * ldb), ldb, offset(panel, first), wide, depth, width - first)
        else:
            for p in range(depth):
                source, target = offset(b, p * ldb), offset(panel, p * wide)
                for j in range(width):
                    target[j] = source[j]
        if alpha != 1:
            for i in range(depth * wide):
                panel[i] *= alpha

    return fill_panel


def make_lanes_of(tiles: ModuleType) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]  # numba has no types
    def lanes_of(typing_context: Any, pointer: Any) -> Any:
        """How many elements a vector holds."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return WORD(tiles.registers().vector_bytes * 8 // signature.args[0].dtype.bitwidth)

        return types.int64(pointer), generate

    return lanes_of


def make_panel_memory(tiles: ModuleType) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]  # numba has no types
    def panel_memory(typing_context: Any, like: Any) -> Any:
        """Memory for a panel, on the stack: a pointer like the one given."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = signature.args[0].dtype
            lanes = tiles.registers().vector_bytes * 8 // kind.bitwidth
            with builder.goto_entry_block():  # not numba's own alloca, which would clear it
                memory = builder.alloca(ir.ArrayType(context.get_value_type(kind), DEPTH * 2 * lanes))
            memory.align = tiles.registers().vector_bytes
            return builder.gep(memory, [WORD(0), WORD(0)])

        return like(like), generate

    return panel_memory


def make_turn_block(tiles: ModuleType) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]  # numba has no types
    def turn_block(typing_context: Any, source: Any, stride: Any, target: Any, pitch: Any) -> Any:
        """Transpose as many lines of one vector as a vector has lanes."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source, stride, target, pitch = args
            tile = tiles.Tile(
                builder, tiles.Shape(1, 1, False), context.get_value_type(signature.args[0].dtype), None
            )
            lines = []
            for _ in range(tile.lanes):
                lines.append(tile.load(source, 0))
                source = tile.step(source, stride)
            for line in turned(builder, lines):
                tile.store(line, target, 0)
                target = tile.step(target, pitch)
            return context.get_dummy_value()

        return types.none(source, types.int64, target, types.int64), generate

    return turn_block


def turned(builder: Any, lines: list[Any]) -> list[Any]:
    """Transpose a square of vectors: exchange quarters, then quarters of those, down to single elements."""
    count, size = len(lines), 1
    while size < count:
        upper = [t if not t & size else count + t - size for t in range(count)]
        lower = [t + size if not t & size else count + t for t in range(count)]
        for i in (i for i in range(count) if not i & size):
            pair = lines[i], lines[i | size]
            for place, order in ((i, upper), (i | size, lower)):
                mask = ir.Constant(ir.VectorType(ir.IntType(32), count), order)
                lines[place] = builder.shuffle_vector(*pair, mask)
        size *= 2
    return lines
