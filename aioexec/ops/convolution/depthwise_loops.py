"""Native depthwise convolution: without a product over channels, it is a sum of filter taps over lines.

The layout makes the innermost loop long and contiguous. An image of c channels with m filters each is expanded to c m
channels. A padded line is stored as `sw` lines, one for each phase (column modulo the stride), so that a tap reads all windows
of a line contiguously. Filters are repeated to a strip of several columns.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, offset
from aioexec.ops.convolution.loops import clear, pad_lines

# Sizes are as in `loops`. `cm` is c m, `wq` the width of one phase of a padded line, `group` the columns of a strip.


def place(x: int, sw: int, wq: int) -> int:
    """Return the offset of column x in a padded line, which is stored by phases."""
    return x % sw * wq + x // sw


def load_lines(
    x: Pointer,
    padded: Pointer,
    top: int,
    lines: int,
    h: int,
    w: int,
    c: int,
    m: int,
    sw: int,
    pw: int,
    wq: int,
) -> None:
    """Copy lines from `top` on into a padded image, with channels repeated and columns by phases."""
    if sw == 1 and m == 1:
        pad_lines(x, padded, top, lines, h, w, c, pw, wq)
    else:
        clear(padded, lines * sw * wq * c * m)
        for number in range(max(-top, 0), min(h - top, lines)):
            for column in range(max(-pw, 0), min(w, sw * wq - pw)):
                source = offset(x, ((top + number) * w + column) * c)
                target = offset(padded, (number * sw * wq + place(column + pw, sw, wq)) * c * m)
                repeat(source, target, c, m)


def repeat(source: Pointer, target: Pointer, c: int, m: int) -> None:
    if m == 1:
        for channel in range(c):
            target[channel] = source[channel]
    else:
        for channel in range(c):
            for k in range(m):
                target[channel * m + k] = source[channel]


def store_lines(
    padded: Pointer, x: Pointer, h: int, w: int, c: int, m: int, sw: int, ph: int, pw: int, wq: int
) -> None:
    """Copy the image out of a padded one, summing repeated channels; positions that no window covers are 0."""
    clear(x, h * w * c)
    for line in range(max(-ph, 0), h):
        for column in range(max(-pw, 0), min(w, sw * wq - pw)):
            source = offset(padded, ((line + ph) * sw * wq + place(column + pw, sw, wq)) * c * m)
            target = offset(x, (line * w + column) * c)
            for channel in range(c):
                target[channel] = source[channel * m]
                for k in range(1, m):
                    target[channel] += source[channel * m + k]


def repeat_filters(filters: Pointer, strips: Pointer, taps: int, cm: int, group: int) -> None:
    for tap in range(taps):
        for k in range(group):
            target = offset(strips, (tap * group + k) * cm)
            source = offset(filters, tap * cm)
            for channel in range(cm):
                target[channel] = source[channel]


def multiply(y: Pointer, a: Pointer, f: Pointer, n: int, adds: bool) -> None:
    if adds:
        for i in range(n):
            y[i] += a[i] * f[i]
    else:
        for i in range(n):
            y[i] = a[i] * f[i]


def multiply_three(
    y: Pointer, a: Pointer, b: Pointer, c: Pointer, f: Pointer, pitch: int, n: int, adds: bool
) -> None:
    g, h = offset(f, pitch), offset(f, 2 * pitch)
    if adds:
        for i in range(n):
            y[i] += a[i] * f[i] + b[i] * g[i] + c[i] * h[i]
    else:
        for i in range(n):
            y[i] = a[i] * f[i] + b[i] * g[i] + c[i] * h[i]


def forward(
    x: Pointer, filters: Pointer, y: Pointer, padded: Pointer, strips: Pointer, images: int, block: int, pads: int, group: int,
    m: int, wq: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int,
    ph: int, pw: int,
) -> int:  # fmt: skip
    cm = c * m
    pitch = group * cm
    repeat_filters(filters, strips, kh * kw, cm, group)
    blocks = (oh + block - 1) // block
    for number in range(images * blocks):
        image = number // blocks
        begin = number % blocks * block
        end = min(begin + block, oh)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            lines = (end - begin - 1) * sh + (kh - 1) * dh + 1
            top = begin * sh - ph
            load_lines(offset(x, image * h * w * c), padded, top, lines, h, w, c, m, sw, pw, wq)
            source = padded
        for row in range(begin, end):
            for strip in range((ow + group - 1) // group):
                column = strip * group
                n = min(group, ow - column) * cm
                result = offset(y, ((image * oh + row) * ow + column) * cm)
                seen = offset(source, ((row - begin) * sh * sw * wq + column) * cm)
                correlate(result, seen, strips, n, pitch, cm, kh, kw, sw, dh, dw, wq)
    return 0


def correlate(
    y: Pointer,
    seen: Pointer,
    strips: Pointer,
    n: int,
    pitch: int,
    cm: int,
    kh: int,
    kw: int,
    sw: int,
    dh: int,
    dw: int,
    wq: int,
) -> None:
    """Compute one strip of a line of the output."""
    for i in range(kh):
        line = offset(seen, i * dh * sw * wq * cm)
        for j in range(0, kw - 2, 3):
            f = offset(strips, (i * kw + j) * pitch)
            a = offset(line, place(j * dw, sw, wq) * cm)
            b = offset(line, place((j + 1) * dw, sw, wq) * cm)
            c = offset(line, place((j + 2) * dw, sw, wq) * cm)
            multiply_three(y, a, b, c, f, pitch, n, i + j > 0)
        for j in range(kw - kw % 3, kw):
            f = offset(strips, (i * kw + j) * pitch)
            multiply(y, offset(line, place(j * dw, sw, wq) * cm), f, n, i + j > 0)


def backward_input(
    filters: Pointer, dy: Pointer, dx: Pointer, padded: Pointer, strips: Pointer, images: int, hp: int, group: int, m: int,
    wq: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Add the product of each element of dy with the filters to its window in a padded image."""
    cm = c * m
    pitch = group * cm
    repeat_filters(filters, strips, kh * kw, cm, group)
    for image in range(images):
        clear(padded, hp * sw * wq * cm)
        for row in range(oh):
            for strip in range((ow + group - 1) // group):
                column = strip * group
                n = min(group, ow - column) * cm
                above = offset(dy, ((image * oh + row) * ow + column) * cm)
                for tap in range(kh * kw):
                    line = (row * sh + tap // kw * dh) * sw * wq + column
                    target = offset(padded, (line + place(tap % kw * dw, sw, wq)) * cm)
                    multiply(target, above, offset(strips, tap * pitch), n, True)
        store_lines(padded, offset(dx, image * h * w * c), h, w, c, m, sw, ph, pw, wq)
    return 0


def backward_filter(
    x: Pointer, dy: Pointer, dfilters: Pointer, padded: Pointer, strips: Pointer, images: int, block: int, pads: int, adds: int,
    group: int, m: int, wq: int, h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int,
    dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Sum per column of a strip, then over the columns; added to the previous content if `adds`."""
    cm = c * m
    pitch = group * cm
    clear(strips, kh * kw * pitch)
    blocks = (oh + block - 1) // block
    for number in range(images * blocks):
        image = number // blocks
        begin = number % blocks * block
        end = min(begin + block, oh)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            lines = (end - begin - 1) * sh + (kh - 1) * dh + 1
            top = begin * sh - ph
            load_lines(offset(x, image * h * w * c), padded, top, lines, h, w, c, m, sw, pw, wq)
            source = padded
        for row in range(begin, end):
            for strip in range((ow + group - 1) // group):
                column = strip * group
                n = min(group, ow - column) * cm
                above = offset(dy, ((image * oh + row) * ow + column) * cm)
                for tap in range(kh * kw):
                    line = ((row - begin) * sh + tap // kw * dh) * sw * wq + column
                    seen = offset(source, (line + place(tap % kw * dw, sw, wq)) * cm)
                    multiply(offset(strips, tap * pitch), seen, above, n, True)
    for tap in range(kh * kw):
        for channel in range(cm):
            total = 0.0
            if adds:
                total = total + dfilters[tap * cm + channel]
            for k in range(group):
                total += strips[tap * pitch + k * cm + channel]
            dfilters[tap * cm + channel] = total
    return 0
