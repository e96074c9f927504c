"""Native pooling: one pass over the windows, the innermost loop along the channels, which lie next to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec.graph.kernel import Attrs, Launch, Launches, LoopKernel, Operand, Spec
from aioexec.graph.loop_language import Pointer, int32, offset
from aioexec.ops.windows import Axis, make_axes

_LAUNCH_NS = 1_000_000
_NS_PER_BYTE = 0.02
_NS_PER_RUN = 2  # of one tap along the channels

# Loops. They do the windows of the lines first … last - 1 (rows of the output of all images, in order); sizes as in conv_loops.
# A window's taps are cut to those in the image: i0 … i1 - 1, j0 … j1 - 1 are places there.


def max_pool(
    x: Pointer, y: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, ph: int, pw: int, low: float,
) -> int:  # fmt: skip
    for line in range(first, last):
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
    x: Pointer, y: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int, low: float
) -> int:
    """Windows of two by two that tile the image."""
    for line in range(first, last):
        image = line // oh
        top = (line - image * oh) * 2
        for column in range(ow):
            upper = offset(x, ((image * h + top) * w + column * 2) * c)
            lower = offset(upper, w * c)
            result = offset(y, (line * ow + column) * c)
            for channel in range(c):
                best = larger(low, upper[channel])
                best = larger(best, upper[c + channel])
                best = larger(best, lower[channel])
                result[channel] = larger(best, lower[c + channel])
    return 0


def find(x: Pointer, best: Pointer, tap: Pointer, lines: int, columns: int, w: int, c: int) -> None:
    """The first maximum of a window whose first element is at `x`; a tap's number is its distance in elements."""
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
    x: Pointer, dy: Pointer, dx: Pointer, best: Pointer, tap: Pointer, first: int, last: int, h: int, w: int, c: int,
    oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """First and last line are those of whole images. `best` and `tap` hold, for each channel, the maximum and its tap."""
    cleared = offset(dx, first // oh * h * w * c)
    for k in range((last - first) // oh * h * w * c):
        cleared[k] = 0
    for line in range(first, last):
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
    first: int,
    last: int,
    h: int,
    w: int,
    c: int,
    oh: int,
    ow: int,
) -> int:
    """Windows of two by two that tile the image: each element belongs to one window. One loop for each element of the
    window: a single one with four targets would not be vectorised, they might overlap."""
    for line in range(first, last):
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
    x: Pointer, y: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    for line in range(first, last):
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
    dy: Pointer, dx: Pointer, first: int, last: int, h: int, w: int, c: int, oh: int, ow: int,
    kh: int, kw: int, sh: int, sw: int, ph: int, pw: int,
) -> int:  # fmt: skip
    """First and last line are those of whole images."""
    cleared = offset(dx, first // oh * h * w * c)
    for k in range((last - first) // oh * h * w * c):
        cleared[k] = 0
    for line in range(first, last):
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


def _axes(attrs: Attrs, image: Sequence[int]) -> tuple[Axis, Axis] | None:
    """None: not a case for these loops."""
    if attrs["data_format"] != "NHWC" or any(
        attrs[name][axis] != 1 for name in ("ksize", "strides") for axis in (0, 3)
    ):
        return None
    return make_axes(attrs, image, attrs["ksize"][1:3])


def _tiles(vertical: Axis, horizontal: Axis) -> bool:
    """Whether windows of two by two cover the image exactly."""
    return all(
        (axis.window, axis.stride, axis.before, axis.count * 2) == (2, 2, 0, axis.size)
        for axis in (vertical, horizontal)
    )


def _sizes(vertical: Axis, horizontal: Axis, depth: int) -> tuple[int, ...]:
    return vertical.size, horizontal.size, depth, vertical.count, horizontal.count


def _windows(vertical: Axis, horizontal: Axis) -> tuple[int, ...]:
    along = (vertical, horizontal)
    return tuple(
        value
        for field in ("window", "stride", "before")
        for value in (getattr(axis, field) for axis in along)
    )


def _launches(
    body: Callable[..., int],
    pointers: Sequence[tuple[Operand, str]],
    axes: tuple[Axis, Axis],
    image: Spec,
    words: tuple[int, ...],
    reals: tuple[float, ...] = (),
    scratch: tuple[int, ...] = (),
    passes: int = 1,
) -> Launches:
    """Ranges of lines of whole images, each of about `_LAUNCH_NS`."""
    batch, lines = image.shape[0], axes[0].count
    kernel = LoopKernel(body, tuple(dtype for _, dtype in pointers), 2 + len(words), len(reals))
    runs = axes[0].window * axes[1].window * lines * axes[1].count
    cost = max(1.0, runs * passes * (_NS_PER_RUN + _NS_PER_BYTE * image.shape[3] * image.dtype.itemsize))
    step = max(1, int(_LAUNCH_NS / cost))
    operands = tuple(operand for operand, _ in pointers)
    return Launches(
        tuple(
            Launch(
                kernel,
                operands,
                (first * lines, last * lines, *words),
                reals,
                cost=int(cost * (last - first)) + 20,
            )
            for first, last in ((first, min(first + step, batch)) for first in range(0, batch, step))
        ),
        scratch,
    )


def _lowest(dtype: np.dtype[Any]) -> float:
    return float(np.iinfo(dtype).min if dtype.kind == "i" else np.finfo(dtype).min)


def bind_max(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, dtype = inputs[0], inputs[0].dtype
    axes = _axes(attrs, image.shape)
    if axes is None or dtype.name not in ("float32", "float64", "int32", "int64"):
        return None
    if outputs[0].size == 0:
        return Launches(())
    words, reals = _sizes(*axes, image.shape[3]), (_lowest(dtype),)
    pointers = [(Operand("input", 0), dtype.name), (Operand("output", 0), dtype.name)]
    if _tiles(*axes):
        return _launches(max_pool_2x2, pointers, axes, image, words, reals)
    return _launches(max_pool, pointers, axes, image, words + _windows(*axes), reals)


def bind_max_grad(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, pooled, dy = inputs
    dtype, depth = image.dtype, image.shape[3]
    axes = _axes(attrs, image.shape)
    if axes is None or dtype.name not in ("float32", "float64", "int32", "int64") or dy.shape != pooled.shape:
        return None
    if outputs[0].size == 0:
        return Launches(())
    if dy.shape != (image.shape[0], axes[0].count, axes[1].count, depth):
        return None
    words = _sizes(*axes, depth)
    pointers = [
        (Operand("input", 0), dtype.name),
        (Operand("input", 2), dtype.name),
        (Operand("output", 0), dtype.name),
    ]
    if _tiles(*axes):
        pointers += [(Operand("scratch", 0), "int32")]
        return _launches(max_pool_grad_2x2, pointers, axes, image, words, scratch=(4 * depth,), passes=2)
    counter = "int32" if dtype.itemsize == 4 else "int64"
    pointers += [(Operand("scratch", 0), dtype.name), (Operand("scratch", 1), counter)]
    size = depth * dtype.itemsize
    return _launches(
        max_pool_grad, pointers, axes, image, words + _windows(*axes), scratch=(size, size), passes=3
    )


def bind_average(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, dtype = inputs[0], inputs[0].dtype
    axes = _axes(attrs, image.shape)
    if axes is None or dtype.name not in ("float32", "float64"):
        return None
    if outputs[0].size == 0:
        return Launches(())
    pointers = [(Operand("input", 0), dtype.name), (Operand("output", 0), dtype.name)]
    return _launches(average_pool, pointers, axes, image, _sizes(*axes, image.shape[3]) + _windows(*axes))


def bind_average_grad(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    dy, dx, dtype = inputs[1], outputs[0], inputs[1].dtype
    axes = _axes(attrs, dx.shape)
    if axes is None or dtype.name not in ("float32", "float64"):
        return None
    if dx.size == 0:
        return Launches(())
    if dy.shape != (dx.shape[0], axes[0].count, axes[1].count, dx.shape[3]):
        return None
    pointers = [(Operand("input", 1), dtype.name), (Operand("output", 0), dtype.name)]
    return _launches(average_pool_grad, pointers, axes, dx, _sizes(*axes, dx.shape[3]) + _windows(*axes))
