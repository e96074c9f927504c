"""Updates by index of variables and tensors, and reading parts of variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, INTEGERS, sample
from tests.interop.parity.table import Case, Node, case, const, resource, unknown, variable

NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
REAL = (*FLOATS, *INTEGERS)
INDICES = np.array([2, 0, 2])


def twice(update: Node) -> Any:
    return [[update], [update]]


# Rows


def rows(op_type: str, dtypes: tuple[str, ...], nonzero: bool = False) -> list[Case]:
    make: Callable[[Any], Node] = resource if op_type.startswith("Resource") else variable

    def values(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
        low, high = (1.0, 4.0) if nonzero else (-3.0, 3.0)
        return sample(dtype, shape, seed, low, high, whole=dtype not in ("float32", "float64", *COMPLEX))

    def row(dtype: str, shape: tuple[int, ...], indices: Any, **options: Any) -> Case:
        indices = np.asarray(indices)
        updates = values(dtype, (*indices.shape, *shape[1:]), 2)
        return case(op_type, make(values(dtype, shape, 1)), indices, updates, **options)

    state = make(values("float32", (4, 2), 1))
    found = [row(name, (4, 2), INDICES) for name in dtypes]
    found += [
        row("float32", (4, 2), INDICES.astype(np.int32)),
        row("float32", (4, 2), [3, 1], steps=twice),
        row("float32", (5,), [[0, 1], [4, 2]]),
        row("float32", (4, 2, 3), 2),
        row("float32", (4, 2), np.zeros(0, int)),
        row("float32", (4, 0), [1, 2]),
        row("float32", (0, 2), np.zeros(0, int)),
        row("float32", (4, 2), [0, 4], bad=True),
        row("float32", (4, 2), [-1, 0], bad=True),
        row("float32", (0, 2), [0], bad=True),
        case(op_type, state, INDICES, np.float32(2.0), note="one number for all"),
        case(op_type, state, unknown(INDICES), unknown(values("float32", (3, 2), 4))),
        case(op_type, state, INDICES, values("float32", (3, 3), 4), bad=True),
        case(op_type, state, INDICES, unknown(values("float32", (2,), 4)), bad=True),
    ]
    if make is variable:  # of resources TensorFlow does not look at the shape of the rows
        found.append(case(op_type, state, INDICES, unknown(values("float32", (3, 3), 4)), bad=True))
    return found


CASES: list[Case] = []
for prefix in ("", "Resource"):
    CASES += rows(f"{prefix}ScatterUpdate", (*NUMBERS, "bool", "string"))
    for verb in ("Add", "Sub", "Mul"):
        CASES += rows(f"{prefix}Scatter{verb}", NUMBERS)
    CASES += rows(f"{prefix}ScatterDiv", NUMBERS, nonzero=True)
    for verb in ("Min", "Max"):
        CASES += rows(f"{prefix}Scatter{verb}", REAL if prefix else (*FLOATS, "int32", "int64"))

# Slices at coordinates

POINTS = np.array([[2, 1], [0, 0], [2, 1]])


def coordinates(op_type: str, dtypes: tuple[str, ...], make: Callable[[Any], Any]) -> list[Case]:
    def row(dtype: str, shape: tuple[int, ...], indices: Any, **options: Any) -> Case:
        indices = np.asarray(indices)
        size = (*indices.shape[:-1], *shape[indices.shape[-1] :])
        whole = dtype not in ("float32", "float64", *COMPLEX)
        target = sample(dtype, shape, 1, whole=whole)
        return case(op_type, make(target), indices, sample(dtype, size, 2, whole=whole), **options)

    target = make(sample("float32", (4, 3), 1))
    found = [row(name, (4, 3), [[2], [0], [2]]) for name in dtypes]
    found += [
        row("float32", (4, 3), POINTS),
        row("float32", (4, 3), POINTS.astype(np.int32)),
        row("float32", (4, 3, 2), [[[1, 2], [0, 0]], [[3, 1], [1, 1]]]),
        row("float32", (6,), [[5], [1]]),
        row("float32", (4, 3), np.zeros((0, 1), int)),
        row("float32", (4, 0), np.zeros((0, 1), int)),
        row("float32", (4, 3), [[0], [4]], bad=True),
        row("float32", (4, 3), [[0, -1]], bad=True),
        row("float32", (4, 3), [[0], [4]], attrs={"bad_indices_policy": "ERROR"}, bad=True),
        row("float32", (4, 3), [[0], [4]], attrs={"bad_indices_policy": "IGNORE"}, grad=False),
        row("float32", (4, 3), [[0]], attrs={"bad_indices_policy": "PERHAPS"}, bad=True),
        row("float32", (4, 0), [[0]], bad=True),
        case(op_type, target, unknown(POINTS), unknown(sample("float32", (3,), 4))),
        case(op_type, target, np.array([[0], [1]]), sample("float32", (2, 2), 4), bad=True),
        case(op_type, target, np.array([[0], [1]]), unknown(sample("float32", (2, 2), 4)), bad=True),
        case(op_type, target, np.array([[0], [1]]), unknown(sample("float32", (3, 3), 4)), bad=True),
        case(op_type, target, unknown(np.array([[0, 0, 0]])), unknown(sample("float32", (1,), 4)), bad=True),
    ]
    return found


for verb in ("Update", "Add", "Sub", "Min", "Max"):
    kinds = REAL if verb in ("Min", "Max") else NUMBERS
    extra = ("bool", "string") if verb == "Update" else ()
    CASES += coordinates(f"ScatterNd{verb}", (*kinds, *extra), variable)
    CASES += coordinates(f"ResourceScatterNd{verb}", (*kinds, *extra), resource)
    CASES += coordinates(f"TensorScatter{verb}", (*kinds, *extra), lambda value: value)
CASES += coordinates("ScatterNdNonAliasingAdd", NUMBERS, lambda value: value)

# Strided slices


def int32(*values: int) -> Any:
    return np.array(values, np.int32)


def sliced(op_type: str, make: Callable[[Any], Any]) -> list[Case]:
    def row(
        begin: Any,
        end: Any,
        strides: Any,
        value: Any,
        dtype: str = "float32",
        place: Any = const,
        **options: Any,
    ) -> Case:
        specification = [place(int32(*each)) for each in (begin, end, strides)]
        return case(op_type, make(sample(dtype, (4, 3), 1)), *specification, value, **options)

    value = sample("float32", (2, 3), 2)
    found = [row([1], [3], [1], sample(name, (2, 3), 2), name) for name in (*NUMBERS, "bool", "string")]
    found += [
        row([1], [3], [1], value, place=lambda each: each),
        row([1], [3], [1], unknown(value), place=unknown),
        row([3], [1], [-1], value),
        row([0, 2], [4, 0], [2, -1], sample("float32", (2, 2), 2)),
        row([1], [2], [1], sample("float32", (3,), 2), attrs={"shrink_axis_mask": 1}),
        row([1, 2], [2, 3], [1, 1], np.float32(7.0), attrs={"shrink_axis_mask": 3}),
        row([0, 1], [0, 3], [1, 1], sample("float32", (4, 2), 2), attrs={"ellipsis_mask": 1}),
        row(
            [1],
            [3],
            [2],
            sample("float32", (4, 3), 2),
            attrs={"begin_mask": 1, "end_mask": 1, "new_axis_mask": 0},
            bad=True,
        ),
        row([1], [3], [1], sample("float32", (3, 3), 2), bad=True),
        row([1], [3], [0], value, bad=True),
        row([0, 0, 0], [1, 1, 1], [1, 1, 1], value, bad=True),
        row([9], [2], [1], sample("float32", (3,), 2), attrs={"shrink_axis_mask": 1}, bad=True),
        row([2], [2], [1], sample("float32", (0, 3), 2)),
        row([1], [3], [1], np.float32(7.0), grad=False),
        row([1], [3], [1], sample("float32", (3,), 2), grad=False, note="a value that is broadcast"),
        row([1], [3], [1], sample("float32", (1, 1, 3), 2), grad=False),
    ]
    return found


CASES += sliced("StridedSliceAssign", variable)
CASES += sliced("ResourceStridedSliceAssign", resource)
CASES += sliced("TensorStridedSliceUpdate", lambda value: value)

# Reading

for dtype in (*NUMBERS, "bool", "string"):
    attrs: dict[str, Any] = {"dtype": dtype}
    CASES += [
        case("ResourceGather", resource(sample(dtype, (4, 3))), np.array([3, 0, 3]), attrs=attrs),
        case("ResourceGatherNd", resource(sample(dtype, (4, 3))), np.array([[3, 1], [0, 2]]), attrs=attrs),
    ]
TABLE = resource(sample("float32", (4, 3)))
FLOAT: dict[str, Any] = {"dtype": "float32"}
CASES += [
    case("ResourceGather", TABLE, np.array(2), attrs=FLOAT),
    case("ResourceGather", TABLE, np.zeros((0, 2), np.int32), attrs=FLOAT),
    case("ResourceGather", TABLE, unknown(np.array([[1, 2]])), attrs=FLOAT),
    case("ResourceGather", TABLE, np.array([4]), attrs=FLOAT, bad=True),
    case("ResourceGather", TABLE, np.array([-1]), attrs=FLOAT, bad=True),
    case("ResourceGather", TABLE, np.array([1]), attrs={"dtype": "int32"}, bad=True),
    case("ResourceGather", resource(np.float32(1.0)), np.array([0]), attrs=FLOAT, bad=True),
    case("ResourceGather", resource(sample("float32", (4, 0))), np.array([1]), attrs=FLOAT),
    case(
        "ResourceGather",
        TABLE,
        np.array([[0, 2], [1, 1], [0, 0], [2, 1]]),
        attrs={**FLOAT, "batch_dims": 1},
        grad=False,
    ),
    case("ResourceGather", TABLE, np.array([1, 0, 2, 2]), attrs={**FLOAT, "batch_dims": 1}, grad=False),
    case(
        "ResourceGather", TABLE, np.array([[3]] * 4), attrs={**FLOAT, "batch_dims": 1}, bad=True, grad=False
    ),
    case("ResourceGatherNd", TABLE, np.array([[1], [3]]), attrs=FLOAT),
    case("ResourceGatherNd", TABLE, np.array([2, 1]), attrs=FLOAT, grad=False),
    case("ResourceGatherNd", TABLE, np.array([[[0], [1]], [[2], [3]]], np.int32), attrs=FLOAT),
    case("ResourceGatherNd", TABLE, unknown(np.array([[1, 2]])), attrs=FLOAT),
    case("ResourceGatherNd", TABLE, np.zeros((0, 2), int), attrs=FLOAT),
    case("ResourceGatherNd", TABLE, np.zeros((2, 0), int), attrs=FLOAT, grad=False),
    case("ResourceGatherNd", TABLE, np.array([[4, 0]]), attrs=FLOAT, bad=True),
    case("ResourceGatherNd", TABLE, np.array([[-1]]), attrs=FLOAT, bad=True),
    case("ResourceGatherNd", TABLE, np.array([[0, 0, 0]]), attrs=FLOAT, bad=True),
    case("ResourceGatherNd", TABLE, unknown(np.array([[0, 0, 0]])), attrs=FLOAT, bad=True),
]
