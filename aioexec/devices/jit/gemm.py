"""General matrix products made of `tiled_product`, for processors where that is faster than BLAS.

NumPy's bundled OpenBLAS has 512-bit kernels for some processors only; on others it uses 256-bit vectors, at half the speed.
With 256-bit vectors it copies operands even where there are too few rows for that to pay.

Right matrix: it is copied strip by strip to the stack. A strip is several panels side by side, each as wide as a tile, so that
each line is long enough for the hardware prefetcher (784 x 512 in float32: 42 µs; panel by panel 160 µs). A transposed matrix
is transposed in registers during the copy. It is not copied for few rows, nor with 512-bit vectors if it fits the caches,
unless it is transposed or scaled; tiles then prefetch its rows and, where these are a page or longer and most of the matrix is
not cached, those of the next panel (32 x 3136 x 1024, of 12 MiB: 1.4 times as fast).

Left matrix: a block of it is copied if it is transposed, unless tiles are low and the right matrix has few panels.

Like `loops.py`, which loads it, this file is for the compiler child and imports nothing of aioexec.

Each element is a sum of its terms in order, in parts whose length depends on k alone. So its bits do not depend on the share of
rows or columns of a call, nor on whether operands are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WORD = ir.IntType(64)
PADDING = 64
"""Bytes between panels, which would lie on top of each other in the first-level cache."""
BLOCK_ROWS, STRIP_ROWS = 336, 672
"""The most rows of the left matrix that are turned at once, and for which a strip is copied once: of these the result still
stays in the second-level cache from one part of the terms to the next.
"""
WHOLE_TILES = 42
"""Rows that are whole tiles, be they 6 or 14 high."""
LARGE = 2**18
"""Bytes of a right matrix from which on a copy pays with 512-bit vectors: less stays in the caches as it lies."""
WIDE_ROWS = 1024
"""Bytes of a row of the right matrix from which on it pays to turn the left one, where tiles are high."""
TURNED_PANELS = 4
"""Panels of the right matrix from which on it pays to turn the left one, where tiles are low."""
PAGE = 4096
"""Rows so many bytes apart, or a multiple, push each other out of the first-level cache before a second tile reads them."""


def few_rows(tiles: ModuleType) -> tuple[int, int]:
    """The number of rows up to which a copy never pays: also where rows of either matrix are pages apart, or a tile is cut.

    Tiles of 512-bit vectors are high, and what they read next is asked for early.
    """
    return (140, 42) if tiles.registers().vector_bytes > 32 else (8, 8)


def is_high(tiles: ModuleType) -> bool:
    """Whether tiles have so many rows that copying those of the left matrix may pay."""
    found: bool = tiles.registers().heights[0] > tiles.TALL
    return found


def line_bytes(tiles: ModuleType) -> int:
    """The bytes of a line of a strip: long, for the prefetcher, but the strip must fit the second-level cache."""
    return 2048 if tiles.registers().vector_bytes > 32 else 512


def depth_of(tiles: ModuleType) -> int:
    """The most terms of a part: a panel of that depth fits the first-level cache."""
    return 128 if tiles.registers().vector_bytes > 32 else 400


def strip_bytes(tiles: ModuleType) -> int:
    """The bytes of a strip."""
    tile_bytes: int = 2 * tiles.registers().vector_bytes
    return line_bytes(tiles) // tile_bytes * (depth_of(tiles) * tile_bytes + PADDING)


def make_gemm(tiles: ModuleType, offset: Any, options: dict[str, Any]) -> Any:
    """The function `gemm` of the loop language."""
    compiled = numba.njit(**options)
    prepare = make_prepare(offset, compiled)
    product, far_product = make_panel_product(tiles, compiled), tiles.far_product
    lanes_of = make_lanes_of(tiles)
    packed_product = make_packed_product(tiles, offset, compiled)
    vector_bytes, deepest = tiles.registers().vector_bytes, depth_of(tiles)
    least_bytes = LARGE if vector_bytes > 32 else 0
    fewest, fewest_cut = few_rows(tiles)
    can_turn, asks_always = is_high(tiles), vector_bytes >= tiles.LINE

    @compiled
    def gemm(
        trans_a: Any, trans_b: Any, m: Any, n: Any, k: Any, alpha: Any, a: Any, lda: Any, b: Any, ldb: Any, beta: Any,
        c: Any, ldc: Any,
    ) -> None:  # fmt: skip
        if beta != 1 and (beta != 0 or k <= 0):
            prepare(m, n, beta, c, ldc)
        if k <= 0:
            return
        adds = beta != 0
        a_row, a_inner = (1, lda) if trans_a else (lda, 1)
        size = vector_bytes // lanes_of(c)
        is_far = ldb * size >= PAGE or not asks_always
        is_whole = ldb * size % PAGE != 0 and a_row * size % PAGE != 0 and n * size % vector_bytes == 0
        fewest_here = fewest if is_whole else fewest_cut
        is_turned = can_turn and trans_a and n * size >= WIDE_ROWS
        repays = m > fewest_here and (n * k * size >= least_bytes or is_turned)
        if trans_b or alpha != 1 or repays:
            packed_product(m, n, k, alpha, a, a_row, a_inner, trans_b, b, ldb, adds, c, ldc)
        else:
            parts = (k + deepest - 1) // deepest
            most = (k + parts - 1) // parts
            for part in range(parts):
                p = part * most
                depth, left, right = min(k - p, most), offset(a, p * a_inner), offset(b, p * ldb)
                if is_far and a_inner == 1:
                    far_product(m, n, 1, depth, left, a_row, 0, 1, right, ldb, adds or p > 0, c, ldc)
                else:
                    product(m, n, depth, left, a_row, a_inner, right, ldb, adds or p > 0, c, ldc)

    return gemm


def make_packed_product(tiles: ModuleType, offset: Any, compiled: Any) -> Any:
    fill_strip = make_fill_strip(tiles, offset, compiled)
    strip_product = make_strip_product(tiles, offset, compiled)
    lanes_of = make_lanes_of(tiles)
    vector_bytes, line, deepest = tiles.registers().vector_bytes, line_bytes(tiles), depth_of(tiles)
    result_at, block_at = strip_bytes(tiles), strip_bytes(tiles) + BLOCK_ROWS * 2 * vector_bytes
    memory_of = make_memory(
        lambda size: block_at + BLOCK_ROWS * (deepest * size + vector_bytes), vector_bytes
    )
    can_turn = is_high(tiles)

    @compiled
    def packed_product(
        m: Any, n: Any, k: Any, alpha: Any, a: Any, a_row: Any, a_inner: Any, trans_b: Any, b: Any, ldb: Any, adds: Any,
        c: Any, ldc: Any,
    ) -> None:  # fmt: skip
        strip = memory_of(c)
        lanes = lanes_of(c)
        wide = 2 * lanes
        whole = offset(strip, result_at * lanes // vector_bytes)
        turned = offset(strip, block_at * lanes // vector_bytes)
        is_turned = a_inner != 1 and (can_turn or n >= TURNED_PANELS * wide)
        columns = line * lanes // vector_bytes
        parts = (k + deepest - 1) // deepest
        most = (k + parts - 1) // parts
        pitch = most * wide + PADDING * lanes // vector_bytes
        groups = (m + STRIP_ROWS - 1) // STRIP_ROWS
        tall = (m + groups * WHOLE_TILES - 1) // (groups * WHOLE_TILES) * WHOLE_TILES if groups > 1 else m
        for group in range(groups):
            row = group * tall
            height = min(tall, m - row)
            for stripe in range((n + columns - 1) // columns):
                j = stripe * columns
                count = min(columns, n - j)
                for part in range(parts):  # a range with a step would raise an error for a step of 0
                    p = part * most
                    depth = min(k - p, most)
                    place = offset(b, j * ldb + p if trans_b else p * ldb + j)
                    fill_strip(trans_b, place, ldb, alpha, strip, pitch, depth, count)
                    strip_product(
                        height, count, depth, offset(a, row * a_row + p * a_inner), a_row, a_inner, is_turned, strip, pitch,
                        adds or p > 0, offset(c, row * ldc + j), ldc, whole, turned,
                    )  # fmt: skip

    return packed_product


def make_strip_product(tiles: ModuleType, offset: Any, compiled: Any) -> Any:
    lanes_of, copy_rows = make_lanes_of(tiles), make_copy_rows(tiles, offset, compiled)
    product, deepest = make_panel_product(tiles, compiled), depth_of(tiles)
    cut_product = make_cut_product(product, offset, compiled)

    @compiled
    def strip_product(
        m: Any, n: Any, depth: Any, a: Any, a_row: Any, a_inner: Any, is_turned: Any, strip: Any, pitch: Any, adds: Any, c: Any,
        ldc: Any, whole: Any, turned: Any,
    ) -> None:  # fmt: skip
        """Multiply by the panels of a strip, block by block of the left matrix."""
        lanes = lanes_of(c)
        wide, turned_pitch = 2 * lanes, deepest + lanes
        blocks = (m + BLOCK_ROWS - 1) // BLOCK_ROWS
        tall = (m + blocks * WHOLE_TILES - 1) // (blocks * WHOLE_TILES) * WHOLE_TILES if blocks > 1 else m
        for block in range(blocks):
            row = block * tall
            height = min(tall, m - row)
            left, left_row, left_inner = offset(a, row * a_row), a_row, a_inner
            if is_turned:
                copy_rows(left, a_row, a_inner, turned, turned_pitch, height, depth)
                left, left_row, left_inner = turned, turned_pitch, 1
            for number in range((n + wide - 1) // wide):
                begin = number * wide
                panel, result = offset(strip, number * pitch), offset(c, row * ldc + begin)
                width = min(wide, n - begin)
                if lanes < width < wide:
                    cut_product(
                        height,
                        width,
                        depth,
                        left,
                        left_row,
                        left_inner,
                        panel,
                        wide,
                        adds,
                        result,
                        ldc,
                        whole,
                    )
                else:
                    product(height, width, depth, left, left_row, left_inner, panel, wide, adds, result, ldc)

    return strip_product


def make_copy_rows(tiles: ModuleType, offset: Any, compiled: Any) -> Any:
    lanes_of, turn = make_lanes_of(tiles), make_turn(tiles, offset, compiled)

    @compiled
    def copy_rows(source: Any, row: Any, inner: Any, target: Any, pitch: Any, rows: Any, count: Any) -> None:
        if inner == 1:
            for i in range(rows):
                line, copied = offset(source, i * row), offset(target, i * pitch)
                for j in range(count):
                    copied[j] = line[j]
        else:
            lanes = lanes_of(source)
            for group in range((count + lanes - 1) // lanes):
                j = group * lanes
                turn(offset(source, j * inner), inner, offset(target, j), pitch, rows, count - j)

    return copy_rows


def make_panel_product(tiles: ModuleType, compiled: Any) -> Any:
    tiled_product = tiles.tiled_product

    @compiled
    def panel_product(
        m: Any, width: Any, k: Any, a: Any, a_row: Any, a_inner: Any, panel: Any, wide: Any, adds: Any, c: Any, ldc: Any
    ) -> None:  # fmt: skip
        """Multiply by one panel; there is separate code for a contiguous left matrix."""
        if a_inner == 1:
            tiled_product(m, width, 1, k, a, a_row, 0, 1, panel, wide, adds, c, ldc)
        else:
            tiled_product(m, width, 1, k, a, a_row, 0, a_inner, panel, wide, adds, c, ldc)

    return panel_product


def make_cut_product(product: Any, offset: Any, compiled: Any) -> Any:
    @compiled
    def cut_product(
        m: Any, width: Any, k: Any, a: Any, a_row: Any, a_inner: Any, panel: Any, wide: Any, adds: Any, c: Any, ldc: Any,
        whole: Any,
    ) -> None:  # fmt: skip
        """Compute the first `width` columns of a panel by computing all: half a tile is limited by the latency of its sums."""
        for i in range(m if adds else 0):
            for j in range(width):
                whole[i * wide + j] = c[i * ldc + j]
        product(m, wide, k, a, a_row, a_inner, panel, wide, adds, whole, wide)
        for i in range(m):
            for j in range(width):
                c[i * ldc + j] = whole[i * wide + j]

    return cut_product


def make_prepare(offset: Any, compiled: Any) -> Any:
    @compiled
    def prepare(m: Any, n: Any, beta: Any, c: Any, ldc: Any) -> None:
        """Scale the result to be added to; a factor of 0 overwrites it, also NaN."""
        for i in range(m):
            line = offset(c, i * ldc)
            for j in range(n):
                line[j] = line[j] * beta if beta != 0 else 0

    return prepare


def make_turn(tiles: ModuleType, offset: Any, compiled: Any) -> Any:
    turn_block, lanes_of = make_turn_block(tiles), make_lanes_of(tiles)

    @compiled
    def turn(b: Any, ldb: Any, target: Any, pitch: Any, depth: Any, width: Any) -> None:
        """Transpose `depth` columns into as many lines, of one vector each or its first `width` elements."""
        lanes = lanes_of(b)
        whole = depth // lanes if width >= lanes else 0
        for block in range(whole):
            p = block * lanes
            turn_block(offset(b, p), ldb, offset(target, p * pitch), pitch)
        for j in range(min(width, lanes)):
            for p in range(whole * lanes, depth):
                target[p * pitch + j] = b[j * ldb + p]

    return turn


def make_fill_strip(tiles: ModuleType, offset: Any, compiled: Any) -> Any:
    turn = make_turn(tiles, offset, compiled)
    copy_panels, lanes_of = make_copy_panels(tiles), make_lanes_of(tiles)

    @compiled
    def scale(strip: Any, pitch: Any, panels: Any, size: Any, alpha: Any) -> None:
        for number in range(panels):
            panel = offset(strip, number * pitch)
            for i in range(size):
                panel[i] *= alpha

    @compiled
    def fill_strip(
        trans_b: Any, b: Any, ldb: Any, alpha: Any, strip: Any, pitch: Any, depth: Any, count: Any
    ) -> None:
        """Copy `depth` terms of `count` columns, whose first element is at b; panels begin `pitch` elements apart."""
        wide = 2 * lanes_of(strip)
        whole = count // wide
        if trans_b:
            for half in range((count + lanes_of(strip) - 1) // lanes_of(strip)):
                j = half * lanes_of(strip)
                target = offset(strip, half // 2 * pitch + half % 2 * lanes_of(strip))
                turn(offset(b, j * ldb), ldb, target, wide, depth, count - j)
        else:
            copy_panels(b, ldb, strip, pitch, depth, whole)
            last = offset(strip, whole * pitch)
            rest = offset(b, whole * wide)
            for p in range(depth if count > whole * wide else 0):
                for j in range(count - whole * wide):
                    last[p * wide + j] = rest[p * ldb + j]
        if alpha != 1:
            scale(strip, pitch, (count + wide - 1) // wide, depth * wide, alpha)

    return fill_strip


def make_lanes_of(tiles: ModuleType) -> Any:
    @intrinsic
    def lanes_of(typing_context: Any, pointer: Any) -> Any:
        """How many elements a vector holds."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return WORD(tiles.registers().vector_bytes * 8 // signature.args[0].dtype.bitwidth)

        return types.int64(pointer), generate

    return lanes_of


