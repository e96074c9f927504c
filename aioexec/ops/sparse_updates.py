"""Optimizer updates of some rows of a parameter; a row must not be given twice (the optimizers add such rows up first)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernel import (
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
from aioexec.graph.launches import c_strides, copy_launch
from aioexec.graph.loop_language import Pointer
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register
from aioexec.ops.elementwise import Array, shown
from aioexec.ops.scatter_updates import OUTSIDE, check_indices, outside
from aioexec.ops.update_rows import FLOATS, check_operands, for_resources
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

VAR, ACCUM, LR, GRAD, INDICES, MOMENTUM = range(6)


def momentum_rows(
    var: Pointer,
    accum: Pointer,
    lr: Pointer,
    grad: Pointer,
    indices: Pointer,
    momentum: Pointer,
    count: int,
    width: int,
    rows: int,
    nesterov: int,
) -> int:
    """One step of momentum on the rows var[indices]; 1 if an index is outside, and nothing is changed."""
    if outside(indices, count, rows):
        return 1
    rate, keep = lr[0], momentum[0]
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            gradient = grad[i * width + j]
            speed = accum[start + j] * keep + gradient
            accum[start + j] = speed
            if nesterov:
                var[start + j] -= gradient * rate + speed * keep * rate
            else:
                var[start + j] -= rate * speed
    return 0


def _kernel(*, is_ref: bool) -> Reference:
    def bound(context: KernelContext) -> Compute:
        nesterov = context.attrs["use_nesterov"]

        def run(
            var: Variable, accum: Variable, lr: Array, grad: Array, indices: Array, momentum: Array
        ) -> Variable | None:
            parameter, speed = var.require(), accum.require()
            check_operands(
                ("var", "accum", "lr", "momentum"), (parameter, speed, lr, momentum), frozenset({2, 3})
            )
            _check_rows(parameter, grad, indices)
            parameter, speed = parameter.copy(), speed.copy()
            for index, gradient in zip(indices, grad, strict=True):
                speed[index] = speed[index] * momentum + gradient
                step = gradient * lr + speed[index] * momentum * lr if nesterov else lr * speed[index]
                parameter[index] -= step
            var.update(lambda present: parameter)
            accum.update(lambda present: speed)
            return var if is_ref else None

        return run

    return bound


def _check_rows(parameter: Array, grad: Array, indices: Array) -> None:
    if parameter.ndim == 0:
        raise InvalidArgumentError("var must be at least 1 dimensional")
    if indices.ndim != 1:
        raise InvalidArgumentError(f"indices must be one-dimensional, got shape {shown(indices.shape)}")
    expected = indices.shape + parameter.shape[1:]
    if grad.shape != expected or grad.dtype != parameter.dtype:
        raise InvalidArgumentError(
            f"grad must be {parameter.dtype} of shape {shown(expected)}, a row for each index, "
            f"got {grad.dtype} of shape {shown(grad.shape)}"
        )
    check_indices(indices, parameter.shape[0])


def _shape_rule(*, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        whole = None
        for k in (VAR, ACCUM):
            whole = shapes.merge(whole, context.inputs[k] if is_ref else context.variable(k))
        whole = shapes.with_rank_at_least(whole, 1)
        indices = shapes.with_rank(context.inputs[INDICES], 1)
        shapes.merge(context.inputs[GRAD], shapes.concatenate(indices, None if whole is None else whole[1:]))
        for k in (LR, MOMENTUM):
            shapes.with_rank(context.inputs[k], 0)
        return [whole] if is_ref else []

    return rule


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    var, grad, indices = inputs[VAR], inputs[GRAD], inputs[INDICES]
    floats = [inputs[k] for k in (VAR, ACCUM, LR, GRAD, MOMENTUM)]
    if any(spec.dtype != var.dtype for spec in floats) or var.dtype.name not in FLOATS:
        return None
    fits = inputs[ACCUM].shape == var.shape and inputs[LR].shape == inputs[MOMENTUM].shape == ()
    if not fits or not var.shape or len(indices.shape) != 1 or grad.shape != indices.shape + var.shape[1:]:
        return None
    strides = c_strides(var.shape, var.dtype.itemsize)
    copies = [
        copy_launch(Operand("input", k), strides, Operand("state", k), strides, var.shape, var.dtype.itemsize)
        for k in (VAR, ACCUM)
    ]
    name = var.dtype.name
    kernel = LoopKernel(momentum_rows, (name, name, name, name, indices.dtype.name, name), 4, 0)
    operands = (
        Operand("state", VAR),
        Operand("state", ACCUM),
        *(Operand("input", k) for k in (LR, GRAD, INDICES, MOMENTUM)),
    )
    words = (indices.size, prod(var.shape[1:]), var.shape[0], int(attrs["use_nesterov"]))
    row = Launch(kernel, operands, words, cost=10 + grad.nbytes // 2)
    return Launches((*(copy for copy in copies if copy is not None), row))


_SIGNATURE = (
    "SparseApplyMomentum(var:Ref(T), accum:Ref(T), lr:T, grad:T, indices:Tindices, momentum:T) -> (out:Ref(T))"
    " [T:type@6; Tindices:type{int32|int64}; use_locking:bool=false; use_nesterov:bool=false]"
)

for _text, _is_ref in ((_SIGNATURE, True), (for_resources(_SIGNATURE), False)):
    register(
        _text,
        shape=_shape_rule(is_ref=_is_ref),
        kernel=_kernel(is_ref=_is_ref),
        gradient=NOT_DIFFERENTIABLE,
        native=Native(_bind, FLOATS, OUTSIDE),
        role=Role.UPDATE,
        writes=(VAR, ACCUM),
        reads=(VAR, ACCUM),
    )
