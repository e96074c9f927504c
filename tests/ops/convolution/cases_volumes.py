"""Cases of convolutions and pools of volumes, and of max pooling with argmax: loops over every element of every window."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.convolution.cases_conv import Along
from tests.ops.harness import Case, case

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(23)


def numbers(*shape: int) -> Array:
    return RNG.integers(-6, 7, shape) / 4.0


def distinct(*shape: int) -> Array:
    return RNG.permutation(int(np.prod(shape))).reshape(shape) / 4.0


def sizes(value: int, rank: int = 5) -> list[int]:
    return [1, *[value] * (rank - 2), 1]


def every(place: tuple[int, ...]) -> Any:
    """A place in every volume of a batch: an index."""
    return (slice(None), *place)


class Volume:
    """The positions of the windows over a volume (channels last)."""

    def __init__(self, shape: tuple[int, ...], window: tuple[int, ...], stride: int, padding: str) -> None:
        self.shape = shape
        self.axes = [
            Along(size, taps, stride, 1, padding, (0, 0))
            for size, taps in zip(shape[1:-1], window, strict=True)
        ]
        self.counts = tuple(axis.count for axis in self.axes)

    def places(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """(window, tap, place in the volume)."""
        for each in itertools.product(*(list(axis.places()) for axis in self.axes)):
            window, tap, place = zip(*each, strict=True)
            yield window, tap, place

    def forward(self, x: Array, filters: Array) -> Array:
        result = np.zeros((x.shape[0], *self.counts, filters.shape[-1]), x.dtype)
        for window, tap, place in self.places():
            result[every(window)] += x[every(place)] @ filters[tap]
        return result

    def by_input(self, _: Array, filters: Array, dy: Array) -> Array:
        dx = np.zeros(self.shape, dy.dtype)
        for window, tap, place in self.places():
            dx[every(place)] += dy[every(window)] @ filters[tap].T
        return dx

    def by_filter(self, x: Array, filter_shape: Any, dy: Array) -> Array:
        result = np.zeros(filter_shape, dy.dtype)
        for window, tap, place in self.places():
            result[tap] += x[every(place)].T @ dy[every(window)]
        return result

    def maximum(self, x: Array) -> Array:
        result = np.full((x.shape[0], *self.counts, x.shape[-1]), -np.inf)
        for window, _, place in self.places():
            at = every(window)
            result[at] = np.maximum(result[at], x[every(place)])
        return result.astype(x.dtype)

    def to_maximum(self, x: Array, pooled: Array, dy: Array) -> Array:
        dx = np.zeros(self.shape, dy.dtype)
        for window, _, place in self.places():
            at, there = every(window), every(place)
            dx[there] += np.where(x[there] == pooled[at], dy[at], 0)
        return dx

    def from_maximum(self, x: Array, pooled: Array, ddx: Array) -> Array:
        result = np.zeros(pooled.shape, ddx.dtype)
        for window, _, place in self.places():
            at, there = every(window), every(place)
            result[at] += np.where(x[there] == pooled[at], ddx[there], 0)
        return result

    def shares(self) -> Array:
        count: Any = np.zeros(self.counts)
        for window, _, _ in self.places():
            count[window] += 1
        return count[None, ..., None]

    def average(self, x: Array) -> Array:
        total = np.zeros((x.shape[0], *self.counts, x.shape[-1]), x.dtype)
        for window, _, place in self.places():
            total[every(window)] += x[every(place)]
        return np.asarray(total / self.shares())

    def to_average(self, _: Array, dy: Array) -> Array:
        dx, share = np.zeros(self.shape), dy / self.shares()
        for window, _, place in self.places():
            dx[every(place)] += share[every(window)]
        return dx

    def numbers_of_maxima(self, x: Array) -> Array:
        """The positions of the maxima of an image without ties."""
        flat = np.arange(x[0].size).reshape(x[0].shape)
        result = np.zeros((x.shape[0], *self.counts, x.shape[-1]), np.int64)
        pooled = self.maximum(x)
        for window, _, place in self.places():
            at, there = every(window), every(place)
            result[at] = np.where(x[there] == pooled[at], flat[place], result[at])
        return result


def convolutions() -> Iterator[Case]:
    shape, window = (2, 3, 4, 3, 2), (2, 2, 1)
    for stride, padding in ((1, "SAME"), (2, "SAME"), (1, "VALID")):
        volume = Volume(shape, window, stride, padding)
        attrs = {"strides": sizes(stride), "padding": padding}
        x, filters = numbers(*shape), numbers(*window, 2, 2)
        dy = numbers(2, *volume.counts, 2)
        checked = stride == 2
        yield case(
            "Conv3D", x, filters, attrs=attrs, expected=volume.forward, gradients=(0, 1) if checked else ()
        )
        for suffix, first in (("V2", list(shape)), ("", np.zeros(shape))):
            yield case(
                f"Conv3DBackpropInput{suffix}",
                first,
                filters,
                dy,
                attrs=attrs,
                expected=volume.by_input,
                gradients=(1, 2) if checked and suffix else (),
            )
        yield case(
            "Conv3DBackpropFilterV2",
            x,
            [*window, 2, 2],
            dy,
            attrs=attrs,
            expected=volume.by_filter,
            gradients=(0, 2) if checked else (),
        )
        yield case(
            "Conv3DBackpropFilter",
            x,
            filters,
            dy,
            attrs=attrs,
            expected=lambda x, f, dy, volume=volume: volume.by_filter(x, f.shape, dy),
        )


def pools() -> Iterator[Case]:
    shape = (1, 2, 3, 2, 2)
    for size, stride, padding in ((2, 1, "SAME"), (2, 2, "VALID")):
        volume = Volume(shape, (size,) * 3, stride, padding)
        attrs = {"ksize": sizes(size), "strides": sizes(stride), "padding": padding}
        x = distinct(*shape) * 4
        pooled = volume.maximum(x)
        dy, ddx = numbers(*pooled.shape), numbers(*shape)
        short = ["float32"]
        yield case("MaxPool3D", x, attrs=attrs, expected=volume.maximum, gradients=(0,), dtypes=short)
        yield case(
            "MaxPool3DGrad",
            x.astype(np.float32),
            pooled.astype(np.float32),
            dy,
            attrs=attrs,
            expected=volume.to_maximum,
            gradients=(2,),
            dtypes=short,
            vary="T",
        )
        yield case(
            "MaxPool3DGradGrad",
            x,
            pooled,
            ddx,
            attrs=attrs,
            expected=volume.from_maximum,
            gradients=(2,),
            dtypes=short,
        )
        yield case("AvgPool3D", numbers(*shape), attrs=attrs, expected=volume.average, gradients=(0,))
        yield case("AvgPool3DGrad", list(shape), dy, attrs=attrs, expected=volume.to_average, gradients=(1,))


def places() -> Iterator[Case]:
    shape = (2, 4, 5, 2)
    for size, stride, padding in ((2, 1, "VALID"), (3, 2, "SAME")):
        image = Volume(shape, (size,) * 2, stride, padding)
        attrs = {"ksize": sizes(size, 4), "strides": sizes(stride, 4), "padding": padding}
        x = distinct(*shape)
        pooled, found = image.maximum(x), image.numbers_of_maxima(x)
        dy, ddx = numbers(*pooled.shape), numbers(*shape)
        yield case(
            "MaxPoolWithArgmax",
            x,
            attrs=attrs,
            expected=lambda x, image=image: (image.maximum(x), image.numbers_of_maxima(x)),
            gradients=(0,),
            dtypes=["float64", "float32"],
            differentiated=(0,),
        )
        yield case(
            "MaxPoolGradWithArgmax",
            x,
            dy,
            found,
            attrs=attrs,
            dtypes=["float64", "float32"],
            expected=lambda x, dy, _, image=image: image.to_maximum(x, image.maximum(x), dy),
        )
        yield case(
            "MaxPoolGradGradWithArgmax",
            x,
            ddx,
            found,
            attrs=attrs,
            dtypes=["float64", "float32"],
            expected=lambda x, ddx, _, image=image: image.from_maximum(x, image.maximum(x), ddx),
        )
        yield case("MaxPoolGradWithArgmax", x, dy, found + 999, attrs=attrs, raises=InvalidArgumentError)
        windows = attrs.pop("ksize"), attrs.pop("strides")
        for dtypes in (["float64", "float32"], ["int64", "int32"]):
            scale = 4 if "int64" in dtypes else 1
            given = [
                np.asarray(each * scale, np.int64 if scale > 1 else float) for each in (x, pooled, dy, ddx)
            ]
            checked = (0,) if scale == 1 else ()
            yield case(
                "MaxPoolV2",
                given[0],
                *windows,
                attrs=attrs,
                dtypes=dtypes,
                gradients=checked,
                expected=lambda x, *_, image=image: image.maximum(x),
            )
            yield case(
                "MaxPoolGradV2",
                *given[:3],
                *windows,
                attrs=attrs,
                dtypes=dtypes,
                gradients=(2,) if scale == 1 else (),
                expected=lambda *a, image=image: image.to_maximum(*a[:3]),
            )
            yield case(
                "MaxPoolGradGradV2",
                *given[:2],
                given[3],
                *windows,
                attrs=attrs,
                dtypes=dtypes,
                expected=lambda *a, image=image: image.from_maximum(*a[:3]),
            )


CASES = [*convolutions(), *pools(), *places()]
