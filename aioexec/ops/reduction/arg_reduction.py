"""ArgMax and ArgMin: the position of the largest or smallest element along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op
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
    Spec,
)
from aioexec.graph.node import Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.reduction.arg_reduction_loops import TILE, arg_maximum, arg_minimum
from aioexec.shapes import Dims

Array = np.ndarray[Any, Any]


def dims_without_one(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the shape of input 0 without the dimension in input 1."""
    dims, dimension = context.inputs[0], context.value(1)
    if context.inputs[1] not in (None, ()):
        raise GraphValueError(f"dimension must be a scalar, got shape {context.inputs[1]}")
    if dims is None:
        return [None]
    if dimension is None:
        return [(None,) * max(len(dims) - 1, 0)]
    rank, axis = len(dims), int(dimension)
    if rank == 0 and axis in (0, -1):
        return [()]
    if not -rank <= axis < rank:
        raise GraphValueError(
            f"Dimension ({axis}) must be in the range [{-rank}, {rank}), where {rank} is the number of dimensions"
        )
    return [dims[: axis % rank] + dims[axis % rank + 1 :]]


def reference(largest: bool) -> Reference:
    """Return the position of the first extreme element; as in TensorFlow, NaN is less extreme than any number."""

    def bind(context: KernelContext) -> Compute:
        output = context.output_dtypes[0].numpy

        def kernel(x: Array, dimension: Array) -> Array:
            rank, axis = x.ndim, int(dimension)
            if rank == 0 and axis in (0, -1):
                return np.zeros((), output)
            if not -rank <= axis < rank:
                raise InvalidArgumentError(
                    f"Expected dimension in the range [{-rank}, {rank}), but got {axis}"
                )
            if x.shape[axis] == 0:
                raise InvalidArgumentError(f"Reduction axis {axis} is empty in shape {list(x.shape)}")
            return np.asarray(find(x, axis, largest)).astype(output)

        return kernel

    return bind


def find(x: Array, axis: int, largest: bool) -> Any:
    if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
        x = x.astype(np.float32)
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), -np.inf if largest else np.inf, x)
    return np.argmax(x, axis=axis) if largest else np.argmin(x, axis=axis)


NATIVE_DTYPES = frozenset({"float32", "float64", "int32", "int64", "bool"})


def native(body: Callable[..., int]) -> Native:
    def bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
        x, dimension = inputs
        rank = len(x.shape)
        if (
            dimension.value is None
            or x.dtype.name not in NATIVE_DTYPES
            or outputs[0].dtype.name not in ("int32", "int64")
        ):
            return None
        axis = int(dimension.value)
        if rank == 0 or not -rank <= axis < rank or x.shape[axis] == 0:
            return None
        axis %= rank
        if outputs[0].size == 0:
            return Launches(())
        outer, n, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        dtype, index_dtype = x.dtype, outputs[0].dtype
        kernel = LoopKernel(body, (dtype.name, index_dtype.name, dtype.name, index_dtype.name), 3, 0)
        operands = (Operand("input", 0), Operand("output", 0), Operand("scratch", 0), Operand("scratch", 1))
        row = Launch(kernel, operands, (outer, n, inner), cost=10 + int(0.35 * x.size))
        return Launches((row,), (TILE * dtype.itemsize, TILE * index_dtype.itemsize))

    return Native(bind, NATIVE_DTYPES)


register(
    "ArgMax(input:T, dimension:Tidx) -> (output:output_type) "
    "[T:type@7; Tidx:type{int16|int32|int64}=int32; output_type:type{int16|uint16|int32|int64}=int64]",
    shape=dims_without_one,
    kernel=reference(largest=True),
    native=native(arg_maximum),
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(1,),
)
register(
    "ArgMin(input:T, dimension:Tidx) -> (output:output_type) "
    "[T:type@7; Tidx:type{int32|int64}=int32; output_type:type{int32|int64}=int64]",
    shape=dims_without_one,
    kernel=reference(largest=False),
    native=native(arg_minimum),
    gradient=NOT_DIFFERENTIABLE,
    shape_operands=(1,),
)


def arg_extremum(
    op_type: str, value: Any, axis: Any, name: str | None, dimension: Any, output_type: Any
) -> Tensor:
    if axis is not None and dimension is not None:
        raise GraphValueError("Cannot specify both 'axis' and 'dimension'")
    chosen = dimension if axis is None else axis
    tensor = convert_to_tensor(value)
    return apply_op(
        op_type, tensor, 0 if chosen is None else chosen, name=name, output_type=dtypes.as_dtype(output_type)
    )


def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """Return the index of the first largest element, never a NaN, along `axis` (an int or scalar tensor; None: 0).

    Raises:
        GraphValueError: the axis is out of range.
    """
    return arg_extremum("ArgMax", input, axis, name, dimension, output_type)


def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = dtypes.int64,
) -> Tensor:
    """Return the index of the smallest element along `axis`, as `argmax`."""
    return arg_extremum("ArgMin", input, axis, name, dimension, output_type)


def arg_max(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """Return the index of the first largest element along a dimension; `argmax(input, axis)` is its later name."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """Return the index of the smallest element along a dimension; `argmin(input, axis)` is its later name."""
    return argmin(input, dimension, name, output_type=output_type)
