"""Assignment to strided slices: of variables of both kinds, and of tensors, which return a new tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, Role
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.array.arrays import run_time
from aioexec.ops.array.slicing import MASKS, resolve
from aioexec.ops.common.elementwise import Array, shown
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

_ATTRS = f"T:type; Index:type{{int32|int64}}; {'; '.join(f'{mask}:int=0' for mask in MASKS)}"
_SPECIFICATION = "begin:Index, end:Index, strides:Index"


def _replaced(context: KernelContext) -> Compute:
    """Return a function (array, begin, end, strides, value) that copies the array with the slice replaced."""

    @run_time
    def replace(present: Array, begin: Array, end: Array, strides: Array, value: Array) -> Array:
        if begin.ndim != 1 or not begin.shape == end.shape == strides.shape:
            raise InvalidArgumentError(
                f"Expected begin, end, and strides to be 1D equal size tensors, got {begin}, {end}, {strides}"
            )
        bounds = [each.tolist() for each in (begin, end, strides)]
        found = resolve(present.shape, bounds[0], bounds[1], bounds[2], begin.size, context.attrs)
        dims = tuple(int(dim or 0) for dim in found.dims)
        fresh = np.array(present, copy=True, order="C")
        if 0 not in dims:
            counts = [cut.count or 0 for cut in found.cuts]
            fresh[found.index()] = _fitted(value, dims).reshape(counts)
        return fresh

    return replace


def _fitted(value: Array, dims: tuple[int, ...]) -> Array:
    """Broadcast the value to the shape of the slice; leading dimensions of 1 may be dropped."""
    extra = value.ndim - len(dims)
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        value = value.reshape(value.shape[extra:])
    try:
        return np.broadcast_to(value, dims)
    except ValueError:
        raise InvalidArgumentError(
            f"Cannot broadcast input shape {shown(value.shape)} into final shape {shown(dims)}"
        ) from None


def _variable_kernel(context: KernelContext) -> Compute:
    replace, passes_on = _replaced(context), bool(context.output_dtypes)

    def run(variable: Variable, begin: Array, end: Array, strides: Array, value: Array) -> Variable | None:
        present = variable.require()
        if value.dtype != present.dtype:
            raise InvalidArgumentError(
                f"variable {variable.name!r} is {present.dtype}, it cannot be updated with {value.dtype}"
            )
        fresh = replace(present, begin, end, strides, value)
        variable.update(lambda present: fresh)
        return variable if passes_on else None

    return run


def _check_specification(context: ShapeContext) -> None:
    """Raise GraphValueError unless begin, end and strides can be vectors of one length."""
    length: Dims = None
    for dims in context.inputs[1:4]:
        length = shapes.merge(length, shapes.with_rank(dims, 1))


def _variable_shape(context: ShapeContext) -> Sequence[Dims]:
    _check_specification(context)
    return []


def _same_shape(context: ShapeContext) -> Sequence[Dims]:
    _check_specification(context)
    return [context.inputs[0]]


def _slice_gradient(op: Operation, dy: Tensor) -> Sequence[Any]:
    begin, end, strides, value = op.inputs[1:]
    masks = {mask: op.attrs[mask] for mask in MASKS}
    nothing = apply_op("ZerosLike", value)
    rest = apply_op("TensorStridedSliceUpdate", dy, begin, end, strides, nothing, **masks)
    part = apply_op("StridedSlice", dy, begin, end, strides, **masks)
    return [rest, None, None, None, part]


for _signature, _rule in (
    (
        f"StridedSliceAssign(ref:Ref(T), {_SPECIFICATION}, value:T) -> (output_ref:Ref(T)) [{_ATTRS}]",
        _same_shape,
    ),
    (
        f"ResourceStridedSliceAssign(ref:resource, {_SPECIFICATION}, value:T) -> () [{_ATTRS}] {{stateful}}",
        _variable_shape,
    ),
):
    register(
        _signature,
        shape=_rule,
        kernel=_variable_kernel,
        gradient=undefined_gradient,
        role=Role.UPDATE,
        writes=(0,),
        reads=(0,),
    )

register(
    f"TensorStridedSliceUpdate(input:T, {_SPECIFICATION}, value:T) -> (output:T) [{_ATTRS}]",
    shape=_same_shape,
    kernel=_replaced,
    gradient=_slice_gradient,
)
