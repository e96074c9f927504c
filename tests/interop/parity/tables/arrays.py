"""Reshaping, transposing, tiling, broadcasting, reversing, padding."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, partly, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool", "string")
X = sample("float32", (2, 3, 4), 1)
Y = sample("float32", (3, 4), 2)
NONE = np.zeros(0, np.int32)


RESHAPES = [
    *(case("Reshape", sample(name, (2, 3)), const([3, 2])) for name in SOME),
    *(
        case("Reshape", sample("float32", shape), const(wanted))
        for shape, wanted in (
            ((2, 3), [-1]),
            ((2, 3), [-1, 2]),
            ((), [1, 1]),
            ((1,), NONE),
            ((0, 3), [3, 0]),
            ((0, 3), [-1, 3]),
            ((6,), [2, 3]),
        )
    ),
    case("Reshape", X, [4, 6]),
    case("Reshape", unknown(X), [4, -1]),
    case("Reshape", unknown(X), const([4, -1])),
    case("Reshape", partly(X, (2, None, 4)), const([-1, 4])),
    case("Reshape", partly(X, (None, 3, 4)), const([6, -1])),
    *(case("Reshape", X, const(wanted), bad=True) for wanted in ([5, 5], [-1, -1], [-2, 12], [7, -1])),
    case("Reshape", unknown(X), [5, 5], bad=True),
    *(case("ExpandDims", sample(name, (2, 3)), const(1)) for name in SOME),
    *(
        case("ExpandDims", sample("float32", shape), const(axis))
        for shape, axis in (((), 0), ((), -1), ((3,), -1), ((0, 2), 2), ((2, 3), -3), ((2, 3), [1]))
    ),
    case("ExpandDims", X, 1),
    case("ExpandDims", unknown(X), const(1)),
    *(case("ExpandDims", Y, const(axis), bad=True) for axis in (3, -4)),
    case("ExpandDims", unknown(Y), 3, bad=True),
    *(case("Squeeze", sample(name, (2, 1, 3, 1))) for name in SOME),
    *(
        case("Squeeze", sample("float32", shape), attrs={"squeeze_dims": axes})
        for shape, axes in (((1, 2, 1), [0]), ((1, 2, 1), [-1]), ((1, 1), [0, 1]), ((1, 0), [0]), ((1,), []))
    ),
    case("Squeeze", unknown(sample("float32", (1, 2)))),
    case("Squeeze", partly(sample("float32", (1, 2)), (None, 2)), attrs={"squeeze_dims": [0]}),
    *(case("Squeeze", Y, attrs={"squeeze_dims": axes}, bad=True) for axes in ([0], [2], [-3])),
    case("Squeeze", unknown(Y), attrs={"squeeze_dims": [0]}, bad=True),
    *(
        case(op, sample(name, (2, 3, 4)), const([2, 0, 1]))
        for op in ("Transpose", "ConjugateTranspose")
        for name in SOME
    ),
    *(
        case(op, sample("float32", shape), const(perm))
        for op in ("Transpose", "ConjugateTranspose")
        for shape, perm in (
            ((), NONE),
            ((3,), [0]),
            ((0, 2), [1, 0]),
            ((2, 3), [-1, 0]),
            ((2, 3, 1, 2), [3, 1, 0, 2]),
        )
    ),
    *(
        case(op, unknown(X), perm)
        for op in ("Transpose", "ConjugateTranspose")
        for perm in ([1, 0, 2], const([1, 0, 2]))
    ),
    *(
        case(op, X, const(perm), bad=True)
        for op in ("Transpose", "ConjugateTranspose")
        for perm in ([0, 1], [0, 1, 1], [0, 1, 3])
    ),
    *(case("Tile", sample(name, (2, 3)), const([2, 1])) for name in SOME),
    *(
        case("Tile", sample("float32", shape), const(times))
        for shape, times in (
            ((), NONE),
            ((3,), [0]),
            ((0, 2), [3, 2]),
            ((2, 3), [1, 3]),
            ((2, 1, 2), [1, 2, 3]),
        )
    ),
    case("Tile", Y, [1, 2]),
    case("Tile", unknown(Y), const([1, 2])),
    *(case("Tile", Y, const(times), bad=True) for times in ([1], [1, -1])),
    case("Tile", unknown(Y), [1], bad=True),
    *(case("BroadcastTo", sample(name, (3,)), const([2, 3])) for name in SOME),
    *(
        case("BroadcastTo", sample("float32", shape), const(wanted))
        for shape, wanted in (
            ((), [2]),
            ((), NONE),
            ((1, 3), [2, 3]),
            ((2, 1), [3, 2, 4]),
            ((1,), [0]),
            ((2, 3), [2, 3]),
        )
    ),
    case("BroadcastTo", Y, [2, 3, 4]),
    case("BroadcastTo", unknown(Y), const([2, 3, 4])),
    *(case("BroadcastTo", Y, const(wanted), bad=True) for wanted in ([4], [2, 4], [3, 5])),
    case("BroadcastTo", unknown(Y), [4], bad=True),
    *(case("ReverseV2", sample(name, (2, 3)), const([1])) for name in plain_dtypes("ReverseV2")),
    *(
        case("ReverseV2", sample("float32", shape), const(axes))
        for shape, axes in (((), NONE), ((3,), [-1]), ((0, 2), [0]), ((2, 3, 2), [0, 2]))
    ),
    case("ReverseV2", Y, [0]),
    case("ReverseV2", unknown(Y), const([0])),
    *(case("ReverseV2", Y, const(axes), bad=True) for axes in ([2], [0, 0], [0, -2])),
    case("ReverseV2", unknown(Y), [2], bad=True),
]


PADS = [
    *(case("Pad", sample(name, (2, 3)), const([[1, 0], [0, 2]])) for name in SOME),
    *(
        case("Pad", sample("float32", shape), const(np.array(p, np.int32).reshape(-1, 2)))
        for shape, p in (
            ((), []),
            ((3,), [[2, 2]]),
            ((0, 2), [[1, 1], [0, 0]]),
            ((1, 2, 2), [[0, 0], [1, 0], [0, 1]]),
        )
    ),
    case("Pad", Y, [[1, 1], [0, 0]]),
    case("Pad", unknown(Y), const([[1, 1], [0, 0]])),
    *(case("Pad", Y, const(p), bad=True) for p in ([[1, 1]], [[-1, 0], [0, 0]], [[1], [1]])),
    *(case("PadV2", sample(name, (2, 3)), const([[1, 0], [0, 2]]), sample(name, (), 7)) for name in SOME),
    *(
        case("PadV2", sample("float32", shape), const(np.array(p, np.int32).reshape(-1, 2)), 2.5)
        for shape, p in (((), []), ((3,), [[2, 2]]), ((0, 2), [[1, 1], [0, 0]]))
    ),
    case("PadV2", Y, [[1, 1], [0, 0]], 0.5),
    case("PadV2", unknown(Y), const([[1, 1], [0, 0]]), 0.5),
    *(case("PadV2", Y, const(p), 0.5, bad=True) for p in ([[1, 1]], [[-1, 0], [0, 0]])),
    *(
        case("MirrorPad", sample(name, (3, 3)), const([[1, 0], [0, 2]]), attrs={"mode": mode})
        for name in SOME
        for mode in ("REFLECT", "SYMMETRIC")
    ),
    *(
        case("MirrorPad", sample("float32", shape), const(p), attrs={"mode": "SYMMETRIC"})
        for shape, p in (((3,), [[3, 3]]), ((2, 2), [[0, 0], [0, 0]]))
    ),
    case("MirrorPad", Y, [[1, 1], [0, 0]], attrs={"mode": "REFLECT"}),
    *(
        case("MirrorPad", Y, const(p), attrs={"mode": mode}, bad=True)
        for p, mode in (([[3, 0], [0, 0]], "REFLECT"), ([[4, 0], [0, 0]], "SYMMETRIC"), ([[1, 1]], "REFLECT"))
    ),
]

CASES: list[Case] = [*RESHAPES, *PADS]