def make_panel_columns(tiles: ModuleType) -> Any:
    """The function `panel_columns` of the loop language."""
    lanes_of = make_lanes_of(tiles)

    @numba.njit(inline="always")
    def panel_columns(pointer: Any) -> Any:
        return 2 * lanes_of(pointer)

    return panel_columns


def make_panel_terms(tiles: ModuleType) -> Any:
    """The function `panel_terms` of the loop language."""
    deepest = depth_of(tiles)

    @numba.njit(inline="always")
    def panel_terms(pointer: Any) -> Any:
        return deepest

    return panel_terms


def make_memory(size_for: Callable[[int], int], alignment: int) -> Any:
    @intrinsic
    def memory(typing_context: Any, like: Any) -> Any:
        """Memory on the stack, whose size depends on that of an element; a pointer of the same type as the given one."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            size = size_for(signature.args[0].dtype.bitwidth // 8)
            with builder.goto_entry_block():  # not numba's own alloca, which would clear it
                memory = builder.alloca(ir.ArrayType(ir.IntType(8), size))
            memory.align = alignment
            return builder.bitcast(memory, context.get_value_type(signature.args[0]))

        return like(like), generate

    return memory


def make_copy_panels(tiles: ModuleType) -> Any:
    @intrinsic
    def copy_panels(
        typing_context: Any, source: Any, stride: Any, target: Any, pitch: Any, depth: Any, panels: Any
    ) -> Any:
        """Copy lines of two vectors for each panel, those of a panel behind each other; depth is at least 1."""

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            source, stride, target, pitch, depth, panels = args
            tile = tiles.Tile(
                builder, tiles.Shape(1, 2, False), context.get_value_type(signature.args[0].dtype), None
            )
            wide = WORD(2 * tile.lanes)
            with (
                builder.if_then(builder.icmp_signed(">", panels, WORD(0))),
                repeated(builder, depth, (source, stride), (target, wide)) as (line, begin),
                repeated(builder, panels, (line, wide), (begin, pitch)) as (here, there),
            ):
                for number, vector in enumerate([tile.load(here, number) for number in range(2)]):
                    tile.store(vector, there, number)
            return context.get_dummy_value()

        size = types.int64
        return types.none(source, size, target, size, size, size), generate

    return copy_panels


@contextmanager
def repeated(builder: Any, count: Any, *pointers: tuple[Any, Any]) -> Iterator[list[Any]]:
    """A loop that goes round at least once; yields its pointers, each of which moves on by a step."""
    before = builder.block
    body, done = builder.append_basic_block("body"), builder.append_basic_block("done")
    builder.branch(body)
    builder.position_at_end(body)
    number = builder.phi(WORD)
    here = [builder.phi(pointer.type) for pointer, _ in pointers]
    yield here
    following = builder.add(number, WORD(1))
    moved = [builder.gep(at, [step]) for at, (_, step) in zip(here, pointers, strict=True)]
    for phi, first, later in zip(
        [number, *here], [WORD(0), *(pointer for pointer, _ in pointers)], [following, *moved], strict=True
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(later, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), body, done)
    builder.position_at_end(done)


def make_turn_block(tiles: ModuleType) -> Any:
    @intrinsic
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
