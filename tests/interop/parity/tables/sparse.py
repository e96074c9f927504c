"""Sparse tensors: made dense, ordered, cut, joined, multiplied, reduced."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import sample
from tests.interop.parity.table import Case, case, const, unknown


def places(*rows: Any, rank: int = 2, dtype: Any = np.int64) -> Any:
    return np.array(rows, dtype).reshape(-1, rank)


PLACES = places([0, 1], [1, 0], [1, 2])
J = places([0, 1], [2, 2])
S = np.array([3, 3])
V = np.array([1.0, 2.0, -3.0], np.float32)
W = np.array([-1.0, 5.0], np.float32)
NONE = (places(), np.zeros(0, np.float32), S)
A, B = (PLACES, V, S), (J, W, S)
DENSE = sample("float32", (3, 3), 4)
SOME = ("float32", "float64", "int32", "int64", "complex64", "float16", "bfloat16")


def typed(name: str) -> tuple[Any, Any, Any]:
    return PLACES, sample(name, (3,), 5), S


def constants(parts: Any) -> tuple[Any, ...]:
    return tuple(map(const, parts))


def unknowns(parts: Any) -> tuple[Any, ...]:
    return tuple(map(unknown, parts))


WRONG = (
    (PLACES, V[:2], S),
    (PLACES, V, np.array([3, 3, 3])),
    (PLACES[0], V, S),
    (PLACES, V, np.array([3, -3])),
)

TO_DENSE = [
    *(
        case("SparseToDense", PLACES, const(S), sample(name, (3,), 1), sample(name, (), 2))
        for name in (*SOME, "string", "bool", "uint8")
    ),
    case("SparseToDense", PLACES.astype(np.int32), const(S.astype(np.int32)), V, 0.0),
    case("SparseToDense", PLACES, S, V, 9.0),
    case("SparseToDense", unknown(PLACES), unknown(S), unknown(V), unknown(1.0)),
    case("SparseToDense", np.array([1, 3]), np.array([4]), 7.0, 0.0),
    case("SparseToDense", np.int64(1), np.array([4]), 7.0, 0.0, grad=False),
    case("SparseToDense", places(), const(S), NONE[1], 2.0),
    case("SparseToDense", places([1, 0], [0, 1]), S, [1.0, 2.0], 0.0, attrs={"validate_indices": False}),
    case(
        "SparseToDense",
        places([0, 0], [0, 0]),
        S,
        [1.0, 2.0],
        0.0,
        attrs={"validate_indices": False},
        grad=False,
    ),
    *(
        case("SparseToDense", unknown(at), unknown(shape), unknown(values), 0.0, bad=True)
        for at, shape, values in (
            (places([1, 0], [0, 1]), S, [1.0, 2.0]),
            (places([0, 0], [0, 0]), S, [1.0, 2.0]),
            (places([0, 3]), S, [1.0]),
            (places([0, -1]), S, [1.0]),
            (PLACES, np.array([3]), V),
            (PLACES, S, V[:2]),
            (PLACES, np.array([3, -3]), V),
            (PLACES, np.array([[3, 3]]), V),
        )
    ),
]

ORDER = [
    *(case("SparseReorder", PLACES[::-1], sample(name, (3,)), S) for name in (*SOME, "string", "bool")),
    case("SparseReorder", places([1, 2], [0, 1], [1, 0], [0, 1]), [1.0, 2.0, 3.0, 4.0], S),
    case("SparseReorder", *NONE),
    case("SparseReorder", *unknowns(A)),
    *(case("SparseReorder", *unknowns(parts), bad=True) for parts in WRONG[:3]),
    *(
        case("SparseReshape", PLACES, S, const(np.array(new)))
        for new in ([9], [-1, 1], [3, 3], [1, 9, 1], [3, -1], [1, 1, -1, 3])
    ),
    case("SparseReshape", PLACES, S, np.array([9])),
    case("SparseReshape", *unknowns((PLACES, S, np.array([9])))),
    case("SparseReshape", places(), np.array([0, 3]), np.array([0])),
    case("SparseReshape", places(), np.array([2, 3]), np.array([3, 2])),
    *(
        case("SparseReshape", *unknowns((at, shape, np.array(new))), bad=True)
        for at, shape, new in (
            (PLACES, S, [2, 2]),
            (PLACES, S, [-1, -1]),
            (PLACES, S, [2, -1]),
            (PLACES, S, [-2, 4]),
            (places(), np.array([0, 3]), [-1, 0]),
            (PLACES, np.array([9]), [9]),
            (PLACES[0], S, [9]),
        )
    ),
]

JOINED = [
    *(
        case(
            "SparseConcat",
            [PLACES, J],
            [sample(name, (3,)), sample(name, (2,))],
            [S, S],
            attrs={"concat_dim": axis},
        )
        for name in ("float32", "int64", "string", "bool")
        for axis in (0, 1, -1)
    ),
    case("SparseConcat", [PLACES, PLACES], [V, V], [S, np.array([3, 4])], attrs={"concat_dim": 1}),
    case("SparseConcat", [PLACES, places()], [V, NONE[1]], [S, S], attrs={"concat_dim": 0}),
    case(
        "SparseConcat", [unknown(PLACES), PLACES], [unknown(V), V], [S, unknown(S)], attrs={"concat_dim": 0}
    ),
    *(
        case(
            "SparseConcat",
            [unknown(PLACES), unknown(at)],
            [V, V],
            [S, unknown(shape)],
            attrs={"concat_dim": axis},
            bad=True,
        )
        for at, shape, axis in (
            (PLACES, np.array([3, 4]), 0),
            (PLACES, S, 2),
            (PLACES, S, -3),
            (places([0] * 3, [1] * 3, [2] * 3, rank=3), np.array([3, 3, 3]), 0),
        )
    ),
    *(
        case("SparseSplit", const(np.int64(axis)), *typed(name), attrs={"num_split": parts})
        for axis in (0, 1, -1)
        for parts in (1, 2, 3)
        for name in ("float32", "string")
    ),
    case("SparseSplit", np.int64(0), *unknowns(A), attrs={"num_split": 2}),
    case("SparseSplit", np.int64(0), *NONE, attrs={"num_split": 2}),
    *(
        case("SparseSplit", unknown(np.int64(axis)), *unknowns(A), attrs={"num_split": n}, bad=True)
        for axis, n in ((0, 4), (2, 1), (-3, 1))
    ),
    *(
        case("SparseSlice", *typed(name), np.array(start), np.array(size))
        for name in ("float32", "int64", "string", "complex64")
        for start, size in (([0, 1], [2, 9]), ([0, 0], [3, 3]), ([1, 0], [1, 1]), ([5, 1], [2, 9]))
    ),
    case("SparseSlice", *unknowns(A), np.array([0, 1]), np.array([2, 2])),
    case("SparseSlice", *NONE, np.array([0, 1]), np.array([2, 2])),
    *(
        case("SparseSlice", *unknowns(A), unknown(np.array(b)), unknown(np.array(n)), bad=True)
        for b, n in (([0], [2, 2]), ([0, 0], [2]))
    ),
    *(
        case("SparseSliceGrad", sample(name, (2,)), PLACES, np.array([0, 1]), places([0, 0], [1, 1]))
        for name in ("float32", "float64", "int32", "complex64", "float16", "int8", "uint8", "int16", "int64")
    ),
    case(
        "SparseSliceGrad",
        unknown(W),
        unknown(PLACES),
        unknown(np.array([0, 1])),
        unknown(places([0, 0], [1, 1])),
    ),
    case("SparseSliceGrad", NONE[1], PLACES, np.array([0, 1]), places()),
    case(
        "SparseSliceGrad",
        unknown(W),
        unknown(PLACES),
        unknown(np.array([0])),
        unknown(places([0, 0], [1, 1])),
        bad=True,
    ),
]

PRODUCTS = [
    *(
        case(
            "SparseTensorDenseMatMul",
            *typed(name),
            sample(name, (3, 2) if not flip_b else (2, 3), 1),
            attrs={"adjoint_a": flip_a, "adjoint_b": flip_b},
        )
        for name in ("float32", "float64", "int32", "complex64", "complex128", "bfloat16")
        for flip_a in (False, True)
        for flip_b in (False, True)
    ),
    case("SparseTensorDenseMatMul", PLACES.astype(np.int32), V, S, DENSE),
    case("SparseTensorDenseMatMul", PLACES, V, const(np.array([2, 3])), DENSE),
    case("SparseTensorDenseMatMul", *unknowns(A), unknown(DENSE)),
    case("SparseTensorDenseMatMul", *NONE, DENSE),
    case("SparseTensorDenseMatMul", PLACES, V, S, np.zeros((3, 0), np.float32)),
    *(
        case("SparseTensorDenseMatMul", *unknowns(parts), unknown(b), bad=True)
        for parts, b in (
            (A, np.ones((4, 2))),
            ((places([3, 0]), V[:1], S), DENSE),
            ((places([0, 3]), V[:1], S), DENSE),
            ((PLACES, V[:2], S), DENSE),
            (A, np.ones(3)),
        )
    ),
]

WITH_DENSE = [
    *(
        case(
            f"SparseDenseCwise{op}",
            *typed(name),
            sample(name, shape, 2, low=1.0),
            grad=op != "Add" and shape != (),
        )
        for op in ("Add", "Mul", "Div")
        for name in ("float32", "float64", "int32", "int64", "complex64")
        for shape in ((3, 3), (3,), (3, 1), ())
    ),
    *(
        case(f"SparseDenseCwise{op}", *unknowns(A), unknown(DENSE), grad=False)
        for op in ("Add", "Mul", "Div")
    ),
    *(case(f"SparseDenseCwise{op}", *NONE, DENSE, grad=False) for op in ("Add", "Mul", "Div")),
    *(
        case(f"SparseDenseCwise{op}", *unknowns(A), unknown(np.ones(shape)), bad=True)
        for op in ("Add", "Mul", "Div")
        for shape in ((2,), (2, 3, 3), (3, 2))
    ),
    *(case("SparseTensorDenseAdd", *typed(name), sample(name, (3, 3), 2)) for name in SOME),
    *(
        case("SparseTensorDenseAdd", PLACES.astype(name), V, S.astype(name), DENSE)
        for name in ("int32", "int64")
    ),
    case("SparseTensorDenseAdd", *unknowns(A), unknown(DENSE)),
    case("SparseTensorDenseAdd", *NONE, DENSE),
    *(
        case("SparseTensorDenseAdd", *unknowns(A), unknown(np.ones(shape)), bad=True)
        for shape in ((3,), (3, 4), (1, 3, 3))
    ),
    case("SparseTensorDenseAdd", *unknowns((places([0, 3]), V[:1], S)), unknown(DENSE), bad=True),
]

PAIRS = [
    *(
        case(
            "SparseAdd",
            *typed(name),
            J,
            sample(name, (2,), 2),
            S,
            np.array(0, {"complex64": "float32"}.get(name, name)),
        )
        for name in ("float32", "float64", "int32", "int64", "complex64")
    ),
    *(case("SparseAdd", *A, *B, np.float32(limit)) for limit in (0.0, 0.5, 2.5)),
    case("SparseAdd", *A, *NONE, 0.0),
    case("SparseAdd", *NONE, *NONE, 0.0),
    case("SparseAdd", *unknowns(A), *unknowns(B), unknown(0.0)),
    *(
        case("SparseAdd", *unknowns(A), *unknowns(parts), 0.0, bad=True)
        for parts in ((J, W, np.array([3, 4])), (places([0], rank=1), W[:1], np.array([3])), (J, W[:1], S))
    ),
    *(
        case("SparseAddGrad", sample(name, (4,)), PLACES, J, places([0, 1], [1, 0], [1, 2], [2, 2]))
        for name in ("float32", "float64", "int32", "complex64", "int64")
    ),
    case("SparseAddGrad", unknown(V), unknown(PLACES), unknown(J), unknown(PLACES)),
    case("SparseAddGrad", NONE[1], places(), places(), places()),
    case("SparseAddGrad", unknown(W), unknown(PLACES), unknown(J), unknown(PLACES), bad=True),
    *(
        case(f"SparseSparse{op}", *typed(name), J, sample(name, (2,), 2), S, grad=False)
        for op in ("Maximum", "Minimum")
        for name in ("float32", "float64", "int32", "int64", "uint8", "int8", "int16")
    ),
    *(case(f"SparseSparse{op}", *unknowns(A), *unknowns(B), grad=False) for op in ("Maximum", "Minimum")),
    *(case(f"SparseSparse{op}", *A, *NONE, grad=False) for op in ("Maximum", "Minimum")),
    *(
        case(f"SparseSparse{op}", *unknowns(A), *unknowns((J, W, np.array([3, 4]))), bad=True)
        for op in ("Maximum", "Minimum")
    ),
]

AXES: Any = ([0], [1], [-1], [0, 1], [])
REDUCTIONS = [
    *(
        case(
            f"SparseReduce{op}{kind}",
            *typed(name),
            const(np.array(axes, np.int32)),
            attrs={"keep_dims": keeps},
            grad=not keeps,
        )
        for op in ("Sum", "Max")
        for kind in ("", "Sparse")
        for name in ("float32", "int32")
        for axes in AXES
        for keeps in (False, True)
    ),
    *(case(f"SparseReduce{op}", PLACES, V, const(S), const([1])) for op in ("Sum", "Max")),
    *(
        case(f"SparseReduce{op}{kind}", *unknowns(A), unknown(np.array([1], np.int32)), grad=False)
        for op in ("Sum", "Max")
        for kind in ("", "Sparse")
    ),
    *(
        case(f"SparseReduce{op}{kind}", *NONE, const([1]), grad=False)
        for op in ("Sum", "Max")
        for kind in ("", "Sparse")
    ),
    *(
        case(f"SparseReduce{op}{kind}", *unknowns(A), unknown(np.array([axis], np.int32)), bad=True)
        for op in ("Sum", "Max")
        for kind in ("", "Sparse")
        for axis in (2, -3)
    ),
]

FILLS = (places([1, 0], [0, 1]), np.array([1.0, 2.0], np.float32), np.array([4, 2]))
ROWS = [
    *(
        case("SparseFillEmptyRows", FILLS[0], sample(name, (2,)), FILLS[2], sample(name, (), 3))
        for name in (*SOME, "string", "bool")
    ),
    case("SparseFillEmptyRows", *A, 9.0),
    case("SparseFillEmptyRows", *constants(FILLS), 9.0),
    case("SparseFillEmptyRows", *unknowns(FILLS), unknown(9.0)),
    case("SparseFillEmptyRows", *NONE, 9.0),
    case("SparseFillEmptyRows", places(), NONE[1], np.array([0, 2]), 9.0, grad=False),
    *(
        case("SparseFillEmptyRows", *unknowns((places(at), V[:1], S)), 9.0, bad=True)
        for at in ([4, 0], [-1, 0])
    ),
    case("SparseFillEmptyRows", *unknowns(A), unknown([1.0]), bad=True),
    *(case("SparseFillEmptyRowsGrad", np.array([1, 0]), sample(name, (4,))) for name in SOME),
    case("SparseFillEmptyRowsGrad", unknown(np.array([1, 0])), unknown(V)),
    case("SparseFillEmptyRowsGrad", np.zeros(0, np.int64), V),
    *(case("SparseFillEmptyRowsGrad", unknown(np.array([at])), unknown(V), bad=True) for at in (3, -1)),
    case("SparseFillEmptyRowsGrad", unknown(np.array([[0]])), unknown(V), bad=True),
    *(
        case("SparseSoftmax", *typed(name), grad=name != "float16")
        for name in ("float32", "float64", "float16")
    ),
    case("SparseSoftmax", places([0, 0, 0], [0, 0, 2], [1, 1, 0], rank=3), V, np.array([2, 2, 3])),
    case("SparseSoftmax", *unknowns(A)),
    case("SparseSoftmax", *NONE, grad=False),
    case("SparseSoftmax", PLACES, np.array([1e4, -1e4, 0.0], np.float32), S),
    *(
        case("SparseSoftmax", *unknowns(parts), bad=True)
        for parts in ((places([0], rank=1), V[:1], np.array([3])), (PLACES, V[:2], S))
    ),
]

CASES: list[Case] = [*TO_DENSE, *ORDER, *JOINED, *PRODUCTS, *WITH_DENSE, *PAIRS, *REDUCTIONS, *ROWS]
