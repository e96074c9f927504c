"""Cases of variables: what reads give and what updates leave behind, expected values from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError, UnimplementedError
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
    """What a scatter leaves, row by row in order."""

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
            dtypes=["int64"],
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
        np.array([[0], [0]]),
        attrs={"dtype": "float32", "batch_dims": 1},
        vary="dtype",
        dtypes=["float32"],
        native=False,
        raises=UnimplementedError,
    ),
]

# Optimizers

G = [[0.5, -1.0, 2.0], [0.0, 1.5, -0.25]]
SLOT = [[0.25, 0.5, 1.0], [2.0, 0.0, 0.75]]


def momentum(nesterov: bool) -> Any:
    def expected(var: Array, accum: Array, lr: Array, grad: Array, momentum: Array) -> tuple[Array, Array]:
        accum = momentum * accum + grad
        return var - lr * (grad + momentum * accum if nesterov else accum), accum

    return expected


def adam(nesterov: bool) -> Any:
    def expected(
        var: Array,
        m: Array,
        v: Array,
        b1p: Array,
        b2p: Array,
        lr: Array,
        b1: Array,
        b2: Array,
        eps: Array,
        grad: Array,
    ) -> tuple[Array, Array, Array]:
        rate = lr * np.sqrt(1 - b2p) / (1 - b1p)
        m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
        return var - rate * (b1 * m + (1 - b1) * grad if nesterov else m) / (np.sqrt(v) + eps), m, v

    return expected


def momentum_rows(nesterov: bool) -> Any:
    def expected(
        var: Array, accum: Array, lr: Array, grad: Array, indices: Array, keep: Array
    ) -> tuple[Array, Array]:
        new_var, new_accum = var.copy(), accum.copy()
        new_var[indices], new_accum[indices] = momentum(nesterov)(
            var[indices], accum[indices], lr, grad, keep
        )
        return new_var, new_accum

    return expected


for prefix in ("", "Resource"):
    descend = f"{prefix}ApplyGradientDescent"
    CASES += [
        case(descend, Ref(REAL), 0.5, G, state=lambda var, alpha, delta: var - alpha * delta),
        case(
            descend,
            Ref(WHOLE),
            2,
            [[1, 0, 1], [0, 1, 0]],
            state=lambda var, alpha, delta: var - alpha * delta,
            dtypes=KINDS["i"],
        ),
        case(descend, Ref(1.0), 0.5, 3.0, state=-0.5),
        case(descend, Ref(EMPTY), 0.5, EMPTY, state=EMPTY),
    ]
    for nesterov in (False, True):
        attrs = {"use_nesterov": nesterov}
        CASES += [
            case(
                f"{prefix}ApplyMomentum",
                Ref(REAL),
                Ref(SLOT),
                0.5,
                G,
                0.75,
                attrs=attrs,
                state=momentum(nesterov),
            ),
            case(
                f"{prefix}ApplyMomentum",
                Ref(EMPTY),
                Ref(EMPTY),
                0.5,
                EMPTY,
                0.75,
                attrs=attrs,
                state=(EMPTY, EMPTY),
            ),
            case(
                f"{prefix}ApplyAdam",
                *(Ref(REAL), Ref(SLOT), Ref(np.abs(G)), 0.5, 0.25, 0.125, 0.75, 0.875, 0.0625, G),
                attrs=attrs,
                state=adam(nesterov),
                tolerance=4e-5,
            ),
            *(
                case(
                    f"{prefix}SparseApplyMomentum",
                    *(
                        Ref(np.array(REAL).T),
                        Ref(np.array(SLOT).T),
                        0.5,
                        [[1.0, 2.0], [-1.0, 0.25]],
                        np.array([2, 0], kind),
                        0.75,
                    ),
                    attrs=attrs,
                    state=momentum_rows(nesterov),
                )
                for kind in (np.int32, np.int64)
            ),
        ]
    CASES += [
        case(
            f"{prefix}SparseApplyMomentum",
            *(
                Ref(np.array(REAL).T),
                Ref(np.array(SLOT).T),
                0.5,
                [[1.0, 2.0], [-1.0, 0.25]],
                np.array([0, 3]),
                0.75,
            ),
            raises=InvalidArgumentError,
        ),
    ]
