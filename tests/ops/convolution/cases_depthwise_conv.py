"""Cases of depthwise convolutions: expected values from loops over every element of every window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.convolution.cases_conv import Windows
from tests.ops.harness import Case, case

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(17)
FORWARD = "DepthwiseConv2dNative"


def numbers(*shape: int) -> Array:
    """Multiples of a quarter, which every floating dtype holds exactly."""
    return RNG.integers(-6, 7, shape) / 4.0


class Depthwise(Windows):
    """The formulas of the three ops."""

    def slide(self, image: Array, filters: Array) -> Array:
        image = self.last(image)
        c, m = filters.shape[2:]
        result = self.output(image, c * m)
        for y, x, i, j, row, column in self.places(*image.shape[1:3]):
            result[:, y, x] += (image[:, row, column, :, None] * filters[i, j]).reshape(-1, c * m)
        return self.given(result)

    def back_to_input(self, sizes: Array, filters: Array, dy: Array) -> Array:
        dx, dy = self.last(np.zeros(sizes, dy.dtype)), self.last(dy)
        c, m = filters.shape[2:]
        for y, x, i, j, row, column in self.places(*dx.shape[1:3]):
            dx[:, row, column] += (dy[:, y, x].reshape(-1, c, m) * filters[i, j]).sum(-1)
        return self.given(dx)

    def back_to_filter(self, image: Array, sizes: Array, dy: Array) -> Array:
        image, dy = self.last(image), self.last(dy)
        result = np.zeros(sizes, dy.dtype)
        for y, x, i, j, row, column in self.places(*image.shape[1:3]):
            above = dy[:, y, x].reshape(-1, *sizes[2:])
            result[i, j] += (image[:, row, column, :, None] * above).sum(0)
        return result


def attrs(stride: int = 1, padding: Any = "SAME", dilation: int = 1, nchw: bool = False) -> dict[str, Any]:
    def four(value: int) -> list[int]:
        return [1, 1, value, value] if nchw else [1, value, value, 1]

    explicit: list[int] = []
    if padding == "EXPLICIT":
        explicit = [0, 0, 0, 0, 1, 2, 0, 3] if nchw else [0, 0, 1, 2, 0, 3, 0, 0]
    return {
        "strides": four(stride),
        "dilations": four(dilation),
        "padding": padding,
        "explicit_paddings": explicit,
        "data_format": "NCHW" if nchw else "NHWC",
    }


SETTINGS: list[tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = [
    (attrs(), (2, 4, 5, 3), (3, 3, 3, 1)),
    (attrs(padding="VALID"), (1, 6, 5, 2), (2, 4, 2, 2)),
    (attrs(2), (2, 5, 6, 2), (3, 3, 2, 1)),
    (attrs(3, "VALID"), (1, 7, 8, 1), (2, 1, 1, 3)),
    (attrs(padding="EXPLICIT"), (1, 4, 4, 2), (3, 2, 2, 1)),
    (attrs(padding="VALID", dilation=2), (1, 7, 6, 2), (3, 2, 2, 2)),
    (attrs(2, nchw=True), (1, 3, 5, 4), (3, 3, 3, 1)),
    (attrs(padding="EXPLICIT", nchw=True), (1, 2, 3, 4), (2, 4, 2, 2)),
]


def cases() -> Iterator[Case]:
    for number, (given, image_shape, filter_shape) in enumerate(SETTINGS):
        windows = Depthwise(given, filter_shape[:2])
        image, filters = numbers(*image_shape), numbers(*filter_shape)
        dy = numbers(*windows.slide(image, filters).shape)
        checked = number % 3 == 0
        yield case(
            FORWARD, image, filters, attrs=given, expected=windows.slide, gradients=(0, 1) if checked else ()
        )
        yield case(
            f"{FORWARD}BackpropInput",
            list(image_shape),
            filters,
            dy,
            attrs=given,
            expected=windows.back_to_input,
            gradients=(1, 2) if checked else (),
        )
        yield case(
            f"{FORWARD}BackpropFilter",
            image,
            list(filter_shape),
            dy,
            attrs=given,
            expected=windows.back_to_filter,
            gradients=(0, 2) if checked else (),
        )
    yield from degenerate()


def degenerate() -> Iterator[Case]:
    given, same = attrs(padding="VALID"), attrs()
    yield case(
        FORWARD, np.zeros((0, 4, 4, 2)), np.ones((2, 2, 2, 1)), attrs=given, expected=np.zeros((0, 3, 3, 2))
    )
    yield case(
        f"{FORWARD}BackpropFilter",
        np.zeros((0, 4, 4, 2)),
        [2, 2, 2, 1],
        np.zeros((0, 3, 3, 2)),
        attrs=given,
        expected=np.zeros((2, 2, 2, 1)),
    )
    yield case(
        f"{FORWARD}BackpropInput",
        [1, 3, 3, 1],
        np.ones((2, 2, 1, 1)),
        np.zeros((1, 4, 4, 1)),
        attrs=same,
        raises=InvalidArgumentError,
    )
    large = numbers(20, 9, 33, 40), numbers(3, 5, 40, 1)
    yield case(FORWARD, *large, attrs=same, expected=Depthwise(same, (3, 5)).slide, dtypes=["float32"])
    yield from many_channels()


def many_channels() -> Iterator[Case]:
    """Cases with sums in registers: for a number of channels that is no multiple of a vector, and lines of a few columns."""
    for taps, stride, dilation, padding, shape in (
        ((3, 3), 1, 1, "SAME", (2, 5, 14, 37)),
        ((3, 3), 2, 1, "SAME", (1, 7, 13, 64)),
        ((3, 3), 1, 2, "VALID", (1, 7, 12, 35)),
        ((2, 3), 3, 1, "EXPLICIT", (1, 4, 9, 33)),
        ((5, 5), 1, 1, "SAME", (2, 3, 2, 40)),
        ((5, 5), 1, 1, "SAME", (1, 7, 7, 33)),
        ((3, 5), 2, 1, "EXPLICIT", (1, 5, 12, 34)),
    ):
        given = attrs(stride, padding, dilation)
        values = numbers(*shape), numbers(*taps, shape[-1], 1)
        dtypes = ["float32", "float64"]
        yield case(FORWARD, *values, attrs=given, expected=Depthwise(given, taps).slide, dtypes=dtypes)


CASES = list(cases())
