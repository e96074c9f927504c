"""Native depthwise convolution with one filter per channel: sums over taps in registers, vectors along the channels.

Two vectors of channels of four neighbouring columns of the output are summed at once, so that each tap of the filters is loaded
once for four columns, and, where the number of taps and the stride are constants, each column of the image once for all its
taps. The last group of columns or channels overlaps the one before it instead of being shorter. Columns whose window is not
within the image are computed one by one, from the taps inside. There is no padded copy of the image.

A tap outside of the image contributes 0 times the filter, which is 0 unless the filter is infinite or NaN: `add_outer_taps` is
for that.

Lines of the output are the units of work. The functions from `three_taps` on are kernels, which differ in constants only.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import (
    Pointer,
    Vector,
    fma,
    lanes,
    load_vector,
    offset,
    prefetch,
    splat,
    store_vector,
)
from aioexec.ops.common.epilogue_loops import call, finish, finish_vector

# Sizes are as in `loops`; there is one filter per channel. `first` and `count` are lines of the output of all images. `rows`
# and `columns` are numbers of taps of a window that are in the image, from `top` and `begin` on. `apart`, `right` and `down`
# are the elements from a window, a tap, or a row of taps to the next.


NEAR = 4096
"""Elements of filters that stay in the first-level cache. Of more, one block of channels after the other is computed, if there
are over `FEW_TAPS`: of few taps, the image is read faster in the order in which it lies (28 x 28 x 240: 200 µs with 5 x 5 taps
in order, 155 in blocks; 7 x 7 x 1024: 39 µs with 3 x 3 taps in order, 53 in blocks)."""
FEW_TAPS = 9


def store(y: Pointer, low: Vector, high: Vector, bias: Pointer, ends: int) -> None:
    """Apply the epilogue to two vectors and store them."""
    n = lanes(y)
    store_vector(y, finish_vector(low, bias, ends))
    store_vector(offset(y, n), finish_vector(high, offset(bias, n), ends))


def four_columns(
    y: Pointer, x: Pointer, filters: Pointer, bias: Pointer, c: int, apart: int, right: int, down: int, rows: int, kw: int,
    ends: int,
) -> None:  # fmt: skip
    """Compute two vectors of channels of four columns from windows with all their columns inside of the image."""
    n = lanes(y)
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = splat(y, 0)
    for i in range(rows):
        for j in range(kw):
            tap, place = offset(filters, (i * kw + j) * c), offset(x, i * down + j * right)
            f, g = load_vector(tap), load_vector(offset(tap, n))
            a0 = fma(load_vector(place), f, a0)
            b0 = fma(load_vector(offset(place, n)), g, b0)
            a1 = fma(load_vector(offset(place, apart)), f, a1)
            b1 = fma(load_vector(offset(place, apart + n)), g, b1)
            a2 = fma(load_vector(offset(place, 2 * apart)), f, a2)
            b2 = fma(load_vector(offset(place, 2 * apart + n)), g, b2)
            a3 = fma(load_vector(offset(place, 3 * apart)), f, a3)
            b3 = fma(load_vector(offset(place, 3 * apart + n)), g, b3)
    store(y, a0, b0, bias, ends)
    store(offset(y, c), a1, b1, bias, ends)
    store(offset(y, 2 * c), a2, b2, bias, ends)
    store(offset(y, 3 * c), a3, b3, bias, ends)


def prefetch_next(y: Pointer, x: Pointer, ahead: int, c: int, w: int, ow: int, sw: int) -> None:
    """Prefetch what four columns of the next line of the output need: their part of `ahead` lines at x, and their places."""
    for i in range(ahead):
        for j in range(4 * sw):
            prefetch(offset(x, (i * w + j) * c))
    for j in range(4):
        prefetch(offset(y, (ow + j) * c))


def one_column(
    y: Pointer, x: Pointer, filters: Pointer, bias: Pointer, c: int, right: int, down: int, rows: int, columns: int, kw: int,
    ends: int,
) -> None:  # fmt: skip
    """Compute two vectors of channels of one column."""
    n = lanes(y)
    a = b = splat(y, 0)
    for i in range(rows):
        for j in range(columns):
            tap, place = offset(filters, (i * kw + j) * c), offset(x, i * down + j * right)
            a = fma(load_vector(place), load_vector(tap), a)
            b = fma(load_vector(offset(place, n)), load_vector(offset(tap, n)), b)
    store(y, a, b, bias, ends)


def first_inside(place: int, step: int) -> int:
    """Return the first tap of a window at `place` that is not before the image."""
    return -(place // step) if place < 0 else 0


def end_inside(place: int, step: int, taps: int, size: int, first: int) -> int:
    """Return the end of the taps of a window at `place` that are not after the image; at least `first`."""
    return max(min(taps, (size - 1 - place) // step + 1), first)


def one_line(
    y: Pointer, line: Pointer, filters: Pointer, bias: Pointer, depth: int, ends: int, ahead: int, down: int, rows: int, w: int,
    c: int, ow: int, kw: int, sw: int, dw: int, pw: int,
) -> None:  # fmt: skip
    """Compute `depth` channels of a line of the output; `line` is that of the image for the first row of taps inside of it."""
    n = 2 * lanes(y)
    left = min((pw + sw - 1) // sw, ow)
    right = max(min((w - 1 - (kw - 1) * dw + pw) // sw + 1, ow), left)
    column = 0
    while column < ow:
        part = 0
        if column >= left and column < right and right - left >= 4:
            column = min(column, right - 4)
            result, seen = offset(y, column * c), offset(line, (column * sw - pw) * c)
            if ahead > 0:
                while part < depth:
                    part = min(part, depth - n)
                    here, image, below = offset(result, part), offset(seen, part), offset(filters, part)
                    prefetch_next(here, offset(image, (rows - 1) * down + w * c), ahead, c, w, ow, sw)
                    four_columns(
                        here, image, below, offset(bias, part), c, sw * c, dw * c, down, rows, kw, ends
                    )
                    part += n
            while part < depth:
                part = min(part, depth - n)
                here, image, below = offset(result, part), offset(seen, part), offset(filters, part)
                four_columns(here, image, below, offset(bias, part), c, sw * c, dw * c, down, rows, kw, ends)
                part += n
            column += 4
        else:
            x = column * sw - pw
            begin = first_inside(x, dw)
            columns = end_inside(x, dw, kw, w, begin) - begin
            result, seen = offset(y, column * c), offset(line, (x + begin * dw) * c)
            taps = offset(filters, begin * c)
            while part < depth:
                part = min(part, depth - n)
                here, image, below = offset(result, part), offset(seen, part), offset(taps, part)
                one_column(here, image, below, offset(bias, part), c, dw * c, down, rows, columns, kw, ends)
                part += n
            column += 1


def add_outer_taps(
    y: Pointer, filters: Pointer, top: int, bottom: int, w: int, c: int, ow: int, kh: int, kw: int, sw: int, dw: int, pw: int,
) -> None:  # fmt: skip
    """Add 0 times the filters to a line of the output for each tap that is outside of the image."""
    for column in range(ow):
        x = column * sw - pw
        result = offset(y, column * c)
        for i in range(kh):
            for j in range(kw):
                if i < top or i >= bottom or x + j * dw < 0 or x + j * dw >= w:
                    tap = offset(filters, (i * kw + j) * c)
                    for channel in range(c):
                        result[channel] += 0 * tap[channel]


def are_finite(filters: Pointer, count: int) -> bool:
    total = 0.0
    for i in range(count):
        total += 0 * filters[i]
    return total == 0


def lines(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, others: tuple[Pointer, ...], first: int, count: int, ends: int,
    ahead: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int,
    pw: int, kernel: int,
) -> int:  # fmt: skip
    """Compute `count` lines of the output; c is at least two vectors.

    `ahead`: the lines of the image that are prefetched with each line of the output, for the next; 0 prefetches nothing.
    """
    finite = are_finite(filters, kh * kw * c)
    end, down = ends if finite else 0, dh * w * c
    depth = c if kh * kw * c <= NEAR or kh * kw <= FEW_TAPS else 2 * lanes(y)
    for block in range((c + depth - 1) // depth):
        part = min(block * depth, c - depth)
        image = first // oh
        row = first - image * oh
        for number in range(first, first + count):
            place = row * sh - ph
            top = first_inside(place, dh)
            rows = end_inside(place, dh, kh, h, top) - top
            line = offset(x, (image * h + place + top * dh) * w * c + part)
            result, taps = offset(y, number * ow * c + part), offset(filters, top * kw * c + part)
            b = offset(bias, part)
            one_line(result, line, taps, b, depth, end, ahead, down, rows, w, c, ow, kw, sw, dw, pw)
            row += 1
            if row == oh:
                image, row = image + 1, 0
    if not finite:
        for number in range(first, first + count):
            place = number % oh * sh - ph
            top = first_inside(place, dh)
            bottom = end_inside(place, dh, kh, h, top)
            result = offset(y, number * ow * c)
            add_outer_taps(result, filters, top, bottom, w, c, ow, kh, kw, sw, dw, pw)
            finish(result, bias, ow, c, c, ends)
    call(y, first * ow * c, others, count * ow, c, c, ends, kernel)
    return 0


def three_taps(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, first: int, count: int, ends: int, ahead: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int,
    sh: int, sw: int, dh: int, dw: int, ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    others = (o0, o1, o2, o3, o4, o5)
    return lines(
        x, filters, y, bias, others, first, count, ends, ahead, h, w, c, oh, ow, kh, 3, sh, sw, dh, dw, ph, pw, kernel,
    )  # fmt: skip


def three_adjacent_taps(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, first: int, count: int, ends: int, ahead: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int,
    sh: int, sw: int, dh: int, dw: int, ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    others = (o0, o1, o2, o3, o4, o5)
    return lines(
        x, filters, y, bias, others, first, count, ends, ahead, h, w, c, oh, ow, kh, 3, sh, 1, dh, 1, ph, pw, kernel,
    )  # fmt: skip


def three_adjacent_taps_strided(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, first: int, count: int, ends: int, ahead: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int,
    sh: int, sw: int, dh: int, dw: int, ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    others = (o0, o1, o2, o3, o4, o5)
    return lines(
        x, filters, y, bias, others, first, count, ends, ahead, h, w, c, oh, ow, kh, 3, sh, 2, dh, 1, ph, pw, kernel,
    )  # fmt: skip


def five_adjacent_taps(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, first: int, count: int, ends: int, ahead: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int,
    sh: int, sw: int, dh: int, dw: int, ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    others = (o0, o1, o2, o3, o4, o5)
    return lines(
        x, filters, y, bias, others, first, count, ends, ahead, h, w, c, oh, ow, kh, 5, sh, 1, dh, 1, ph, pw, kernel,
    )  # fmt: skip


def five_adjacent_taps_strided(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, first: int, count: int, ends: int, ahead: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int,
    sh: int, sw: int, dh: int, dw: int, ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    others = (o0, o1, o2, o3, o4, o5)
    return lines(
        x, filters, y, bias, others, first, count, ends, ahead, h, w, c, oh, ow, kh, 5, sh, 2, dh, 1, ph, pw, kernel,
    )  # fmt: skip
