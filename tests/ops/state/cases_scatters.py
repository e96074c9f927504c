"""Cases of updates at coordinates, of strided slices, and of counting; expected values by hand or from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, OutOfRangeError
from aioexec.ops.state import (
    counting as counting,  # the rows
    scatter_nd_updates as scatter_nd_updates,  # the rows
    strided_updates as strided_updates,  # the rows
)
from tests.ops.harness import KINDS, Case, Ref, case

Array = np.ndarray[Any, Any]

TABLE = [[10, 20], [30, 40], [50, 60]]
TWICE = [[2], [0], [2]]
ROWS = [[1, 2], [3, 4], [5, 6]]
POINTS = [[2, 1], [0, 0], [1, 1]]

VERBS: dict[str, Any] = {
    "Update": lambda old, new: new,
    "Add": np.add,
    "Sub": np.subtract,
    "Min": np.minimum,
    "Max": np.maximum,
}


def at_coordinates(operation: Any) -> Any:
    """A tensor after updates, slice by slice in order."""

    def expected(target: Array, indices: Array, updates: Array) -> Array:
        result = target.copy()
        for place in np.ndindex(indices.shape[:-1]):
            where = tuple(indices[place])
            result[where] = operation(result[where], updates[place])
        return result

    return expected


def updates_at(op_type: str, verb: str, is_variable: bool) -> list[Case]:
    def made(target: Any, indices: Any, updates: Any, **more: Any) -> Case:
        wanted = (
            {} if "raises" in more else {"state" if is_variable else "expected": at_coordinates(VERBS[verb])}
        )
        return case(op_type, Ref(target) if is_variable else target, indices, updates, **{**wanted, **more})

    grad = (0, 2) if not is_variable else ()
    outside: dict[str, Any] = {"raises": InvalidArgumentError, "dtypes": ["float32"]}
    return [
        made(TABLE, np.array(TWICE, np.int32), ROWS, dtypes=KINDS["i"]),
        made(TABLE, np.array(TWICE), ROWS, dtypes=KINDS["f"]),
        made(TABLE, np.array(POINTS), [5.0, 12.0, 70.0], dtypes=KINDS["f"], gradients=grad),
        made(np.ones((2, 2, 2)), np.array([[[1], [0]]]), 3 * np.ones((1, 2, 2, 2)), dtypes=["float32"]),
        made(TABLE, np.zeros((0, 1), int), np.zeros((0, 2)), dtypes=["float32"], native=False),
        made(TABLE, np.array([[0], [3]]), ROWS[:2], **outside),
        made(TABLE, np.array([[0, 0], [1, -1]]), [1.0, 2.0], **outside),
        made(
            TABLE,
            np.array([[0], [3]]),
            ROWS[:2],
            attrs={"bad_indices_policy": "IGNORE"},
            dtypes=["float32"],
            native=False,
            **{
                "state" if is_variable else "expected": lambda t, i, u: at_coordinates(VERBS[verb])(
                    t, i[:1], u
                )
            },
        ),
        made(
            TABLE,
            np.array([[0]]),
            ROWS[:1],
            attrs={"bad_indices_policy": "MAYBE"},
            dtypes=["float32"],
            raises=InvalidArgumentError,
        ),
    ]


CASES: list[Case] = []
for verb in VERBS:
    CASES += updates_at(f"ScatterNd{verb}", verb, True)
    CASES += updates_at(f"ResourceScatterNd{verb}", verb, True)
    CASES += updates_at(f"TensorScatter{verb}", verb, False)
CASES += updates_at("ScatterNdNonAliasingAdd", "Add", False)
for op_type in ("TensorScatterUpdate", "ScatterNdUpdate", "ResourceScatterNdUpdate"):
    flags, chosen = [True, False, True], np.array([[1]])
    is_tensor = op_type.startswith("Tensor")
    after = {"expected" if is_tensor else "state": [True, True, True]}
    CASES.append(case(op_type, flags if is_tensor else Ref(flags), chosen, [True], dtypes=["bool"], **after))

# Strided slices


def sliced(*index: Any) -> Any:
    def expected(target: Array, begin: Array, end: Array, strides: Array, value: Array) -> Array:
        result = target.copy()
        result[index] = value
        return result

    return expected


def strided_updates_of(op_type: str) -> list[Case]:
    is_tensor = op_type.startswith("Tensor")

    def replaced(begin: Any, end: Any, strides: Any, value: Any, *index: Any, **more: Any) -> Case:
        wanted = {} if "raises" in more else {"expected" if is_tensor else "state": sliced(*index)}
        specification = [np.array(each) for each in (begin, end, strides)]
        return case(op_type, TABLE if is_tensor else Ref(TABLE), *specification, value, **wanted, **more)

    rows, grad = [[1.0, 2.0], [3.0, 4.0]], (0, 4) if is_tensor else ()
    return [
        replaced([0], [2], [1], [[1, 2], [3, 4]], slice(0, 2), dtypes=[*KINDS["f"], *KINDS["i"]]),
        replaced([2, 0], [0, 2], [-1, 1], rows, slice(2, 0, -1), gradients=grad),
        replaced([1], [2], [1], [7.0, 8.0], 1, attrs={"shrink_axis_mask": 1}),
        replaced([0], [3], [2], 5.0, slice(0, 3, 2)),
        replaced([2], [1], [1], np.zeros((0, 2)), slice(2, 1), dtypes=["float32"]),
        replaced([0], [2], [1], [[1.0, 2.0, 3.0]], raises=InvalidArgumentError),
        replaced([0], [2], [0], [[1.0, 2.0]], raises=InvalidArgumentError),
    ]


for op_type in ("StridedSliceAssign", "ResourceStridedSliceAssign", "TensorStridedSliceUpdate"):
    CASES += strided_updates_of(op_type)

# Counting

for op_type, attrs in (("CountUpTo", {}), ("ResourceCountUpTo", {"T": "int32"})):
    CASES += [
        case(op_type, Ref(3), attrs={"limit": 5, **attrs}, expected=3, state=4, vary="T", dtypes=["int32"]),
        case(
            op_type, Ref(5), attrs={"limit": 5, **attrs}, vary="T", dtypes=["int32"], raises=OutOfRangeError
        ),
    ]
CASES.append(case("CountUpTo", Ref(3), attrs={"limit": 5}, expected=3, state=4, dtypes=["int64"]))
