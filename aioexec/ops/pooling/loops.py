"""Native pooling: one pass over the windows; the innermost loop is over the channels, which are contiguous."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Attrs, Launches, LoopKernel, Operand, Spec
from aioexec.graph.kernels.loop_language import Pointer, int32, offset
from aioexec.ops.common.shares import Scratch, Work
from aioexec.ops.convolution.windows import Axis, make_axes

# Loops. Sizes are as in `convolution.loops`; a line is a row of the output, all images in order.
# A window's taps are cut to those in the image: i0 … i1 - 1, j0 … j1 - 1 are places there.


def max_pool(
    x: Pointer, y: Pointer, images: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, ph: int, pw: int, low: float,
) -> int:  # fmt: skip
    for line in range(images * oh):
        image = line // oh
        top = (line - image * oh) * sh - ph
        for column in range(ow):
            left = column * sw - pw
            result = offset(y, (line * ow + column) * c)
            for channel in range(c):
                result[channel] = low
            for i in range(max(top, 0), min(top + kh, h)):
                for j in range(max(left, 0), min(left + kw, w)):
                    seen = offset(x, ((image * h + i) * w + j) * c)
                    for channel in range(c):
                        if seen[channel] > result[channel]:
                            result[channel] = seen[channel]
    return 0


def larger(a: float, b: float) -> float:
    return b if b > a else a


def max_pool_2x2(
    x: Pointer, y: Pointer, images: int, h: int, w: int, c: int, oh: int, ow: int, low: float
) -> int:
    """Max-pool 2 × 2 windows that tile the image."""
    y[0] = low
    lowest = y[0]  # of the images' dtype: a float64 would widen the comparisons
    for line in range(images * oh):
        image = line // oh
        top = (line - image * oh) * 2
        for column in range(ow):
            upper = offset(x, ((image * h + top) * w + column * 2) * c)
            lower = offset(upper, w * c)
            result = offset(y, (line * ow + column) * c)
            for channel in range(c):
                best = larger(lowest, upper[channel])
                best = larger(best, upper[c + channel])
                best = larger(best, lower[channel])
                result[channel] = larger(best, lower[c + channel])
    return 0


def find(x: Pointer, best: Pointer, tap: Pointer, lines: int, columns: int, w: int, c: int) -> None:
    """Find the first maximum of a window that begins at `x`; the tap is its distance in elements."""
    for channel in range(c):
        best[channel] = x[channel]
        tap[channel] = 0
    for i in range(lines):
        for j in range(columns):
            seen = offset(x, (i * w + j) * c)
            for channel in range(c):
                if seen[channel] > best[channel]:
                    best[channel] = seen[channel]
                    tap[channel] = i * w + j


def max_pool_grad(
    x: Pointer, dy: Pointer, dx: Pointer, best: Pointer, tap: Pointer, images: int, h: int, w: int, c: int,
    oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """Compute the gradient; `best` and `tap` hold the maximum of a window and its tap for each channel."""
    for k in range(images * h * w * c):
        dx[k] = 0
    for line in range(images * oh):
        image = line // oh
        top = (line - image * oh) * sh - ph
        i0, i1 = max(top, 0), min(top + kh, h)
        for column in range(ow):
            left = column * sw - pw
            j0, j1 = max(left, 0), min(left + kw, w)
            above = offset(dy, (line * ow + column) * c)
            start = offset(x, ((image * h + i0) * w + j0) * c)
            find(start, best, tap, i1 - i0, j1 - j0, w, c)
            for i in range(i0, i1):
                for j in range(j0, j1):
                    target = offset(dx, ((image * h + i) * w + j) * c)
                    number = i * w + j - (i0 * w + j0)
                    for channel in range(c):
                        if tap[channel] == number:
                            target[channel] += above[channel]
    return 0


def give(dx: Pointer, above: Pointer, tap: Pointer, number: int, c: int) -> None:
    for channel in range(c):
        dx[channel] = above[channel] if tap[channel] == number else 0


def max_pool_grad_2x2(
    x: Pointer,
    dy: Pointer,
    dx: Pointer,
    tap: Pointer,
    images: int,
    h: int,
    w: int,
    c: int,
    oh: int,
    ow: int,
) -> int:
    """Compute the gradient for 2 × 2 windows that tile the image, with one loop for each element of the window: a single loop
    with four targets, which might overlap, would not be vectorised.
    """
    for line in range(images * oh):
        image = line // oh
        top = (line - image * oh) * 2
        for column in range(ow):
            place = ((image * h + top) * w + column * 2) * c
            upper, lower = offset(x, place), offset(x, place + w * c)
            above = offset(dy, (line * ow + column) * c)
            for channel in range(c):
                best, found = upper[channel], int32(0)
                found = int32(1) if upper[c + channel] > best else found
                best = larger(best, upper[c + channel])
                found = int32(2) if lower[channel] > best else found
                best = larger(best, lower[channel])
                tap[channel] = int32(3) if lower[c + channel] > best else found
            give(offset(dx, place), above, tap, 0, c)
            give(offset(dx, place + c), above, tap, 1, c)
            give(offset(dx, place + w * c), above, tap, 2, c)
            give(offset(dx, place + w * c + c), above, tap, 3, c)
    return 0


def average_pool(
    x: Pointer, y: Pointer, images: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    for line in range(images * oh):
        image = line // oh
        top = (line - image * oh) * sh - ph
        i0, i1 = max(top, 0), min(top + kh, h)
        for column in range(ow):
            left = column * sw - pw
            j0, j1 = max(left, 0), min(left + kw, w)
            result = offset(y, (line * ow + column) * c)
            for channel in range(c):
                result[channel] = 0
            for i in range(i0, i1):
                for j in range(j0, j1):
                    seen = offset(x, ((image * h + i) * w + j) * c)
                    for channel in range(c):
                        result[channel] += seen[channel]
            count = (i1 - i0) * (j1 - j0)
            for channel in range(c):
                result[channel] = result[channel] / count
    return 0


def average_pool_grad(
    dy: Pointer, dx: Pointer, images: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    for k in range(images * h * w * c):
        dx[k] = 0
    for line in range(images * oh):
        image = line // oh
        top = (line - image * oh) * sh - ph
        i0, i1 = max(top, 0), min(top + kh, h)
        for column in range(ow):
            left = column * sw - pw
            j0, j1 = max(left, 0), min(left + kw, w)
            above = offset(dy, (line * ow + column) * c)
            share = 1.0 / ((i1 - i0) * (j1 - j0))
            for i in range(i0, i1):
                for j in range(j0, j1):
                    target = offset(dx, ((image * h + i) * w + j) * c)
                    for channel in range(c):
                        target[channel] += above[channel] * share
    return 0


# Binding

_NS_PER_BYTE = 0.05
_NS_PER_RUN = 2  # of one tap along the channels
_REAL = ("float32", "float64")
_NUMBERS = (*_REAL, "int32", "int64")


@dataclass(frozen=True, slots=True)
class Pool:
    """The sizes of a pooling of images [batch, height, width, depth]."""

    dtype: np.dtype[Any]
    batch: int
    depth: int
    vertical: Axis
    horizontal: Axis

    @property
    def pooled(self) -> tuple[int, ...]:
        return self.batch, self.vertical.count, self.horizontal.count, self.depth

    @property
    def tiles(self) -> bool:
        """Whether 2 × 2 windows tile the image exactly."""
        return all(
            (axis.window, axis.stride, axis.before, axis.count * 2) == (2, 2, 0, axis.size)
            for axis in (self.vertical, self.horizontal)
        )

    def launches(
        self,
        body: Callable[..., int],
        image: Sequence[Operand],
        pooled: Sequence[Operand],
        order: str,
        *,
        reals: tuple[float, ...] = (),
        scratch: Sequence[tuple[str, int]] = (),
        passes: int = 1,
    ) -> Launches:
        """Launch a loop; operands have the shape of the image ("x" in `order`) or of the pool ("y"), then come scratch
        buffers.
        """
        v, h, line = self.vertical, self.horizontal, self.depth * self.dtype.itemsize
        words: tuple[int, ...] = (self.batch, v.size, h.size, self.depth, v.count, h.count)
        if not body.__name__.endswith("_2x2"):
            words += (v.window, h.window, v.stride, h.stride, v.before, h.before)
        sides = {"x": (iter(image), v.size * h.size * line), "y": (iter(pooled), v.count * h.count * line)}
        places = [(next(sides[side][0]), sides[side][1]) for side in order]
        kernel = LoopKernel(
            body, (*(self.dtype.name for _ in places), *(name for name, _ in scratch)), len(words), len(reals)
        )
        runs = v.window * h.window * v.count * h.count * self.batch
        work = Work(
            kernel,
            tuple(operand for operand, _ in places),
            words,
            tuple(stride for _, stride in places),
            int(runs * passes * (_NS_PER_RUN + _NS_PER_BYTE * line)) + 1,
            scratch=tuple(Scratch(number, size) for number, (_, size) in enumerate(scratch)),
            reals=reals,
        )
        return Launches(*work.cut())


def _pool(attrs: Attrs, image: Spec, dtypes: Sequence[str]) -> Pool | None:
    """Return the sizes, or None if the loops do not support the case."""
    if attrs["data_format"] != "NHWC" or image.dtype.name not in dtypes:
        return None
    if any(attrs[name][axis] != 1 for name in ("ksize", "strides") for axis in (0, 3)):
        return None
    vertical, horizontal = make_axes(attrs, image.shape, attrs["ksize"][1:3])
    return Pool(image.dtype, image.shape[0], image.shape[3], vertical.seen(), horizontal.seen())


_INPUTS = (Operand("input", 0), Operand("input", 1), Operand("input", 2))
_OUTPUT = Operand("output", 0)


def _lowest(dtype: np.dtype[Any]) -> float:
    return float(np.iinfo(dtype).min if dtype.kind == "i" else np.finfo(dtype).min)


def bind_max(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    pool = _pool(attrs, inputs[0], _NUMBERS)
    if pool is None or outputs[0].size == 0:
        return None if pool is None else Launches(())
    body = max_pool_2x2 if pool.tiles else max_pool
    return pool.launches(body, [_INPUTS[0]], [_OUTPUT], "xy", reals=(_lowest(pool.dtype),))


def bind_max_grad(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, pooled, dy = inputs
    pool = _pool(attrs, image, _NUMBERS)
    if pool is None or dy.shape != pooled.shape or dy.shape != pool.pooled:
        return None
    if image.size == 0:
        return Launches(())
    line = pool.depth * pool.dtype.itemsize
    counter = "int32" if pool.dtype.itemsize == 4 or pool.tiles else "int64"
    body: Callable[..., int] = max_pool_grad_2x2 if pool.tiles else max_pool_grad
    scratch = [(counter, line)] if pool.tiles else [(pool.dtype.name, line), (counter, line)]
    passes = 2 if pool.tiles else 3
    return pool.launches(body, [_INPUTS[0], _OUTPUT], [_INPUTS[2]], "xyx", scratch=scratch, passes=passes)


def bind_average(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    pool = _pool(attrs, inputs[0], _REAL)
    if pool is None or outputs[0].size == 0:
        return None if pool is None else Launches(())
    return pool.launches(average_pool, [_INPUTS[0]], [_OUTPUT], "xy")


def bind_average_grad(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    pool = _pool(attrs, outputs[0], _REAL)
    if pool is None or inputs[1].shape != pool.pooled:
        return None
    if outputs[0].size == 0:
        return Launches(())
    return pool.launches(average_pool_grad, [_OUTPUT], [_INPUTS[1]], "yx")
