"""Ops that move elements: diagonals, blocks, rolls and reversals, bitcasts, rows replaced."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, node, partly, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool")


DIAGONALS = [
    *(case("Diag", sample(name, (3,))) for name in plain_dtypes("Diag")),
    *(case("Diag", sample("float32", shape)) for shape in ((1,), (0,), (2, 3), (2, 0))),
    case("Diag", unknown([1.0, 2.0])),
    case("Diag", 1.0, bad=True),
    *(case("DiagPart", sample(name, (3, 3))) for name in plain_dtypes("DiagPart")),
    *(case("DiagPart", sample("float32", shape)) for shape in ((1, 1), (0, 0), (2, 3, 2, 3), (2, 0, 2, 0))),
    case("DiagPart", unknown(sample("float32", (2, 2)))),
    *(case("DiagPart", sample("float32", shape), bad=True) for shape in ((3,), (2, 3), (2, 2, 2), ())),
    *(case("MatrixBandPart", sample(name, (3, 4)), const(1, "int64"), const(0, "int64")) for name in SOME),
    *(
        case("MatrixBandPart", sample("float32", shape), const(a, "int64"), const(b, "int64"))
        for shape, a, b in (
            ((3, 4), -1, 0),
            ((4, 3), 0, -1),
            ((2, 3, 3), 1, 1),
            ((0, 3), 0, 0),
            ((3, 3), 3, 2),
            ((3, 0), 1, 0),
        )
    ),
    case("MatrixBandPart", sample("float32", (3, 3)), 1, 1),
    case("MatrixBandPart", unknown(sample("float32", (3, 3))), 1, 1),
    case("MatrixBandPart", sample("float32", (3,)), const(1, "int64"), const(1, "int64"), bad=True),
    case("MatrixBandPart", sample("float32", (3, 3)), const(5, "int64"), const(1, "int64"), bad=True),
    case("MatrixBandPart", sample("float32", (3, 3)), 1, 7, bad=True),
    *(case("MatrixDiag", sample(name, (2, 3))) for name in SOME),
    *(case("MatrixDiag", sample("float32", shape)) for shape in ((3,), (0,), (2, 0), (2, 2, 2))),
    case("MatrixDiag", unknown([1.0, 2.0])),
    case("MatrixDiag", 1.0, bad=True),
    *(case("MatrixDiagPart", sample(name, (2, 3, 4))) for name in SOME),
    *(case("MatrixDiagPart", sample("float32", shape)) for shape in ((3, 3), (4, 2), (0, 3), (2, 0, 0))),
    case("MatrixDiagPart", unknown(sample("float32", (2, 3)))),
    case("MatrixDiagPart", partly(sample("float32", (2, 3)), (None, 3))),
    case("MatrixDiagPart", [1.0, 2.0], bad=True),
    *(case("MatrixSetDiag", sample(name, (2, 3, 4)), sample(name, (2, 3), 1)) for name in SOME),
    *(
        case("MatrixSetDiag", sample("float32", a), sample("float32", b, 1))
        for a, b in (((3, 3), (3,)), ((4, 2), (2,)), ((0, 3), (0,)))
    ),
    case("MatrixSetDiag", unknown(sample("float32", (2, 3))), [1.0, 2.0]),
    case("MatrixSetDiag", sample("float32", (3, 3)), [1.0, 2.0], bad=True),
    case("MatrixSetDiag", unknown(sample("float32", (3, 3))), unknown([1.0, 2.0]), bad=True),
]

ALIGNMENTS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")
BANDS = (0, 1, -1, [-1, 1], [0, 1], [-2, -1], [1, 2])


def banded(version: str) -> list[Case]:
    """Versions with a band of diagonals."""
    attrs = [{"align": align} for align in ALIGNMENTS] if version == "V3" else [{}]
    x, cases = sample("float32", (2, 3, 4), 1), []

    def shown(k: Any) -> dict[str, Any]:
        if version == "V3" or not isinstance(k, list):
            return {}
        return {
            "grad": False,
            "note": "TensorFlow takes V3's padding in the gradients of V2: values in the wrong places",
        }

    for attr in attrs:
        cases += [
            case(f"MatrixDiagPart{version}", x, const(k), const(7.0), attrs=attr, **shown(k)) for k in BANDS
        ]
        for k, shape in ((0, (2, 3)), (1, (2, 3)), (-1, (2, 2)), ([-1, 1], (2, 3, 3)), ([1, 2], (2, 2, 3))):
            cases.append(
                case(
                    f"MatrixSetDiag{version}",
                    x,
                    sample("float32", shape, 2),
                    const(k),
                    attrs=attr,
                    **shown(k),
                )
            )
        for k, shape, rows, columns in (
            (0, (3,), -1, -1), (1, (2, 3), -1, -1), (-1, (2,), -1, -1), ([-1, 1], (3, 3), -1, -1), ([0, 1], (2, 2), 3, 2),
            ([-1, 0], (2, 3), 4, 3), (0, (2,), 2, 4), ([1, 2], (2, 2, 3), -1, -1),
        ):  # fmt: skip
            d = sample("float32", shape, 3)
            args = (const(k), const(rows), const(columns), const(0.5))
            cases.append(case(f"MatrixDiag{version}", d, *args, attrs=attr, **shown(k)))
    for name in ("float64", "int32", "complex64", "float16"):
        zero = const(np.zeros((), x.dtype if name == "float32" else np.asarray(sample(name, ())).dtype))
        cases += [
            case(f"MatrixDiagPart{version}", sample(name, (3, 4), 1), const([0, 1]), zero),
            case(f"MatrixSetDiag{version}", sample(name, (3, 4), 1), sample(name, (3,), 2), const(0)),
            case(f"MatrixDiag{version}", sample(name, (3,), 1), const(1), const(-1), const(-1), zero),
        ]
    cases += [
        case(f"MatrixDiagPart{version}", sample("float32", (0, 3)), const(0), const(0.0)),
        case(f"MatrixDiagPart{version}", unknown(x), [0, 1], 0.0),
        case(f"MatrixDiagPart{version}", x, [0], 0.0),
        case(f"MatrixDiagPart{version}", x, const([1, 0]), const(0.0), bad=True),
        case(f"MatrixDiagPart{version}", x, const(4), const(0.0), bad=True),
        case(f"MatrixDiagPart{version}", unknown(x), [-3], 0.0, bad=True),
        case(f"MatrixSetDiag{version}", unknown(x), sample("float32", (2, 3)), 0),
        case(f"MatrixSetDiag{version}", x, sample("float32", (2, 2)), const(0), bad=True),
        case(f"MatrixSetDiag{version}", unknown(x), unknown(sample("float32", (2, 2))), 0, bad=True),
        case(f"MatrixSetDiag{version}", x, sample("float32", (2, 2)), const(9), bad=True),
        case(f"MatrixDiag{version}", sample("float32", (2, 0)), const(0), const(-1), const(-1), const(0.0)),
        case(f"MatrixDiag{version}", unknown([1.0, 2.0]), 1, -1, -1, 0.0),
        case(f"MatrixDiag{version}", [1.0, 2.0], const(0), const(1), const(2), const(0.0), bad=True),
        case(f"MatrixDiag{version}", unknown([1.0, 2.0]), 0, 1, 2, 0.0, bad=True),
        case(f"MatrixDiag{version}", [1.0, 2.0], const(0), const(3), const(3), const(0.0), bad=True),
    ]
    return cases


IMAGE = sample("float32", (4, 4, 6, 2), 1)
BLOCKS = [
    *(
        case("SpaceToBatchND", sample(name, (2, 4, 6, 3)), const([2, 3]), const([[0, 0], [1, 2]]))
        for name in SOME
    ),
    *(
        case("SpaceToBatchND", sample("float32", shape), const(block), const(paddings))
        for shape, block, paddings in (
            ((2, 4), [2], [[0, 0]]),
            ((1, 3, 2), [3], [[2, 1]]),
            ((0, 4, 4), [2, 2], [[0, 0], [0, 0]]),
            ((1, 2, 2, 2), [1, 1, 1], [[0, 0]] * 3),
            ((2, 4, 5), [2, 1], [[1, 1], [0, 0]]),
        )
    ),
    case("SpaceToBatchND", IMAGE, [2, 2], [[0, 0], [1, 1]]),
    case("SpaceToBatchND", unknown(IMAGE), const([2, 2]), const([[0, 0], [1, 1]])),
    case("SpaceToBatchND", IMAGE, const([3, 2]), const([[0, 0], [0, 0]]), bad=True),
    case("SpaceToBatchND", unknown(IMAGE), [3, 2], [[0, 0], [0, 0]], bad=True),
    case("SpaceToBatchND", IMAGE, const([2, 0]), const([[0, 0], [0, 0]]), bad=True),
    case("SpaceToBatchND", IMAGE, const([2, 2]), const([[0, 0], [-2, 0]]), bad=True),
    *(
        case("BatchToSpaceND", sample(name, (12, 2, 3, 2)), const([2, 3]), const([[0, 1], [1, 2]]))
        for name in SOME
    ),
    *(
        case("BatchToSpaceND", sample("float32", shape), const(block), const(crops))
        for shape, block, crops in (
            ((2, 4), [2], [[0, 0]]),
            ((3, 3, 2), [3], [[2, 1]]),
            ((0, 4, 4), [2, 2], [[0, 0], [0, 0]]),
            ((1, 2, 2, 2), [1, 1, 1], [[0, 0]] * 3),
            ((2, 4, 5), [2, 1], [[1, 1], [0, 0]]),
        )
    ),
    case("BatchToSpaceND", IMAGE, [2, 2], [[0, 0], [1, 1]]),
    case("BatchToSpaceND", unknown(IMAGE), const([2, 2]), const([[0, 0], [1, 1]])),
    case("BatchToSpaceND", IMAGE, const([3, 1]), const([[0, 0], [0, 0]]), bad=True),
    case("BatchToSpaceND", unknown(IMAGE), [3, 1], [[0, 0], [0, 0]], bad=True),
    case("BatchToSpaceND", IMAGE, const([2, 2]), const([[9, 0], [0, 0]]), bad=True),
    *(
        case("SpaceToBatch", sample(name, (2, 4, 6, 3)), const([[0, 0], [1, 1]]), attrs={"block_size": 2})
        for name in ("float32", "float64", "float16", "int32")
    ),
    *(
        case("SpaceToBatch", sample("float32", shape), const(paddings), attrs={"block_size": size})
        for shape, paddings, size in (
            ((1, 3, 3, 1), [[0, 0], [0, 0]], 3),
            ((0, 2, 2, 1), [[0, 0], [0, 0]], 2),
            ((1, 2, 2, 1), [[1, 1], [1, 1]], 2),
            ((2, 4, 4, 2), [[0, 0], [2, 2]], 4),
        )
    ),
    case("SpaceToBatch", IMAGE, [[0, 0], [0, 0]], attrs={"block_size": 2}),
    case("SpaceToBatch", unknown(IMAGE), const([[0, 0], [0, 0]]), attrs={"block_size": 2}),
    case("SpaceToBatch", IMAGE, const([[0, 0], [0, 0]]), attrs={"block_size": 5}, bad=True),
    case("SpaceToBatch", IMAGE, const([[0, 0], [0, 0]]), attrs={"block_size": 1}, bad=True),
    case(
        "SpaceToBatch", sample("float32", (4, 4)), const([[0, 0], [0, 0]]), attrs={"block_size": 2}, bad=True
    ),
    *(
        case("BatchToSpace", sample(name, (8, 2, 3, 2)), const([[0, 0], [1, 1]]), attrs={"block_size": 2})
        for name in ("float32", "float64", "float16", "int32")
    ),
    *(
        case("BatchToSpace", sample("float32", shape), const(crops), attrs={"block_size": size})
        for shape, crops, size in (
            ((9, 3, 3, 1), [[0, 0], [0, 0]], 3),
            ((0, 2, 2, 1), [[0, 0], [0, 0]], 2),
            ((4, 2, 2, 1), [[1, 1], [1, 1]], 2),
            ((16, 1, 1, 2), [[0, 0], [2, 2]], 4),
        )
    ),
    case("BatchToSpace", IMAGE, [[0, 0], [0, 0]], attrs={"block_size": 2}),
    case("BatchToSpace", unknown(IMAGE), const([[0, 0], [0, 0]]), attrs={"block_size": 2}),
    case("BatchToSpace", IMAGE, const([[0, 0], [0, 0]]), attrs={"block_size": 3}, bad=True),
    case("BatchToSpace", IMAGE, const([[0, 0], [0, 0]]), attrs={"block_size": 1}, bad=True),
    case(
        "BatchToSpace", sample("float32", (4, 4)), const([[0, 0], [0, 0]]), attrs={"block_size": 2}, bad=True
    ),
    *(
        case(name, sample(dtype, (2, 4, 6, 8)), attrs={"block_size": 2})
        for name in ("SpaceToDepth", "DepthToSpace")
        for dtype in SOME
    ),
    *(
        case(name, sample("float32", shape), attrs={"block_size": size})
        for name, shape, size in (
            ("SpaceToDepth", (1, 3, 6, 1), 3),
            ("SpaceToDepth", (0, 2, 2, 1), 2),
            ("DepthToSpace", (1, 1, 2, 9), 3),
            ("DepthToSpace", (0, 2, 2, 4), 2),
        )
    ),
    *(
        case(name, unknown(sample("float32", (1, 2, 2, 4))), attrs={"block_size": 2})
        for name in ("SpaceToDepth", "DepthToSpace")
    ),
    *(
        case(name, sample("float32", (1, 3, 3, 3)), attrs={"block_size": 2}, bad=True)
        for name in ("SpaceToDepth", "DepthToSpace")
    ),
    *(
        case(name, sample("float32", (4, 4, 4)), attrs={"block_size": 2}, bad=True)
        for name in ("SpaceToDepth", "DepthToSpace")
    ),
    *(case(name, IMAGE, attrs={"block_size": 1}, bad=True) for name in ("SpaceToDepth", "DepthToSpace")),
]

X = sample("float32", (3, 4), 1)
ORDER = [
    *(case("Roll", sample(name, (3, 4)), const([1, -2]), const([0, 1])) for name in (*SOME, "string")),
    *(
        case("Roll", sample("float32", shape), const(shift), const(axis))
        for shape, shift, axis in (
            ((5,), 2, 0),
            ((5,), -7, -1),
            ((0, 3), 1, 0),
            ((3, 4), [1, 1, 1], [0, 0, 1]),
            ((2, 3, 2), [0], [1]),
            ((2, 0), 1, 1),
        )
    ),
    case("Roll", X, 1, 0),
    case("Roll", X, [1], [1]),
    case("Roll", unknown(X), const(1), const(0)),
    case("Roll", X, const(1), const(2), bad=True),
    case("Roll", X, const([1, 2]), const([0]), bad=True),
    case("Roll", 1.0, const(1), const(0), bad=True),
    *(case("Reverse", sample(name, (2, 3)), const([True, False])) for name in plain_dtypes("Reverse")),
    *(
        case("Reverse", sample("float32", shape), const(np.array(mask, bool)))
        for shape, mask in (((), []), ((3,), [True]), ((2, 3, 2), [False, False, True]))
    ),
    case(
        "Reverse",
        sample("float32", (0, 2)),
        const([True, True]),
        differs="TensorFlow has no kernel for an empty one",
    ),
    case("Reverse", X, [True, True]),
    case("Reverse", unknown(X), [True, True]),
    case("Reverse", X, const([True]), bad=True),
    case("Reverse", unknown(X), [True], bad=True),
    *(
        case("ReverseSequence", sample(name, (3, 4)), const([2, 0, 4], "int64"), attrs={"seq_dim": 1})
        for name in (*SOME, "string")
    ),
    *(
        case(
            "ReverseSequence",
            sample("float32", shape),
            const(lengths),
            attrs={"seq_dim": along, "batch_dim": across},
        )
        for shape, lengths, along, across in (
            ((4, 3), [2, 0, 4], 0, 1),
            ((2, 3, 4), [1, 3], 1, 0),
            ((2, 3, 4), [1, 2, 2, 0], 0, 2),
            ((0, 3), np.zeros(0, np.int32), 1, 0),
            ((2, 0), [0, 0], 1, 0),
        )
    ),
    case("ReverseSequence", X, [1, 2, 3], attrs={"seq_dim": 1}),
    case("ReverseSequence", unknown(X), [1, 2, 3], attrs={"seq_dim": 1}),
    case("ReverseSequence", X, const([1, 2, 5]), attrs={"seq_dim": 1}, bad=True),
    case("ReverseSequence", X, const([1, 2, -1]), attrs={"seq_dim": 1}, bad=True),
    case("ReverseSequence", X, const([1, 2]), attrs={"seq_dim": 1}, bad=True),
    case("ReverseSequence", X, const([1, 2, 3]), attrs={"seq_dim": 2}, bad=True),
    case("ReverseSequence", X, const([1, 2, 3]), attrs={"seq_dim": 0}, bad=True),
]

BYTES = [
    *(
        case("Bitcast", sample(name, (2, 2)), attrs={"type": "uint8"}, grad=False)
        for name in plain_dtypes("Bitcast")
    ),
    *(
        case("Bitcast", sample(name, (3, 2), whole=True), attrs={"type": wanted}, grad=False)
        for name, wanted in (
            ("float32", "int32"),
            ("int32", "float32"),
            ("float32", "float64"),
            ("float64", "float32"),
            ("uint8", "int16"),
            ("int64", "complex64"),
            ("complex64", "int64"),
            ("float32", "complex64"),
            ("float16", "bfloat16"),
        )
    ),
    *(
        case("Bitcast", sample("float32", shape), attrs={"type": "int32"}, grad=False)
        for shape in ((), (0,), (2, 0))
    ),
    case("Bitcast", 1.0, attrs={"type": "uint8"}, grad=False),
    case("Bitcast", sample("uint8", (0, 4)), attrs={"type": "float32"}),
    case("Bitcast", unknown([1.0]), attrs={"type": "uint8"}, grad=False),
    case("Bitcast", [1.0, 2.0, 3.0], attrs={"type": "float64"}, bad=True),
    case("Bitcast", unknown([1.0, 2.0, 3.0]), attrs={"type": "float64"}, bad=True),
    case("Bitcast", [True], attrs={"type": "uint8"}, bad=True),
]

COPY = node("DeepCopy", X)
"""TensorFlow updates even what is fed in place."""

ROWS = [
    *(
        case(
            f"Inplace{name}",
            node("DeepCopy", sample(dtype, (4, 2))),
            [3, 0],
            sample(dtype, (2, 2), 1),
            grad=False,
        )
        for name in ("Update", "Add", "Sub")
        for dtype in ("float32", "float64", "int32", "int64")
    ),
    *(
        case(f"Inplace{name}", COPY, rows, sample("float32", (len(rows), 4), 1), grad=False)
        for name in ("Update", "Add", "Sub")
        for rows in ([1], [0, 1, 2], [-1], [2, 1])
    ),
    *(
        case(f"Inplace{name}", unknown(X), unknown([1]), sample("float32", (1, 4)), grad=False)
        for name in ("Update", "Add", "Sub")
    ),
    *(
        case(f"Inplace{name}", X, rows, sample("float32", shape, 1), bad=True)
        for name in ("Update", "Add", "Sub")
        for rows, shape in (([1], (2, 4)), ([0, 1], (2, 3)), ([[1]], (1, 4)))
    ),
    *(
        case("DeepCopy", sample(name, (2, 3)), grad=False)
        for name in ("float32", "float64", "int32", "int64", "bool", "float16")
    ),
    *(
        case("DeepCopy", sample("float32", shape), grad=False)
        for shape in ((), (0,), (3,), (2, 0, 3), (1, 2))
    ),
    case("DeepCopy", unknown(X), grad=False),
    *(
        case("Empty", const(shape), attrs={"dtype": "float32", "init": True})
        for shape in ([2, 3], np.zeros(0, np.int32), [0], [2, 0, 3], [5])
    ),
    *(
        case("Empty", const([2, 2]), attrs={"dtype": name, "init": True})
        for name in ("float64", "int32", "int64", "bool", "complex64")
    ),
    case("Empty", [2, 3], attrs={"dtype": "float32", "init": True}),
    case("Empty", unknown([2, 3]), attrs={"dtype": "float32", "init": True}),
    case("Empty", const([2, -3]), attrs={"dtype": "float32", "init": True}, bad=True),
    case("Empty", [2, -3], attrs={"dtype": "float32", "init": True}, bad=True),
]

CASES: list[Case] = [*DIAGONALS, *banded("V2"), *banded("V3"), *BLOCKS, *ORDER, *BYTES, *ROWS]
