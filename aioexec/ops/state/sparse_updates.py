"""Optimizer updates of some rows of a parameter, by the formulas of the dense updates.

Optimizers sum the gradients of a repeated row before the update; rows that are still repeated are updated in sequence.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

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
    Spec,
)
from aioexec.graph.kernels.launches import c_strides, copy_launch
from aioexec.graph.registry import ShapeContext, ShapeRule
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.state.update_rows import FLOATS, Formula, Limit, Operands, register_twins, replace
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

OUTSIDE = ((InvalidArgumentError, "an index is outside of the variable's first dimension"),)


@dataclass(frozen=True, slots=True)
class RowOperands:
    """The inputs of a sparse update: those of the dense one, with `indices` after the gradient.

    Attributes:
        dense: the inputs without `indices`.
        grad: position of the gradient among them; `indices` follow it.
    """

    dense: Operands
    grad: int

    @property
    def indices(self) -> int:
        return self.grad + 1

    @property
    def count(self) -> int:
        return len(self.dense.names) + 1

    def without_indices(self, inputs: Sequence[Any]) -> list[Any]:
        return [*inputs[: self.indices], *inputs[self.indices + 1 :]]


def sparse_update(
    dense_signature: str,
    *,
    numpy: Formula,
    loop: Callable[..., int] | None = None,
    limits: Mapping[str, Limit] | None = None,
    references: bool = True,
) -> None:
    """Register the sparse update for a dense one, on references and on resources.

    Args:
        dense_signature: signature of the dense op on references.
        loop: native form: a loop whose arguments are all inputs in order, count and width of the rows, number of rows of the
            variable, and the op's boolean attributes other than `use_locking`.
        limits: required signs of scalars.
        references: whether TensorFlow has the op on references as well.
    """
    signature = (
        dense_signature.replace("Apply", "SparseApply", 1)
        .replace("delta:T", "grad:T")
        .replace("grad:T", "grad:T, indices:Tindices")
        .replace("T:type@6;", "T:type@6; Tindices:type{int32|int64};")
    )
    dense = Operands.of(dense_signature.replace("delta:T", "grad:T"), limits or {})
    operands = RowOperands(dense, dense.names.index("grad"))
    register_twins(
        signature,
        shape=functools.partial(_shape_rule, operands),
        kernel=functools.partial(_kernel, operands, numpy),
        native=None if loop is None else Native(functools.partial(_bind, operands, loop), FLOATS, OUTSIDE),
        states=dense.states,
        references=references,
    )


def _shape_rule(operands: RowOperands, *, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        whole: Dims = None
        for k in operands.dense.states:
            whole = shapes.merge(whole, context.inputs[k] if is_ref else context.variable(k))
        inputs = operands.without_indices(context.inputs)
        for k in operands.dense.scalars:
            shapes.with_rank(inputs[k], 0)
        indices = shapes.with_rank(context.inputs[operands.indices], 1)
        rest = None if whole is None else whole[1:]
        shapes.merge(context.inputs[operands.grad], shapes.concatenate(indices, rest))
        return [whole] if is_ref else []

    return rule


def _kernel(operands: RowOperands, formula: Formula, *, is_ref: bool) -> Reference:
    states = len(operands.dense.states)

    def bound(context: KernelContext) -> Compute:
        def run(*inputs: Any) -> Variable | None:
            variables: Sequence[Variable] = inputs[:states]
            indices = inputs[operands.indices]
            others = operands.without_indices(inputs)[states:]
            contents = [variable.require() for variable in variables]
            _check(operands, [*contents, *others], indices, context.attrs)
            fresh = [content.copy() for content in contents]
            for index, others_of_row in _rows(operands, indices, others):
                rows = formula(context.attrs, *(content[index] for content in fresh), *others_of_row)
                for content, row in zip(fresh, rows, strict=True):
                    content[index] = row
            replace(variables, fresh)
            return variables[0] if is_ref else None

        return run

    return bound


def _rows(operands: RowOperands, indices: Array, others: Sequence[Array]) -> Any:
    """Yield (index, inputs for it): everything at once if no row is repeated, else row by row."""
    if len(np.unique(indices)) == len(indices):
        yield indices, others
        return
    place = operands.grad - len(operands.dense.states)
    for position, index in enumerate(indices):
        yield index, [other[position] if k == place else other for k, other in enumerate(others)]


def _check(operands: RowOperands, arrays: Sequence[Array], indices: Array, attrs: Attrs) -> None:
    var, grad = arrays[0], arrays[operands.grad]
    if var.ndim == 0:
        raise InvalidArgumentError("var must be at least 1 dimensional")
    operands.dense.check([var if k == operands.grad else array for k, array in enumerate(arrays)], attrs)
    if indices.ndim != 1:
        raise InvalidArgumentError(f"indices must be one-dimensional, got shape {shown(indices.shape)}")
    if grad.dtype != var.dtype:
        raise InvalidArgumentError(f"grad has dtype {grad.dtype}, expected {var.dtype} as var has")
    if grad.ndim != var.ndim:
        raise InvalidArgumentError(
            f"grad must have the same number of dimensions as var, {var.ndim}, got {shown(grad.shape)}"
        )
    for k in range(1, var.ndim):
        if grad.shape[k] != var.shape[k]:
            raise InvalidArgumentError(
                f"var and grad must match in dimension {k}: {shown(var.shape)} {shown(grad.shape)}"
            )
    if len(grad) != len(indices):
        raise InvalidArgumentError(
            f"grad must be the same size as indices in the first dimension: {len(grad)}, {len(indices)}"
        )
    bad = np.flatnonzero((indices < 0) | (indices >= len(var)))
    if len(bad):
        raise InvalidArgumentError(
            f"Index {indices[bad[0]]} at offset {bad[0]} in indices is out of range [0, {len(var)})"
        )


def _bind(
    operands: RowOperands,
    loop: Callable[..., int],
    attrs: Attrs,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> Launches | None:
    var, grad, indices = inputs[0], inputs[operands.grad], inputs[operands.indices]
    dense = [var if k == operands.grad else spec for k, spec in enumerate(operands.without_indices(inputs))]
    if not var.shape or not operands.dense.fit(dense) or grad.dtype != var.dtype:
        return None
    if var.dtype.name not in FLOATS:
        return None
    if len(indices.shape) != 1 or grad.shape != indices.shape + var.shape[1:]:
        return None
    switches = [int(v) for name, v in attrs.items() if isinstance(v, bool) and name != "use_locking"]
    words = (indices.size, prod(var.shape[1:]), var.shape[0], *switches)
    kernel = LoopKernel(loop, tuple(spec.dtype.name for spec in inputs), len(words), 0)
    places = tuple(
        Operand("state" if k in operands.dense.states else "input", k) for k in range(operands.count)
    )
    row = Launch(kernel, places, words, cost=10 + grad.nbytes // 2)
    return Launches((*keep_whole(inputs, operands.dense.states), row))


def keep_whole(inputs: Sequence[Spec], states: Sequence[int]) -> list[Launch]:
    """Return launches that copy the content of variables to their next buffer, of which only some rows will change."""
    copies = []
    for k in states:
        shape, size = inputs[k].shape, inputs[k].dtype.itemsize
        strides = c_strides(shape, size)
        copies.append(copy_launch(Operand("input", k), strides, Operand("state", k), strides, shape, size))
    return [copy for copy in copies if copy is not None]
