"""Updates of rows of variables by index, on references and on resource handles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_no_output_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Reference,
    Role,
    Spec,
)
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, named, shown, snake_case
from aioexec.ops.state import row_loops
from aioexec.ops.state.assignments import reference_of, update_reference
from aioexec.ops.state.sparse_updates import OUTSIDE, keep_whole
from aioexec.ops.state.update_rows import FLOATS, NUMBERS
from aioexec.ops.state.variable_gather import ALL, check_indices, resource_gather as resource_gather
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

Method = Callable[[Array, Any, Array], None]
"""(target, row indices, updates): modifies the target, repeated rows in sequence."""


def put(target: Array, indices: Any, updates: Array) -> None:
    target[indices] = updates


def at(ufunc: Callable[..., Any]) -> Method:
    """Apply a ufunc row by row, so that repeated rows accumulate; `ufunc.at` does not support 16-bit floats."""

    def apply(target: Array, indices: Any, updates: Array) -> None:
        if not isinstance(ufunc, np.ufunc) or (target.dtype.itemsize == 2 and target.dtype.kind not in "iu"):
            flat = indices.reshape(-1)
            row_shape = target.shape[1:]
            rows = np.broadcast_to(updates, indices.shape + row_shape).reshape(indices.size, *row_shape)
            for index, row in zip(flat, rows, strict=True):
                target[index] = ufunc(target[index], row)
        else:
            ufunc.at(target, indices, updates)

    return apply


def divided(x: Array, y: Array) -> Array:
    """Return x / y, for integers truncated towards zero.

    Raises:
        InvalidArgumentError: an integer is divided by zero.
    """
    if x.dtype.kind not in "iu":
        return np.asarray(x / y)
    if not np.all(y):
        raise InvalidArgumentError("Integer division by zero")
    quotient = np.floor_divide(np.abs(x), np.abs(y))
    return np.asarray(quotient * np.sign(x) * np.sign(y), x.dtype)


@dataclass(frozen=True, slots=True)
class Verb:
    """A kind of update: the NumPy method, the compiled loop, and the dtypes that the loop supports."""

    method: Method
    loop: Callable[..., int]
    dtypes: frozenset[str]


VERBS = {
    "Update": Verb(put, row_loops.put_rows, ALL),
    "Add": Verb(at(np.add), row_loops.add_rows, NUMBERS),
    "Sub": Verb(at(np.subtract), row_loops.subtract_rows, NUMBERS),
    "Mul": Verb(at(np.multiply), row_loops.multiply_rows, NUMBERS),
    "Div": Verb(at(divided), row_loops.divide_rows, FLOATS),
    "Min": Verb(at(np.minimum), row_loops.least_rows, NUMBERS),
    "Max": Verb(at(np.maximum), row_loops.greatest_rows, NUMBERS),
}
"""The kinds of updates by the last part of the op's name."""


def _scattered(method: Method) -> Reference:
    def kernel(context: KernelContext) -> Compute:
        passes_on = bool(context.output_dtypes)  # the signatures on references

        def scatter(variable: Variable, indices: Array, updates: Array) -> Variable | None:
            present = variable.require()
            _check_dtypes(variable, present, updates)
            if not passes_on and not indices.size and updates.ndim == indices.ndim + present.ndim - 1:
                return None  # as in TensorFlow, regardless of the sizes of the updates
            _check_scatter(present, indices, updates)
            fresh = present.copy()
            method(fresh, indices, updates)
            variable.update(lambda present: fresh)
            return variable if passes_on else None

        return scatter

    return kernel


def _check_dtypes(variable: Variable, present: Array, updates: Array) -> None:
    if updates.dtype != present.dtype:
        raise InvalidArgumentError(
            f"variable {variable.name!r} is {present.dtype}, it cannot be updated with {updates.dtype}"
        )


def _check_scatter(present: Array, indices: Array, updates: Array) -> None:
    if present.ndim == 0 or (updates.ndim and updates.shape != indices.shape + present.shape[1:]):
        raise InvalidArgumentError(
            f"Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape "
            f"{shown(updates.shape)}, indices.shape {shown(indices.shape)}, params.shape {shown(present.shape)}"
        )
    check_indices(indices, present.shape[0])


