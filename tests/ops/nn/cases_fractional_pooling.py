"""Cases of fractional pooling; expected values by NumPy, and by hand where the windows are random."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, UnimplementedError
from tests.ops.harness import Case, case

IMAGE = np.random.default_rng(1).permutation(80).reshape(1, 8, 5, 2) / 8.0
ROWS, COLUMNS = np.array([0, 2, 3, 5, 8]), np.array([0, 1, 3, 5])
DY = np.arange(24.0).reshape(1, 4, 3, 2) - 7
MAXIMA, MEANS = "FractionalMaxPool", "FractionalAvgPool"
FLOATS = ("float64", "float32")


def seeded(ratio: Any = (1.0, 2.0, 1.0, 1.0), **attrs: Any) -> dict[str, Any]:
    return {"pooling_ratio": ratio, "deterministic": True, "seed": 3, "seed2": 4, **attrs}


def pooled(image: Any, rows: Any, columns: Any, reduce: Any, overlapping: bool = False) -> Any:
    """The result for these windows."""
    lines = [
        np.concatenate(
            [
                reduce(
                    image[:, top : bottom + overlapping, left : right + overlapping],
                    axis=(1, 2),
                    keepdims=True,
                )
                for left, right in itertools.pairwise(columns)
            ],
            axis=2,
        )
        for top, bottom in itertools.pairwise(rows)
    ]
    return np.concatenate(lines, axis=1)


def spread(shape: Any, dy: Any, rows: Any, columns: Any) -> Any:
    """The gradient of the means."""
    dx = np.zeros(shape, dy.dtype)
    for i, (top, bottom) in enumerate(itertools.pairwise(rows)):
        for j, (left, right) in enumerate(itertools.pairwise(columns)):
            share = dy[:, i : i + 1, j : j + 1] / ((bottom - top) * (right - left))
            dx[:, top:bottom, left:right] += share
    return dx


def at_maxima(image: Any, _: Any, dy: Any, rows: Any, columns: Any) -> Any:
    """The gradient of the maxima: no two values of the image are equal."""
    highest = pooled(image, rows, columns, np.max)
    dx = np.zeros(image.shape, dy.dtype)
    for i in range(len(rows) - 1):
        for j in range(len(columns) - 1):
            dx += np.where(image == highest[:, i : i + 1, j : j + 1], dy[:, i : i + 1, j : j + 1], 0)
    return dx


def known(reduce: Any, overlapping: bool = False) -> Any:
    """The result where all windows are 2 high and 1 wide."""
    rows, columns = np.arange(0, 9, 2), np.arange(6)
    return lambda image: (pooled(image, rows, columns, reduce, overlapping), rows, columns)


CASES: list[Case] = [
    *(
        case(
            op,
            IMAGE,
            attrs=seeded(pseudo_random=pseudo),
            expected=known(reduce),
            gradients=(0,),
            dtypes=FLOATS,
        )
        for op, reduce in ((MAXIMA, np.max), (MEANS, np.mean))
        for pseudo in (False, True)
    ),
    case(
        MAXIMA,
        (IMAGE * 8).astype(int),
        attrs=seeded(overlapping=True),
        expected=known(np.max, True),
        dtypes=("int32", "int64"),
    ),
    *(
        case(op, IMAGE, attrs=attrs, dtypes=("float64",), raises=error)
        for op in (MAXIMA, MEANS)
        for attrs, error in (
            (seeded(deterministic=False), InvalidArgumentError),
            (seeded((1.0, 1.5, 6.0, 1.0)), InvalidArgumentError),
            (seeded((1.0, 1.5, 1.5, 2.0)), UnimplementedError),
        )
    ),
    case(
        "FractionalMaxPoolGrad",
        IMAGE,
        pooled(IMAGE, ROWS, COLUMNS, np.max),
        DY,
        ROWS,
        COLUMNS,
        expected=at_maxima,
        dtypes=FLOATS,
    ),
    case(
        "FractionalAvgPoolGrad",
        np.array([1, 8, 5, 2]),
        DY,
        ROWS,
        COLUMNS,
        expected=spread,
        dtypes=FLOATS,
    ),
    case(
        "FractionalAvgPoolGrad",
        np.array([1, 8, 5, 2]),
        DY,
        ROWS - 1,
        COLUMNS,
        dtypes=("float64",),
        raises=InvalidArgumentError,
    ),
]
