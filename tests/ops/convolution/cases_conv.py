"""Cases of convolutions and pools: expected values from loops over every element of every window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, UnimplementedError
from tests.ops.harness import Case, case

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(7)
INF, NAN = float("inf"), float("nan")


def numbers(*shape: int) -> Array:
    """Multiples of a quarter, which every floating dtype holds exactly."""
    return RNG.integers(-8, 9, shape) / 4.0


def distinct(*shape: int) -> Array:
    """Numbers without ties, in some order."""
    return RNG.permutation(int(np.prod(shape))).reshape(shape) / 4.0


@dataclass(frozen=True)
class Along:
    """The windows along one axis, by the definition of the three kinds of padding."""

    size: int
    window: int
    stride: int
    dilation: int
    padding: str
    pads: tuple[int, int]

    @property
    def extent(self) -> int:
        return (self.window - 1) * self.dilation + 1

    @property
    def count(self) -> int:
        if self.padding == "SAME":
            return int(np.ceil(self.size / self.stride))
        return int(np.floor((self.size + sum(self.pads) - self.extent) / self.stride)) + 1

    @property
    def before(self) -> int:
        if self.padding == "SAME":
            return max((self.count - 1) * self.stride + self.extent - self.size, 0) // 2
        return self.pads[0]

    def places(self) -> Iterator[tuple[int, int, int]]:
        """(window, tap, place in the image)."""
        for out in range(self.count):
            for tap in range(self.window):
                place = out * self.stride - self.before + tap * self.dilation
                if 0 <= place < self.size:
                    yield out, tap, place


class Windows:
    """The positions of the windows of a node, by its attributes."""

    def __init__(self, attrs: dict[str, Any], window: tuple[int, int]) -> None:
        self.attrs = attrs
        self.window = window
        self.nchw = attrs.get("data_format") == "NCHW"

    def axes(self, height: int, width: int) -> list[Along]:
        first = 2 if self.nchw else 1
        strides, dilations = self.attrs["strides"][first:], self.attrs.get("dilations", [1] * 4)[first:]
        pads = self.attrs.get("explicit_paddings") or [0] * 8
        pairs = [(pads[2 * axis], pads[2 * axis + 1]) for axis in (first, first + 1)]
        return [
            Along(size, self.window[k], strides[k], dilations[k], self.attrs["padding"], pairs[k])
            for k, size in enumerate((height, width))
        ]

    def places(self, height: int, width: int) -> Iterator[tuple[int, int, int, int, int, int]]:
        """(row, column) of the output, of the window and of the image."""
        rows, columns = (list(axis.places()) for axis in self.axes(height, width))
        for out_row, i, row in rows:
            for out_column, j, column in columns:
                yield out_row, out_column, i, j, row, column

    def last(self, value: Array) -> Array:
        return np.moveaxis(value, 1, 3) if self.nchw else value

    def given(self, value: Array) -> Array:
        return np.moveaxis(value, 3, 1) if self.nchw else value

    def output(self, image: Array, depth: int) -> Array:
        rows, columns = (axis.count for axis in self.axes(*image.shape[1:3]))
        return np.zeros((len(image), rows, columns, depth), image.dtype)

    # Expected values

    def forward(self, image: Array, filters: Array) -> Array:
        image = self.last(image)
        result = self.output(image, filters.shape[3])
        for y, x, i, j, row, column in self.places(*image.shape[1:3]):
            result[:, y, x] += image[:, row, column] @ filters[i, j]
        return self.given(result)

    def by_input(self, sizes: Array, filters: Array, dy: Array) -> Array:
        dx, dy = self.last(np.zeros(sizes, dy.dtype)), self.last(dy)
        for y, x, i, j, row, column in self.places(*dx.shape[1:3]):
            dx[:, row, column] += dy[:, y, x] @ filters[i, j].T
        return self.given(dx)

    def by_filter(self, image: Array, sizes: Array, dy: Array) -> Array:
        image, dy = self.last(image), self.last(dy)
        result = np.zeros(sizes, dy.dtype)
        for y, x, i, j, row, column in self.places(*image.shape[1:3]):
            result[i, j] += image[:, row, column].T @ dy[:, y, x]
        return result

    def maximum(self, image: Array) -> Array:
        image = self.last(image)
        result = self.output(image, image.shape[3])
        seen = set()
        for y, x, _, _, row, column in self.places(*image.shape[1:3]):
            result[:, y, x] = (
                np.maximum(result[:, y, x], image[:, row, column])
                if (y, x) in seen
                else image[:, row, column]
            )
            seen.add((y, x))
        return self.given(result)

    def chosen(self, image: Array) -> dict[tuple[int, int, int, int], tuple[int, int]]:
        """For each element of the output the first place of its maximum."""
        best: dict[tuple[int, int, int, int], tuple[Any, int, int]] = {}
        for y, x, _, _, row, column in self.places(*image.shape[1:3]):
            for (b, c), value in np.ndenumerate(image[:, row, column]):
                old = best.get((b, y, x, c))
                if old is None or value > old[0]:
                    best[b, y, x, c] = value, row, column
        return {place: (row, column) for place, (_, row, column) in best.items()}

    def to_maximum(self, image: Array, pooled: Array, dy: Array) -> Array:
        image, dy = self.last(image), self.last(dy)
        dx = np.zeros(image.shape, dy.dtype)
        for (b, y, x, c), (row, column) in self.chosen(image).items():
            dx[b, row, column, c] += dy[b, y, x, c]
        return self.given(dx)

    def from_maximum(self, image: Array, pooled: Array, ddx: Array) -> Array:
        image, ddx = self.last(image), self.last(ddx)
        result = np.zeros(self.last(pooled).shape, ddx.dtype)
        for (b, y, x, c), (row, column) in self.chosen(image).items():
            result[b, y, x, c] = ddx[b, row, column, c]
        return self.given(result)

    def counts(self, height: int, width: int) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for y, x, *_ in self.places(height, width):
            found[y, x] = found.get((y, x), 0) + 1
        return found

    def mean(self, image: Array) -> Array:
        image = self.last(image)
        result, counts = self.output(image, image.shape[3]), self.counts(*image.shape[1:3])
        for y, x, _, _, row, column in self.places(*image.shape[1:3]):
            result[:, y, x] += image[:, row, column] / counts[y, x]
        return self.given(result)

    def to_mean(self, sizes: Array, dy: Array) -> Array:
        dx, dy = self.last(np.zeros(sizes, dy.dtype)), self.last(dy)
        counts = self.counts(*dx.shape[1:3])
        for y, x, _, _, row, column in self.places(*dx.shape[1:3]):
            dx[:, row, column] += dy[:, y, x] / counts[y, x]
        return self.given(dx)


def spatial(values: tuple[int, int], data_format: str) -> list[int]:
    return [1, 1, *values] if data_format == "NCHW" else [1, *values, 1]


def settings(
    padding: Any, strides: tuple[int, int], data_format: str, *, dilations: tuple[int, int] | None = None
) -> dict[str, Any]:
    attrs: dict[str, Any] = {"strides": spatial(strides, data_format), "data_format": data_format}
    if dilations is not None:
        attrs["dilations"] = spatial(dilations, data_format)
    if isinstance(padding, str):
        return {**attrs, "padding": padding}
    return {**attrs, "padding": "EXPLICIT", "explicit_paddings": padding}


def convolutions(
    image: tuple[int, ...],
    window: tuple[int, ...],
    padding: Any = "SAME",
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    data_format: str = "NHWC",
    gradients: bool = False,
) -> list[Case]:
    """The three ops on the same windows."""
    attrs = settings(padding, strides, data_format, dilations=dilations)
    windows = Windows(attrs, (window[0], window[1]))
    x, w = numbers(*image), numbers(*window)
    dy = numbers(*windows.forward(x, w).shape)
    rest: dict[str, Any] = {"attrs": attrs, "native": data_format == "NHWC", "tolerance": 5e-5}
    return [
        case("Conv2D", x, w, expected=windows.forward, gradients=(0, 1) if gradients else (), **rest),
        case(
            "Conv2DBackpropInput",
            np.array(image),
            w,
            dy,
            expected=windows.by_input,
            gradients=(1, 2) if gradients else (),
            **rest,
        ),
        case(
            "Conv2DBackpropFilter",
            x,
            np.array(window),
            dy,
            expected=windows.by_filter,
            gradients=(0, 2) if gradients else (),
            **rest,
        ),
    ]


def pools(
    image: tuple[int, ...],
    window: tuple[int, int],
    padding: Any = "VALID",
    strides: tuple[int, int] = (2, 2),
    data_format: str = "NHWC",
    gradients: bool = False,
) -> list[Case]:
    """The pools and their gradients on the same windows."""
    attrs = {**settings(padding, strides, data_format), "ksize": spatial(window, data_format)}
    windows = Windows(attrs, window)
    x = distinct(*image)
    y = windows.maximum(x)
    dy = numbers(*y.shape)
    rest: dict[str, Any] = {"attrs": attrs, "native": data_format == "NHWC", "tolerance": 5e-5}
    small = ("float64", "float32", "float16", "bfloat16") if x.max() < 60 else ("float64", "float32")
    found = [
        case(
            "MaxPool", x, expected=windows.maximum, gradients=(0,) if gradients else (), dtypes=small, **rest
        ),
        case(
            "MaxPoolGrad",
            x,
            y,
            dy,
            expected=windows.to_maximum,
            gradients=(2,) if gradients else (),
            dtypes=small,
            **rest,
        ),
    ]
    if attrs["padding"] == "EXPLICIT":
        return found
    return [
        *found,
        case(
            "MaxPoolGradGrad",
            x,
            y,
            numbers(*image),
            expected=windows.from_maximum,
            gradients=(2,) if gradients else (),
            **rest,
        ),
        case("AvgPool", x, expected=windows.mean, gradients=(0,) if gradients else (), dtypes=small, **rest),
        case(
            "AvgPoolGrad",
            np.array(image),
            dy,
            expected=windows.to_mean,
            gradients=(1,) if gradients else (),
            **rest,
        ),
    ]


SAME = settings("SAME", (1, 1), "NHWC")
VALID = settings("VALID", (1, 1), "NHWC")
POOL = {**settings("VALID", (2, 2), "NHWC"), "ksize": [1, 2, 2, 1]}
WHOLE = np.arange(-8, 8).reshape(1, 4, 4, 1)
WHOLE_MAXIMUM = np.array([-3, -1, 5, 7]).reshape(1, 2, 2, 1)
WHOLE_DY = np.array([1, 2, 3, 4]).reshape(1, 2, 2, 1)
WHOLE_DX = np.array([[0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 0, 0], [0, 3, 0, 4]]).reshape(1, 4, 4, 1)
WHOLE_TYPES = ("int64", "int32", "int16", "int8")
FAR = 2**53
"""From here on float64 has no odd numbers."""

TIES = np.array([[1.0, 1, 2, 0], [1, 1, 2, 2], [NAN, 3, 3, NAN], [3, NAN, NAN, NAN]]).reshape(1, 4, 4, 1)
"""TensorFlow: the first of equals wins; NaN loses, unless the gradient meets it first."""

LOWEST = float(np.finfo(np.float32).min)

CASES = [
    *convolutions((2, 4, 5, 3), (3, 3, 3, 2), gradients=True),
    *convolutions((2, 5, 5, 1), (3, 2, 1, 4), gradients=True),
    *convolutions((1, 5, 4, 2), (2, 3, 2, 2), "VALID", (2, 1), gradients=True),
    *convolutions((2, 7, 6, 1), (3, 3, 1, 2), "SAME", (2, 3)),
    *convolutions((2, 7, 8, 1), (2, 3, 1, 2), "VALID", (1, 2), (3, 2)),
    *convolutions((2, 7, 8, 3), (2, 3, 3, 2), "SAME", (1, 1), (2, 3), gradients=True),
    *convolutions((1, 5, 6, 2), (3, 3, 2, 3), [0, 0, 2, 1, 0, 3, 0, 0], (2, 1)),
    *convolutions((1, 5, 6, 1), (3, 3, 1, 3), [0, 0, 2, 1, 0, 3, 0, 0], (2, 1)),
    *convolutions((2, 3, 3, 4), (1, 1, 4, 3), gradients=True),
    *convolutions((2, 4, 4, 2), (1, 1, 2, 3), strides=(2, 2)),
    *convolutions((1, 2, 2, 2), (5, 5, 2, 1)),
    *convolutions((3, 1, 1, 2), (1, 1, 2, 2), "VALID"),
    *convolutions((2, 3, 5, 4), (3, 2, 3, 2), data_format="NCHW", gradients=True),
    *convolutions((2, 2, 5, 6), (3, 2, 2, 3), [0, 0, 0, 0, 1, 0, 0, 2], (1, 2), data_format="NCHW"),
    *convolutions((1, 19, 30, 16), (3, 3, 16, 70)),
    *convolutions((30, 4, 4, 8), (3, 3, 8, 33)),
    *convolutions((30, 4, 4, 8), (3, 2, 8, 70), "VALID", (1, 1), (1, 2)),
    *convolutions((3, 6, 6, 9), (2, 2, 9, 5), [0, 0, 3, 2, 2, 3, 0, 0]),
    *convolutions((1, 33, 33, 9), (1, 1, 9, 5)),
    case(
        "Conv2D",
        np.arange(9).reshape(1, 3, 3, 1),
        [[[[1]], [[-1]]]],
        attrs=VALID,
        expected=np.full((1, 3, 2, 1), -1),
    ),
    case(
        "Conv2DBackpropInput",
        [1, 1, 3, 1],
        [[[[1]], [[-1]]]],
        np.array([2, 3]).reshape(1, 1, 2, 1),
        attrs=VALID,
        expected=np.array([2, 1, -3]).reshape(1, 1, 3, 1),
    ),
    # Two groups: each filter sees half of the channels.
    case(
        "Conv2D",
        [[[[1.0, 2.0, 3.0, 4.0]]]],
        [[[[1.0, 10.0], [1.0, 20.0]]]],
        attrs=SAME,
        expected=np.array([[[[3.0, 110.0]]]]),
        native=False,
    ),
    case(
        "Conv2D", np.zeros((0, 3, 3, 2)), np.zeros((2, 2, 2, 3)), attrs=SAME, expected=np.zeros((0, 3, 3, 3))
    ),
    case(
        "Conv2D", np.zeros((2, 3, 3, 2)), np.zeros((2, 2, 2, 0)), attrs=VALID, expected=np.zeros((2, 2, 2, 0))
    ),
    case(
        "Conv2D", np.zeros((2, 3, 3, 0)), np.zeros((2, 2, 0, 2)), attrs=VALID, expected=np.zeros((2, 2, 2, 2))
    ),
    case(
        "Conv2DBackpropFilter",
        np.zeros((0, 3, 3, 2)),
        [2, 2, 2, 3],
        np.zeros((0, 3, 3, 3)),
        attrs=SAME,
        expected=np.zeros((2, 2, 2, 3)),
    ),
    case(
        "Conv2DBackpropInput",
        [0, 3, 3, 2],
        np.ones((2, 2, 2, 3)),
        np.zeros((0, 3, 3, 3)),
        attrs=SAME,
        expected=np.zeros((0, 3, 3, 2)),
    ),
    case(
        "Conv2D",
        np.array([1.0, NAN, 2.0, INF]).reshape(1, 1, 4, 1),
        np.ones((1, 2, 1, 1)),
        attrs=VALID,
        expected=np.array([NAN, NAN, INF]).reshape(1, 1, 3, 1),
    ),
    case(
        "Conv2DBackpropInput",
        [1, 4, 3, 1],
        np.ones((2, 2, 1, 1)),
        np.ones((1, 3, 3, 1)),
        attrs=SAME,
        raises=InvalidArgumentError,
    ),
    case(
        "Conv2DBackpropFilter",
        np.ones((1, 3, 3, 1)),
        [2, 2, 1, 2],
        np.ones((1, 3, 3, 1)),
        attrs=SAME,
        raises=InvalidArgumentError,
    ),
    case(
        "Conv2D",
        np.ones((2, 3, 3, 1)),
        np.ones((2, 2, 1, 1)),
        attrs={**SAME, "strides": [2, 1, 1, 1]},
        raises=UnimplementedError,
    ),
    *pools((2, 4, 6, 3), (2, 2), gradients=True),
    *pools((1, 5, 4, 2), (3, 2), "SAME", (2, 1), gradients=True),
    *pools((1, 5, 7, 2), (3, 3), "SAME", (2, 2)),
    *pools((2, 5, 5, 2), (2, 3), "VALID", (1, 2), gradients=True),
    *pools((1, 3, 4, 5), (1, 1), "SAME", (2, 2)),
    *pools((1, 3, 4, 2), (2, 2), [0, 0, 1, 0, 1, 1, 0, 0], (2, 2)),
    *pools((2, 3, 4, 5), (2, 2), "SAME", (2, 2), data_format="NCHW", gradients=True),
    *pools((2, 16, 18, 33), (2, 2)),
    *pools((2, 13, 11, 20), (3, 3), "SAME", (2, 2)),
    case("MaxPool", WHOLE, attrs=POOL, expected=WHOLE_MAXIMUM, dtypes=WHOLE_TYPES),
    case("MaxPool", WHOLE + 8, attrs=POOL, expected=WHOLE_MAXIMUM + 8, dtypes=("uint8", "uint16")),
    case("MaxPool", WHOLE + FAR, attrs=POOL, expected=WHOLE_MAXIMUM + FAR, dtypes=("int64",)),
    case("MaxPool", WHOLE, attrs={**POOL, "padding": "SAME"}, expected=WHOLE_MAXIMUM, dtypes=WHOLE_TYPES),
    case("MaxPoolGrad", WHOLE, WHOLE_MAXIMUM, WHOLE_DY, attrs=POOL, expected=WHOLE_DX, dtypes=WHOLE_TYPES),
    case(
        "MaxPoolGradGrad",
        WHOLE,
        WHOLE_MAXIMUM,
        WHOLE_DX * 2,
        attrs=POOL,
        expected=WHOLE_DY * 2,
        dtypes=("int64", "int32"),
    ),
    case(
        "MaxPool",
        TIES,
        attrs=POOL,
        expected=np.array([1.0, 2, 3, 3]).reshape(1, 2, 2, 1),
        dtypes=("float64", "float32"),
    ),
    case(
        "MaxPool",
        np.full((1, 2, 2, 1), -INF),
        attrs=POOL,
        expected=np.full((1, 1, 1, 1), LOWEST),
        dtypes=("float32",),
    ),
    *(
        case(
            "MaxPoolGrad",
            np.tile(TIES, (1, 1, 1, channels)),
            np.ones((1, 2, 2, channels)),
            np.tile(WHOLE_DY, (1, 1, 1, channels)),
            attrs=attrs,
            expected=np.tile(
                np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]]).reshape(1, 4, 4, 1),
                channels,
            ),
            dtypes=("float64", "float32"),
        )
        for channels in (1, 17)
        for attrs in (POOL, {**POOL, "padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 1, 0, 1, 0, 0]})
    ),
    case("MaxPool", np.zeros((0, 4, 4, 2)), attrs=POOL, expected=np.zeros((0, 2, 2, 2))),
    case("AvgPool", np.zeros((2, 4, 4, 0)), attrs=POOL, expected=np.zeros((2, 2, 2, 0))),
    case(
        "MaxPoolGrad",
        np.zeros((0, 4, 4, 2)),
        np.zeros((0, 2, 2, 2)),
        np.zeros((0, 2, 2, 2)),
        attrs=POOL,
        expected=np.zeros((0, 4, 4, 2)),
    ),
    case("AvgPoolGrad", [0, 4, 4, 2], np.zeros((0, 2, 2, 2)), attrs=POOL, expected=np.zeros((0, 4, 4, 2))),
    case("AvgPoolGrad", [1, 4, 4, 1], np.zeros((1, 3, 2, 1)), attrs=POOL, raises=InvalidArgumentError),
    case("AvgPool", np.ones((2, 4, 4, 1)), attrs={**POOL, "ksize": [2, 2, 2, 1]}, raises=UnimplementedError),
    case("MaxPool", np.ones((2, 4, 4, 2)), attrs={**POOL, "ksize": [1, 2, 2, 2]}, raises=UnimplementedError),
]
