"""Native convolution: windows are gathered into a small matrix that stays in cache, and multiplied there.

Work goes by *lines*: the rows of the output of all images, in order. Windows of a block of lines are gathered into the scratch
matrix. A launch does a range of lines, so that a large convolution is several launches, none of them long.

The scratch matrix holds one window a row (`gather`), made of contiguous runs of the image. With one channel those runs are too
short to copy fast; then it holds one tap a row (`gather_taps`), whose runs go along the image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aioexec.graph.kernel import Attrs, Launch, Launches, LoopKernel, Operand, Spec
from aioexec.graph.launches import c_strides, fill_launch
from aioexec.graph.loop_language import Pointer, gemm, offset
from aioexec.ops.windows import Axis, make_axes

_BLOCK_BYTES = 256 * 1024
_LAUNCH_NS = 1_000_000
_FLOPS_PER_NS = 120

# Loops. Sizes: an image is h × w × c, there are oh × ow windows of kh × kw taps, strides sh, sw, dilations dh, dw, padding
# ph, pw in front. `k` is the size of a window, `n` the depth of the output.


def copy(target: Pointer, source: Pointer, count: int) -> None:
    for i in range(count):
        target[i] = source[i]


def clear(target: Pointer, count: int) -> None:
    for i in range(count):
        target[i] = 0


def add_to(target: Pointer, source: Pointer, count: int) -> None:
    for i in range(count):
        target[i] += source[i]


def gather_run(x: Pointer, y: int, left: int, h: int, w: int, c: int, kw: int, dw: int, run: Pointer) -> None:
    """One line of a window, kw × c elements; zeros outside of the image."""
    if y < 0 or y >= h:
        clear(run, kw * c)
    elif left >= 0 and left + (kw - 1) * dw < w and dw == 1:
        copy(run, offset(x, (y * w + left) * c), kw * c)
    else:
        for j in range(kw):
            place = left + j * dw
            if place < 0 or place >= w:
                clear(offset(run, j * c), c)
            else:
                copy(offset(run, j * c), offset(x, (y * w + place) * c), c)


def scatter_run(
    dx: Pointer, y: int, left: int, h: int, w: int, c: int, kw: int, dw: int, run: Pointer
) -> None:
    """Add one line of a window to the image."""
    if y < 0 or y >= h:
        return
    if left >= 0 and left + (kw - 1) * dw < w and dw == 1:
        add_to(offset(dx, (y * w + left) * c), run, kw * c)
    else:
        for j in range(kw):
            place = left + j * dw
            if place >= 0 and place < w:
                add_to(offset(dx, (y * w + place) * c), offset(run, j * c), c)


def gather(
    x: Pointer, columns: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> None:  # fmt: skip
    """columns[window, tap and channel] of the lines first … last - 1."""
    at = 0
    for line in range(first, last):
        image = line // oh
        top = (line - image * oh) * sh - ph
        source = offset(x, image * h * w * c)
        for column in range(ow):
            for i in range(kh):
                gather_run(source, top + i * dh, column * sw - pw, h, w, c, kw, dw, offset(columns, at))
                at += kw * c


def gather_taps(
    x: Pointer, columns: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> None:  # fmt: skip
    """columns[tap and channel, window] of the lines first … last - 1."""
    at = 0
    for i in range(kh):
        for j in range(kw):
            left = j * dw - pw
            begin = min(max((sw - 1 - left) // sw, 0), ow)
            end = max(min((w - 1 - left) // sw + 1, ow), begin)
            for channel in range(c):
                for line in range(first, last):
                    image = line // oh
                    y = (line - image * oh) * sh - ph + i * dh
                    run = offset(columns, at)
                    at += ow
                    if y < 0 or y >= h:
                        clear(run, ow)
                        continue
                    clear(run, begin)
                    clear(offset(run, end), ow - end)
                    source = offset(x, ((image * h + y) * w + left) * c + channel)
                    for column in range(begin, end):
                        run[column] = source[column * sw * c]


def scatter(
    dx: Pointer, columns: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> None:  # fmt: skip
    """Add columns[window, tap and channel] to the image: the adjoint of `gather`."""
    at = 0
    for line in range(first, last):
        image = line // oh
        top = (line - image * oh) * sh - ph
        target = offset(dx, image * h * w * c)
        for column in range(ow):
            for i in range(kh):
                scatter_run(target, top + i * dh, column * sw - pw, h, w, c, kw, dw, offset(columns, at))
                at += kw * c


def multiply(x: Pointer, w: Pointer, y: Pointer, first: int, last: int, k: int, n: int) -> int:
    """Windows of one element: the image is the matrix. `first`, `last` count elements."""
    gemm(False, False, last - first, n, k, 1.0, offset(x, first * k), k, w, n, 0.0, offset(y, first * n), n)
    return 0


def multiply_input(w: Pointer, dy: Pointer, dx: Pointer, first: int, last: int, k: int, n: int) -> int:
    gemm(False, True, last - first, k, n, 1.0, offset(dy, first * n), n, w, n, 0.0, offset(dx, first * k), k)
    return 0


def multiply_filter(x: Pointer, dy: Pointer, dw: Pointer, first: int, last: int, k: int, n: int) -> int:
    beta = 0.0 if first == 0 else 1.0
    gemm(True, False, k, n, last - first, 1.0, offset(x, first * k), k, offset(dy, first * n), n, beta, dw, n)
    return 0


def forward(
    x: Pointer, filters: Pointer, y: Pointer, columns: Pointer, first: int, last: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    k = kh * kw * c
    for number in range((last - first + block - 1) // block):
        begin = first + number * block
        end = min(begin + block, last)
        gather(x, columns, begin, end, h, w, c, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw)
        gemm(
            False,
            False,
            (end - begin) * ow,
            n,
            k,
            1.0,
            columns,
            k,
            filters,
            n,
            0.0,
            offset(y, begin * ow * n),
            n,
        )
    return 0


def forward_taps(
    x: Pointer, filters: Pointer, y: Pointer, columns: Pointer, first: int, last: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    k = kh * kw * c
    for number in range((last - first + block - 1) // block):
        begin = first + number * block
        end = min(begin + block, last)
        m = (end - begin) * ow
        gather_taps(x, columns, begin, end, h, w, c, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw)
        gemm(True, False, m, n, k, 1.0, columns, m, filters, n, 0.0, offset(y, begin * ow * n), n)
    return 0


def backward_input(
    filters: Pointer, dy: Pointer, dx: Pointer, columns: Pointer, first: int, last: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """First and last line are those of whole images, which are cleared here."""
    k = kh * kw * c
    clear(offset(dx, first // oh * h * w * c), (last - first) // oh * h * w * c)
    for number in range((last - first + block - 1) // block):
        begin = first + number * block
        end = min(begin + block, last)
        gemm(
            False,
            True,
            (end - begin) * ow,
            k,
            n,
            1.0,
            offset(dy, begin * ow * n),
            n,
            filters,
            n,
            0.0,
            columns,
            k,
        )
        scatter(dx, columns, begin, end, h, w, c, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw)
    return 0


def backward_filter(
    x: Pointer, dy: Pointer, dfilters: Pointer, columns: Pointer, first: int, last: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Lines from 0 begin the sum, later ones add to it."""
    k = kh * kw * c
    for number in range((last - first + block - 1) // block):
        begin = first + number * block
        end = min(begin + block, last)
        m = (end - begin) * ow
        beta = 0.0 if begin == 0 else 1.0
        gather(x, columns, begin, end, h, w, c, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw)
        gemm(True, False, k, n, m, 1.0, columns, k, offset(dy, begin * ow * n), n, beta, dfilters, n)
    return 0


def backward_filter_taps(
    x: Pointer, dy: Pointer, dfilters: Pointer, columns: Pointer, first: int, last: int, block: int, n: int, h: int, w: int,
    c: int, oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    k = kh * kw * c
    for number in range((last - first + block - 1) // block):
        begin = first + number * block
        end = min(begin + block, last)
        m = (end - begin) * ow
        beta = 0.0 if begin == 0 else 1.0
        gather_taps(x, columns, begin, end, h, w, c, oh, ow, kh, kw, sh, sw, dh, dw, ph, pw)
        gemm(False, False, k, n, m, 1.0, columns, m, offset(dy, begin * ow * n), n, beta, dfilters, n)
    return 0


# Binding


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
        return self.vertical.window * self.horizontal.window * self.c

    @property
    def lines(self) -> int:
        return self.batch * self.vertical.count

    @property
    def line_cost(self) -> float:
        """Nanoseconds for one line."""
        return self.horizontal.count * self.k * (2 * self.n / _FLOPS_PER_NS * self.itemsize / 4 + 0.05)

    @property
    def is_pointwise(self) -> bool:
        return self.vertical.is_pointwise and self.horizontal.is_pointwise

    def words(self) -> tuple[int, ...]:
        """The integer arguments of the loops from `n` on."""
        v, h = self.vertical, self.horizontal
        return (
            *(self.n, v.size, h.size, self.c, v.count, h.count, v.window, h.window),
            *(v.stride, h.stride, v.dilation, h.dilation, v.before, h.before),
        )

    def block(self, budget: int = _BLOCK_BYTES) -> int:
        """Lines whose windows fit into the scratch matrix."""
        line = self.horizontal.count * self.k * self.itemsize
        return max(1, min(budget // line, self.lines))


def _convolution(attrs: Attrs, image: Spec, filters: Sequence[int]) -> Convolution | None:
    """None: not a case for these loops."""
    if attrs["data_format"] != "NHWC" or image.dtype.name not in ("float32", "float64"):
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


_OPERANDS = (Operand("input", 0), Operand("input", 1), Operand("output", 0), Operand("scratch", 0))


def _pointwise(case: Convolution, loop: LoopKernel, operands: tuple[Operand, ...]) -> Launches:
    each = case.line_cost / case.horizontal.count
    rows = tuple(
        Launch(loop, operands, (first, last, case.k, case.n), cost=int(each * (last - first)) + 50)
        for first, last in _ranges(case.lines * case.horizontal.count, 1, each)
    )
    return Launches(rows)


def _blocked(case: Convolution, body: str, operands: tuple[Operand, ...], step: int, block: int) -> Launches:
    kernel = LoopKernel(_BODIES[body], (case.dtype,) * 4, 17, 0)
    rows = tuple(
        Launch(
            kernel,
            operands,
            (first, last, block, *case.words()),
            cost=int(case.line_cost * (last - first)) + 50,
        )
        for first, last in _ranges(case.lines, step, case.line_cost)
    )
    return Launches(rows, scratch=(block * case.horizontal.count * case.k * case.itemsize,))


_BODIES = {
    each.__name__: each
    for each in (forward, forward_taps, backward_input, backward_filter, backward_filter_taps)
}


def _zeros(output: Spec) -> Launches | None:
    """An empty sum."""
    if output.dtype.name not in ("float32", "float64"):
        return None
    strides = c_strides(output.shape, output.dtype.itemsize)
    row = fill_launch(0.0, _OPERANDS[2], strides, output.shape, output.dtype.name)
    return Launches(() if row is None else (row,))


def bind_forward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, filters = inputs
    if outputs[0].size == 0:
        return Launches(())
    if image.size == 0:
        return _zeros(outputs[0])
    case = _convolution(attrs, image, filters.shape)
    if case is None:
        return None
    if case.is_pointwise:
        return _pointwise(case, LoopKernel(multiply, (case.dtype,) * 3, 4, 0), _OPERANDS[:3])
    body = "forward_taps" if case.c == 1 else "forward"
    return _blocked(case, body, _OPERANDS, 1, case.block())


def bind_input(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    _, filters, dy = inputs
    dx = outputs[0]
    if dx.size == 0:
        return Launches(())
    if dy.size == 0 or filters.size == 0:
        return _zeros(dx)
    case = _convolution(attrs, dx, filters.shape)
    operands = (Operand("input", 1), Operand("input", 2), *_OPERANDS[2:])
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.n):
        return None
    if case.is_pointwise:
        return _pointwise(case, LoopKernel(multiply_input, (case.dtype,) * 3, 4, 0), operands[:3])
    return _blocked(case, "backward_input", operands, case.vertical.count, case.block())


def bind_filter(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, _, dy = inputs
    dfilters = outputs[0]
    if dfilters.size == 0:
        return Launches(())
    if image.size == 0 or dy.size == 0:
        return _zeros(dfilters)
    case = _convolution(attrs, image, dfilters.shape)
    operands = (Operand("input", 0), Operand("input", 2), *_OPERANDS[2:])
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.n):
        return None
    if case.is_pointwise:
        return _pointwise(case, LoopKernel(multiply_filter, (case.dtype,) * 3, 4, 0), operands[:3])
    body = "backward_filter_taps" if case.c == 1 else "backward_filter"
    return _blocked(case, body, operands, 1, case.block(2 * _BLOCK_BYTES))
