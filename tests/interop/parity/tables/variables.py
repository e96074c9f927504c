"""Variables of both kinds: reading, assigning, counting, being initialised, and those of one step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.parity.sweeps import COMPLEX, FLOATS, INTEGERS, sample
from tests.interop.parity.table import Case, Node, case, node, partly, resource, unknown, variable

NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
ALL = (*NUMBERS, "bool", "string")
SHAPES: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (2, 0, 3), (3, 2, 2), (100,))


def twice(update: Node) -> Any:
    return [[update], [update]]


CASES: list[Case] = []

# Assigning

for op, make in (("Assign", variable), ("AssignVariableOp", resource)):
    CASES += [case(op, make(sample(name, (2, 3), 1)), sample(name, (2, 3), 2)) for name in ALL]
    CASES += [case(op, make(sample("float32", shape, 1)), sample("float32", shape, 2)) for shape in SHAPES]
    CASES += [
        case(op, make(sample("float32", (2, 3), 1)), unknown(sample("float32", (2, 3), 2))),
        case(op, make(sample("float32", (2, 3), 1)), sample("float32", (3, 2), 2), bad=True),
        case(
            op, make(sample("float32", (2, 3), 1)), unknown(sample("float32", (3, 2), 2)), bad=op == "Assign"
        ),
        case(op, make(sample("float32", (2, 3), 1)), partly(sample("float32", (2, 3), 2), (None, 3))),
    ]
CASES += [
    case(
        "AssignVariableOp",
        resource(sample("float32", (2, 3), 1)),
        unknown(sample("float32", (3, 2), 2)),
        attrs={"validate_shape": True},
        bad=True,
    ),
    case("Assign", variable([1.0, 2.0]), np.array([1.0, 2.0, 3.0]), bad=True),
    case(
        "Assign", variable(np.array([1.0, 2.0])), np.array([1.0, 2.0, 3.0]), attrs={"validate_shape": False}
    ),
    case("Assign", variable([1.0]), np.float32(3.0), attrs={"use_locking": False}, bad=True),
    case("AssignVariableOp", resource([1.0, 2.0]), np.array([1, 2], np.int32), bad=True),
]

for verb in ("Add", "Sub"):
    for op, make in ((f"Assign{verb}", variable), (f"Assign{verb}VariableOp", resource)):
        CASES += [case(op, make(sample(name, (2, 3), 1)), sample(name, (2, 3), 2)) for name in NUMBERS]
        CASES += [
            case(op, make(sample("float32", shape, 1)), sample("float32", shape, 2)) for shape in SHAPES
        ]
        CASES += [
            case(op, make(sample("float32", (2, 3), 1)), sample("float32", (2, 3), 2), steps=twice),
            case(op, make(sample("float32", (2, 3), 1)), unknown(sample("float32", (2, 3), 2))),
            case(op, make(sample("float32", (2, 3), 1)), sample("float32", (3, 2), 2), bad=True),
            case(op, make(sample("float32", (2, 3), 1)), unknown(sample("float32", (3, 2), 2)), bad=True),
            case(op, make(sample("float32", (2, 3), 1)), unknown(np.float32(2.0)), bad=True),
        ]

# Reading

CASES += [case("ReadVariableOp", resource(sample(name, (2, 3), 1)), attrs={"dtype": name}) for name in ALL]
CASES += [
    case("ReadVariableOp", resource(sample("float32", shape, 1)), attrs={"dtype": "float32"})
    for shape in SHAPES
]
CASES += [
    case("ReadVariableOp", resource([1.0, 2.0]), attrs={"dtype": "int32"}, bad=True),
    case(
        "ReadVariableOp",
        node("VarHandleOp", attrs={"dtype": "float32", "shape": (2,)}),
        attrs={"dtype": "float32"},
        bad=True,
    ),
]
for kind in ("int32", "int64"):
    CASES += [
        case("VariableShape", resource(sample("float32", shape, 1)), attrs={"out_type": kind})
        for shape in SHAPES
    ]
CASES.append(
    case(
        "VariableShape",
        node("VarHandleOp", attrs={"dtype": "float32", "shape": (2,)}),
        bad=True,
        differs="TensorFlow has no container before the first variable has a value, and does not find it",
    )
)

# Whether there is content

for name in ALL:
    nothing = {"dtype": name, "shape": (2,)}
    CASES += [
        case("IsVariableInitialized", variable(sample(name, (2,), 1))),
        case("VarIsInitializedOp", resource(sample(name, (2,), 1))),
        case("DisableCopyOnRead", resource(sample(name, (2,), 1))),
        case("IsVariableInitialized", node("VariableV2", attrs=nothing)),
        case("VarIsInitializedOp", node("VarHandleOp", attrs=nothing)),
        case("DestroyResourceOp", node("VarHandleOp", attrs=nothing)),
        case("VariableV2", attrs=nothing, bad=True),
        case("Variable", attrs=nothing, bad=True),
        case("VarHandleOp", attrs=nothing, steps=lambda handle: [[node("VarIsInitializedOp", handle)]]),
    ]
for name in ALL:
    given = {"dtype": name, "shape": (2, 3)}
    for op in ("VariableV2", "Variable"):
        CASES.append(
            case(
                op,
                attrs=given,
                steps=lambda ref, name=name: [[node("Assign", ref, sample(name, (2, 3)))], [ref]],
            )
        )
    CASES.append(
        case(
            "VarHandleOp",
            attrs=given,
            steps=lambda handle, name=name: [
                [node("AssignVariableOp", handle, sample(name, (2, 3)))],
                [node("ReadVariableOp", handle, attrs={"dtype": name})],
            ],
        )
    )
CASES += [
    case(
        "DestroyResourceOp",
        node("VarHandleOp", attrs={"dtype": "float32", "shape": (2,)}),
        attrs={"ignore_lookup_error": False},
        bad=True,
    ),
]

# Counting

for kind in ("int32", "int64"):
    for limit in (5, 4):
        CASES += [
            case("CountUpTo", variable(np.array(3, kind)), attrs={"limit": limit}),
            case("ResourceCountUpTo", resource(np.array(3, kind)), attrs={"limit": limit, "T": kind}),
        ]
    for limit in (3, 0, -1):
        CASES += [
            case("CountUpTo", variable(np.array(3, kind)), attrs={"limit": limit}, bad=True),
            case(
                "ResourceCountUpTo", resource(np.array(3, kind)), attrs={"limit": limit, "T": kind}, bad=True
            ),
        ]
    CASES += [
        case("CountUpTo", variable(np.array(3, kind)), attrs={"limit": 9}, steps=twice),
        case("ResourceCountUpTo", resource(np.array(3, kind)), attrs={"limit": 9, "T": kind}, steps=twice),
        case("CountUpTo", variable(np.array([3], kind)), attrs={"limit": 9}, bad=True),
        case("ResourceCountUpTo", resource(np.array([3], kind)), attrs={"limit": 9, "T": kind}, bad=True),
    ]

# Of one step

for name in ALL:
    for shape in ((2, 3), (0,)):
        attrs: dict[str, Any] = {"dtype": name, "shape": shape, "var_name": "it"}
        reference = node("TemporaryVariable", attrs=attrs)
        assigned = node("Assign", reference, sample(name, shape))
        CASES += [
            case("DestroyTemporaryVariable", assigned, attrs={"var_name": "it"}, grad=False),
            case(
                "TemporaryVariable",
                attrs=attrs,
                steps=lambda ref, name=name, shape=shape: [[node("Assign", ref, sample(name, shape))]] * 2,
            ),
        ]
CASES += [
    case("DestroyTemporaryVariable", assigned, attrs={"var_name": "other"}, bad=True),
    case("TemporaryVariable", attrs={"dtype": "float32", "shape": (None,)}, bad=True),
]
