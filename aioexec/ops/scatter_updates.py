"""Rows of variables: gathering them by index, and updating them by index, on references and on resource handles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.graph.apply import apply_op
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Role,
    Spec,
)
from aioexec.graph.launches import c_strides, copy_launch
from aioexec.graph.loop_language import Pointer
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register
from aioexec.graph.static_values import variable_dims
from aioexec.ops.elementwise import Array, shown
from aioexec.ops.state import reference_of, update_reference
from aioexec.ops.update_rows import NUMBERS
from aioexec.ops.variables import ALL
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

OUTSIDE = ((InvalidArgumentError, "an index is outside of the variable's first dimension"),)
_SAME_WIDTH = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}

# Loops. Everything is checked before anything is written: the variable may be updated in place.


def outside(indices: Pointer, count: int, rows: int) -> int:
    """1 if an index is not in [0, rows), else 0."""
    for i in range(count):
        if indices[i] < 0 or indices[i] >= rows:
            return 1
    return 0


def gather_rows(params: Pointer, indices: Pointer, out: Pointer, count: int, width: int, rows: int) -> int:
    """out[count, width] = params[indices]; 1 if an index is outside."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            out[i * width + j] = params[start + j]
    return 0


def put_rows(state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int) -> int:
    """state[indices] = updates, a later row over an earlier one; 1 if an index is outside."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] = updates[i * width + j]
    return 0


def add_rows(state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int) -> int:
    """state[indices] += updates, repeated rows add up; 1 if an index is outside."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] += updates[i * width + j]
    return 0


def subtract_rows(
    state: Pointer, indices: Pointer, updates: Pointer, count: int, width: int, rows: int
) -> int:
    """state[indices] -= updates, repeated rows add up; 1 if an index is outside."""
    if outside(indices, count, rows):
        return 1
    for i in range(count):
        start = indices[i] * width
        for j in range(width):
            state[start + j] -= updates[i * width + j]
    return 0


def check_indices(indices: Array, rows: int) -> None:
    """Raise InvalidArgumentError at the first index that is not in [0, rows)."""
    bad = np.argwhere((indices < 0) | (indices >= rows))
    if len(bad):
        place = tuple(bad[0])
        where = f"[{','.join(map(str, place))}]" if place else ""
        raise InvalidArgumentError(f"indices{where} = {indices[place]} is not in [0, {rows})")


# Gathering


def _gathered(context: KernelContext) -> Compute:
    if context.attrs["batch_dims"]:
        raise UnimplementedError(
            f"ResourceGather with batch_dims={context.attrs['batch_dims']}; only 0 is known"
        )

    def gather(variable: Variable, indices: Array) -> Array:
        params = variable.require()
        if params.ndim == 0:
            raise InvalidArgumentError(
                f"params must be at least 1 dimensional: {variable.name!r} is a scalar"
            )
        check_indices(indices, params.shape[0])
        return np.asarray(params[indices])

    return gather


def _gather_shape(context: ShapeContext) -> Sequence[Dims]:
    params = shapes.with_rank_at_least(context.variable(0), 1)
    return [shapes.concatenate(context.inputs[1], None if params is None else params[1:])]


