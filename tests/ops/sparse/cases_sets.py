"""Cases of the operations on sets; expected values by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

A = np.array([[3, 1, 3], [2, 2, 5]])
B = np.array([[1, 4], [5, 2]])
SPARSE_A = (np.array([[0, 0], [0, 2], [1, 1]]), np.array([3, 1, 2]), np.array([3, 3]))
SPARSE_B = (np.array([[0, 0], [2, 0], [2, 1]]), np.array([1, 9, 9]), np.array([3, 2]))
BAD: dict[str, Any] = {"raises": InvalidArgumentError, "dtypes": ("int64",)}


def sets(rows: list[list[Any]], width: int, dtype: Any = None) -> tuple[Any, Any, Any]:
    """The result with these sets."""
    places = [(row, k) for row, values in enumerate(rows) for k in range(len(values))]
    values = [value for row in rows for value in row]
    return (
        np.array(places, np.int64).reshape(-1, 2),
        np.array(values, dtype or np.int64),
        np.array([len(rows), width], np.int64),
    )


def operation(name: str) -> dict[str, Any]:
    return {"set_operation": name}


def texts(values: Any) -> Any:
    return np.array([b"%d" % value for value in values.reshape(-1)], object).reshape(values.shape)


CASES: list[Case] = [
    case("SetSize", *SPARSE_A, expected=np.array([2, 1, 0], np.int32)),
    case("SetSize", *SPARSE_B, expected=np.array([1, 0, 1], np.int32)),
    case(
        "SetSize",
        np.array([[1, 0, 1]]),
        np.array([b"x"], object),
        np.array([2, 2, 2]),
        expected=np.array([[0, 0], [1, 0]], np.int32),
    ),
    case("SetSize", SPARSE_A[0][::-1].copy(), *SPARSE_A[1:], **BAD),
    case("SetSize", np.array([[3, 0]]), np.array([1]), np.array([3, 3]), **BAD),
    case("SetSize", np.array([[1]]), np.array([1]), np.array([3]), **BAD),
    *(
        case("DenseToDenseSetOperation", A, B, attrs=operation(name), expected=sets(rows, width))
        for name, rows, width in (
            ("a-b", [[3], []], 1),
            ("b-a", [[4], []], 1),
            ("intersection", [[1], [2, 5]], 2),
            ("UNION", [[1, 3, 4], [2, 5]], 3),
        )
    ),
    case(
        "DenseToDenseSetOperation",
        texts(A),
        texts(B),
        attrs=operation("intersection"),
        expected=sets([[b"1"], [b"2", b"5"]], 2, object),
    ),
    case("DenseToDenseSetOperation", A, B, attrs=operation("product"), **BAD),
    *(
        case(
            "DenseToSparseSetOperation",
            np.array([[3, 1], [2, 2], [9, 0]]),
            *SPARSE_B,
            attrs=operation(name),
            expected=sets(rows, width),
        )
        for name, rows, width in (
            ("a-b", [[3], [2], [0]], 1),
            ("b-a", [[], [], []], 0),
            ("intersection", [[1], [], [9]], 1),
            ("union", [[1, 3], [2], [0, 9]], 2),
        )
    ),
    *(
        case(
            "SparseToSparseSetOperation",
            *SPARSE_A,
            *SPARSE_B,
            attrs=operation(name),
            expected=sets(rows, width),
        )
        for name, rows, width in (
            ("a-b", [[3], [2], []], 1),
            ("b-a", [[], [], [9]], 1),
            ("intersection", [[1], [], []], 1),
            ("union", [[1, 3], [2], [9]], 2),
        )
    ),
    case(
        "SparseToSparseSetOperation",
        *SPARSE_A,
        *SPARSE_B[:2],
        np.array([4, 2]),
        attrs=operation("union"),
        **BAD,
    ),
]
