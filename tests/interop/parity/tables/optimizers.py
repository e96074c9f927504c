"""Optimizer updates: inputs generated from each op's signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec import dtypes as dt
from tests.interop.parity.sweeps import COMPLEX, FLOATS, sample
from tests.interop.parity.table import Case, Node, case, resource, unknown, variable
from tests.interop.parity.written import signature

SCALARS: dict[str, Any] = {
    "alpha": 0.5, "lr": 0.25, "momentum": 0.75, "epsilon": 0.0625, "rho": 0.875, "l1": 0.25, "l2": 0.125,
    "l2_shrinkage": 0.5, "lr_power": -0.5, "beta1_power": 0.5, "beta2_power": 0.25, "beta1": 0.75, "beta2": 0.875,
    "beta": 0.75, "logbase": 1.5, "sign_decay": 0.625,
}  # fmt: skip
"""Hyperparameters that no dtype rounds."""

DENSE = [
    *(
        "GradientDescent",
        "Momentum",
        "Adagrad",
        "AdagradV2",
        "AdagradDA",
        "Adadelta",
        "RMSProp",
        "CenteredRMSProp",
    ),
    *(
        "Adam",
        "AdaMax",
        "AddSign",
        "PowerSign",
        "ProximalGradientDescent",
        "ProximalAdagrad",
        "Ftrl",
        "FtrlV2",
    ),
]
SPARSE = [name for name in DENSE if name not in ("GradientDescent", "Adam", "AdaMax", "AddSign", "PowerSign")]
RESOURCES_ONLY = ["ApplyKerasMomentum", "SparseApplyKerasMomentum", "ApplyAdamWithAmsgrad"]

NAMES = [f"Apply{name}" for name in DENSE] + [f"SparseApply{name}" for name in SPARSE]


def inputs_of(
    op_type: str, dtype: str, shape: tuple[int, ...] = (4, 3), indices: Any = (2, 0), **changed: Any
) -> list[Any]:
    """A value for each input; `changed` replaces some, or is what makes them; `at` replaces the indices."""
    make: Callable[[Any], Node] = resource if op_type.startswith("Resource") else variable
    values: list[Any] = []
    states = 0
    for arg in signature(op_type).input_arg:
        value: Any
        if arg.is_ref or arg.type == int(dt.resource):
            # the first slot stays below the second, as a mean of squares above the square of a mean
            low, high = (-3.0, 3.0) if not states else (0.125, 0.5) if states == 1 else (1.0, 2.0)
            value = make(sample(dtype, shape, states, low, high))
            states += 1
        elif arg.name in ("grad", "delta"):
            rows = (len(indices), *shape[1:]) if "Sparse" in op_type else shape
            value = sample(dtype, rows, 7, -1.0, 1.0)
        elif arg.name == "indices":
            value = changed.get("at", np.array(indices, np.int64))
        elif arg.name == "global_step":
            value = np.array(3, np.int64)
        else:
            value = np.array(SCALARS[arg.name]).astype(dt.as_dtype(dtype).numpy)
        other = changed.get(arg.name, value)
        values.append(other(value) if callable(other) else other)
    return values


def switches(op_type: str) -> list[dict[str, Any]]:
    """The attributes that change the formula, each on and off."""
    names = [
        each.name for each in signature(op_type).attr if each.type == "bool" and each.name != "use_locking"
    ]
    return [{name: value} for name in names for value in (False, True)] or [{}]


def common(op_type: str) -> list[Case]:
    found = []
    for attrs in switches(op_type):
        found += [
            case(op_type, *inputs_of(op_type, name), attrs=attrs, **coarse(op_type, name)) for name in FLOATS
        ]
        found.append(
            case(op_type, *inputs_of(op_type, "float32"), attrs={**attrs, "use_locking": True}, steps=twice)
        )
    if not any(part in op_type for part in ("AdaMax", "AdagradDA", "Sign", "Ftrl", "Proximal", "Amsgrad")):
        found += [case(op_type, *inputs_of(op_type, name), **coarse(op_type, name)) for name in COMPLEX]
    scalar = next((each.name for each in signature(op_type).input_arg if each.name in SCALARS), "")
    gradient = "delta" if "delta" in {each.name for each in signature(op_type).input_arg} else "grad"
    late = {scalar: unknown}
    return [
        *found,
        case(op_type, *inputs_of(op_type, "float32", **late)),
        case(op_type, *inputs_of(op_type, "float32", **{scalar: [0.5]}), bad=True),
        case(op_type, *inputs_of(op_type, "float32", **{scalar: lambda value: unknown([0.5])}), bad=True),
        case(op_type, *inputs_of(op_type, "float32", **{gradient: sample("float32", (3, 4))}), bad=True),
        case(
            op_type,
            *inputs_of(op_type, "float32", **{gradient: unknown(sample("float32", (4, 2)))}),
            bad=True,
        ),
        case(op_type, *inputs_of(op_type, "bool"), bad=True),
    ]


def twice(update: Node) -> Any:
    return [[update], [update]]


def coarse(op_type: str, dtype: str) -> dict[str, Any]:
    """TensorFlow takes other intermediate steps than NumPy does, and rounds after each."""
    if dtype in ("float16", "bfloat16"):
        return {"tolerance": 16.0, "note": "each of several steps is rounded to 16 bits"}
    return {}


def dense(op_type: str) -> list[Case]:
    shapes: tuple[tuple[int, ...], ...] = ((), (1,), (0,), (2, 0, 3), (130,), (2, 3, 2))
    return [
        *common(op_type),
        *(case(op_type, *inputs_of(op_type, "float32", shape)) for shape in shapes),
    ]


def sparse(op_type: str) -> list[Case]:
    def rows(shape: tuple[int, ...], *indices: int, **changed: Any) -> list[Any]:
        return inputs_of(op_type, "float32", shape, indices, **changed)

    return [
        *common(op_type),
        case(op_type, *rows((5,), 3, 0, 4)),
        case(op_type, *rows((5, 2), 1, 1, 0, 1), note="a row given several times"),
        case(op_type, *rows((3, 2, 2), 2)),
        case(op_type, *rows((4, 3))),
        case(op_type, *rows((4, 3), 1, 2, at=np.array([1, 2], np.int32))),
        case(op_type, *rows((4, 3), 1, 4), bad=True),
        case(op_type, *rows((4, 3), -1, 2), bad=True),
        case(op_type, *rows((4, 3), 1, 2, at=unknown(np.array([[1], [2]]))), bad=True),
        case(op_type, *rows((4, 3), 1, 2, grad=unknown(sample("float32", (3, 3)))), bad=True),
    ]


CASES: list[Case] = []
for name in [f"{prefix}{name}" for name in NAMES for prefix in ("", "Resource")] + [
    f"Resource{name}" for name in RESOURCES_ONLY
]:
    CASES += sparse(name) if "Sparse" in name else dense(name)

LIMITS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ProximalAdagrad", {"lr": 0.0}),
    ("ProximalAdagrad", {"l1": -0.5}),
    ("ProximalAdagrad", {"l2": -0.5}),
    ("Ftrl", {"lr": 0.0}),
    ("Ftrl", {"lr_power": 0.5}),
    ("FtrlV2", {"l1": -0.5}),
    ("FtrlV2", {"l2_shrinkage": -0.5}),
)
for name, wrong in LIMITS:
    for prefix in ("SparseApply", "ResourceSparseApply"):
        CASES.append(case(f"{prefix}{name}", *inputs_of(f"{prefix}{name}", "float32", **wrong), bad=True))
for name, odd in (
    ("Ftrl", {"lr_power": 0.0}),
    ("Ftrl", {"lr_power": -0.75}),
    ("Ftrl", {"l1": 10.0}),
    ("FtrlV2", {"l1": 0.0}),
    ("ProximalAdagrad", {"l1": 0.0}),
    ("ProximalGradientDescent", {"l1": 0.0}),
    ("AdagradDA", {"l1": 0.0}),
):
    for prefix in ("ResourceApply", "ResourceSparseApply"):
        CASES.append(case(f"{prefix}{name}", *inputs_of(f"{prefix}{name}", "float32", **odd)))
