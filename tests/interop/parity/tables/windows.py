"""Convolutions and pools of images and volumes, with all strides, paddings and layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, partly, unknown

FORMATS = {4: "NHWC", 5: "NDHWC"}


def sizes(rank: int, value: int | Sequence[int]) -> list[int]:
    """Strides, dilations or a window, channels last."""
    given = [value] * (rank - 2) if isinstance(value, int) else list(value)
    return [1, *given, 1]


def out_shape(
    shape: Sequence[int], window: Sequence[int], stride: int, padding: str, dilation: int = 1
) -> list[int]:
    if padding == "SAME":
        return [-(-size // stride) for size in shape[1:-1]]
    return [
        (size - (taps - 1) * dilation - 1) // stride + 1
        for size, taps in zip(shape[1:-1], window, strict=True)
    ]


def image(rank: int, dtype: str = "float32", seed: int = 1, size: int = 5) -> Any:
    return sample(dtype, (2, size, size + 1, 2) if rank == 4 else (2, 4, size, 3, 2), seed)


def distinct(shape: Sequence[int], dtype: str = "float32") -> Any:
    """Numbers without ties."""
    order = np.random.default_rng(3).permutation(int(np.prod(shape)))
    return (order.reshape(shape) % 120).astype(sample(dtype, ()).dtype)


# Convolutions

SLIDES = [(1, "SAME"), (1, "VALID"), (2, "SAME"), (2, "VALID")]


def convolution(forward: str, by_input: str, by_filter: str, rank: int, depth: tuple[int, int]) -> list[Case]:
    window = (3, 2) if rank == 4 else (2, 2, 1)
    out_depth = depth[1] if forward.startswith("Conv") else depth[0] * depth[1]
    filters_shape = (*window, *depth)
    rows: list[Case] = []

    def triple(x: Any, dtype: str, stride: int, padding: str, **more: Any) -> list[Case]:
        filters = sample(dtype, filters_shape, 2)
        attrs = {"strides": sizes(rank, stride), "padding": padding, **more}
        dy = sample(dtype, (x.shape[0], *out_shape(x.shape, window, stride, padding), out_depth), 3)
        wide = dtype in ("float32", "float64")
        options: dict[str, Any] = {} if wide else {"tolerance": 8.0, "note": "sums in another order"}
        return [
            case(forward, x, filters, attrs=attrs, **options),
            case(by_input, const(np.array(x.shape, np.int32)), filters, dy, attrs=attrs, **options),
            case(by_filter, x, const(np.array(filters_shape, np.int32)), dy, attrs=attrs, **options),
        ]

    for dtype in FLOATS:
        for stride, padding in SLIDES[:2]:
            rows += triple(image(rank, dtype), dtype, stride, padding)
    for stride, padding in SLIDES[2:]:
        rows += triple(image(rank), "float32", stride, padding)
    empty = image(rank)[:0]
    same = {"strides": sizes(rank, 1), "padding": "SAME"}
    rows.append(
        case(forward, empty, sample("float32", filters_shape, 2), attrs=same, grad=False)
    )  # not set there
    x, filters = image(rank), sample("float32", filters_shape, 2)
    attrs = {"strides": sizes(rank, 1), "padding": "SAME"}
    dy = sample("float32", (*x.shape[:-1], out_depth), 3)
    shape, filter_sizes = np.array(x.shape, np.int32), np.array(filters_shape, np.int32)
    rows += [
        case(forward, unknown(x), filters, attrs=attrs),
        case(forward, partly(x, [None, *x.shape[1:]]), partly(filters, [None] * rank), attrs=attrs),
        case(by_input, shape, filters, dy, attrs=attrs),
        case(by_filter, x, filter_sizes, dy, attrs=attrs),
        case(
            forward,
            x,
            filters[..., :1, :] if depth[0] > 1 else np.ones((*window, 3, 1), "f"),
            attrs=attrs | {"strides": [1]},
            bad=True,
        ),
        case(forward, x[0], filters, attrs=attrs, bad=True),
        case(forward, x, np.ones((*window, 3, 1), "f"), attrs=attrs, bad=True),
        case(forward, unknown(x), unknown(np.ones((*window, 3, 1), "f")), attrs=attrs, bad=True),
        case(
            forward,
            x,
            np.ones((*[9] * len(window), *depth), "f"),
            attrs=attrs | {"padding": "VALID"},
            bad=True,
        ),
        case(by_input, shape, filters, dy[..., :1, :], attrs=attrs, bad=True),
        case(by_filter, x, filter_sizes, dy[..., :1, :], attrs=attrs, bad=True),
        case(by_input, shape[:2], filters, dy, attrs=attrs, bad=True),
        case(by_filter, x, filter_sizes[:2], dy, attrs=attrs, bad=True),
        case(by_input, unknown(shape * 2), filters, dy, attrs=attrs, bad=True),
    ]
    return rows


def dilated() -> list[Case]:
    """TensorFlow has no gradients of dilated and of grouped convolutions on a CPU."""
    x, filters = image(4, size=7), sample("float32", (3, 2, 2, 3), 2)
    rows = []
    for dilation in (2, 3):
        attrs = {"strides": [1] * 4, "padding": "SAME", "dilations": sizes(4, dilation)}
        rows += [
            case("Conv2D", x, filters, attrs=attrs, grad=False),
            case("Conv2D", x, filters, attrs=attrs | {"padding": "VALID"}, grad=False),
        ]
    attrs = {"strides": sizes(4, 2), "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 1, 0, 0]}
    grouped = sample("float32", (2, 2, 1, 4), 4)
    return [
        *rows,
        case("Conv2D", x, filters, attrs=attrs),
        case("DepthwiseConv2dNative", x, filters, attrs=attrs),
        case("Conv2D", x, grouped, attrs={"strides": [1] * 4, "padding": "SAME"}, grad=False),
        case("Conv2D", x, filters, attrs=attrs | {"explicit_paddings": [0, 0, 1]}, bad=True),
        case("Conv2D", x, filters, attrs=attrs | {"padding": "SAME"}, bad=True),
        case("Conv2D", x, filters, attrs={"strides": [1, 0, 1, 1], "padding": "SAME"}, bad=True),
        case("Conv2D", x, filters, attrs={"strides": [2, 1, 1, 1], "padding": "SAME"}, bad=True),
        case("Conv2D", x, filters, attrs={"strides": [1] * 4, "padding": "WRONG"}, bad=True),
        case(
            "DepthwiseConv2dNative", x, filters, attrs={"strides": [1, 1, 2, 1], "padding": "SAME"}, bad=True
        ),
    ]


# Pools

POOL_SLIDES = [(2, 1, "SAME"), (2, 1, "VALID"), (2, 2, "SAME"), (3, 2, "VALID"), (3, 1, "SAME")]


def pool_attrs(rank: int, window: int, stride: int, padding: str) -> dict[str, Any]:
    return {"ksize": sizes(rank, window), "strides": sizes(rank, stride), "padding": padding}


def max_pools(rank: int) -> list[Case]:
    suffix = "" if rank == 4 else "3D"
    forward, grad, twice = (f"MaxPool{suffix}{more}" for more in ("", "Grad", "GradGrad"))
    shape = image(rank).shape
    rows = []
    for window, stride, padding in POOL_SLIDES:
        attrs = pool_attrs(rank, window, stride, padding)
        x = distinct(shape)
        out = (shape[0], *out_shape(shape, [window] * (rank - 2), stride, padding), shape[-1])
        pooled = maxima(x, window, stride, padding)
        rows += [
            case(forward, x, attrs=attrs),
            case(grad, x, pooled, sample("float32", out, 2), attrs=attrs),
            case(twice, x, pooled, sample("float32", shape, 2), attrs=attrs),
        ]
    attrs = pool_attrs(rank, 2, 1, "VALID")
    for dtype in plain_dtypes(forward):
        rows.append(case(forward, distinct(shape, dtype), attrs=attrs))
    x = distinct(shape)
    pooled = maxima(x, 2, 1, "VALID")
    for dtype in plain_dtypes(grad):
        types = {"TInput": dtype} if rank == 5 else {}
        given = distinct(shape, dtype), pooled.astype(sample(dtype, ()).dtype)
        rows.append(case(grad, *given, sample(dtype, pooled.shape, 4), attrs=attrs | types))
    for dtype in plain_dtypes(twice):
        given = distinct(shape, dtype), pooled.astype(sample(dtype, ()).dtype)
        rows.append(case(twice, *given, sample(dtype, shape, 4), attrs=attrs))
    return [
        *rows,
        case(forward, unknown(x), attrs=attrs),
        case(forward, x[:0], attrs=attrs),
        case(forward, x[0], attrs=attrs, bad=True),
        case(forward, x, attrs=attrs | {"ksize": sizes(rank, 9)}, bad=True),
        case(forward, x, attrs=attrs | {"strides": [1]}, bad=True),
        case(grad, x, pooled, pooled[:1], attrs=attrs, bad=True),
        case(grad, x, pooled[:, :1], pooled, attrs=attrs, bad=True),
        case(twice, x, pooled, x[:, :1], attrs=attrs, bad=True),
    ]


def maxima(x: Any, window: int, stride: int, padding: str) -> Any:
    """The output of MaxPool, which the table needs as an input."""
    rank = x.ndim
    out = out_shape(x.shape, [window] * (rank - 2), stride, padding)
    result = np.zeros((x.shape[0], *out, x.shape[-1]), x.dtype)
    for place in np.ndindex(*out):
        index = []
        for axis, at in enumerate(place):
            size = x.shape[axis + 1]
            before = max((out[axis] - 1) * stride + window - size, 0) // 2 if padding == "SAME" else 0
            start = at * stride - before
            index.append(slice(max(start, 0), min(start + window, size)))
        seen = x[(slice(None), *index)]
        result[(slice(None), *place)] = seen.max(axis=tuple(range(1, rank - 1)))
    return result


def average_pools(rank: int) -> list[Case]:
    forward = "AvgPool" if rank == 4 else "AvgPool3D"
    grad = f"{forward}Grad"
    shape = image(rank).shape
    sizes_of = np.array(shape, np.int32)
    rows = []
    for window, stride, padding in POOL_SLIDES:
        attrs = pool_attrs(rank, window, stride, padding)
        out = (shape[0], *out_shape(shape, [window] * (rank - 2), stride, padding), shape[-1])
        rows += [
            case(forward, image(rank), attrs=attrs),
            case(grad, const(sizes_of), sample("float32", out, 2), attrs=attrs),
        ]
    attrs = pool_attrs(rank, 2, 1, "VALID")
    out = (shape[0], *out_shape(shape, [2] * (rank - 2), 1, "VALID"), shape[-1])
    rows += [case(forward, image(rank, dtype), attrs=attrs) for dtype in FLOATS]
    rows += [case(grad, const(sizes_of), sample(dtype, out, 2), attrs=attrs) for dtype in FLOATS]
    dy = sample("float32", out, 2)
    return [
        *rows,
        case(forward, unknown(image(rank)), attrs=attrs),
        case(forward, image(rank)[:0], attrs=attrs),
        case(forward, image(rank)[0], attrs=attrs, bad=True),
        case(forward, image(rank), attrs=attrs | {"ksize": sizes(rank, 9)}, bad=True),
        case(grad, sizes_of, dy, attrs=attrs),
        case(grad, unknown(sizes_of), unknown(dy), attrs=attrs),
        case(grad, sizes_of[:2], dy, attrs=attrs, bad=True),
    ]


def with_argmax() -> list[Case]:
    x = distinct((2, 5, 6, 2))
    rows = []
    for window, stride, padding in POOL_SLIDES:
        for batch in (False, True):
            attrs = pool_attrs(4, window, stride, padding) | {"include_batch_in_index": batch}
            out = (2, *out_shape(x.shape, [window] * 2, stride, padding), 2)
            rows.append(case("MaxPoolWithArgmax", x, attrs=attrs))
            numbers = np.random.default_rng(5).integers(0, 60, out)
            dy = sample("float32", out, 6)
            rows.append(case("MaxPoolGradWithArgmax", x, dy, numbers, attrs=attrs))
            rows.append(
                case("MaxPoolGradGradWithArgmax", x, sample("float32", x.shape), numbers, attrs=attrs)
            )
    attrs = pool_attrs(4, 2, 2, "SAME")
    numbers = np.zeros((2, 3, 3, 2), np.int64)
    dy = sample("float32", numbers.shape)
    return [
        *rows,
        *(
            case("MaxPoolWithArgmax", distinct(x.shape, name), attrs=attrs)
            for name in plain_dtypes("MaxPoolWithArgmax")
        ),
        case("MaxPoolWithArgmax", x, attrs=attrs | {"Targmax": "int32"}, grad=False),  # it has none
        case("MaxPoolWithArgmax", unknown(x), attrs=attrs),
        case("MaxPoolWithArgmax", x[0], attrs=attrs, bad=True),
        case("MaxPoolGradWithArgmax", x, dy, numbers, attrs=attrs),
        case("MaxPoolGradWithArgmax", x, dy[:1], numbers, attrs=attrs, bad=True),
    ]


def windows_as_tensors() -> list[Case]:
    x = distinct((2, 5, 6, 2))
    rows = []
    for window, stride, padding in POOL_SLIDES:
        pooled, attrs = maxima(x, window, stride, padding), {"padding": padding}
        ksize, strides = sizes(4, window), sizes(4, stride)
        for feed in (const, unknown):
            given = [feed(np.array(each, np.int32)) for each in (ksize, strides)]
            rows += [
                case("MaxPoolV2", x, *given, attrs=attrs),
                case("MaxPoolGradV2", x, pooled, sample("float32", pooled.shape, 2), *given, attrs=attrs),
                case("MaxPoolGradGradV2", x, pooled, sample("float32", x.shape, 2), *given, attrs=attrs),
            ]
    attrs, one = {"padding": "VALID"}, const([1, 1, 1, 1])
    return [
        *rows,
        *(
            case("MaxPoolV2", distinct(x.shape, name), const([1, 2, 2, 1]), one, attrs=attrs)
            for name in plain_dtypes("MaxPoolV2")
        ),
        *(case(name, x, x, x, one, one, attrs=attrs) for name in ("MaxPoolGradV2", "MaxPoolGradGradV2")),
        case("MaxPoolV2", x, [1, 2, 2], one, attrs=attrs, bad=True),
        case("MaxPoolV2", x, [1, 9, 9, 1], one, attrs=attrs, bad=True),
        case("MaxPoolV2", unknown(x), unknown([1, 0, 1, 1]), one, attrs=attrs, bad=True),
        case("MaxPoolGradV2", x, x, x[:1], one, one, attrs=attrs, bad=True),
    ]


CASES: list[Case] = [
    *convolution("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", 4, (2, 3)),
    *convolution("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", 5, (2, 3)),
    *convolution(
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
        4,
        (2, 2),
    ),
    *dilated(),
    *max_pools(4),
    *max_pools(5),
    *average_pools(4),
    *average_pools(5),
    *with_argmax(),
    *windows_as_tensors(),
]
