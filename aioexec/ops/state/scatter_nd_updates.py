"""Updates of slices at coordinates: of variables of both kinds in place, and of tensors, which return a new tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
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
from aioexec.graph.kernels.launches import c_strides, copy_launch
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register, undefined_gradient
from aioexec.ops.array.gathering import BAD_INDICES_POLICIES, ignores_bad_indices
from aioexec.ops.common.elementwise import Array, named, shown, snake_case
from aioexec.ops.state.row_loops import rows_of_coordinates
from aioexec.ops.state.scatter_updates import VERBS, Method, Verb, scatter_function
from aioexec.ops.state.sparse_updates import OUTSIDE, keep_whole
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

# Checks


def _check(dims: Sequence[int], indices: Sequence[int], updates: Sequence[int]) -> int:
    """Check the shapes; return the length of the coordinates.

    Raises:
        InvalidArgumentError: the shapes are inconsistent.
    """
    if not dims or not indices or not updates:
        raise InvalidArgumentError(
            f"output, indices and updates must have rank at least one, got {shown(dims)}, {shown(indices)}, {shown(updates)}"
        )
    sizes = prod(dims), prod(indices), prod(updates)
    if (sizes[1] or sizes[2]) and not all(sizes):
        raise InvalidArgumentError(
            f"Indices and updates specified for empty output shape: {shown(dims)}, {shown(indices)}, {shown(updates)}"
        )
    depth = indices[-1]
    if depth > len(dims) or tuple(updates) != (*indices[:-1], *dims[depth:]):
        raise InvalidArgumentError(
            f"The inner {len(dims) - depth} dimensions of output.shape={shown(dims)} must match the inner dimensions of "
            f"updates.shape={shown(updates)}, and its outer ones those of indices.shape={shown(indices)}"
        )
    return depth


def _rows(indices: Array, dims: Sequence[int], ignores: bool) -> tuple[Array, Array]:
    """Return the slice number for each coordinate, and which coordinates are in bounds.

    Raises:
        InvalidArgumentError: a coordinate is out of bounds, unless the policy ignores that.
    """
    coordinates = indices.reshape(-1, len(dims)) if indices.size else np.zeros((0, len(dims)), np.int64)
    inside = np.asarray(((coordinates >= 0) & (coordinates < np.array(dims, np.int64))).all(-1))
    if not ignores and not inside.all():
        first = int(np.argmin(inside))
        place = [int(k) for k in np.unravel_index(first, indices.shape[:-1])]
        raise InvalidArgumentError(
            f"indices{shown(place)} = {shown(coordinates[first])} does not index into shape {shown(dims)}"
        )
    flat = np.zeros(len(coordinates), np.int64)
    for column, dim in enumerate(dims):
        flat = flat * dim + coordinates[:, column]
    return flat, inside


def _updated(method: Method, target: Array, indices: Array, updates: Array, ignores: bool) -> Array:
    """Return a copy of the target with updated slices."""
    if updates.dtype != target.dtype:
        raise InvalidArgumentError(f"{target.dtype} values cannot be updated with {updates.dtype} ones")
    depth = _check(target.shape, indices.shape, updates.shape)
    fresh = np.array(target, copy=True, order="C")
    rows, inside = _rows(indices, target.shape[:depth], ignores)
    slices = fresh.reshape(prod(target.shape[:depth]), *target.shape[depth:])
    method(slices, rows[inside], updates.reshape(len(rows), *target.shape[depth:])[inside])
    return fresh


def _merged_shape(target: Dims, indices: Dims, updates: Dims) -> Dims:
    """Shape rule: the shape of the target, after checking the other shapes against it."""
    target = shapes.with_rank_at_least(target, 1)
    indices = shapes.with_rank_at_least(indices, 1)
    updates = shapes.with_rank_at_least(updates, 1)
    if target is None or indices is None or updates is None:
        return target
    none = 0 in target
    if none and (_is_known_and_not_empty(indices) or _is_known_and_not_empty(updates)):
        raise GraphValueError("Indices and updates specified for empty input")
    shapes.merge(indices[:-1], updates[: len(indices) - 1])
    depth = indices[-1]
    if depth is not None:
        if depth > len(target):
            raise GraphValueError(
                f"indices of shape {shapes.describe(indices)} are too long for {shapes.describe(target)}"
            )
        shapes.merge(target[depth:], updates[len(indices) - 1 :])
    return target


def _is_known_and_not_empty(dims: Dims) -> bool:
    return dims is not None and None not in dims and 0 not in dims


# The native form: coordinates are converted to slice numbers and checked before anything is written.


def _bind(verb: Verb, *, is_state: bool) -> Callable[..., Launches | None]:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        target, indices, updates = inputs
        name = target.dtype.name
        if (
            name not in verb.dtypes
            or updates.dtype != target.dtype
            or BAD_INDICES_POLICIES.get(attrs["bad_indices_policy"], True)
        ):
            return None
        if not target.size or not indices.size or not updates.size or not indices.shape or not target.shape:
            return None
        depth = indices.shape[-1]
        if depth > len(target.shape) or updates.shape != indices.shape[:-1] + target.shape[depth:]:
            return None
        count, width = prod(indices.shape[:-1]), prod(target.shape[depth:])
        place = Operand("state", 0) if is_state else Operand("output", 0)
        flat = Operand("scratch", 0)
        moved = "int8" if target.dtype == bool else name
        kernel = LoopKernel(verb.loop, (moved, "int64", moved), 4, 0)
        words = (count, width, prod(target.shape[:depth]), 1)
        last = Launch(kernel, (place, flat, Operand("input", 2)), words, cost=10 + updates.nbytes // 4)
        first = keep_whole(inputs, (0,)) if is_state else _copied(target)
        return Launches(
            (*_numbered(indices, target.shape[:depth]), *first, last),
            scratch=(8 * count,),
            inplace=() if is_state else (0,),
        )

    return bind


def _numbered(indices: Spec, dims: Sequence[int]) -> list[Launch]:
    """Return launches that write the slice number of each coordinate into scratch 0."""
    count, rows, step = prod(indices.shape[:-1]), [], prod(dims)
    for column, dim in enumerate(dims):
        step //= dim
        kernel = LoopKernel(rows_of_coordinates, (indices.dtype.name, "int64"), 5, 0)
        words = (count, len(dims), column, dim, step)
        operands = (Operand("input", 1), Operand("scratch", 0))
        rows.append(Launch(kernel, operands, words, cost=10 + 2 * count))
    return rows


def _copied(target: Spec) -> list[Launch]:
    strides = c_strides(target.shape, target.dtype.itemsize)
    row = copy_launch(
        Operand("input", 0), strides, Operand("output", 0), strides, target.shape, target.dtype.itemsize
    )
    return [] if row is None else [row]


# Variables


def _variable_kernel(method: Method, *, is_ref: bool) -> Reference:
    def bound(context: KernelContext) -> Compute:
        def run(variable: Variable, indices: Array, updates: Array) -> Variable | None:
            fresh = _updated(method, variable.require(), indices, updates, ignores_bad_indices(context))
            variable.update(lambda present: fresh)
            return variable if is_ref else None

        return run

    return bound


def _variable_shape(*, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        target = context.inputs[0] if is_ref else context.variable(0)
        merged = _merged_shape(target, context.inputs[1], context.inputs[2])
        return [merged] if is_ref else []

    return rule


for _name in ("Update", "Add", "Sub", "Min", "Max"):
    _types = "" if _name == "Update" else "@6"
    _locking = "true" if _name == "Update" else "false"
    _verb = VERBS[_name]
    for _signature, _is_ref in (
        (
            f"ScatterNd{_name}(ref:Ref(T), indices:Tindices, updates:T) -> (output_ref:Ref(T)) [T:type{_types};"
            f" Tindices:type{{int32|int64}}; use_locking:bool={_locking}; bad_indices_policy:string='']",
            True,
        ),
        (
            f"ResourceScatterNd{_name}(ref:resource, indices:Tindices, updates:T) -> () [T:type;"
            " Tindices:type{int32|int64}; use_locking:bool=true; bad_indices_policy:string=''] {stateful}",
            False,
        ),
    ):
        register(
            _signature,
            shape=_variable_shape(is_ref=_is_ref),
            kernel=_variable_kernel(_verb.method, is_ref=_is_ref),
            gradient=undefined_gradient if _name in ("Min", "Max") else NOT_DIFFERENTIABLE,
            native=Native(_bind(_verb, is_state=True), _verb.dtypes, OUTSIDE),
            role=Role.UPDATE,
            writes=(0,),
            reads=(0,),
        )

# Tensors


def _tensor_kernel(method: Method) -> Reference:
    def bound(context: KernelContext) -> Compute:
        def run(tensor: Array, indices: Array, updates: Array) -> Array:
            return _updated(method, tensor, indices, updates, ignores_bad_indices(context))

        return run

    return bound


def _at(tensor: Tensor, indices: Tensor) -> Tensor:
    return apply_op("GatherNd", tensor, indices)


def _replaced_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    indices, updates = op.inputs[1:]
    return [
        apply_op("TensorScatterUpdate", dy, indices, apply_op("ZerosLike", updates)),
        None,
        _at(dy, indices),
    ]


def _extreme_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    """Return the gradients: dy goes to the extreme element, in equal parts if several are equal."""
    tensor, indices, updates = op.inputs
    result, dtype = op.outputs[0], dy.dtype.base_dtype
    mine = apply_op("Cast", apply_op("Equal", tensor, result), DstT=dtype)
    others = apply_op("Cast", apply_op("Equal", updates, _at(result, indices)), DstT=dtype)
    shape = apply_op("Shape", tensor, out_type=indices.dtype.base_dtype)
    count = apply_op("AddV2", mine, apply_op("ScatterNd", indices, others, shape))
    shared = apply_op("RealDiv", dy, count)
    return [apply_op("Mul", shared, mine), None, apply_op("Mul", _at(shared, indices), others)]


_GRADIENTS: dict[str, Callable[..., Sequence[Any]]] = {
    "Update": _replaced_gradient,
    "Add": lambda op, dy: [dy, None, _at(dy, op.inputs[1])],
    "Sub": lambda op, dy: [dy, None, -_at(dy, op.inputs[1])],
    "Min": _extreme_gradient,
    "Max": _extreme_gradient,
}

for _name, _signature in (
    *(
        (
            name,
            f"TensorScatter{name}(tensor:T, indices:Tindices, updates:T) -> (output:T)"
            f" [T:type; Tindices:type{{{kinds}}}; bad_indices_policy:string='']",
        )
        for name, kinds in (
            ("Update", "int16|int32|int64|uint16"),
            ("Add", "int32|int64"),
            ("Sub", "int32|int64"),
            ("Min", "int32|int64"),
            ("Max", "int32|int64"),
        )
    ),
    (
        "Add",
        "ScatterNdNonAliasingAdd(input:T, indices:Tindices, updates:T) -> (output:T)"
        " [T:type@34; Tindices:type{int32|int64}; bad_indices_policy:string='']",
    ),
):
    register(
        _signature,
        shape=lambda context: [_merged_shape(*context.inputs)],
        kernel=_tensor_kernel(VERBS[_name].method),
        gradient=_GRADIENTS[_name],
        native=Native(_bind(VERBS[_name], is_state=False), VERBS[_name].dtypes, OUTSIDE),
    )

# Functions


scatter_nd_update = scatter_function(
    "ScatterNdUpdate",
    "Replace slices of a variable at coordinates; the last of repeated ones counts",
    locks=True,
)
scatter_nd_add = scatter_function(
    "ScatterNdAdd", "Add to slices of a variable at coordinates; repeated ones accumulate"
)
scatter_nd_sub = scatter_function(
    "ScatterNdSub", "Subtract from slices of a variable at coordinates; repeated ones accumulate"
)


def _on_tensors(op_type: str, summary: str) -> Callable[..., Tensor]:
    def function(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, tensor, indices, updates, name=name)

    return named(function, snake_case(op_type), f"{summary}.")


tensor_scatter_update = _on_tensors(
    "TensorScatterUpdate", "Return the tensor with slices at coordinates replaced"
)
tensor_scatter_add = _on_tensors(
    "TensorScatterAdd", "Return the tensor with updates added to slices at coordinates"
)
tensor_scatter_sub = _on_tensors(
    "TensorScatterSub", "Return the tensor with updates subtracted from slices at coordinates"
)
tensor_scatter_min = _on_tensors(
    "TensorScatterMin",
    "Return the tensor with slices at coordinates replaced by the minimum of them and the updates",
)
tensor_scatter_max = _on_tensors(
    "TensorScatterMax",
    "Return the tensor with slices at coordinates replaced by the maximum of them and the updates",
)