def _bind_gather(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    params, indices = inputs
    if attrs["batch_dims"] or not params.shape or params.dtype.itemsize not in _SAME_WIDTH:
        return None
    if params.dtype != outputs[0].dtype:
        return None
    dtype = _SAME_WIDTH[params.dtype.itemsize]
    kernel = LoopKernel(gather_rows, (dtype, indices.dtype.name, dtype), 3, 0)
    words = (indices.size, _width(params), params.shape[0])
    operands = (Operand("input", 0), Operand("input", 1), Operand("output", 0))
    return Launches((Launch(kernel, operands, words, cost=10 + outputs[0].nbytes // 8),))


def _width(params: Spec) -> int:
    """Elements of a row."""
    width = 1
    for dim in params.shape[1:]:
        width *= dim
    return width


def _gather_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    """The gradient of the variable's rows: slices, so that nothing of the variable's size is made."""
    handle, indices = op.inputs
    dims = variable_dims(handle)
    shape: Any = dims if shapes.is_fully_defined(dims) else apply_op("VariableShape", handle)
    count = apply_op("ExpandDims", apply_op("Size", indices), 0)
    if isinstance(shape, tuple):
        rest: Any = np.array(shape[1:], np.int32)
        dense_shape = apply_op("Const", value=np.array(shape, np.int32), dtype=dtypes.int32)
    else:
        rest, dense_shape = shape[1:], shape
    values = apply_op("Reshape", dy, apply_op("ConcatV2", [count, rest], 0))
    return [IndexedSlices(values, apply_op("Reshape", indices, count), dense_shape), None]


register(
    "ResourceGather(resource:resource, indices:Tindices) -> (output:dtype)"
    " [batch_dims:int=0; validate_indices:bool=true; dtype:type; Tindices:type{int32|int64}] {stateful}",
    shape=_gather_shape,
    kernel=_gathered,
    gradient=_gather_gradient,
    native=Native(_bind_gather, ALL, OUTSIDE),
    reads=(0,),
)

# Scattering

Method = Callable[[Array, Array, Array], None]


def _put(target: Array, indices: Array, updates: Array) -> None:
    target[indices] = updates


def _at(ufunc: np.ufunc) -> Method:
    """Apply an operation row by row, so that repeated rows add up; 16-bit floats are not known to `ufunc.at`."""

    def apply(target: Array, indices: Array, updates: Array) -> None:
        if target.dtype.itemsize == 2 and target.dtype.kind not in "iu":
            flat = np.broadcast_to(updates, indices.shape + target.shape[1:]).reshape(
                indices.size, *target.shape[1:]
            )
            for index, row in zip(indices.reshape(-1), flat, strict=True):
                target[index] = ufunc(target[index], row)
        else:
            ufunc.at(target, indices, updates)

    return apply


def _scattered(method: Method) -> Any:
    def kernel(context: KernelContext) -> Compute:
        passes_on = bool(context.output_dtypes)

        def scatter(variable: Variable, indices: Array, updates: Array) -> Variable | None:
            present = variable.require()
            _check_scatter(variable, present, indices, updates)
            fresh = present.copy()
            method(fresh, indices, updates)
            variable.update(lambda present: fresh)
            return variable if passes_on else None

        return scatter

    return kernel


def _check_scatter(variable: Variable, present: Array, indices: Array, updates: Array) -> None:
    if updates.dtype != present.dtype:
        raise InvalidArgumentError(
            f"variable {variable.name!r} is {present.dtype}, it cannot be updated with {updates.dtype}"
        )
    if present.ndim == 0:
        raise InvalidArgumentError(f"variable {variable.name!r} is a scalar: it has no rows to update")
    expected = indices.shape + present.shape[1:]
    if updates.ndim and updates.shape != expected:
        raise InvalidArgumentError(
            f"updates must have the shape of the indices followed by that of a row, {shown(expected)}, "
            f"or be a scalar; got {shown(updates.shape)} for indices of shape {shown(indices.shape)}"
        )
    check_indices(indices, present.shape[0])


def _bind_scatter(body: Callable[..., int]) -> Any:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        state, indices, updates = inputs
        if (
            not state.shape
            or updates.shape != indices.shape + state.shape[1:]
            or updates.dtype != state.dtype
        ):
            return None
        if state.dtype.name not in ALL:
            return None
        strides = c_strides(state.shape, state.dtype.itemsize)
        whole = copy_launch(
            Operand("input", 0), strides, Operand("state", 0), strides, state.shape, state.dtype.itemsize
        )
        dtype = "int8" if state.dtype == bool else state.dtype.name
        kernel = LoopKernel(body, (dtype, indices.dtype.name, dtype), 3, 0)
        operands = (Operand("state", 0), Operand("input", 1), Operand("input", 2))
        words = (indices.size, _width(state), state.shape[0])
        rows = Launch(kernel, operands, words, cost=10 + updates.nbytes // 4)
        return Launches((rows,) if whole is None else (whole, rows))

    return bind


def _scatter_shape(*, is_ref: bool) -> ShapeRule:
    def rule(context: ShapeContext) -> Sequence[Dims]:
        ref, indices, updates = context.inputs
        ref = shapes.with_rank_at_least(ref if is_ref else context.variable(0), 1)
        if updates != ():
            shapes.merge(updates, shapes.concatenate(indices, None if ref is None else ref[1:]))
        return [ref] if is_ref else []

    return rule


for _name, _method, _body, _types, _native in (
    ("ScatterUpdate", _put, put_rows, "", ALL),
    ("ScatterAdd", _at(np.add), add_rows, "@6", NUMBERS),
    ("ScatterSub", _at(np.subtract), subtract_rows, "@6", NUMBERS),
):
    _locking = "true" if _name == "ScatterUpdate" else "false"
    register(
        f"{_name}(ref:Ref(T), indices:Tindices, updates:T) -> (output_ref:Ref(T))"
        f" [T:type{_types}; Tindices:type{{int32|int64}}; use_locking:bool={_locking}]",
        shape=_scatter_shape(is_ref=True),
        kernel=_scattered(_method),
        gradient=NOT_DIFFERENTIABLE,
        native=Native(_bind_scatter(_body), _native, OUTSIDE),
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )
    register(
        f"Resource{_name}(resource:resource, indices:Tindices, updates:dtype) -> ()"
        f" [dtype:type{_types}; Tindices:type{{int32|int64}}] {{stateful}}",
        shape=_scatter_shape(is_ref=False),
        kernel=_scattered(_method),
        gradient=NOT_DIFFERENTIABLE,
        native=Native(_bind_scatter(_body), _native, OUTSIDE),
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )


def resource_gather(resource: Tensor, indices: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Rows of a resource variable."""
    tensor: Tensor = apply_op("ResourceGather", resource, indices, dtype=dtypes.as_dtype(dtype), name=name)
    return tensor


def resource_scatter_update(
    resource: Tensor, indices: Any, updates: Any, name: str | None = None
) -> Operation:
    """Replace rows of a resource variable."""
    op: Operation = apply_op("ResourceScatterUpdate", resource, indices, updates, name=name)
    return op


def resource_scatter_add(resource: Tensor, indices: Any, updates: Any, name: str | None = None) -> Operation:
    """Add to rows of a resource variable; repeated rows add up."""
    op: Operation = apply_op("ResourceScatterAdd", resource, indices, updates, name=name)
    return op


def resource_scatter_sub(resource: Tensor, indices: Any, updates: Any, name: str | None = None) -> Operation:
    """Subtract from rows of a resource variable; repeated rows add up."""
    op: Operation = apply_op("ResourceScatterSub", resource, indices, updates, name=name)
    return op


def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replace rows of a variable; of a row given twice, the later one counts."""
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Add to rows of a variable; rows given twice add up."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Any:
    """Subtract from rows of a variable; rows given twice add up."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


def _scatter(op_type: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Any:
    reference = reference_of(ref)
    if reference is None:
        op: Operation = apply_op(
            f"Resource{op_type}", ref.handle, indices, updates, name=name, dtype=ref.dtype
        )
        return ref.after(op)
    return update_reference(op_type, reference, indices, updates, name=name, use_locking=use_locking)
