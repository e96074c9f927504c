"""Launches of batch normalisation: a loop for the sums, then elementwise kernels on channels and on the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Attrs, Launch, Launches, LoopKernel, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides, copy_launch, launch
from aioexec.ops.common.shares import Work
from aioexec.ops.normalization.batch_norm_loops import (
    STRIP,
    moments_of_planes,
    moments_of_rows,
    products_of_planes,
    products_of_rows,
)
from aioexec.ops.reduction.launches import Scratch

_DTYPE = "float32"
_SIZE = 4
_NS_PER_ELEMENT = 0.04
_WIDE = 512  # elements per row that fill vectors well
_STRIPS_OF_MOMENTS = (_DTYPE, _DTYPE, "float64", "float64")
_STRIPS_OF_PRODUCTS = (_DTYPE, *_STRIPS_OF_MOMENTS)


def channel_axis(attrs: Attrs, rank: int) -> int:
    return 1 if attrs["data_format"].startswith("NC") else rank - 1


@dataclass(frozen=True, slots=True)
class Image:
    """An image of float32 as [outer, c, inner]."""

    outer: int
    c: int
    inner: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.outer, self.c, self.inner

    @property
    def rows(self) -> int:
        """Elements per channel."""
        return self.outer * self.inner

    def apply(
        self,
        body: str,
        images: Sequence[tuple[str, Operand]],
        vectors: Sequence[tuple[str, Operand]],
        result: tuple[str, Operand],
        scratch: Scratch,
    ) -> list[Launch | None]:
        """Launch an elementwise kernel on images and on vectors with one value per channel.

        Few channels would make rows short: then several rows are merged, and the vectors repeated.
        """
        group = min(_WIDE // self.c, self.outer) if self.inner == 1 and self.c < _WIDE else 1
        rows: list[Launch | None] = []
        places = dict(vectors)
        if group > 1:
            for name, source in vectors:
                places[name] = scratch.add(group * self.c * _SIZE)
                strides = c_strides((group, self.c), _SIZE)
                rows.append(copy_launch(source, (0, _SIZE), places[name], strides, (group, self.c), _SIZE))
        whole, rest = divmod(self.outer, group)
        for outer, wide, first in ((whole, group * self.c, 0), (rest, self.c, whole * group * self.c)):
            shape = (outer, wide, self.inner)
            dense, along = c_strides(shape, _SIZE), (0, _SIZE, 0)
            moved = [(name, replace(at, offset=at.offset + first * _SIZE)) for name, at in (*images, result)]
            *views, target = [(name, View(at, _DTYPE, dense)) for name, at in moved]
            views += [(name, View(at, _DTYPE, along)) for name, at in places.items()]
            rows.append(launch(body, views, [target], shape))
        return rows

    def sums(
        self,
        by_rows: Callable[..., int],
        by_planes: Callable[..., int],
        images: Sequence[Operand],
        vectors: Sequence[Operand],
        strips: Sequence[str],
        scratch: Scratch,
    ) -> list[Launch]:
        """Launch the summation loop for this layout; operands are images, vectors, strips of accumulators."""
        cost = int(_NS_PER_ELEMENT * len(images) * prod(self.shape)) + 50
        if self.inner == 1:
            places = [scratch.add(STRIP * np.dtype(name).itemsize) for name in strips]
            pointers = (_DTYPE,) * (len(images) + len(vectors)) + tuple(strips)
            kernel = LoopKernel(by_rows, pointers, 2, 0)
            return [Launch(kernel, (*images, *vectors, *places), (self.outer, self.c), cost=cost)]
        kernel = LoopKernel(by_planes, (_DTYPE,) * (len(images) + len(vectors)), 4, 0)
        strides = (self.inner * _SIZE,) * len(images) + (_SIZE,) * len(vectors)
        words = (self.c, self.outer, self.c, self.inner)
        return list(Work(kernel, (*images, *vectors), words, strides, cost).cut()[0])


def _image(attrs: Attrs, spec: Spec, vectors: Sequence[Spec]) -> Image | None:
    """Return the image, or None if the loops do not support the case."""
    axis = channel_axis(attrs, len(spec.shape))
    if len(spec.shape) != len(attrs["data_format"]) or spec.size == 0:
        return None
    if any(each.dtype.name != _DTYPE for each in (spec, *vectors)):
        return None
    channels = spec.shape[axis]
    if any(each.shape != (channels,) for each in vectors):
        return None
    return Image(prod(spec.shape[:axis]), channels, prod(spec.shape[axis + 1 :]))


def _rows(*rows: Launch | None) -> tuple[Launch, ...]:
    return tuple(row for row in rows if row is not None)


def _on_channels(
    body: str, c: int, inputs: Sequence[tuple[str, Operand]], outputs: Sequence[tuple[str, Operand]]
) -> Launch | None:
    def view(operand: Operand) -> View:
        return View(operand, _DTYPE, (_SIZE,))

    return launch(
        body, [(name, view(at)) for name, at in inputs], [(name, view(at)) for name, at in outputs], (c,)
    )


def _inputs(*names: str) -> dict[str, Operand]:
    return {name: Operand("input", k) for k, name in enumerate(names) if name}


def bind_forward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    uses_given = not attrs["is_training"] or attrs["exponential_avg_factor"] != 1.0
    image = _image(attrs, inputs[0], inputs[1:] if uses_given else inputs[1:3])
    if image is None or any(len(given.shape) != 1 for given in inputs[3:]):
        return None
    scratch = Scratch()
    given = _inputs("x", "scale", "offset", "mean", "variance")
    shown = Operand("output", 1), Operand("output", 2)
    used = Operand("output", 3), Operand("output", 4)
    rows: list[Launch | None] = []
    if attrs["is_training"]:
        rows += image.sums(
            moments_of_rows, moments_of_planes, [given["x"]], used, _STRIPS_OF_MOMENTS, scratch
        )
        rows.append(_running(attrs, image, given, used, shown))
    else:
        copied = [("m", given["mean"]), ("v", given["variance"])]
        targets = [("a", shown[0]), ("b", shown[1]), ("c", used[0]), ("d", used[1])]
        rows.append(_on_channels("a = m; b = v; c = m; d = v", image.c, copied, targets))
    factor = scratch.add(image.c * _SIZE)
    body = f"a = s / sqrt(v + {float(np.float32(attrs['epsilon']))!r})"
    rows.append(_on_channels(body, image.c, [("s", given["scale"]), ("v", used[1])], [("a", factor)]))
    vectors = [("m", used[0]), ("a", factor), ("o", given["offset"])]
    target = ("y", Operand("output", 0))
    rows += image.apply("y = (x - m) * a + o", [("x", given["x"])], vectors, target, scratch)
    if len(outputs) == 6:
        nothing = View(Operand("output", 5), _DTYPE, (_SIZE,))
        rows.append(launch("y = 0", [], [("y", nothing)], (1,)))
    return Launches(_rows(*rows), tuple(scratch.sizes))


def _running(
    attrs: Attrs, image: Image, given: dict[str, Operand], used: Sequence[Operand], shown: Sequence[Operand]
) -> Launch | None:
    """Return launches for the running averages; the batch variance enters with Bessel's correction."""
    factor = float(np.float32(attrs["exponential_avg_factor"]))
    unbiased = image.rows / max(image.rows - 1, 1)
    inputs, targets = [("m", used[0]), ("v", used[1])], [("a", shown[0]), ("b", shown[1])]
    if factor == 1.0:
        return _on_channels(f"a = m; b = v * {unbiased!r}", image.c, inputs, targets)
    body = f"a = {1 - factor!r} * p + {factor!r} * m; b = {1 - factor!r} * q + {factor * unbiased!r} * v"
    old = [("p", given["mean"]), ("q", given["variance"])]
    return _on_channels(body, image.c, [*inputs, *old], targets)


