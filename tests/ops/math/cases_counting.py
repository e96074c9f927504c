"""Cases of histograms, searches, distinct slices and edit distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InternalError, InvalidArgumentError
from tests.ops.harness import Case, case

NONE = np.zeros(0)
NUMBERS = [1, 1, 3, 9]


def counted(numbers: Any, size: Any, weights: Any) -> Any:
    inside = numbers < size
    found = np.bincount(numbers[inside], weights[inside] if weights.size else None, minlength=int(size))
    return found.astype(weights.dtype)


HISTOGRAMS = [
    case("Bincount", NUMBERS, 5, NONE, expected=counted, dtypes=("float64", "float32", "int32", "int64")),
    case("Bincount", NUMBERS, 5, [0.5, 2.0, 3.0, 1.0], expected=counted, dtypes=("float64", "float32")),
    case("Bincount", [-1], 5, NONE, raises=InvalidArgumentError),
    case(
        "DenseBincount",
        [NUMBERS, [0, 0, 2, 2]],
        4,
        NONE,
        vary="T",
        dtypes=("float32",),
        expected=[[0, 2, 0, 1], [2, 0, 2, 0]],
    ),
    case(
        "DenseBincount",
        NUMBERS,
        4,
        NONE,
        attrs={"binary_output": True},
        vary="T",
        dtypes=("float64",),
        expected=[0, 1, 0, 1],
    ),
    case(
        "DenseBincount",
        NUMBERS,
        4,
        [0.5, 2.0, 3.0, 1.0],
        vary="T",
        dtypes=("float64",),
        expected=[0, 2.5, 0, 3],
    ),
    case("DenseBincount", [-1], 4, NONE, vary="T", dtypes=("float64",), raises=InvalidArgumentError),
    case(
        "HistogramFixedWidth",
        [-1.0, 0.0, 1.5, 2.0, 5.0, 15.0],
        [0.0, 5.0],
        5,
        expected=np.array([2, 1, 1, 0, 2], np.int32),
    ),
    case("HistogramFixedWidth", [1, 2, 9], [0, 4], 2, attrs={"dtype": "int64"}, expected=[1, 2]),
    case("HistogramFixedWidth", [1.0], [1.0, 1.0], 2, raises=InvalidArgumentError),
    case(
        "Bucketize",
        [-5.0, 1.0, 10.0, 3.0],
        attrs={"boundaries": (0.0, 3.0, 10.0)},
        expected=np.array([0, 1, 3, 2], np.int32),
    ),
    case("Bucketize", [1.0], attrs={"boundaries": (3.0, 0.0)}, raises=InvalidArgumentError),
]

X = [[3.0, 1.5, 2.0, 4.0], [0.5, -1.0, 7.0, 2.5]]
SEARCHES = [
    case("LowerBound", [[1.0, 2.0, 2.0, 3.0]], [[2.0, 5.0, 0.0]], expected=np.array([[1, 4, 0]], np.int32)),
    case("UpperBound", [[1, 2, 2, 3]], [[2, 5, 0]], attrs={"out_type": "int64"}, expected=[[3, 4, 0]]),
    case("NthElement", X, 1, expected=lambda x, n: np.sort(x, -1)[:, 1], gradients=(0,)),
    case("NthElement", X, 0, attrs={"reverse": True}, expected=lambda x, n: x.max(-1)),
    case("NthElement", [[3, 1, 2]], 2, expected=[3]),
    case(
        "UnravelIndex", [5, 2], [2, 3], expected=lambda i, d: np.array(np.unravel_index(i, d)).astype(i.dtype)
    ),
    case("UnravelIndex", [6], [2, 3], raises=InvalidArgumentError),
]

ROWS = [[1, 2], [3, 4], [1, 2]]
DISTINCT = [
    case("UniqueV2", ROWS, [0], expected=([[1, 2], [3, 4]], np.array([0, 1, 0], np.int32))),
    case(
        "UniqueV2",
        [[1.0, 2.0, 1.0], [3.0, 4.0, 3.0]],
        [1],
        attrs={"out_idx": "int64"},
        expected=([[1, 2], [3, 4]], np.array([0, 1, 0])),
    ),
    case("UniqueV2", [2, 1, 2], np.zeros(0, int), expected=([2, 1], np.array([0, 1, 0], np.int32))),
    case(
        "UniqueWithCountsV2",
        ROWS,
        [-2],
        expected=([[1, 2], [3, 4]], np.array([0, 1, 0], np.int32), np.array([2, 1], np.int32)),
    ),
]


def sparse(places: list[list[int]], values: Any, shape: list[int]) -> tuple[Any, ...]:
    return np.array(places, np.int64).reshape(-1, len(shape)), values, shape


KITTEN = sparse([[0, k] for k in range(6)], [*"kitten"], [1, 6])
SITTING = sparse([[0, k] for k in range(7)], [*"sitting"], [1, 7])
DISTANCES = [
    case("EditDistance", *KITTEN, *SITTING, attrs={"normalize": False}, expected=np.array([3], np.float32)),
    case("EditDistance", *KITTEN, *SITTING, expected=np.array([3 / 7], np.float32)),
    case(
        "EditDistance",
        *sparse([[0, 0]], [1], [2, 1]),
        *sparse([[1, 0]], [1], [2, 1]),
        expected=np.array([np.inf, 1], np.float32),
    ),
    case(
        "EditDistance", *sparse([[5, 0]], [1], [2, 1]), *sparse([[1, 0]], [1], [2, 1]), raises=InternalError
    ),
]

CASES: list[Case] = [*HISTOGRAMS, *SEARCHES, *DISTINCT, *DISTANCES]
