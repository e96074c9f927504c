"""Native convolution as products of windows and filters, without a copy of the windows (implicit im2col).

The windows along a line of the output are rows of a matrix that `tiled_product` reads directly from the image: consecutive
windows are a stride apart, their lines a pitch. Only padding needs a copy: a block of lines with its border, small enough for
the cache. For short lines the same is done across the images of a batch.

Filters form a matrix of taps × c rows and n columns, in panels of `panel` columns: rows are `pitch` elements apart, panels
`step`. The original filters are such panels, side by side. Filters that are used often enough are copied (packed), so that
each panel is contiguous and aligned. Constant filters are packed once: then `panel` is 0, and the width is `panel_columns`.

The gradient in the input is a convolution of dy with the reversed filters; for strides above 1 it is a product whose rows are
added to the image window by window, or are lines of the image where windows do not overlap. The gradient in the filters is the
transposed product; few windows are copied first, which is then one product that `gemm` computes.

An epilogue is applied to each part of the result while it is in the cache: `ends` selects it, `o0` to `o5` are operands of the
elementwise kernel that it may call; see `epilogue_loops`. The launches of these loops are in `convolution.launches`.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import (
    Pointer,
    far_product,
    gemm,
    offset,
    panel_columns,
    panel_terms,
    tiled_product,
)
from aioexec.ops.common.epilogue_loops import call, finish

# Loops. An image is h × w × c, there are oh × ow windows of kh × kw taps, strides sh, sw, dilations dh, dw, padding ph, pw in
# front; n is the depth of the output, wp the width of a padded image, `pads` whether there is one.


def copy(target: Pointer, source: Pointer, count: int) -> None:
    for i in range(count):
        target[i] = source[i]


def clear(target: Pointer, count: int) -> None:
    for i in range(count):
        target[i] = 0


def add_to(target: Pointer, source: Pointer, count: int) -> None:
    for i in range(count):
        target[i] += source[i]


def pad_lines(
    x: Pointer, padded: Pointer, top: int, lines: int, h: int, w: int, c: int, pw: int, wp: int
) -> None:
    """Copy lines top … top + lines - 1 of an image, which may be out of range, with pw columns of padding before them."""
    begin, first = max(pw, 0), max(-pw, 0)
    count = max(min(w - first, wp - begin), 0)
    for number in range(lines):
        line = offset(padded, number * wp * c)
        y = top + number
        if y < 0 or y >= h or count == 0:
            clear(line, wp * c)
        else:
            clear(line, begin * c)
            copy(offset(line, begin * c), offset(x, (y * w + first) * c), count * c)
            clear(offset(line, (begin + count) * c), (wp - begin - count) * c)


LOW_TILES = 256
"""Terms of a panel that fit the first-level cache, from which on tiles are low: their vectors are narrow, and so are panels."""
MANY_WINDOWS = 12
"""Windows of a line from which on a panel is multiplied in parts."""


def windows(
    m: int, n: int, a: Pointer, a_row: int, filters: Pointer, ldb: int, y: Pointer, ldc: int, c: int,
    kh: int, kw: int, dh: int, dw: int, pitch: int,
) -> None:  # fmt: skip
    """Apply n filters to m windows that are a_row elements apart.

    A panel of all taps may be larger than the first-level cache, where low tiles need it, since they use each row of it for few
    windows only: then the parts of a panel that fit are multiplied one after the other, each for all windows.
    """
    most, size = panel_terms(y), kw * c
    if dw == 1 and (most < LOW_TILES or kh * size <= most or m < MANY_WINDOWS):
        far_product(m, n, kh, size, a, a_row, dh * pitch, 1, filters, ldb, False, y, ldc)
    elif dw == 1:
        parts = (size + most - 1) // most
        deep = (size + parts - 1) // parts
        for number in range(kh * parts):
            i, p = number // parts, number % parts * deep
            line, below = offset(a, i * dh * pitch + p), offset(filters, (i * size + p) * ldb)
            tiled_product(m, n, 1, min(deep, size - p), line, a_row, 0, 1, below, ldb, number > 0, y, ldc)
    else:
        for i in range(kh):
            line, below = offset(a, i * dh * pitch), offset(filters, i * kw * c * ldb)
            tiled_product(m, n, kw, c, line, a_row, dw * c, 1, below, ldb, i > 0, y, ldc)


def pack(filters: Pointer, packed: Pointer, count: int, k: int, n: int) -> int:
    """Copy the first `count` columns of a matrix k × n into contiguous panels."""
    panel = panel_columns(packed)
    for part in range((count + panel - 1) // panel):
        left = part * panel
        for row in range(k):
            target = offset(packed, (part * k + row) * panel)
            copy(target, offset(filters, row * n + left), min(panel, count - left))
    return 0


def pack_turned(
    filters: Pointer, packed: Pointer, count: int, rows: int, columns: int, last: int, down: int, across: int, c: int, n: int,
) -> int:  # fmt: skip
    """As `pack`, for the first `count` of c turned filters of n channels.

    Of their taps, `last` comes first; the next one is `across` taps before it, and the next row of taps `down` before the last.
    Blocks are so small that the lines of a panel stay in the first-level cache until they are full.
    """
    panel = panel_columns(packed)
    for part in range((count + panel - 1) // panel):
        left = part * panel
        some = min(panel, count - left)
        for number in range(rows * columns):
            tap = last - number // columns * down - number % columns * across
            source = offset(filters, (tap * c + left) * n)
            target = offset(packed, (part * rows * columns + number) * n * panel)
            for block in range((n + TURNED - 1) // TURNED):
                begin = block * TURNED
                end = min(begin + TURNED, n)
                for i in range(some):
                    for j in range(begin, end):
                        target[j * panel + i] = source[i * n + j]
    return 0


TURNED = 64
"""Lines of a panel that are filled at a time."""


def forward(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, padded: Pointer, first: int, lines: int, ends: int, count: int, panel: int, pitch: int, step: int, block: int,
    pads: int, wp: int, n: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int,
    ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    """Compute `lines` lines of the output of all images, from line `first` on, by blocks, with `count` of n filters."""
    others = (o0, o1, o2, o3, o4, o5)
    if panel == 0:
        panel = pitch = panel_columns(filters)
        step = kh * kw * c * panel
    number = first
    while number < first + lines:
        image = number // oh
        begin = number - image * oh
        height = min(block, first + lines - number, oh - begin)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            needed = (height - 1) * sh + (kh - 1) * dh + 1
            pad_lines(offset(x, image * h * w * c), padded, begin * sh - ph, needed, h, w, c, pw, wp)
            source = padded
        for part in range((count + panel - 1) // panel):
            left = part * panel
            below, some = offset(filters, part * step), min(panel, count - left)
            for row in range(height):
                a = offset(source, row * sh * wp * c)
                result = offset(y, (number + row) * ow * n + left)
                windows(ow, some, a, sw * c, below, pitch, result, n, c, kh, kw, dh, dw, wp * c)
                finish(result, offset(bias, left), ow, some, n, ends)
        call(y, number * ow * n, others, height * ow, count, n, ends, kernel)
        number += height
    return 0


def forward_batch(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, padded: Pointer, images: int, hp: int, ends: int, panel: int, pitch: int, step: int, pads: int, wp: int,
    n: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
    kernel: int,
) -> int:  # fmt: skip
    """Convolve short lines: the same window of all images at once; hp is the height of a padded image."""
    others = (o0, o1, o2, o3, o4, o5)
    if panel == 0:
        panel = pitch = panel_columns(filters)
        step = kh * kw * c * panel
    source = x
    if pads:
        for image in range(images):
            pad_lines(
                offset(x, image * h * w * c), offset(padded, image * hp * wp * c), -ph, hp, h, w, c, pw, wp
            )
        source = padded
    for part in range((n + panel - 1) // panel):
        left = part * panel
        below, some = offset(filters, part * step), min(panel, n - left)
        for place in range(oh * ow):
            a = offset(source, (place // ow * sh * wp + place % ow * sw) * c)
            result, ldc = offset(y, place * n + left), oh * ow * n
            windows(images, some, a, hp * wp * c, below, pitch, result, ldc, c, kh, kw, dh, dw, wp * c)
            finish(result, offset(bias, left), images, some, ldc, ends)
    call(y, 0, others, images * oh * ow, n, n, ends, kernel)
    return 0


def backward_filter(
    x: Pointer, dy: Pointer, sums: Pointer, padded: Pointer, groups: int, images: int, count: int, block: int, pads: int,
    wp: int, n: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int,
    pw: int,
) -> int:  # fmt: skip
    """For each group of images, compute the gradient of the first `count` of n filters: the first block of lines sets it."""
    blocks = (oh + block - 1) // block
    runs = 1 if dw == 1 else kw
    size = kw // runs * c
    for number in range(groups * images * blocks):
        image = number // blocks
        begin = number % blocks * block
        end = min(begin + block, oh)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            needed = (end - begin - 1) * sh + (kh - 1) * dh + 1
            pad_lines(offset(x, image * h * w * c), padded, begin * sh - ph, needed, h, w, c, pw, wp)
            source = padded
        above = offset(dy, (image * oh + begin) * ow * n)
        for k in range(kh * runs):
            a = offset(source, (k // runs * dh * wp + k % runs * dw) * c)
            result = offset(sums, (image // images * kh * runs + k) * size * n)
            adds = number % (images * blocks) > 0
            tiled_product(size, count, end - begin, ow, a, 1, sh * wp * c, sw * c, above, n, adds, result, n)
    return 0


def multiply(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, rows: int, k: int, n: int, ends: int, panel: int, pitch: int, step: int, block: int, kernel: int,
) -> int:  # fmt: skip
    """Convolve with windows of one element: the images are a matrix, of which a block of rows stays in the cache."""
    others = (o0, o1, o2, o3, o4, o5)
    for number in range((rows + block - 1) // block):
        begin = number * block
        count = min(block, rows - begin)
        for part in range((n + panel - 1) // panel):
            left = part * panel
            below, some = offset(filters, part * step), min(panel, n - left)
            result = offset(y, begin * n + left)
            tiled_product(count, some, 1, k, offset(x, begin * k), k, 0, 1, below, pitch, False, result, n)
            finish(result, offset(bias, left), count, some, n, ends)
        call(y, begin * n, others, count, n, n, ends, kernel)
    return 0


def multiply_filter(
    x: Pointer, dy: Pointer, sums: Pointer, groups: int, rows: int, height: int, width: int, k: int, n: int
) -> int:
    """For each group of windows, which are rows of a matrix, compute `height` x `width` elements of a gradient of k x n."""
    for group in range(groups):
        left, right = offset(x, group * rows * k), offset(dy, group * rows * n)
        gemm(True, False, height, width, rows, 1.0, left, k, right, n, 0.0, offset(sums, group * k * n), n)
    return 0


def enlarge(
    turned: Pointer, dy: Pointer, dx: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, first: int, lines: int, ends: int, panel: int, pitch: int, step: int, n: int, c: int, ow: int, kh: int,
    kw: int, kernel: int,
) -> int:  # fmt: skip
    """Compute the gradient in the input where the windows cover it without overlap: `lines` lines of dy, from `first` on.

    The product of a line of dy and a line of taps is a line of the image. `turned` is a matrix of n rows, taps × c columns.
    """
    others = (o0, o1, o2, o3, o4, o5)
    size = kw * c
    if panel == 0:
        panel = pitch = panel_columns(turned)
        step = n * panel
    for i in range(kh):
        for part in range((size + panel - 1) // panel):
            left = part * panel
            below, some = offset(turned, (i * size + left) // panel * step), min(panel, size - left)
            for line in range(first, first + lines):
                a, result = offset(dy, line * ow * n), offset(dx, (line * kh + i) * ow * size + left)
                far_product(ow, some, 1, n, a, n, 0, 1, below, pitch, False, result, size)
    made = first * kh * ow * size
    finish(offset(dx, made), bias, lines * kh * ow * kw, c, c, ends)
    call(dx, made, others, lines * kh * ow * kw, c, c, ends, kernel)
    return 0


def backward_input(
    turned: Pointer, dy: Pointer, dx: Pointer, columns: Pointer, images: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Compute the product by blocks of lines and add it to the images; `turned` are the filters, depth first."""
    k = kh * kw * c
    clear(dx, images * h * w * c)
    for part in range((images * oh + block - 1) // block):
        begin = part * block
        end = min(begin + block, images * oh)
        tiled_product(
            (end - begin) * ow, k, 1, n, offset(dy, begin * ow * n), n, 0, 1, turned, k, False, columns, k
        )
        for line in range(begin, end):
            image = line // oh
            top = (line - image * oh) * sh - ph
            windows_of_line = offset(columns, (line - begin) * ow * k)
            scatter(offset(dx, image * h * w * c), windows_of_line, top, h, w, c, ow, kh, kw, sw, dh, dw, pw)
    return 0


def scatter(
    dx: Pointer, columns: Pointer, top: int, h: int, w: int, c: int, ow: int, kh: int, kw: int, sw: int, dh: int, dw: int,
    pw: int,
) -> None:  # fmt: skip
    """Add the windows of a line to the image, skipping what is outside of it."""
    for column in range(ow):
        for i in range(kh):
            y = top + i * dh
            if y >= 0 and y < h:
                for j in range(kw):
                    place = column * sw - pw + j * dw
                    if place >= 0 and place < w:
                        add_to(
                            offset(dx, (y * w + place) * c),
                            offset(columns, ((column * kh + i) * kw + j) * c),
                            c,
                        )
