"""Rows by index: gather, scatter, partition, stitch, one-hot."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool", "string")
X = sample("float32", (2, 3, 4), 1)
Y = sample("float32", (3, 4), 2)
NONE = np.zeros(0, np.int32)


ROWS = [
    *(case("Gather", sample(name, (4, 2)), [3, 0, 3]) for name in SOME),
    *(
        case("Gather", sample("float32", shape), const(indices, "int64"))
        for shape, indices in (((3,), 1), ((3, 2), [[0, 2], [1, 1]]), ((3, 0), [1]), ((2, 2), NONE))
    ),
    case("Gather", unknown(Y), [1]),
    case("Gather", Y, unknown([1])),
    *(case("Gather", Y, indices, bad=True) for indices in ([3], [-1])),
    case("Gather", 1.0, [0], bad=True),
    *(case("GatherV2", sample(name, (4, 2)), [3, 0, 3], const(0)) for name in SOME),
    *(
        case(
            "GatherV2",
            sample("float32", shape),
            const(indices),
            const(axis),
            attrs={"batch_dims": batch},
            grad=not batch,
        )
        for shape, indices, axis, batch in (
            ((3, 4), [1, 1], 1, 0),
            ((3, 4), 2, -1, 0),
            ((2, 3, 4), [[0], [2]], 1, 1),
            ((2, 3, 4), [[0, 1], [3, 2]], 2, 1),
            ((2, 3), [[0, 1], [2, 2]], 1, -1),
            ((0, 3), [2, 1], 1, 0),
            ((2, 3, 2), [[1, 0], [0, 0]], 1, 0),
        )
    ),
    case("GatherV2", Y, [1], 1),
    case("GatherV2", unknown(Y), [1], const(0)),
    case("GatherV2", Y, unknown([1]), const(1), grad=False),
    *(
        case("GatherV2", Y, const(indices), const(axis), bad=True)
        for indices, axis in (([3], 0), ([-1], 0), ([0], 2), ([0], -3))
    ),
    case("GatherV2", X, const([[0, 1]]), const(1), attrs={"batch_dims": 1}, bad=True),
    *(case("GatherNd", sample(name, (3, 4)), [[0, 1], [2, 3]]) for name in SOME),
    *(
        case("GatherNd", sample("float32", shape), const(indices))
        for shape, indices in (
            ((3, 4), [[1], [0]]),
            ((3,), np.zeros((0, 1), np.int32)),
            ((2, 3, 2), [[[0, 1]], [[1, 2]]]),
        )
    ),
    *(
        case(
            "GatherNd",
            sample("float32", shape),
            const(indices),
            grad=False,
            note="TensorFlow's gradient fails",
        )
        for shape, indices in (((3, 4), [1]), ((3, 4), [1, 2]), ((2, 3), np.zeros((2, 0), np.int32)))
    ),
    case("GatherNd", unknown(Y), [[1]]),
    case("GatherNd", Y, unknown([[1]])),
    case("GatherNd", unknown(Y), unknown(1), bad=True),
    *(case("GatherNd", Y, indices, bad=True) for indices in ([[3]], [[0, -1]])),
    case("GatherNd", Y, const([[0, 1, 2]]), bad=True),
    *(
        case("ScatterNd", [[0], [2], [0]], sample(name, (3, 2)), const([3, 2]))
        for name in SOME
        if name not in ("string", "bool")
    ),
    *(
        case("ScatterNd", const(indices), sample("float32", updates), const(shape))
        for indices, updates, shape in (
            ([[0, 1]], (1,), [2, 2]),
            ([[1]], (1, 2), [3, 2]),
            (np.zeros((0, 1), np.int32), (0, 2), [3, 2]),
            ([[[0], [1]]], (1, 2), [2]),
        )
    ),
    case("ScatterNd", [[0]], [1.0], [3]),
    case("ScatterNd", unknown([[0]]), [1.0], const([3])),
    *(
        case("ScatterNd", indices, sample("float32", updates), const(shape), bad=True)
        for indices, updates, shape in (
            ([[3]], (1,), [3]),
            ([[-1]], (1,), [3]),
            ([[0]], (2,), [3]),
            ([[0, 0]], (1,), [3]),
        )
    ),
    case("ScatterNd", [[0]], [1.0], const([-3]), bad=True),
    *(case("Where", sample(name, (3, 4))) for name in plain_dtypes("Where") if name != "float16"),
    *(case("Where", sample("bool", shape)) for shape in ((5,), (0,), (2, 0), (2, 3, 2))),
    case("Where", True, bad=True),
    case("Where", unknown([True, False])),
    *(
        case("DynamicPartition", sample(name, (4, 2)), [1, 0, 1, 2], attrs={"num_partitions": 3})
        for name in SOME
    ),
    *(
        case("DynamicPartition", sample("float32", shape), const(parts), attrs={"num_partitions": 2})
        for shape, parts in (((2, 2), [[0, 1], [1, 0]]), ((0,), NONE), ((3,), [0, 0, 0]))
    ),
    case("DynamicPartition", unknown(Y), [0, 1, 0], attrs={"num_partitions": 2}),
    *(
        case("DynamicPartition", Y, parts, attrs={"num_partitions": 2}, bad=True)
        for parts in ([0, 2, 0], [0, -1, 0], [0, 1])
    ),
    *(
        case(op, [[0, 2], [1]], [sample(name, (2, 2)), sample(name, (1, 2), 1)])
        for op in ("DynamicStitch", "ParallelDynamicStitch")
        for name in SOME
    ),
    *(
        case(op, [const(i) for i in indices], [sample("float32", s, k) for k, s in enumerate(data)])
        for op in ("DynamicStitch", "ParallelDynamicStitch")
        for indices, data in (
            (([0], [1]), ((1,), (1,))),
            (([[0, 1], [2, 3]], 4), ((2, 2, 3), (3,))),
            ((NONE, [0]), ((0, 2), (1, 2))),
        )
    ),
    *(case(op, [unknown([0]), [1]], [[1.0], [2.0]]) for op in ("DynamicStitch", "ParallelDynamicStitch")),
    *(
        case(op, indices, data, bad=True)
        for op in ("DynamicStitch", "ParallelDynamicStitch")
        for indices, data in (([[0], [1]], [[1.0], [2.0, 3.0]]), ([[-1]], [[1.0]]))
    ),
    *(
        case("InvertPermutation", const(perm, name))
        for name in ("int32", "int64")
        for perm in ([0], [2, 0, 1], [1, 0], NONE, [3, 2, 1, 0])
    ),
    case("InvertPermutation", [1, 0]),
    case("InvertPermutation", unknown([1, 0])),
    *(case("InvertPermutation", perm, bad=True) for perm in ([0, 0], [1, 2], [-1, 0])),
    *(
        case("OneHot", [0, 2, -1], const(3), sample(name, (), 1), sample(name, (), 2), attrs={"axis": axis})
        for name in SOME
        for axis in (-1,)
    ),
    *(
        case("OneHot", const(indices), const(depth), 1.0, 0.0, attrs={"axis": axis})
        for indices, depth, axis in (
            (1, 3, -1),
            ([[0, 1], [2, 5]], 3, 0),
            ([[0, 1], [2, 5]], 3, 1),
            (NONE, 2, -1),
            ([0], 0, 0),
        )
    ),
    case("OneHot", [1], 3, 1.0, 0.0),
    case("OneHot", unknown([1]), const(3), 1.0, 0.0),
    case("OneHot", const([1], "uint8"), const(2), 1.0, 0.0),
    *(
        case("OneHot", [1], const(depth), 1.0, 0.0, attrs={"axis": axis}, bad=True)
        for depth, axis in ((-1, -1), (2, 2))
    ),
]

CASES: list[Case] = [*ROWS]
