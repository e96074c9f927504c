"""Shared by ops that update variables: registers one formula for references and for resource handles.

An update has *states* (the variables it writes), *scalars*, and tensors of the shape of the variable. The reference kernel
computes all new contents before it assigns any, so that a failing step leaves no variable partly updated.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

import numpy as np

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
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
from aioexec.graph.kernels.launches import expression
from aioexec.graph.registry import ShapeContext, ShapeRule, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.state.row_loops import beyond_limit
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

Formula = Callable[..., Sequence[Array]]
"""(attributes, *contents of the states, *other inputs) to the new contents of the states, as new arrays."""

NUMBERS = frozenset({"float32", "float64", "int32", "int64"})
FLOATS = frozenset({"float32", "float64"})

_INPUT = re.compile(r"(\w+):(Ref\(T\)|T|int64)")
_GRADIENTS = frozenset({"grad", "delta"})

Limit = Literal["positive", "non-negative", "non-positive"]
_LIMITS: Mapping[Limit, tuple[int, int]] = {
    "positive": (1, 0),
    "non-negative": (1, 1),
    "non-positive": (-1, 1),
}
"""The sign that a limit requires of a scalar, and whether 0 is allowed."""
_BEYOND = "a hyperparameter is beyond its limits"
_LONG_NAMES = {
    "l1": "l1 regularization strength",
    "l2": "l2 regularization strength",
    "l2_shrinkage": "l2 shrinkage regularization strength",
}


@dataclass(frozen=True, slots=True)
class Operands:
    """The inputs of an update.

    Attributes:
        names: names of all inputs.
        states: the variables, which are the first inputs.
        scalars: the scalars; all other inputs have the shape of the variable.
        limits: required signs of scalars, by name.
        foreign: scalars with their own dtype.
    """

    names: tuple[str, ...]
    states: tuple[int, ...]
    scalars: frozenset[int]
    limits: Mapping[str, Limit] = field(default_factory=dict)
    foreign: frozenset[int] = frozenset()

    @classmethod
    def of(cls, signature: str, limits: Mapping[str, Limit]) -> Operands:
        inputs = _INPUT.findall(signature.partition("->")[0])
        return cls(
            tuple(name for name, _ in inputs),
            tuple(k for k, (_, kind) in enumerate(inputs) if kind == "Ref(T)"),
            frozenset(
                k for k, (name, kind) in enumerate(inputs) if kind != "Ref(T)" and name not in _GRADIENTS
            ),
            limits,
            frozenset(k for k, (_, kind) in enumerate(inputs) if kind == "int64"),
        )

    def check(self, arrays: Sequence[Array], attrs: Attrs) -> None:
        """Raise InvalidArgumentError unless dtypes agree, scalars are scalars, and other inputs have the first one's shape."""
        first = arrays[0]
        for k, array in enumerate(arrays):
            name = self.names[k]
            if k not in self.foreign and array.dtype != first.dtype:
                raise InvalidArgumentError(
                    f"{name} has dtype {array.dtype}, expected {first.dtype} as {self.names[0]} has"
                )
            if k in self.scalars:
                self._check_scalar(name, array, attrs)
            elif array.shape != first.shape:
                raise InvalidArgumentError(
                    f"{self.names[0]} and {name} do not have the same shape: {shown(first.shape)} {shown(array.shape)}"
                )

    def _check_scalar(self, name: str, array: Array, attrs: Attrs) -> None:
        limit = self.limit_of(name, attrs)
        if limit is None:
            if array.ndim:
                raise InvalidArgumentError(f"{name} is not a scalar: {shown(array.shape)}")
            return
        sign, zero = _LIMITS[limit]
        if array.ndim or not (array * sign > 0 or (zero and array == 0)):
            raise InvalidArgumentError(
                f"{_LONG_NAMES.get(name, name)} is not a {limit} scalar: {shown(array.shape)}, {array}"
            )

    def limit_of(self, name: str, attrs: Attrs) -> Limit | None:
        """Return the limit of a scalar; a rate that is a factor, not a divisor, may be zero."""
        limit = self.limits.get(name)
        if limit == "positive" and attrs.get("multiply_linear_by_lr"):
            return "non-negative"
        return limit

    def fit(self, inputs: Sequence[Spec]) -> bool:
        """Return whether the operands satisfy `check` but for limits; otherwise the reference kernel raises the error."""
        first = inputs[0]
        return all(
            (k in self.foreign or spec.dtype == first.dtype)
            and spec.shape == (() if k in self.scalars else first.shape)
            for k, spec in enumerate(inputs)
        )

    def limit_rows(self, inputs: Sequence[Spec], attrs: Attrs) -> list[Launch]:
        """Return launches that fail with status 1 if a scalar violates its limit."""
        rows = []
        for k, name in enumerate(self.names):
            limit = self.limit_of(name, attrs)
            if limit is not None:
                kernel = LoopKernel(beyond_limit, (inputs[k].dtype.name,), 2, 0)
                rows.append(Launch(kernel, (Operand("input", k),), _LIMITS[limit]))
        return rows