def _native(verb: Verb) -> Native:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        state, indices, updates = inputs
        if not state.shape or updates.dtype != state.dtype or state.dtype.name not in verb.dtypes:
            return None
        if updates.shape not in ((), indices.shape + state.shape[1:]):
            return None
        dtype = "int8" if state.dtype == bool else state.dtype.name
        kernel = LoopKernel(verb.loop, (dtype, indices.dtype.name, dtype), 4, 0)
        operands = (Operand("state", 0), Operand("input", 1), Operand("input", 2))
        words = (indices.size, prod(state.shape[1:]), state.shape[0], int(updates.shape != ()))
        rows = Launch(kernel, operands, words, cost=10 + updates.nbytes // 4)
        return Launches((*keep_whole(inputs, (0,)), rows))

    return Native(bind, verb.dtypes, OUTSIDE)


def _scatter_shape(*, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        ref, indices, updates = context.inputs
        ref = shapes.with_rank_at_least(ref if is_ref else context.variable(0), 1)
        if updates != ():
            shapes.merge(updates, shapes.concatenate(indices, None if ref is None else ref[1:]))
        return [ref] if is_ref else []

    return rule


for _name, _verb in VERBS.items():
    _types = "" if _name == "Update" else "@6"
    _ref_types = "@23" if _name in ("Min", "Max") else _types
    for _signature, _is_ref in (
        (
            f"Scatter{_name}(ref:Ref(T), indices:Tindices, updates:T) -> (output_ref:Ref(T)) [T:type{_ref_types};"
            f" Tindices:type{{int32|int64}}; use_locking:bool={'true' if _name == 'Update' else 'false'}]",
            True,
        ),
        (
            f"ResourceScatter{_name}(resource:resource, indices:Tindices, updates:dtype) -> ()"
            f" [dtype:type{_types}; Tindices:type{{int32|int64}}] {{stateful}}",
            False,
        ),
    ):
        register(
            _signature,
            shape=_scatter_shape(is_ref=_is_ref),
            kernel=_scattered(_verb.method),
            gradient=undefined_gradient if _name in ("Update", "Min", "Max") else NOT_DIFFERENTIABLE,
            native=_native(_verb),
            role=Role.UPDATE,
            writes=(0,),
            reads=(0,),
        )

# Functions


def scatter_function(op_type: str, summary: str, *, locks: bool = False) -> Callable[..., Any]:
    """Return the Python function of an update by index; `locks` is the default of `use_locking`.

    The function updates a variable of either kind, and returns an object that reads the new content.
    """

    def function(
        ref: Any, indices: Any, updates: Any, use_locking: bool = locks, name: str | None = None
    ) -> Any:
        reference = reference_of(ref)
        if reference is None:
            values = convert_to_tensor(updates, ref.dtype)
            with ref.after_update():
                op = apply_no_output_op(f"Resource{op_type}", ref.handle, indices, values, name=name)
            return ref.after(op)
        return update_reference(op_type, reference, indices, updates, name=name, use_locking=use_locking)

    return named(function, snake_case(op_type), f"{summary}.")


scatter_update = scatter_function(
    "ScatterUpdate", "Replace rows of a variable; the last of repeated ones counts", locks=True
)
scatter_add = scatter_function("ScatterAdd", "Add to rows of a variable; repeated rows accumulate")
scatter_sub = scatter_function("ScatterSub", "Subtract from rows of a variable; repeated rows accumulate")
scatter_mul = scatter_function(
    "ScatterMul", "Multiply rows of a variable; repeated rows are multiplied repeatedly"
)
scatter_div = scatter_function(
    "ScatterDiv", "Divide rows of a variable; repeated rows are divided repeatedly"
)
scatter_min = scatter_function(
    "ScatterMin", "Replace rows of a variable by the minimum of them and the updates"
)
scatter_max = scatter_function(
    "ScatterMax", "Replace rows of a variable by the maximum of them and the updates"
)
