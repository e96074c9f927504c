"""What ops that write variables have in common: one formula gives the row for references and the row for resource handles.

An update has *states* (variables it writes), *scalars*, and full tensors of the shape of the variable. The reference kernel
computes every new content before it changes any variable, so that a step that fails leaves none half-written.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernel import Attrs, Compute, KernelContext, Launches, Native, Reference, Role, Spec
from aioexec.graph.launches import expression
from aioexec.graph.registry import NOT_DIFFERENTIABLE, Row, ShapeContext, ShapeRule, register
from aioexec.ops.elementwise import Array, shown
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

Formula = Callable[..., Sequence[Array]]
"""(attributes, *contents of the states, *other inputs) to the new contents of the states: fresh arrays."""

NUMBERS = frozenset({"float32", "float64", "int32", "int64"})
FLOATS = frozenset({"float32", "float64"})

_INPUT = re.compile(r"(\w+):(Ref\(T\)|T)")


def for_resources(signature: str) -> str:
    """The signature of an op on references as that of its twin on resource handles."""
    twin = signature.replace(":Ref(T)", ":resource").replace("(out:resource)", "()")
    return f"Resource{twin} {{stateful}}"


def update(
    signature: str,
    *,
    numpy: Formula,
    native: str | Callable[[Attrs], str] | None,
    scalars: Sequence[str] = (),
    dtypes: frozenset[str] = FLOATS,
) -> tuple[Row, Row]:
    """Register an update and its twin on resources.

    Args:
        signature: of the op on references; inputs `Ref(T)` are states, and come first.
        numpy: the formula of the reference kernel.
        native: as in `launches.expression`.
        scalars: inputs that must be scalars; all others have the shape of the variable.
    """
    inputs = _INPUT.findall(signature.partition("->")[0])
    names = [name for name, _ in inputs]
    states = tuple(k for k, (_, kind) in enumerate(inputs) if kind != "T")
    single = frozenset(names.index(name) for name in scalars)

    def row(text: str, *, is_ref: bool) -> Row:
        return register(
            text,
            shape=_shape_rule(states, single, is_ref=is_ref),
            kernel=_kernel(names, states, single, numpy, is_ref=is_ref),
            gradient=NOT_DIFFERENTIABLE,
            native=None if native is None else _native(native, single, dtypes),
            role=Role.UPDATE,
            writes=states,
            reads=states,
        )

    return row(signature, is_ref=True), row(for_resources(signature), is_ref=False)


def _shape_rule(states: Sequence[int], scalars: frozenset[int], *, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        whole: Dims = None
        for k, dims in enumerate(context.inputs):
            if k in scalars:
                shapes.with_rank(dims, 0)
            else:
                whole = shapes.merge(whole, context.variable(k) if k in states and not is_ref else dims)
        return [whole] if is_ref else []

    return rule


def _kernel(
    names: Sequence[str], states: Sequence[int], scalars: frozenset[int], formula: Formula, *, is_ref: bool
) -> Reference:
    count = len(states)

    def bound(context: KernelContext) -> Compute:
        compute = functools.partial(formula, context.attrs)

        def run(*inputs: Any) -> Variable | None:
            variables: Sequence[Variable] = inputs[:count]
            present = [variable.require() for variable in variables]
            check_operands(names, [*present, *inputs[count:]], scalars)
            fresh = compute(*present, *inputs[count:])
            for variable, content in zip(variables, fresh, strict=True):
                variable.update(functools.partial(_given, content))
            return variables[0] if is_ref else None

        return run

    return bound


def _given(content: Array, present: Array) -> Array:
    return content


def check_operands(names: Sequence[str], arrays: Sequence[Array], scalars: frozenset[int]) -> None:
    """Raise InvalidArgumentError unless dtypes agree, scalars are scalars and all else has the shape of the variable."""
    first = arrays[0]
    for k, array in enumerate(arrays):
        if array.dtype != first.dtype:
            raise InvalidArgumentError(
                f"{names[k]} has dtype {array.dtype}, expected {first.dtype} as {names[0]} has"
            )
        if k in scalars and array.ndim:
            raise InvalidArgumentError(f"{names[k]} is not a scalar: it has shape {shown(array.shape)}")
        if k not in scalars and array.shape != first.shape:
            raise InvalidArgumentError(
                f"{names[0]} and {names[k]} do not have the same shape: {shown(first.shape)} {shown(array.shape)}"
            )


def _native(text: str | Callable[[Attrs], str], scalars: frozenset[int], dtypes: frozenset[str]) -> Native:
    form = expression(text, dtypes=dtypes)

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        if not _fit(inputs, scalars) or inputs[0].dtype.name not in dtypes:
            return None
        bound = form.bind(attrs, inputs, ())
        return Launches(bound.rows) if isinstance(bound, Launches) else None

    return Native(bind, dtypes)


def _fit(inputs: Sequence[Spec], scalars: frozenset[int]) -> bool:
    """Whether the operands are as the op wants them; if not, the reference kernel says what is wrong."""
    first = inputs[0]
    return all(
        spec.dtype == first.dtype and spec.shape == (() if k in scalars else first.shape)
        for k, spec in enumerate(inputs)
    )


def changed(array: Any, like: Array) -> Array:
    """A formula's result as an array of its own, in the dtype of the variable."""
    return np.asarray(array, like.dtype)