def bind_backward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image = _image(attrs, inputs[1], inputs[2:5])
    if image is None or inputs[0].shape != inputs[1].shape or inputs[0].dtype.name != _DTYPE:
        return None
    scratch = Scratch()
    given = _inputs("dy", "x", "scale", "mean", "variance")
    products = scratch.add(image.c * _SIZE)
    vectors = [given["mean"], Operand("output", 2), products]
    images = [given["dy"], given["x"]]
    rows: list[Launch | None] = [
        *image.sums(products_of_rows, products_of_planes, images, vectors, _STRIPS_OF_PRODUCTS, scratch)
    ]
    factor, shift, slope = (scratch.add(image.c * _SIZE) for _ in range(3))
    epsilon, count = float(np.float32(attrs["epsilon"])), float(image.rows)
    body = (
        f"r = 1 / sqrt(v + {epsilon!r}); g = p * r; a = s * r; t = d / {count!r}; k = p * r * r / {count!r}"
    )
    sums = [("v", given["variance"]), ("p", products), ("s", given["scale"]), ("d", Operand("output", 2))]
    targets = [("g", Operand("output", 1)), ("a", factor), ("t", shift), ("k", slope)]
    rows.append(_on_channels(body, image.c, sums, targets))
    operands = [("y", given["dy"])]
    vectors_used = [("a", factor)]
    body = "z = y * a"
    if attrs["is_training"]:
        operands.append(("x", given["x"]))
        vectors_used += [("m", given["mean"]), ("t", shift), ("k", slope)]
        body = "z = (y - t - (x - m) * k) * a"
    rows += image.apply(body, operands, vectors_used, ("z", Operand("output", 0)), scratch)
    return Launches(_rows(*rows), tuple(scratch.sizes))
