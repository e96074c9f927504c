"""Functional control flow: If, Case and While, stateless or stateful, and the functions that add them.

They have no kernel: planning rewrites them to control nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.func_graph import FuncGraph
from aioexec.graph.kernels.kernel import Role, plain
from aioexec.graph.node import Operation
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.ops.functions.calls import checked_body
from aioexec.shapes import Dims


def _branches(op: Operation) -> tuple[FuncGraph, ...]:
    """Return the bodies of the branches, which take all inputs but the first."""
    if op.row.role is Role.CASE:
        called = [(f"branches[{k}]", branch) for k, branch in enumerate(op.attrs["branches"])]
    else:
        called = [(attr, op.attrs[attr]) for attr in ("then_branch", "else_branch")]
    return tuple(checked_body(op, attr, branch, op.inputs[1:], op.outputs) for attr, branch in called)


def _condition_and_body(op: Operation) -> tuple[FuncGraph, ...]:
    condition = checked_body(op, "cond", op.attrs["cond"], op.inputs, None)
    if len(condition.outputs) != 1:
        raise InvalidArgumentError(
            f"{op.type} {op.name!r}: function {condition.name!r}, its attr 'cond', must return one value, "
            f"got {len(condition.outputs)}"
        )
    return condition, checked_body(op, "body", op.attrs["body"], op.inputs, op.inputs)


def _given_shapes(context: ShapeContext, count: int, otherwise: Sequence[Dims]) -> Sequence[Dims]:
    given = context.attrs["output_shapes"]
    if given and len(given) != count:
        raise GraphValueError(
            f"`output_shapes` must be the same length as num outputs ({len(given)} vs. {count})"
        )
    return given or otherwise


def _chosen_shapes(context: ShapeContext) -> Sequence[Dims]:
    count = len(context.attrs["Tout"])
    return _given_shapes(context, count, [None] * count)


def _repeated_shapes(context: ShapeContext) -> Sequence[Dims]:
    return _given_shapes(context, len(context.inputs), context.inputs)


_LISTS = "Tin:list(type)>=0; Tout:list(type)>=0"
_SHAPES = "output_shapes:list(shape)=[]"

for _prefix, _flags in (("", " {stateful}"), ("Stateless", "")):
    register(
        f"{_prefix}If(cond:Tcond, input:Tin) -> (output:Tout) "
        f"[Tcond:type; {_LISTS}; then_branch:func; else_branch:func; {_SHAPES}]{_flags}",
        shape=_chosen_shapes,
        kernel=None,
        gradient=undefined_gradient,
        role=Role.IF,
        bodies=_branches,
    )
    register(
        f"{_prefix}Case(branch_index:int32, input:Tin) -> (output:Tout) "
        f"[{_LISTS}; branches:list(func)>=1; {_SHAPES}]{_flags}",
        shape=_chosen_shapes,
        kernel=None,
        gradient=undefined_gradient,
        role=Role.CASE,
        bodies=_branches,
    )
    register(
        f"{_prefix}While(input:T) -> (output:T) "
        f"[T:list(type)>=0; cond:func; body:func; {_SHAPES}; parallel_iterations:int=10]{_flags}",
        shape=_repeated_shapes,
        kernel=None,
        gradient=undefined_gradient,
        role=Role.WHILE,
        bodies=_condition_and_body,
    )


def _to_bool(value: Any) -> Any:
    """Convert a scalar to a condition: a non-zero number, a non-empty string; of other shapes, a non-empty tensor."""
    if value.ndim:
        return np.array(value.size > 0)
    if value.dtype.kind == "c":
        raise InvalidArgumentError(f"{value.dtype} cannot be converted to a boolean")
    return np.array(len(value[()]) > 0 if value.dtype == object else bool(value))


register(
    "ToBool(input:T) -> (output:bool) [T:type]",
    shape=lambda context: [()],
    kernel=plain(_to_bool),
    gradient=NOT_DIFFERENTIABLE,
)
