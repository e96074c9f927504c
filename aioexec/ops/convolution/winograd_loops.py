"""Native convolution of 3 × 3 windows by Winograd's algorithm F(4 × 4, 3 × 3), in three steps for a block of tiles at a time.

    1. Each tile d, 6 × 6 places of the image, becomes Bᵀ d B: 36 points, for each channel.
    2. For each point, the tiles of the block × channels are multiplied by the transformed filters, channels × n.
    3. The 36 points m of each tile of the result become Aᵀ m A, 4 × 4 places of the output.

The transforms keep vectors of channels in registers. `winograd.py` states the matrices. Tiles are the units of work.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import (
    Pointer,
    Vector,
    fma,
    lanes,
    load_vector,
    offset,
    splat,
    store_vector,
    tiled_product,
)
from aioexec.ops.common.epilogue_loops import finish_vector

POINTS = 36
TILE = 4
"""Places of the output along an axis that a tile yields."""
SEEN = 6
"""Places of the image along an axis that a tile is made of."""


def load_place(x: Pointer, row: int, column: int, h: int, w: int, c: int) -> Vector:
    """Load the channels of a place of the image; zeros if it is outside."""
    if row < 0 or row >= h or column < 0 or column >= w:
        return splat(x, 0)
    return load_vector(offset(x, (row * w + column) * c))


def spread_tile(
    target: Pointer, pitch: int, d0: Vector, d1: Vector, d2: Vector, d3: Vector, d4: Vector, d5: Vector
) -> None:
    """Store the six elements of Bᵀ d, `pitch` elements apart."""
    four, less = splat(target, 4), splat(target, -4)
    even, odd = fma(less, d2, d4), fma(less, d1, d3)
    outer, inner = d4 - d2, (d3 - d1) * splat(target, 2)
    store_vector(target, fma(four, d0 - d2, outer))
    store_vector(offset(target, pitch), even + odd)
    store_vector(offset(target, 2 * pitch), even - odd)
    store_vector(offset(target, 3 * pitch), outer + inner)
    store_vector(offset(target, 4 * pitch), outer - inner)
    store_vector(offset(target, 5 * pitch), fma(four, d1 - d3, d5 - d3))


def gather_line(target: Pointer, pitch: int, m: Pointer, step: int) -> None:
    """Store the four elements of Aᵀ m, `pitch` elements apart, of the six vectors of m, `step` elements apart."""
    m0, m5 = load_vector(m), load_vector(offset(m, 5 * step))
    m1, m2 = load_vector(offset(m, step)), load_vector(offset(m, 2 * step))
    m3, m4 = load_vector(offset(m, 3 * step)), load_vector(offset(m, 4 * step))
    near, far = m1 + m2, m3 + m4
    slope, steep = m1 - m2, m3 - m4
    store_vector(target, m0 + near + far)
    store_vector(offset(target, pitch), fma(splat(target, 2), steep, slope))
    store_vector(offset(target, 2 * pitch), fma(splat(target, 4), far, near))
    store_vector(offset(target, 3 * pitch), fma(splat(target, 8), steep, slope) + m5)


def transform_image(
    x: Pointer, points: Pointer, buffer: Pointer, pitch: int, top: int, left: int, h: int, w: int, c: int
) -> None:
    """Transform the tile of the image whose first place is (top, left); its points are `pitch` elements apart."""
    n = lanes(x)
    for vector in range((c + n - 1) // n):
        part = min(vector * n, c - n)
        here = offset(x, part)
        for k in range(SEEN):
            spread_tile(
                offset(buffer, k * n),
                SEEN * n,
                load_place(here, top, left + k, h, w, c),
                load_place(here, top + 1, left + k, h, w, c),
                load_place(here, top + 2, left + k, h, w, c),
                load_place(here, top + 3, left + k, h, w, c),
                load_place(here, top + 4, left + k, h, w, c),
                load_place(here, top + 5, left + k, h, w, c),
            )
        for k in range(SEEN):
            line = offset(buffer, k * SEEN * n)
            spread_tile(
                offset(points, k * SEEN * pitch + part),
                pitch,
                load_vector(line),
                load_vector(offset(line, n)),
                load_vector(offset(line, 2 * n)),
                load_vector(offset(line, 3 * n)),
                load_vector(offset(line, 4 * n)),
                load_vector(offset(line, 5 * n)),
            )


def transform_result(
    points: Pointer, y: Pointer, bias: Pointer, buffer: Pointer, pitch: int, top: int, left: int, oh: int, ow: int, n: int,
    ends: int,
) -> None:  # fmt: skip
    """Transform the points of a tile to places of the output from (top, left) on, as far as they are in the output."""
    size = lanes(y)
    results = offset(buffer, TILE * SEEN * size)
    for vector in range((n + size - 1) // size):
        part = min(vector * size, n - size)
        for k in range(SEEN):
            column = offset(points, k * pitch + part)
            gather_line(offset(buffer, k * size), SEEN * size, column, SEEN * pitch)
        for row in range(min(TILE, oh - top)):
            gather_line(results, size, offset(buffer, row * SEEN * size), size)
            for k in range(min(TILE, ow - left)):
                place = offset(y, ((top + row) * ow + left + k) * n + part)
                total = finish_vector(load_vector(offset(results, k * size)), offset(bias, part), ends)
                store_vector(place, total)


def forward(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, points: Pointer, sums: Pointer, buffer: Pointer, first: int,
    count: int, ends: int, block: int, h: int, w: int, c: int, oh: int, ow: int, n: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Compute `count` tiles of the output of all images, from tile `first` on.

    `filters` are points × c × n. `points` and `sums` have room for `block` tiles; c and n are at least a vector.
    """
    across = (ow + TILE - 1) // TILE
    down = (oh + TILE - 1) // TILE
    for part in range((count + block - 1) // block):
        begin = first + part * block
        some = min(block, first + count - begin)
        for k in range(some):
            image = (begin + k) // (across * down)
            row = (begin + k) // across - image * down
            column = (begin + k) % across
            source, top, left = offset(x, image * h * w * c), TILE * row - ph, TILE * column - pw
            transform_image(source, offset(points, k * c), buffer, block * c, top, left, h, w, c)
        for point in range(POINTS):
            tiles, result = offset(points, point * block * c), offset(sums, point * block * n)
            tiled_product(some, n, 1, c, tiles, c, 0, 1, offset(filters, point * c * n), n, False, result, n)
        for k in range(some):
            image = (begin + k) // (across * down)
            row = (begin + k) // across - image * down
            column = (begin + k) % across
            target, top, left = offset(y, image * oh * ow * n), TILE * row, TILE * column
            transform_result(offset(sums, k * n), target, bias, buffer, block * n, top, left, oh, ow, n, ends)
    return 0
