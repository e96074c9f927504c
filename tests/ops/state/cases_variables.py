"""Cases of variables: values of reads, and contents after updates, from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import KINDS, Case, Ref, case

Array = np.ndarray[Any, Any]

WHOLE = [[1, 2, 3], [4, 5, 6]]
REAL = [[1.5, -2.0, 0.25], [4.0, 0.0, -0.5]]
EMPTY = np.zeros((0, 3))
SHORT = {"float16": "half", "float32": "float", "float64": "double"}
DTYPES = [name for kind in "fibc" for name in KINDS[kind]]


def sample(dtype: str) -> Any:
    """Content of two rows, two columns that the dtype holds."""
    return [[True, False], [False, True]] if dtype == "bool" else [[1, 2], [3, 4]]


def scattered(operation: Any) -> Any:
    """The result of a scatter, row by row in order."""

    def expected(ref: Array, indices: Array, updates: Array) -> Array:
        result = ref.copy()
        rows = np.broadcast_to(updates, indices.shape + ref.shape[1:]).reshape(indices.size, *ref.shape[1:])
        for index, row in zip(indices.reshape(-1), rows, strict=True):
            result[index] = operation(result[index], row)
        return result

    return expected


# Nodes of variables, reads

CASES: list[Case] = [
    *(
        case(name, attrs={"dtype": "float32", "shape": (2,)})
        for name in ("VariableV2", "Variable", "VarHandleOp")
    ),
    *(
        case(
            "ReadVariableOp",
            Ref(sample(dtype)),
            attrs={"dtype": dtype},
            expected=lambda v: v,
            vary="dtype",
            dtypes=[dtype],
            gradients=(0,) if dtype == "float64" else (),
        )
        for dtype in DTYPES
    ),
    case(
        "ReadVariableOp",
        Ref(REAL),
        attrs={"dtype": "int32"},
        vary="dtype",
        dtypes=["float32"],
        raises=InvalidArgumentError,
    ),
    *(
        case(
            "VariableShape",
            Ref(np.zeros(shape), "float32"),
            attrs={"out_type": out_type},
            expected=np.array(shape, int),
        )
        for shape in ((2, 3), (), (0, 7), (1, 2, 3, 4))
        for out_type in ("int32", "int64")
    ),
    case("VarIsInitializedOp", Ref(REAL, "float32"), expected=np.True_),
    case("IsVariableInitialized", Ref(REAL, "float32"), expected=np.True_, vary="dtype", dtypes=["float32"]),
    case("DestroyResourceOp", Ref(REAL, "float32")),
    case("DisableCopyOnRead", Ref(REAL, "float32"), state=np.array(REAL)),
]

# Assignments

for name in ("Assign", "AssignVariableOp"):
    CASES += [
        case(name, Ref([[1, 0, 1], [0, 0, 0]]), WHOLE, state=lambda ref, value: value),
        case(name, Ref(np.zeros((2, 3))), REAL, state=lambda ref, value: value),
        case(name, Ref(False), True, state=np.True_),
        case(name, Ref(1j), 2 + 1j, state=lambda ref, value: value, native=False),
        case(name, Ref("old"), "new", state=np.array(b"new", object), native=False),
        case(name, Ref(EMPTY), EMPTY, state=EMPTY),
        case(name, Ref([1.0]), [float("nan")], state=[float("nan")]),
    ]
CASES += [
    case(
        "Assign",
        Ref([1.0, 2.0]),
        [1.0, 2.0, 3.0],
        attrs={"validate_shape": False},
        state=[1.0, 2.0, 3.0],
        native=False,
    ),
]

for name, numpy in (("AssignAdd", np.add), ("AssignSub", np.subtract)):
    for kind in (name, f"{name}VariableOp"):
        CASES += [
            case(kind, Ref(WHOLE), [[6, 5, 4], [3, 2, 1]], state=numpy, dtypes=KINDS["i"][:4]),
            case(kind, Ref(REAL), np.full((2, 3), 0.5), state=numpy, dtypes=KINDS["f"]),
            case(kind, Ref(2.5), -1.0, state=numpy, dtypes=KINDS["f"]),
            case(kind, Ref(EMPTY), EMPTY, state=EMPTY, dtypes=KINDS["f"]),
            case(kind, Ref([1.0, 2.0]), [float("inf"), float("nan")], state=numpy, dtypes=KINDS["f"]),
        ]

# Rows

INDICES = [2, 0, 2]
ROWS = [[1, 2], [3, 4], [5, 6]]
TABLE = [[10, 20], [30, 40], [50, 60]]


def quotient(x: Array, y: Array) -> Array:
    return np.trunc(x / y) if x.dtype.kind in "iu" else x / y


def _scatters(name: str, operation: Any, kinds: str) -> list[Case]:
    kept = {"state": scattered(operation), "vary": "T" if name.startswith("S") else "dtype"}
    floats = {"dtypes": KINDS["f"], **kept}
    cases = [
        case(name, Ref(TABLE), np.array(INDICES, np.int32), ROWS, dtypes=KINDS["i"], **kept),
        case(name, Ref(TABLE), np.array(INDICES, np.int64), ROWS, **floats),
        case(name, Ref([1.0, 2.0, 3.0]), np.array([[0, 1], [1, 1]]), [[1.0, 2.0], [3.0, 4.0]], **floats),
        case(name, Ref(TABLE), np.array(1), [0.5, 0.25], **floats),
        case(name, Ref(TABLE), np.array([1, 2]), 0.5, native=False, **floats),
        case(name, Ref(np.zeros((3, 0))), np.array([1]), np.zeros((1, 0)), **floats),
        case(name, Ref(TABLE), np.zeros(0, np.int64), np.zeros((0, 2)), **floats),
        case(
            name,
            Ref(TABLE),
            np.array([0, 3]),
            ROWS[:2],
            vary=kept["vary"],
            dtypes=["float32"],
            raises=InvalidArgumentError,
        ),
        case(
            name,
            Ref(TABLE),
            np.array([-1, 0]),
            ROWS[:2],
            vary=kept["vary"],
            dtypes=["float64"],
            raises=InvalidArgumentError,
        ),
    ]
    if "b" in kinds:
        cases.append(case(name, Ref([True, False]), np.array([0]), [False], dtypes=["bool"], **kept))
    return cases


for prefix in ("", "Resource"):
    CASES += _scatters(f"{prefix}ScatterUpdate", lambda old, new: new, "fib")
    CASES += _scatters(f"{prefix}ScatterAdd", np.add, "fi")
    CASES += _scatters(f"{prefix}ScatterSub", np.subtract, "fi")
    CASES += _scatters(f"{prefix}ScatterMul", np.multiply, "fi")
    CASES += _scatters(f"{prefix}ScatterDiv", quotient, "fi")
    CASES += _scatters(f"{prefix}ScatterMin", np.minimum, "fi")
    CASES += _scatters(f"{prefix}ScatterMax", np.maximum, "fi")
    CASES.append(
        case(
            f"{prefix}ScatterDiv",
            *(Ref(TABLE), np.array([1]), [[0, 1]]),
            vary="dtype" if prefix else "T",
            dtypes=["int32"],
            native=False,
            raises=InvalidArgumentError,
        )
    )


def gathered(dtype: str, *inputs: Any, **more: Any) -> Case:
    return case("ResourceGather", *inputs, attrs={"dtype": dtype}, vary="dtype", dtypes=[dtype], **more)


CASES += [
    gathered(dtype, Ref(sample(dtype)), np.array([1, 0, 1]), expected=lambda v, i: v[i]) for dtype in DTYPES
]
CASES += [
    gathered("float64", Ref(REAL), np.array([[1, 0], [1, 1]]), expected=lambda v, i: v[i], gradients=(0,)),
    gathered("float32", Ref([1.0, 2.0]), np.array(1), expected=2.0),
    gathered("float32", Ref(np.zeros((2, 0, 3))), np.array([1]), expected=np.zeros((1, 0, 3))),
    gathered("float32", Ref(REAL), np.zeros((0, 2), np.int32), expected=np.zeros((0, 2, 3))),
    gathered("float32", Ref(REAL), np.array([0, 2]), raises=InvalidArgumentError),
    gathered("float32", Ref(REAL), np.array([0, -1]), raises=InvalidArgumentError),
    case(
        "ResourceGather",
        Ref(REAL),
        np.array([[0, 2], [1, 1]]),
        attrs={"dtype": "float32", "batch_dims": 1},
        vary="dtype",
        dtypes=["float32"],
        native=False,
        expected=[[1.5, 0.25], [0.0, 0.0]],
    ),
    case(
        "ResourceGather",
        Ref(REAL),
        np.array([[0]]),
        attrs={"dtype": "float32", "batch_dims": 1},
        vary="dtype",
        dtypes=["float32"],
        native=False,
        raises=InvalidArgumentError,
    ),
]


def gathered_at(dtype: str, *inputs: Any, **more: Any) -> Case:
    return case("ResourceGatherNd", *inputs, attrs={"dtype": dtype}, vary="dtype", dtypes=[dtype], **more)


CASES += [
    gathered_at("float64", Ref(REAL), np.array([[1, 0], [0, 2]]), expected=[4.0, 0.25], gradients=(0,)),
    gathered_at("float64", Ref(REAL), np.array([[1], [0]]), expected=[REAL[1], REAL[0]], gradients=(0,)),
    gathered_at("int32", Ref(WHOLE), np.array([1, 2]), expected=6),
    gathered_at("string", Ref(["a", "b"]), np.array([[1], [1]]), expected=np.array([b"b", b"b"], object)),
    gathered_at("float32", Ref(REAL), np.zeros((2, 0), int), expected=[REAL, REAL]),
    gathered_at("float32", Ref(REAL), np.zeros((0, 2), int), expected=np.zeros(0)),
    gathered_at("float32", Ref(REAL), np.array([[0, 3]]), raises=InvalidArgumentError),
    gathered_at("float32", Ref(REAL), np.array([[-1]]), raises=InvalidArgumentError),
]