def for_resources(signature: str) -> str:
    """Return the signature of the op on resource handles for that of the op on references."""
    twin = signature.replace(":Ref(T)", ":resource").replace("(out:resource)", "()")
    return f"Resource{twin} {{stateful}}"


def register_twins(
    signature: str,
    *,
    shape: Callable[..., ShapeRule],
    kernel: Callable[..., Reference],
    native: Native | None,
    states: tuple[int, ...],
    references: bool,
) -> None:
    """Register an update on references and its counterpart on resources; `shape` and `kernel` receive `is_ref`.

    Args:
        references: whether TensorFlow has the op on references as well.
    """
    for is_ref in (True, False) if references else (False,):
        register(
            signature if is_ref else for_resources(signature),
            shape=shape(is_ref=is_ref),
            kernel=kernel(is_ref=is_ref),
            gradient=undefined_gradient,
            native=native,
            role=Role.UPDATE,
            writes=states,
            reads=states,
        )


def update(
    signature: str,
    *,
    numpy: Formula,
    native: str | Callable[[Attrs], str] | None,
    dtypes: frozenset[str] = FLOATS,
    limits: Mapping[str, Limit] | None = None,
    references: bool = True,
) -> None:
    """Register an update of whole variables, on references and on resources.

    Args:
        signature: signature of the op on references; inputs `Ref(T)` are states and come first; `grad` or `delta` has their
            shape, all others are scalars.
        numpy: formula of the reference kernel.
        native: as in `launches.expression`.
        limits: required signs of scalars.
        references: whether TensorFlow has the op on references as well.
    """
    operands = Operands.of(signature, limits or {})
    register_twins(
        signature,
        shape=functools.partial(_shape_rule, operands),
        kernel=functools.partial(_kernel, operands, numpy),
        native=None if native is None else _native(native, operands, dtypes),
        states=operands.states,
        references=references,
    )


def _shape_rule(operands: Operands, *, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        whole: Dims = None
        for k, dims in enumerate(context.inputs):
            if k in operands.scalars:
                shapes.with_rank(dims, 0)
            else:
                is_handle = k in operands.states and not is_ref
                whole = shapes.merge(whole, context.variable(k) if is_handle else dims)
        return [whole] if is_ref else []

    return rule


def _kernel(operands: Operands, formula: Formula, *, is_ref: bool) -> Reference:
    count = len(operands.states)

    def bound(context: KernelContext) -> Compute:
        def run(*inputs: Any) -> Variable | None:
            variables: Sequence[Variable] = inputs[:count]
            present = [variable.require() for variable in variables]
            operands.check([*present, *inputs[count:]], context.attrs)
            replace(variables, formula(context.attrs, *present, *inputs[count:]))
            return variables[0] if is_ref else None

        return run

    return bound


def replace(variables: Sequence[Variable], contents: Sequence[Array]) -> None:
    """Assign new contents, which are new arrays, to variables."""
    for variable, content in zip(variables, contents, strict=True):
        fresh = changed(content, variable.require())
        variable.update(functools.partial(_given, fresh))


def _given(content: Array, present: Array) -> Array:
    return content


def _native(text: str | Callable[[Attrs], str], operands: Operands, dtypes: frozenset[str]) -> Native:
    form = expression(text, dtypes=dtypes)

    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        if not operands.fit(inputs) or inputs[0].dtype.name not in dtypes:
            return None
        bound = form.bind(attrs, inputs, ())
        if not isinstance(bound, Launches):
            return None
        return Launches((*operands.limit_rows(inputs, attrs), *bound.rows))

    return Native(bind, dtypes, ((InvalidArgumentError, _BEYOND),) if operands.limits else ())


def changed(array: Any, like: Array) -> Array:
    """Return the result of a formula as a new array of the variable's dtype."""
    return np.asarray(array, like.dtype)
