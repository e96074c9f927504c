"""Cases of optimizer updates: TensorFlow's values of the variables, and errors of all optimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph import registry
from aioexec.ops.training import optimizer_updates as optimizer_updates  # the rows
from tests.ops.harness import KINDS, Case, Ref, case
from tests.ops.training.golden_optimizers import GOLDEN

VAR = [[1.5, -2.0, 0.25], [4.0, 0.0, -0.5]]
SLOTS = (
    [[0.25, 0.5, 1.0], [0.75, 0.125, 0.5]],
    [[1.0, 1.75, 1.5], [1.25, 2.0, 1.5]],
    [[2.0, 1.0, 0.5], [1.0, 3.0, 0.25]],
)
GRADIENT = [[0.5, -1.0, 2.0], [0.125, 1.5, -0.25]]
ROWS = [[1.0, 2.0], [-1.0, 0.25]]
SCALARS: dict[str, Any] = {
    "alpha": 0.5, "lr": 0.5, "momentum": 0.75, "epsilon": 0.0625, "rho": 0.875, "l1": 0.25, "l2": 0.125,
    "l2_shrinkage": 0.5, "lr_power": -0.5, "beta1_power": 0.5, "beta2_power": 0.25, "beta1": 0.75, "beta2": 0.875,
    "beta": 0.75, "logbase": 1.5, "sign_decay": 0.625, "global_step": 2,
}  # fmt: skip
EMPTY = np.zeros((0, 3))


def inputs_of(op_type: str, kind: Any = np.int64, **changed: Any) -> list[Any]:
    """A value for each input of an optimizer's update; `changed` replaces some."""
    is_sparse = "Sparse" in op_type
    slots = iter(SLOTS)
    values: list[Any] = []
    for arg in registry.lookup(op_type).definition.inputs:
        is_state = arg.is_ref or (arg.dtype is not None and arg.dtype.name == "resource")
        if is_state:
            content = VAR if arg.name == "var" else next(slots)
            value: Any = Ref(np.array(content).T if is_sparse else content)
        elif arg.name in ("grad", "delta"):
            value = ROWS if is_sparse else GRADIENT
        elif arg.name == "indices":
            value = np.array([2, 0], kind)
        else:
            value = SCALARS[arg.name]
        values.append(changed.get(arg.name, value))
    return values


def switch_of(op_type: str) -> str | None:
    """The attribute other than `use_locking` that switches between two formulas."""
    kinds = {attr.name: attr.kind for attr in registry.lookup(op_type).definition.attrs}
    return next((name for name, kind in kinds.items() if kind == "bool" and name != "use_locking"), None)


def golden(op_type: str, switch: bool | None, prefix: str) -> list[Case]:
    shape = (3, 2) if "Sparse" in op_type else (2, 3)
    lines = GOLDEN[op_type, switch].strip().splitlines()
    states = tuple(np.array(line.split(), float).reshape(shape) for line in lines)
    name = switch_of(prefix + op_type)
    attrs = {} if name is None else {name: switch}
    kinds = (np.int32, np.int64) if "Sparse" in op_type else (np.int64,)
    return [
        case(prefix + op_type, *inputs_of(prefix + op_type, kind), attrs=attrs, state=states, tolerance=4e-5)
        for kind in kinds
    ]


CASES: list[Case] = [
    made
    for op_type, switch in GOLDEN
    for prefix in ("", "Resource")
    if registry.is_registered(prefix + op_type)
    for made in golden(op_type, switch, prefix)
]

for op_type in sorted({op_type for op_type, _ in GOLDEN}):
    twin = f"Resource{op_type}"
    gradient = next(
        arg.name for arg in registry.lookup(twin).definition.inputs if arg.name in ("grad", "delta")
    )
    other = {gradient: [[1.0, 2.0, 3.0]]}
    CASES.append(case(twin, *inputs_of(twin, **other), raises=InvalidArgumentError, native=False))
    if "Sparse" in op_type:
        outside = np.array([0, 3])
        CASES.append(case(twin, *inputs_of(twin, indices=outside), raises=InvalidArgumentError))
        none = {"grad": np.zeros((0, 2)), "indices": np.zeros(0, np.int64)}
        CASES.append(case(twin, *inputs_of(twin, **none)))
    else:
        empty = [Ref(EMPTY) if isinstance(value, Ref) else value for value in inputs_of(twin)]
        whole = [EMPTY if value is GRADIENT else value for value in empty]
        CASES.append(case(twin, *whole, state=tuple(EMPTY for value in whole if isinstance(value, Ref))))

for op_type, wrong in (
    ("ResourceApplyProximalAdagrad", {"lr": 0.0}),
    ("ResourceApplyProximalAdagrad", {"l1": -1.0}),
    ("ResourceApplyProximalAdagrad", {"l2": float("nan")}),
    ("ResourceSparseApplyProximalAdagrad", {"lr": -1.0}),
    ("ResourceSparseApplyFtrl", {"lr": 0.0}),
    ("ResourceSparseApplyFtrl", {"lr_power": 0.5}),
    ("ResourceSparseApplyFtrlV2", {"l2_shrinkage": -0.5}),
):
    CASES.append(case(op_type, *inputs_of(op_type, **wrong), raises=InvalidArgumentError))

for op_type in ("ApplyGradientDescent", "ResourceApplyGradientDescent"):
    steps = {"alpha": 2, "delta": [[1, 0, 1], [0, 1, 0]], "var": Ref([[1, 2, 3], [4, 5, 6]])}
    after = [[-1, 2, 1], [4, 3, 6]]
    CASES.append(case(op_type, *inputs_of(op_type, **steps), state=after, dtypes=KINDS["i"][:4]))
