"""Operations on sets, dense and sparse."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.interop.parity.table import Case, case, unknown

A = np.array([[3, 1, 3], [2, 2, 5]])
B = np.array([[1, 4], [5, 2]])
PLACES = np.array([[0, 0], [0, 2], [1, 1]])
ONE = (PLACES, np.array([3, 1, 2]), np.array([2, 3]))
OTHER = (np.array([[0, 0], [0, 1], [1, 0]]), np.array([1, 1, 9]), np.array([2, 2]))
NONE = (np.zeros((0, 2), np.int64), np.zeros(0, np.int64), np.array([2, 0]))
KINDS = ("int8", "int16", "int32", "int64", "uint8", "uint16")
OPERATIONS = ("a-b", "b-a", "intersection", "union", "Union")
DENSE, MIXED, SPARSE = (
    f"{kinds}SetOperation" for kinds in ("DenseToDense", "DenseToSparse", "SparseToSparse")
)


def texts(values: Any) -> Any:
    return np.array([b"%d" % value for value in values.reshape(-1)], object).reshape(values.shape)


def typed(parts: Any, dtype: str) -> Any:
    return parts[0], parts[1].astype(dtype), parts[2]


def operation(name: str = "union", **others: Any) -> dict[str, Any]:
    return {"set_operation": name, **others}


def both(one: Any, other: Any, name: str) -> list[Case]:
    return [
        case(DENSE, one, other, attrs=operation(name)),
        case(MIXED, one, *OTHER, attrs=operation(name)),
        case(SPARSE, *ONE, *OTHER, attrs=operation(name)),
    ]


CASES: list[Case] = [
    *itertools.chain.from_iterable(both(A, B, name) for name in OPERATIONS),
    *(case(DENSE, A.astype(kind), B.astype(kind), attrs=operation()) for kind in KINDS),
    *(case(SPARSE, *typed(ONE, kind), *typed(OTHER, kind), attrs=operation()) for kind in KINDS),
    *(case(MIXED, A.astype(kind), *typed(OTHER, kind), attrs=operation()) for kind in KINDS),
    *(case("SetSize", *typed(ONE, kind)) for kind in KINDS),
    case(DENSE, texts(A), texts(B), attrs=operation("a-b")),
    case("SetSize", PLACES, texts(ONE[1]), ONE[2]),
    case("SetSize", *OTHER),
    case("SetSize", *NONE),
    case("SetSize", *map(unknown, ONE)),
    case("SetSize", PLACES[[0, 2]], np.array([1, 1]), np.array([2, 3]), attrs={"validate_indices": False}),
    case(DENSE, A.reshape(2, 1, 3), B.reshape(2, 1, 2), attrs=operation()),
    case(DENSE, A, unknown(B), attrs=operation()),
    case(DENSE, unknown(A), B, attrs=operation()),
    case(DENSE, unknown(A), unknown(B), attrs=operation()),
    case(DENSE, A[:, :0], B[:, :0], attrs=operation()),
    case(MIXED, unknown(A), *map(unknown, OTHER), attrs=operation()),
    case(MIXED, A, *NONE, attrs=operation("intersection")),
    case(SPARSE, *map(unknown, ONE), *map(unknown, OTHER), attrs=operation()),
    case(SPARSE, *map(unknown, ONE), *OTHER, attrs=operation()),
    case(SPARSE, *NONE, *NONE, attrs=operation("intersection")),
    case(SPARSE, *ONE, *OTHER, attrs=operation(validate_indices=False)),
    case(DENSE, A, B, attrs=operation("product"), bad=True),
    case(DENSE, A, B[:1], attrs=operation(), bad=True),
    case(DENSE, unknown(A), unknown(B[:1]), attrs=operation(), bad=True),
    case(DENSE, A[0], B[0], attrs=operation(), bad=True),
    case(DENSE, unknown(A[0]), unknown(B[0]), attrs=operation(), bad=True),
    case(MIXED, A[:1], *OTHER, attrs=operation(), bad=True),
    case(MIXED, A, OTHER[0][::-1].copy(), *OTHER[1:], attrs=operation(), bad=True),
    case(SPARSE, *ONE, *OTHER[:2], np.array([3, 2]), attrs=operation(), bad=True),
    case(SPARSE, *ONE, OTHER[0][::-1].copy(), *OTHER[1:], attrs=operation(), bad=True),
    case(SPARSE, *ONE, *OTHER[:2], np.array([1, 2]), attrs=operation(), bad=True),
    case("SetSize", PLACES[::-1].copy(), *ONE[1:], bad=True),
    case("SetSize", PLACES + 2, *ONE[1:], bad=True),
    case("SetSize", np.array([[0]]), np.array([1]), np.array([2]), bad=True),
]
