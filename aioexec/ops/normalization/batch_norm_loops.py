"""Loops of batch normalisation: moments of channels, and the sums for the gradient.

An image is [outer, c, inner]. If inner is 1 (channels-last), blocks of rows that fit into the cache are processed, several
rows side by side to fill a strip of accumulators; else the elements of a channel are contiguous. Within a block, sums are in
single precision; blocks are merged in double precision by mean and sum of squared deviations (Chan et al., 1979), so that
neither the length nor a large mean reduces the accuracy.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, float64, offset

STRIP = 256
"""Accumulators side by side."""

CHUNKS = 16
"""Strips per block."""

BLOCK = 2048
"""Contiguous elements per block."""


def moments_of_rows(
    x: Pointer, mean: Pointer, variance: Pointer, sums: Pointer, squares: Pointer, means: Pointer, totals: Pointer,
    rows: int, c: int,
) -> int:  # fmt: skip
    """Compute mean and variance of c columns each. `sums`, `squares`: strips of x's dtype; `means`, `totals`: of float64."""
    for start in range(0, c, STRIP):
        width = min(STRIP, c - start)
        group = STRIP // width if width == c else 1
        group = group if rows >= group else 1
        wide = group * width
        source = offset(x, start)
        chunks = rows // group
        for i in range(wide):
            means[i] = 0.0
            totals[i] = 0.0
        for first in range(0, chunks, CHUNKS):
            count = min(CHUNKS, chunks - first)
            absorb(
                offset(source, first * group * c), sums, squares, means, totals, first, count, wide, group * c
            )
        rest = rows - chunks * group
        last = offset(source, chunks * group * c)
        for i in range(rest * width):  # lanes with one more row
            distance = last[i] - means[i]
            means[i] += distance / (chunks + 1)
            totals[i] += distance * distance * chunks / (chunks + 1)
        for i in range(width):
            join_lanes(means, totals, i, width, group, chunks, rest)
            mean[start + i] = means[i]
            variance[start + i] = totals[i] / rows
    return 0


def absorb(
    x: Pointer,
    sums: Pointer,
    squares: Pointer,
    means: Pointer,
    totals: Pointer,
    before: int,
    count: int,
    wide: int,
    pitch: int,
) -> None:
    """Merge `count` strips into mean and squared deviations of each lane, which covers `before` elements so far."""
    for i in range(wide):
        sums[i] = x[i]
    for k in range(1, count):
        row = offset(x, k * pitch)
        for i in range(wide):
            sums[i] += row[i]
    for i in range(wide):
        sums[i] = sums[i] / count
        squares[i] = 0
    for k in range(count):
        row = offset(x, k * pitch)
        for i in range(wide):
            squares[i] += (row[i] - sums[i]) * (row[i] - sums[i])
    share = float64(count) / (before + count)
    weight = share * before
    for i in range(wide):
        distance = sums[i] - means[i]
        means[i] += distance * share
        totals[i] += squares[i] + distance * distance * weight


def join_lanes(
    means: Pointer, totals: Pointer, first: int, width: int, group: int, chunks: int, rest: int
) -> None:
    """Merge the lanes of one column into its first lane."""
    seen = float64(chunks + (1 if rest > 0 else 0))
    for k in range(1, group):
        lane = first + k * width
        more = float64(chunks + (1 if k < rest else 0))
        distance = means[lane] - means[first]
        means[first] += distance * more / (seen + more)
        totals[first] += totals[lane] + distance * distance * seen * more / (seen + more)
        seen += more


def moments_of_planes(
    x: Pointer, mean: Pointer, variance: Pointer, count: int, outer: int, c: int, inner: int
) -> int:
    """Compute mean and variance of the first `count` of c channels of contiguous elements."""
    for channel in range(count):
        seen, middle, total = 0.0, 0.0, 0.0
        for o in range(outer):
            plane = offset(x, (o * c + channel) * inner)
            for start in range(0, inner, BLOCK):
                part, some = offset(plane, start), min(BLOCK, inner - start)
                near = part[0] * 0
                for i in range(some):
                    near += part[i]
                near = near / some
                apart = near * 0
                for i in range(some):
                    apart += (part[i] - near) * (part[i] - near)
                distance = near - middle
                middle += distance * some / (seen + some)
                total += apart + distance * distance * seen * some / (seen + some)
                seen += some
        mean[channel] = middle
        variance[channel] = total / seen
    return 0


def products_of_rows(
    dy: Pointer, x: Pointer, mean: Pointer, plain: Pointer, product: Pointer, centre: Pointer, sums: Pointer,
    squares: Pointer, means: Pointer, totals: Pointer, rows: int, c: int,
) -> int:  # fmt: skip
    """Sum dy, and dy (x - mean), over each of c columns; strips as in `moments_of_rows`, and `centre`."""
    for start in range(0, c, STRIP):
        width = min(STRIP, c - start)
        group = STRIP // width if width == c else 1
        wide = group * width
        for i in range(wide):
            means[i] = 0.0
            totals[i] = 0.0
            centre[i] = mean[start + i % width]
        chunks = rows // group
        for first in range(0, chunks, CHUNKS):
            count, place = min(CHUNKS, chunks - first), first * group * c + start
            add_products(offset(dy, place), offset(x, place), centre, sums, squares, count, wide, group * c)
            for i in range(wide):
                means[i] += sums[i]
                totals[i] += squares[i]
        place = chunks * group * c + start
        for i in range((rows - chunks * group) * width):
            means[i] += dy[place + i]
            totals[i] += dy[place + i] * (x[place + i] - centre[i])
        for i in range(width):
            for k in range(1, group):
                means[i] += means[i + k * width]
                totals[i] += totals[i + k * width]
            plain[start + i] = means[i]
            product[start + i] = totals[i]
    return 0


def add_products(
    dy: Pointer,
    x: Pointer,
    centre: Pointer,
    sums: Pointer,
    squares: Pointer,
    count: int,
    wide: int,
    pitch: int,
) -> None:
    for i in range(wide):
        sums[i] = 0
        squares[i] = 0
    for k in range(count):
        above, row = offset(dy, k * pitch), offset(x, k * pitch)
        for i in range(wide):
            sums[i] += above[i]
            squares[i] += above[i] * (row[i] - centre[i])


def products_of_planes(
    dy: Pointer,
    x: Pointer,
    mean: Pointer,
    plain: Pointer,
    product: Pointer,
    count: int,
    outer: int,
    c: int,
    inner: int,
) -> int:
    """As `products_of_rows`, for the first `count` of c channels of contiguous elements."""
    for channel in range(count):
        centre = mean[channel]
        total, along = 0.0, 0.0
        for o in range(outer):
            place = (o * c + channel) * inner
            for start in range(0, inner, BLOCK):
                above, row = offset(dy, place + start), offset(x, place + start)
                part = above[0] * 0
                with_x = above[0] * 0
                for i in range(min(BLOCK, inner - start)):
                    part += above[i]
                    with_x += above[i] * (row[i] - centre)
                total += part
                along += with_x
        plain[channel] = total
        product[channel] = along
    return 0
