"""Ops that make tensors, shapes as values, identities."""

from __future__ import annotations

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, plain_dtypes, sample
from tests.interop.parity.table import Case, case, const, unknown

SOME = (*FLOATS, *COMPLEX, "int32", "int64", "uint8", "bool", "string")
Y = sample("float32", (3, 4), 2)
NONE = np.zeros(0, np.int32)


MADE = [
    *(case("Fill", const([2, 3]), sample(name, (), 3)) for name in SOME),
    *(case("Fill", const(shape), 1.5) for shape in (NONE, [0], [2, 0, 3])),
    case("Fill", [2, 3], 1.5),
    case("Fill", unknown([2, 3]), 1.5),
    case("Fill", const([2], "int64"), 1.5),
    case("Fill", const([-2]), 1.5, bad=True),
    case("Fill", [-2], 1.5, bad=True),
    case("Fill", const([2]), [1.5], bad=True),
    *(case("ZerosLike", sample(name, (2, 3))) for name in SOME),
    *(case("ZerosLike", sample("float32", shape)) for shape in ((), (0,), (2, 0, 3))),
    case("ZerosLike", unknown(Y)),
    *(case("OnesLike", sample(name, (2, 3))) for name in SOME if name != "string"),
    *(case("OnesLike", sample("float32", shape)) for shape in ((), (0,), (2, 0, 3))),
    case("OnesLike", unknown(Y)),
    case("OnesLike", np.array([b"a"], object), bad=True),
    *(
        case("Range", *(const(v, name) for v in (1, 9, 3)))
        for name in plain_dtypes("Range", "Tidx")
        if name != "float16"
    ),
    *(
        case("Range", *map(const, bounds))
        for bounds in ((0, 5, 1), (5, 0, -2), (0, 0, 1), (0.5, 2.0, 0.25), (1.0, 0.0, -0.3), (0.0, 1.0, 0.1))
    ),
    case("Range", 0, 4, 1),
    case("Range", unknown(0), 4, 1),
    *(case("Range", *map(const, bounds), bad=True) for bounds in ((0, 5, 0), (5, 0, 1), (0, 5, -1))),
    case("Range", 0, 5, 0, bad=True),
    case("Range", const([0]), const(5), const(1), bad=True),
    *(
        case(
            "LinSpace",
            np.asarray(0.5).astype(sample(name, ()).dtype),
            np.asarray(3).astype(sample(name, ()).dtype),
            const(5),
        )
        for name in FLOATS
    ),
    *(
        case("LinSpace", *bounds, const(count))
        for bounds, count in (((0.0, 1.0), 1), ((1.0, 0.0), 3), ((2.0, 2.0), 2), ((0.0, 10.0), 11))
    ),
    case("LinSpace", 0.0, 1.0, 4),
    case("LinSpace", unknown(0.0), 1.0, const(4)),
    case("LinSpace", 0.0, 1.0, const(3, "int64")),
    *(case("LinSpace", 0.0, 1.0, const(count), bad=True) for count in (0, -1)),
    case("LinSpace", 0.0, 1.0, 0, bad=True),
    case("LinSpace", const([0.0]), 1.0, const(2), bad=True),
    *(case(op, sample(name, (2, 3))) for op in ("Shape", "Size", "Rank") for name in SOME),
    *(
        case(op, sample("float32", shape))
        for op in ("Shape", "Size", "Rank")
        for shape in ((), (0,), (2, 0, 3))
    ),
    *(case(op, unknown(Y)) for op in ("Shape", "Size", "Rank")),
    *(case(op, Y, attrs={"out_type": "int64"}) for op in ("Shape", "Size")),
    *(case("ShapeN", [sample(name, (2, 3)), sample(name, ())]) for name in SOME),
    case("ShapeN", [Y, Y], attrs={"out_type": "int64"}),
    case("ShapeN", [unknown(Y)]),
    *(
        case("BroadcastArgs", const(a), const(b))
        for a, b in (([2, 3], [3]), ([1], [4]), (NONE, [2]), ([2, 1], [1, 3]), ([0], [1]), ([2], [2]))
    ),
    *(
        case("BroadcastArgs", a, b)
        for a, b in (
            ([2, 3], [3]),
            ([1], [4]),
            (unknown([2, 1]), [3]),
            (np.array([2, 1], np.int64), np.array([3], np.int64)),
        )
    ),
    *(case("BroadcastArgs", a, b, bad=True) for a, b in (([2], [3]), ([2, 3], [2, 2]))),
    *(
        case("BroadcastGradientArgs", np.array(a, np.int32), np.array(b, np.int32))
        for a, b in (([2, 3], [3]), ([1], [4]), (NONE, [2]), ([2, 1], [1, 3]), ([0], [1]), ([2], [2]))
    ),
    *(
        case("BroadcastGradientArgs", a, b)
        for a, b in (
            ([2, 3], [3]),
            ([1], [4]),
            (unknown([2, 1]), [3]),
            (np.array([2, 1], np.int64), np.array([3], np.int64)),
        )
    ),
    *(case("BroadcastGradientArgs", a, b, bad=True) for a, b in (([2], [3]), ([2, 3], [2, 2]))),
    *(
        case(op, sample(name, (2, 3)))
        for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient")
        for name in SOME
        if op != "PreventGradient" or not name.startswith(("float", "bfloat", "complex"))
    ),
    *(case("PreventGradient", sample(name, (2, 3)), grad=False) for name in (*FLOATS, *COMPLEX)),
    *(
        case(op, sample("float32", shape), grad=op != "PreventGradient")
        for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient")
        for shape in ((), (0,), (2, 0, 3))
    ),
    *(
        case(op, unknown(Y), grad=op != "PreventGradient")
        for op in ("Identity", "StopGradient", "Snapshot", "PreventGradient")
    ),
    *(case("EnsureShape", sample(name, (2, 3)), attrs={"shape": (None, 3)}) for name in SOME),
    *(
        case("EnsureShape", unknown(Y), attrs={"shape": shape})
        for shape in (None, (None,) * np.ndim(Y), np.shape(Y))
    ),
    *(
        case("EnsureShape", given, attrs={"shape": shape}, bad=True)
        for given in (sample("float32", (2, 3)), unknown(sample("float32", (2, 3))))
        for shape in ((2,), (None, 4), (2, 3, 1))
    ),
    *(case("IdentityN", [sample(name, (2, 3)), sample("int32", ())]) for name in SOME),
    case("IdentityN", [unknown(Y)]),
    case("IdentityN", [Y, Y, Y]),
]

CASES: list[Case] = [*MADE]
