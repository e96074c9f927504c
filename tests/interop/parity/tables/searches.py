"""Largest and smallest elements, bounds, distinct elements, counts, histograms, distances."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool", "string")
Y = sample("float32", (3, 4), 2)
NONE = np.zeros(0, np.int32)


ARGUMENTS = [
    *(case(op, sample(name, (3, 4)), const(1)) for op in ("ArgMax", "ArgMin") for name in plain_dtypes(op)),
    *(
        case(op, sample("float32", shape), const(axis))
        for op in ("ArgMax", "ArgMin")
        for shape, axis in (((3,), 0), ((2, 3), -1), ((2, 3, 4), 1), ((0, 3), 1))
    ),
    *(case(op, Y, const(0), attrs={"output_type": "int32"}) for op in ("ArgMax", "ArgMin")),
    *(case(op, Y, 0) for op in ("ArgMax", "ArgMin")),
    *(case(op, unknown(Y), const(0)) for op in ("ArgMax", "ArgMin")),
    *(case(op, np.array([1.0, np.nan, 3.0, 3.0]), const(0)) for op in ("ArgMax", "ArgMin")),
    *(case(op, Y, const(axis), bad=True) for op in ("ArgMax", "ArgMin") for axis in (2, -3)),
    *(case(op, sample("float32", (0, 2)), const(0), bad=True) for op in ("ArgMax", "ArgMin")),
    *(case("NthElement", sample(name, (3, 4)), const(1)) for name in plain_dtypes("NthElement")),
    *(
        case("NthElement", Y, const(n), attrs={"reverse": reverse})
        for n in (0, 3)
        for reverse in (False, True)
    ),
    case("NthElement", sample("float32", (0, 3)), const(1)),
    case("NthElement", Y, 2),
    case("NthElement", unknown(Y), const(1)),
    *(case("NthElement", x, const(n), bad=True) for x, n in ((Y, 4), (Y, -1), (1.0, 0))),
    case("NthElement", unknown(Y), 4, bad=True),
    *(case("TopKV2", sample(name, (3, 4)), const(2)) for name in plain_dtypes("TopKV2")),
    *(case("TopKV2", Y, const(k), attrs={"sorted": True}) for k in (0, 1, 4)),
    case("TopKV2", Y, 2),
    case("TopKV2", unknown(Y), const(2)),
    case("TopKV2", sample("float32", (0, 3)), const(2)),
    *(case("TopKV2", x, const(k), bad=True) for x, k in ((Y, 5), (Y, -1), (1.0, 1))),
    *(
        case("LowerBound", np.sort(sample(name, (2, 5)), -1), sample(name, (2, 3), 1))
        for name in ("float32", "float64", "int32", "int64", "uint8", "int8")
    ),
    *(
        case("UpperBound", np.sort(sample(name, (2, 5)), -1), sample(name, (2, 3), 1))
        for name in ("float32", "float64", "int32", "int64", "uint8", "int8")
    ),
    *(
        case(op, const([[1.0, 2.0, 2.0]]), const([[2.0, 5.0, 0.0]]), attrs={"out_type": "int64"})
        for op in ("LowerBound", "UpperBound")
    ),
    *(
        case(op, a, b)
        for op in ("LowerBound", "UpperBound")
        for a, b in (
            (unknown([[1.0, 2.0]]), unknown([[1.5]])),
            (sample("float32", (0, 3)), sample("float32", (0, 2))),
            (sample("float32", (2, 0)), sample("float32", (2, 1))),
            (np.array([[1.0]]), np.zeros((1, 0))),
        )
    ),
    *(
        case(op, a, b, bad=True)
        for op in ("LowerBound", "UpperBound")
        for a, b in (
            (np.array([1.0]), np.array([[1.0]])),
            (np.array([[1.0]]), np.array([[1.0], [2.0]])),
            (unknown([1.0]), unknown([[1.0]])),
        )
    ),
    *(
        case("UnravelIndex", const(i, name), const(d, name))
        for name in ("int32", "int64")
        for i, d in (([5, 2], [2, 3]), (5, [2, 3]), ([7], [8]), ([[1]][0], [1, 1, 2]))
    ),
    case("UnravelIndex", [5, 2], [2, 3]),
    case("UnravelIndex", unknown([5]), unknown([2, 3])),
    *(case("UnravelIndex", i, [2, 3], bad=True) for i in ([6], 7, NONE)),
]


PLACES = sample("int32", (6,), 3, 0, 4)

COUNTS = [
    *(case("Unique", sample(name, (8,), whole=True)) for name in SOME),
    case("Unique", const(PLACES), attrs={"out_idx": "int64"}),
    case("Unique", NONE),
    case("Unique", unknown(PLACES)),
    case("Unique", [[1, 2]], bad=True),
    case("Unique", unknown([[1, 2]]), bad=True),
    *(
        case("UniqueWithCounts", sample(name, (8,), whole=True))
        for name in SOME
        if not name.startswith(("complex", "bool"))
    ),
    case("UniqueWithCounts", PLACES, attrs={"out_idx": "int64"}),
    case("UniqueWithCounts", NONE),
    case("UniqueWithCounts", unknown(PLACES)),
    case("UniqueWithCounts", [[1, 2]], bad=True),
    *(
        case(op, sample(name, (4, 3), whole=True, high=0), const([axis], "int64"))
        for op in ("UniqueV2", "UniqueWithCountsV2")
        for name in ("float32", "float64", "int32", "int64", "string", "bool")
        for axis in (0, 1)
    ),
    *(
        case(op, x, const(axis, "int64"))
        for op in ("UniqueV2", "UniqueWithCountsV2")
        for x, axis in (
            (PLACES, NONE),
            (PLACES, [0]),
            (sample("int32", (2, 2, 2), high=0), [-1]),
            (np.zeros((0, 2), np.int32), [0]),
        )
    ),
    *(case(op, unknown(PLACES), np.array([0])) for op in ("UniqueV2", "UniqueWithCountsV2")),
    *(
        case(op, sample("int32", (2, 3)), const(axis, "int64"), bad=True)
        for op in ("UniqueV2", "UniqueWithCountsV2")
        for axis in (NONE, [2], 0)
    ),
    *(
        case("ListDiff", sample(name, (8,), 1, whole=True), sample(name, (4,), 2, whole=True))
        for name in SOME
        if not name.startswith(("complex", "bool"))
    ),
    case("ListDiff", [1, 2], NONE),
    case("ListDiff", NONE, [1]),
    case("ListDiff", unknown([1, 2]), [1]),
    case("ListDiff", [1, 2], [1], attrs={"out_idx": "int64"}),
    case("ListDiff", [[1]], [1], bad=True),
    *(
        case("Bincount", const(numbers), const(size), np.array(weights, kind))
        for kind in ("float32", "float64", "int32", "int64")
        for numbers, size, weights in (
            ([1, 1, 3, 9], 5, []),
            ([[1, 1], [3, 9]], 5, [[1, 2], [3, 4]]),
            (NONE, 3, []),
        )
    ),
    case("Bincount", [1], 3, NONE.astype("float32")),
    case("Bincount", unknown([1]), unknown(3), unknown(NONE.astype("float32"))),
    *(
        case("Bincount", const(n), const(s), np.zeros(0, "float32"), bad=True)
        for n, s in (([-1], 3), ([1], -3))
    ),
    *(
        case(
            "DenseBincount",
            const(numbers),
            const(size),
            np.array(weights, kind),
            attrs={"binary_output": binary},
        )
        for kind in ("float32", "int64")
        for binary in (False, True)
        for numbers, size, weights in (([1, 1, 3, 9], 5, []), ([[1, 1], [3, 9]], 5, []), (NONE, 3, []))
    ),
    *(
        case("DenseBincount", const(numbers, "int64"), const(size, "int64"), np.array(weights))
        for numbers, size, weights in (([1, 1], 5, [0.5, 2.0]), ([[1, 1], [3, 9]], 5, [[1.0, 2], [3, 4]]))
    ),
    case("DenseBincount", unknown([1]), unknown(3), unknown(NONE.astype("float32"))),
    *(
        case("DenseBincount", const(n), const(s), np.zeros(0, "float32"), bad=True)
        for n, s in (([-1], 3), ([1], -3), ([[[1]]], 3))
    ),
    *(
        case(
            "HistogramFixedWidth",
            sample(name, (7,), 1),
            const(np.array([-2, 2], name)),
            const(4),
            attrs={"dtype": out},
        )
        for name in ("float32", "float64", "int32", "int64")
        for out in ("int32", "int64")
    ),
    *(
        case("HistogramFixedWidth", sample("float32", shape), const([0.0, 1.0]), const(3))
        for shape in ((), (0,), (2, 3))
    ),
    case("HistogramFixedWidth", Y, [0.0, 1.0], 3),
    case("HistogramFixedWidth", unknown(Y), const([0.0, 1.0]), const(3)),
    *(
        case("HistogramFixedWidth", Y, const(bounds), const(n), bad=True)
        for bounds, n in (([1.0, 1.0], 3), ([0.0, 1.0], 0), ([0.0, 1.0, 2.0], 3))
    ),
    *(
        case("Bucketize", sample(name, shape, 1), attrs={"boundaries": [-1.0, 0.0, 2.0]})
        for name in ("float32", "float64", "int32", "int64")
        for shape in ((), (5,), (0, 2))
    ),
    case("Bucketize", unknown(Y), attrs={"boundaries": [0.0]}),
    case("Bucketize", Y, attrs={"boundaries": []}),
    case("Bucketize", Y, attrs={"boundaries": [1.0, 0.0]}, bad=True),
]


def sparse(places: list[list[int]], values: object, shape: list[int]) -> tuple[object, ...]:
    return (np.array(places, np.int64).reshape(-1, len(shape)), np.array(values), np.array(shape, np.int64))


A = sparse([[0, 0], [0, 1], [1, 0]], [1, 2, 3], [2, 2])
B = sparse([[0, 0], [0, 1], [1, 0]], [1, 3, 3], [2, 2])

DISTANCES = [
    *(
        case("EditDistance", *hypothesis, *truth, attrs={"normalize": normalize})
        for normalize in (True, False)
        for hypothesis, truth in (
            (A, B),
            (A, sparse([[1, 0]], [1], [2, 2])),
            (sparse([[1, 0]], [1], [2, 2]), A),
            (A, sparse([[2, 0], [2, 1]], [1, 1], [3, 3])),
            (sparse([], NONE, [2, 2]), sparse([], NONE, [2, 2])),
            (sparse([[0, 0, 0], [0, 0, 1]], [1, 2], [1, 2, 3]), sparse([[0, 0, 0]], [2], [1, 2, 3])),
        )
    ),
    *(case("EditDistance", *map(const, A), *map(const, B)) for _ in range(1)),
    case("EditDistance", *map(unknown, A), *map(unknown, B)),
    case("EditDistance", *A[:2], np.array([2, 2, 2]), *B, bad=True),
    case("EditDistance", A[0], A[1][:2], A[2], *B, bad=True),
    case("EditDistance", *sparse([[5, 0]], [1], [2, 2]), *B, bad=True),
]


CASES: list[Case] = [*ARGUMENTS, *COUNTS, *DISTANCES]
