"""Native convolution: products of windows, taken where they lie in the image, and filters.

The windows along a line of the output are rows of a matrix that `tiled_product` reads straight from the image, since they are
a stride apart, and their lines a pitch. Only padding needs a copy: a block of lines with its border, small enough for the
cache. Where lines are short the same is done across the images of a batch.

The gradient in the input is a convolution of dy with the filters turned round; where windows are more than one element apart,
it is a product added to the image window by window. The gradient in the filters is the product the other way round.

A launch does a range of lines (rows of the output of all images, in order), so that a large convolution is several launches,
none of them long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aioexec.graph.kernel import Attrs, Launch, Launches, LoopKernel, Operand, Spec
from aioexec.graph.launches import c_strides, copy_launch, fill_launch
from aioexec.graph.loop_language import Pointer, offset, tiled_product
from aioexec.ops.windows import Axis, make_axes

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
    """Lines top … top + lines - 1 of an image, which may lie outside of it, with pw columns of padding in front."""
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


def windows(
    m: int, n: int, a: Pointer, a_row: int, filters: Pointer, ldb: int, y: Pointer, ldc: int, c: int,
    kh: int, kw: int, dh: int, dw: int, pitch: int,
) -> None:  # fmt: skip
    """Apply n filters to m windows that are a_row elements apart."""
    if dw == 1:
        tiled_product(m, n, kh, kw * c, a, a_row, dh * pitch, 1, filters, ldb, False, y, ldc)
    else:
        for i in range(kh):
            line, below = offset(a, i * dh * pitch), offset(filters, i * kw * c * ldb)
            tiled_product(m, n, kw, c, line, a_row, dw * c, 1, below, ldb, i > 0, y, ldc)


def forward(
    x: Pointer, filters: Pointer, y: Pointer, padded: Pointer, first: int, last: int, block: int, pads: int, wp: int, n: int,
    h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    line = first
    while line < last:
        image = line // oh
        begin = line - image * oh
        end = min(begin + block, oh, begin + last - line)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            needed = (end - begin - 1) * sh + (kh - 1) * dh + 1
            pad_lines(offset(x, image * h * w * c), padded, begin * sh - ph, needed, h, w, c, pw, wp)
            source = padded
        for part in range((n + FILTERS - 1) // FILTERS):
            left = part * FILTERS
            for row in range(begin, end):
                a = offset(source, (row - begin) * sh * wp * c)
                result = offset(y, (image * oh + row) * ow * n + left)
                count = min(FILTERS, n - left)
                windows(ow, count, a, sw * c, offset(filters, left), n, result, n, c, kh, kw, dh, dw, wp * c)
        line += end - begin
    return 0


FILTERS = 64
"""Filters applied to a block of lines at a time: they stay in the cache meanwhile."""


def forward_batch(
    x: Pointer, filters: Pointer, y: Pointer, padded: Pointer, first: int, last: int, hp: int, pads: int, wp: int, n: int,
    h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """For short lines: the same window of the images first … last - 1 at once; hp is the height of a padded one."""
    source = offset(x, first * h * w * c)
    if pads:
        for image in range(first, last):
            target = offset(padded, (image - first) * hp * wp * c)
            pad_lines(offset(x, image * h * w * c), target, -ph, hp, h, w, c, pw, wp)
        source = padded
    for part in range((n + FILTERS - 1) // FILTERS):
        left = part * FILTERS
        count = min(FILTERS, n - left)
        for place in range(oh * ow):
            a = offset(source, (place // ow * sh * wp + place % ow * sw) * c)
            result = offset(y, (first * oh * ow + place) * n + left)
            below, ldc = offset(filters, left), oh * ow * n
            windows(last - first, count, a, hp * wp * c, below, n, result, ldc, c, kh, kw, dh, dw, wp * c)
    return 0


def backward_filter(
    x: Pointer, dy: Pointer, dfilters: Pointer, padded: Pointer, first: int, last: int, block: int, pads: int, wp: int, n: int,
    h: int, w: int, c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Line 0 begins the sums, the others add to them."""
    line = first
    while line < last:
        image = line // oh
        begin = line - image * oh
        end = min(begin + block, oh, begin + last - line)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            needed = (end - begin - 1) * sh + (kh - 1) * dh + 1
            pad_lines(offset(x, image * h * w * c), padded, begin * sh - ph, needed, h, w, c, pw, wp)
            source = padded
        above = offset(dy, line * ow * n)
        runs = 1 if dw == 1 else kw
        size = kw // runs * c
        for k in range(kh * runs):
            a = offset(source, (k // runs * dh * wp + k % runs * dw) * c)
            result = offset(dfilters, k * size * n)
            tiled_product(size, n, end - begin, ow, a, 1, sh * wp * c, sw * c, above, n, line > 0, result, n)
        line += end - begin
    return 0


def multiply(x: Pointer, w: Pointer, y: Pointer, first: int, last: int, k: int, n: int) -> int:
    """Windows of one element: the image is a matrix; its rows first … last - 1."""
    tiled_product(last - first, n, 1, k, offset(x, first * k), k, 0, 1, w, n, False, offset(y, first * n), n)
    return 0


def multiply_filter(x: Pointer, dy: Pointer, dw: Pointer, first: int, last: int, k: int, n: int) -> int:
    """Row 0 begins the sums, the others add to them."""
    for part in range((last - first + ROWS - 1) // ROWS):
        begin = first + part * ROWS
        count = min(ROWS, last - begin)
        tiled_product(
            k, n, 1, count, offset(x, begin * k), 1, 0, k, offset(dy, begin * n), n, begin > 0, dw, n
        )
    return 0


ROWS = 1024
"""Rows of dy taken at a time: a panel of them stays in the cache."""


def backward_input(
    turned: Pointer, dy: Pointer, dx: Pointer, columns: Pointer, first: int, last: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """First and last line are those of whole images, which are cleared here; `turned` are the filters, depth first."""
    k = kh * kw * c
    clear(offset(dx, first // oh * h * w * c), (last - first) // oh * h * w * c)
    for part in range((last - first + block - 1) // block):
        begin = first + part * block
        end = min(begin + block, last)
        above = offset(dy, begin * ow * n)
        tiled_product((end - begin) * ow, k, 1, n, above, n, 0, 1, turned, k, False, columns, k)
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
    """Add the windows of a line, one after the other, to the image; what lies outside is left out."""
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


# Binding

_BLOCK_BYTES = 128 * 1024
_LAUNCH_NS = 1_000_000
_FLOPS_PER_NS = 180
_SHORT_LINE = 8
_FEW_CHANNELS = 8  # fewer would leave most of a vector empty
_TALL_TILE = 14
_REAL = ("float32", "float64")


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of one convolution of images batch × h × w × c to depth n."""

    dtype: str
    itemsize: int
    batch: int
    c: int
    n: int
    vertical: Axis
    horizontal: Axis

    @property
    def k(self) -> int:
        """Elements of a window."""
        return self.vertical.window * self.horizontal.window * self.c

    @property
    def lines(self) -> int:
        return self.batch * self.vertical.count

    @property
    def line_cost(self) -> float:
        """Nanoseconds for one line."""
        return self.horizontal.count * self.k * (2 * self.n / _FLOPS_PER_NS * self.itemsize / 4 + 0.02)

    @property
    def is_pointwise(self) -> bool:
        return self.vertical.is_pointwise and self.horizontal.is_pointwise

    @property
    def pads(self) -> bool:
        return any(axis.before != 0 or axis.reach > axis.size for axis in (self.vertical, self.horizontal))

    @property
    def padded_width(self) -> int:
        return self.horizontal.reach if self.pads else self.horizontal.size

    @property
    def padded_height(self) -> int:
        return self.vertical.reach if self.pads else self.vertical.size

    def sizes(self) -> tuple[int, ...]:
        """The integer arguments of the loops from `n` on."""
        v, h = self.vertical, self.horizontal
        return (
            *(self.n, v.size, h.size, self.c, v.count, h.count, v.window, h.window),
            *(v.stride, h.stride, v.dilation, h.dilation, v.before, h.before),
        )

    def block(self) -> int:
        """Lines of the output whose padded image fits into the cache, a good part of an image at least."""
        pitch = self.padded_width * self.c * self.itemsize
        fitting = _BLOCK_BYTES // pitch - (self.vertical.window - 1) * self.vertical.dilation
        return min(max(fitting // self.vertical.stride, 8), self.vertical.count)

    def padded_bytes(self, block: int) -> int:
        """Size of the scratch memory for that many lines; 0 without padding."""
        lines = (block - 1) * self.vertical.stride + (self.vertical.window - 1) * self.vertical.dilation + 1
        return lines * self.padded_width * self.c * self.itemsize if self.pads else 0


def _convolution(attrs: Attrs, image: Spec, filters: Sequence[int]) -> Convolution | None:
    """None: not a case for these loops."""
    if attrs["data_format"] != "NHWC" or image.dtype.name not in _REAL:
        return None
    if any(attrs[name][axis] != 1 for name in ("strides", "dilations") for axis in (0, 3)):
        return None
    if filters[2] != image.shape[3] or 0 in image.shape or 0 in filters:
        return None
    vertical, horizontal = make_axes(attrs, image.shape, filters)
    dtype = image.dtype
    return Convolution(
        dtype.name, dtype.itemsize, image.shape[0], filters[2], filters[3], vertical, horizontal
    )


def _ranges(total: int, step: int, cost_each: float) -> list[tuple[int, int]]:
    """Cut 0 … total into ranges of whole steps, each of about `_LAUNCH_NS`."""
    steps = max(1, int(_LAUNCH_NS / (cost_each * step)))
    size = steps * step
    return [(first, min(first + size, total)) for first in range(0, total, size)]


_INPUTS = (Operand("input", 0), Operand("input", 1))
_OUTPUT = Operand("output", 0)
_SCRATCH = (Operand("scratch", 0), Operand("scratch", 1))


def _pointwise(case: Convolution, body: LoopKernel, operands: tuple[Operand, ...]) -> tuple[Launch, ...]:
    each = case.line_cost / case.horizontal.count
    return tuple(
        Launch(body, operands, (first, last, case.k, case.n), cost=int(each * (last - first)) + 50)
        for first, last in _ranges(case.lines * case.horizontal.count, 1, each)
    )


def _forward(case: Convolution, image: Operand, filters: Operand) -> Launches:
    """A convolution of the image in one operand with the filters in another; scratch 0 is for padding."""
    if case.is_pointwise:
        kernel = LoopKernel(multiply, (case.dtype,) * 3, 4, 0)
        return Launches(_pointwise(case, kernel, (image, filters, _OUTPUT)))
    operands = (image, filters, _OUTPUT, _SCRATCH[0] if case.pads else image)
    if case.horizontal.count <= _SHORT_LINE and case.batch >= max(_TALL_TILE, 2 * case.horizontal.count):
        return _across_images(case, operands)
    block = case.block()
    kernel = LoopKernel(forward, (case.dtype,) * 4, 19, 0)
    words = (block, int(case.pads), case.padded_width, *case.sizes())
    rows = tuple(
        Launch(kernel, operands, (first, last, *words), cost=int(case.line_cost * (last - first)) + 50)
        for first, last in _ranges(case.lines, 1, case.line_cost)
    )
    return Launches(rows, scratch=(case.padded_bytes(block),) if case.pads else ())


def _across_images(case: Convolution, operands: tuple[Operand, ...]) -> Launches:
    kernel = LoopKernel(forward_batch, (case.dtype,) * 4, 19, 0)
    each = case.line_cost * case.vertical.count
    words = (case.padded_height, int(case.pads), case.padded_width, *case.sizes())
    ranges = _ranges(case.batch, 2 * _TALL_TILE, each)
    rows = tuple(
        Launch(kernel, operands, (first, last, *words), cost=int(each * (last - first)) + 50)
        for first, last in ranges
    )
    return Launches(
        rows, scratch=(ranges[0][1] * case.padded_bytes(case.vertical.count),) if case.pads else ()
    )


def _zeros(output: Spec) -> Launches | None:
    """An empty sum."""
    if output.dtype.name not in _REAL:
        return None
    strides = c_strides(output.shape, output.dtype.itemsize)
    row = fill_launch(0.0, _OUTPUT, strides, output.shape, output.dtype.name)
    return Launches(() if row is None else (row,))


def bind_forward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, filters = inputs
    if outputs[0].size == 0:
        return Launches(())
    if image.size == 0:
        return _zeros(outputs[0])
    case = _convolution(attrs, image, filters.shape)
    return None if case is None else _forward(case, *_INPUTS)


def _turn(case: Convolution, target: Operand, *, within: bool) -> Launch:
    """Copy the filters (input 1), taps × c × n: to taps × n × c, the last tap first, if `within`, else to n × taps × c."""
    taps, size = case.vertical.window * case.horizontal.window, case.itemsize
    one = case.c * case.n * size
    if within:
        source, strides = Operand("input", 1, (taps - 1) * one), (-one, size, case.n * size)
        row = copy_launch(
            source, strides, target, c_strides((taps, case.n, case.c), size), (taps, case.n, case.c), size
        )
    else:
        shape = (case.n, taps * case.c)
        row = copy_launch(
            Operand("input", 1), (size, case.n * size), target, c_strides(shape, size), shape, size
        )
    assert row is not None
    return row


def _reversed_axis(axis: Axis) -> Axis:
    """The axis of the convolution of dy that gives dx; windows must be one element apart."""
    before = (axis.window - 1) * axis.dilation - axis.before
    return Axis(axis.count, axis.window, 1, axis.dilation, before, axis.size)


def bind_input(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    _, filters, dy = inputs
    dx = outputs[0]
    if dx.size == 0:
        return Launches(())
    if dy.size == 0 or filters.size == 0:
        return _zeros(dx)
    case = _convolution(attrs, dx, filters.shape)
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.n):
        return None
    if case.vertical.stride == case.horizontal.stride == 1 and case.c >= _FEW_CHANNELS:
        axes = _reversed_axis(case.vertical), _reversed_axis(case.horizontal)
        back = Convolution(case.dtype, case.itemsize, case.batch, case.n, case.c, *axes)
        turned = _SCRATCH[1] if back.pads and not back.is_pointwise else _SCRATCH[0]
        launches = _forward(back, Operand("input", 2), turned)
        return Launches(
            (_turn(case, turned, within=True), *launches.rows), (*launches.scratch, filters.nbytes)
        )
    return _spread(case, filters.nbytes)


def _spread(case: Convolution, filter_bytes: int) -> Launches:
    """The gradient in the input where windows are further apart than one element."""
    line = case.horizontal.count * case.k * case.itemsize
    block = max(1, min(2 * _BLOCK_BYTES // line, case.lines))
    kernel = LoopKernel(backward_input, (case.dtype,) * 4, 17, 0)
    operands = (_SCRATCH[1], Operand("input", 2), _OUTPUT, _SCRATCH[0])
    rows = tuple(
        Launch(
            kernel,
            operands,
            (first, last, block, *case.sizes()),
            cost=int(case.line_cost * (last - first)) + 50,
        )
        for first, last in _ranges(case.lines, case.vertical.count, case.line_cost)
    )
    return Launches((_turn(case, _SCRATCH[1], within=False), *rows), scratch=(block * line, filter_bytes))


def bind_filter(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, _, dy = inputs
    dfilters = outputs[0]
    if dfilters.size == 0:
        return Launches(())
    if image.size == 0 or dy.size == 0:
        return _zeros(dfilters)
    case = _convolution(attrs, image, dfilters.shape)
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.n):
        return None
    operands = (Operand("input", 0), Operand("input", 2), _OUTPUT)
    if case.is_pointwise:
        return Launches(_pointwise(case, LoopKernel(multiply_filter, (case.dtype,) * 3, 4, 0), operands))
    block = case.block()
    kernel = LoopKernel(backward_filter, (case.dtype,) * 4, 19, 0)
    words = (block, int(case.pads), case.padded_width, *case.sizes())
    scratch = _SCRATCH[0] if case.pads else operands[0]
    rows = tuple(
        Launch(
            kernel,
            (*operands, scratch),
            (first, last, *words),
            cost=int(case.line_cost * (last - first)) + 50,
        )
        for first, last in _ranges(case.lines, 1, case.line_cost)
    )
    return Launches(rows, scratch=(case.padded_bytes(block),) if case.pads else ())
