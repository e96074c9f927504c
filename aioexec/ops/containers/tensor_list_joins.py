"""Conversions between tensors and TensorLists: stack, gather, scatter, concat, split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import merged_shape
from aioexec.ops.containers.tensor_list import (
    a_list,
    element_of,
    element_shape_of,
    list_of_dtype,
    on_elements,
    shape_of,
    shape_operand,
    zeros_like,
)
from aioexec.resources.tensor_list import (
    NO_LIMIT,
    Array,
    boxed,
    element_dims,
    kept,
    list_in,
    list_of,
    reserved,
)
from aioexec.shapes import Dims, shown

_E = "element_dtype:type"
_S = "shape_type:type{int32|int64}"
_LIST = "input_handle:variant"
_OUT = "(output_handle:variant)"


def _rows_of(tensor: Array) -> Any:
    if tensor.ndim == 0:
        raise InvalidArgumentError("Tensor must be at least a vector, but saw shape: []")
    return kept(tensor)


def _inner_shape(tensor: Tensor) -> Tensor:
    """Return the shape of the rows of a tensor."""
    return apply_op("Slice", shape_of(tensor), [1], [-1])


# One tensor, all elements


def _checked_rows(tensor: Array, element_shape: Array) -> tuple[Array, Dims]:
    """Return the tensor whose rows become elements, and the static shape of the elements."""
    rows, dims = _rows_of(tensor), element_dims(element_shape)
    if not shapes.compatible(dims, rows.shape[1:]):
        raise InvalidArgumentError(
            f"Specified a list with shape {shown(dims)} from a tensor with shape {shown(rows.shape[1:])}"
        )
    return rows, dims


def _from_rows_shape(position: int) -> Callable[[ShapeContext], Sequence[Dims]]:
    def shape(context: ShapeContext) -> Sequence[Dims]:
        dims = shapes.with_rank_at_least(context.inputs[0], 1)
        shapes.merge(shape_operand(context, position), None if dims is None else dims[1:])
        return [()]

    return shape


def _from_tensor(dtype: DType, tensor: Array, element_shape: Array) -> Array:
    rows, dims = _checked_rows(tensor, element_shape)
    return boxed(list_of(dtype, dims, [rows[k, ...] for k in range(len(rows))]))


def _from_tensor_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    tensor = op.inputs[0]
    count = -1 if tensor.dims is None or tensor.dims[0] is None else tensor.dims[0]
    dtensor = apply_op(
        "TensorListStack", dlist, _inner_shape(tensor), element_dtype=tensor.dtype, num_elements=count
    )
    return [dtensor, None]


register(
    f"TensorListFromTensor(tensor:element_dtype, element_shape:shape_type) -> {_OUT} [{_E}; {_S}]",
    shape=_from_rows_shape(1),
    kernel=on_elements(_from_tensor),
    gradient=_from_tensor_gradient,
)


def _stack(context: KernelContext) -> Compute:
    dtype: DType = context.attrs["element_dtype"].base_dtype
    count: int = context.attrs["num_elements"]
    return lambda variant, element_shape: list_of_dtype(dtype, variant).stacked(
        element_dims(element_shape), count
    )


def _stacked_shape(context: ShapeContext) -> Sequence[Dims]:
    count = context.attrs["num_elements"]
    return [shapes.concatenate((None if count < 0 else count,), element_of(context, 1))]


def _stack_gradient(op: Operation, dtensor: Tensor) -> Sequence[Any]:
    return [apply_op("TensorListFromTensor", dtensor, _inner_shape(dtensor)), None]


register(
    f"TensorListStack({_LIST}, element_shape:int32) -> (tensor:element_dtype) [{_E}; num_elements:int=-1]",
    shape=_stacked_shape,
    kernel=_stack,
    gradient=_stack_gradient,
    dynamic_shape=True,
)


# Some elements


def _gather(dtype: DType, variant: Any, indices: Array, element_shape: Array) -> Any:
    return list_of_dtype(dtype, variant).gathered(indices.reshape(-1).tolist(), element_dims(element_shape))


def _gathered_shape(context: ShapeContext) -> Sequence[Dims]:
    return [shapes.concatenate(context.inputs[1], element_of(context, 2))]


def _gather_gradient(op: Operation, dvalues: Tensor) -> Sequence[Any]:
    variant, indices, _ = op.inputs
    length = apply_op("TensorListLength", variant)
    dlist = apply_op("TensorListReserve", _inner_shape(dvalues), length, element_dtype=dvalues.dtype)
    return [apply_op("TensorListScatterIntoExistingList", dlist, dvalues, indices), None, None]


register(
    f"TensorListGather({_LIST}, indices:int32, element_shape:int32) -> (values:element_dtype) [{_E}]",
    shape=_gathered_shape,
    kernel=on_elements(_gather),
    gradient=_gather_gradient,
    dynamic_shape=True,
)


def _places(indices: Array, rows: Array) -> list[int]:
    places: list[int] = indices.reshape(-1).tolist()
    if places and min(places) < 0:
        raise InvalidArgumentError("Indices in TensorListScatter must all be non-negative")
    if len(places) != len(rows):
        raise InvalidArgumentError(
            f"Invalid number of rows in input tensor. Expected: {len(places)} Actual: {len(rows)}"
        )
    return places


def _scatter(
    dtype: DType, tensor: Array, indices: Array, element_shape: Array, num_elements: Array | None = None
) -> Array:
    rows, dims = _checked_rows(tensor, element_shape)
    places = _places(indices, rows)
    count = NO_LIMIT if num_elements is None else int(num_elements)
    if count < NO_LIMIT:
        raise InvalidArgumentError(f"TensorListScatter expects num_elements >= -1, found: {count}")
    if count != NO_LIMIT and places and max(places) >= count:
        raise InvalidArgumentError(
            f"TensorListScatter: Trying to scatter at index {max(places)} in list with size {count}"
        )
    return boxed(reserved(dtype, dims, max(count, 0)).scattered(rows, places))


def _gathered(dlist: Tensor, indices: Tensor, tensor: Tensor) -> Tensor:
    """Return the gradient of the rows that were scattered to `indices`."""
    return apply_op("TensorListGather", dlist, indices, _inner_shape(tensor), element_dtype=tensor.dtype)


def _scatter_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    tensor, indices, *others = op.inputs
    return [_gathered(dlist, indices, tensor), None, *[None] * len(others)]


register(
    "TensorListScatter(tensor:element_dtype, indices:int32, element_shape:shape_type) -> "
    f"{_OUT} [{_E}; {_S}]",
    shape=_from_rows_shape(2),
    kernel=on_elements(_scatter),
    gradient=_scatter_gradient,
)
register(
    "TensorListScatterV2(tensor:element_dtype, indices:int32, element_shape:shape_type, num_elements:int32) -> "
    f"{_OUT} [{_E}; {_S}]",
    shape=_from_rows_shape(2),
    kernel=on_elements(_scatter),
    gradient=_scatter_gradient,
)


def _scatter_into(dtype: DType, variant: Any, tensor: Array, indices: Array) -> Array:
    if indices.ndim != 1:
        raise InvalidArgumentError(f"Expected indices to be a vector, got shape {shown(indices.shape)}")
    rows = _rows_of(tensor)
    return boxed(list_of_dtype(dtype, variant).scattered(rows, _places(indices, rows)))


def _scattered_shape(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[2], 1)
    return a_list(context)


def _scatter_into_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    variant, tensor, indices = op.inputs
    without = apply_op("TensorListScatterIntoExistingList", dlist, zeros_like(tensor), indices)
    without = apply_op(
        "TensorListResize", without, apply_op("TensorListLength", variant)
    )  # scattering may have extended the list
    return [without, _gathered(dlist, indices, tensor), None]


register(
    f"TensorListScatterIntoExistingList({_LIST}, tensor:element_dtype, indices:int32) -> {_OUT} [{_E}]",
    shape=_scattered_shape,
    kernel=on_elements(_scatter_into),
    gradient=_scatter_into_gradient,
)


# Elements of different lengths


def _split(dtype: DType, tensor: Array, element_shape: Array, lengths: Array) -> Array:
    rows, dims = _rows_of(tensor), element_dims(element_shape)
    if lengths.ndim != 1:
        raise InvalidArgumentError(f"Expected lengths to be a vector, received shape: {shown(lengths.shape)}")
    if dims == ():
        raise InvalidArgumentError("TensorListSplit requires elements to be at least vectors, found scalars")
    inner = None if dims is None else dims[1:]
    if not shapes.compatible(inner, rows.shape[1:]):
        raise InvalidArgumentError(
            f"tensor shape {shown(rows.shape)} is not compatible with element_shape {shown(dims)}"
        )
    parts, start = [], 0
    for length in lengths.tolist():
        if length < 0:
            raise InvalidArgumentError(f"Invalid value in lengths: {length}")
        if start + length > len(rows):
            raise InvalidArgumentError(
                f"Attempting to slice [{start}, {start + length}] from tensor with length {len(rows)}"
            )
        parts.append(rows[start : start + length])
        start += length
    if start != len(rows):
        raise InvalidArgumentError(
            f"Unused values in tensor. Length of tensor: {len(rows)} Values used: {start}"
        )
    return boxed(list_of(dtype, dims, parts))


def _split_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_least(context.inputs[0], 1)
    parts = shapes.with_rank_at_least(shape_operand(context, 1), 1)
    shapes.with_rank(context.inputs[2], 1)
    shapes.merge(None if parts is None else parts[1:], None if dims is None else dims[1:])
    return [()]


def _split_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    tensor, _, lengths = op.inputs
    element_shape = apply_op("ConcatV2", [[-1], _inner_shape(tensor)], 0)
    joined = apply_tuple_op("TensorListConcatV2", dlist, element_shape, lengths, element_dtype=tensor.dtype)
    return [joined[0], None, None]


register(
    f"TensorListSplit(tensor:element_dtype, element_shape:shape_type, lengths:int64) -> {_OUT} [{_E}; {_S}]",
    shape=_split_shape,
    kernel=on_elements(_split),
    gradient=_split_gradient,
)


def _concat_v2(dtype: DType, variant: Any, element_shape: Array, leading_dims: Array) -> tuple[Array, Array]:
    found = list_of_dtype(dtype, variant)
    dims = found.dims_with(element_dims(element_shape))
    if dims == ():
        raise InvalidArgumentError("Concat requires elements to be at least vectors, found scalars instead")
    first, inner = (None, None) if dims is None else (dims[0], dims[1:])
    return found.concatenated(inner, first, leading_dims.reshape(-1))


def _concat(context: KernelContext) -> Compute:
    dtype: DType = context.attrs["element_dtype"].base_dtype
    dims: Dims = context.attrs["element_shape"]
    inner = None if dims is None else dims[1:]
    return lambda variant: list_of_dtype(dtype, variant).concatenated(inner, None, np.zeros(0, np.int64))


def _joined_shape(shape_operand: Dims, elements: Dims) -> Sequence[Dims]:
    known = shapes.merge(
        None if shape_operand is None else shape_operand[1:], None if elements is None else elements[1:]
    )
    return [shapes.concatenate((None,), known), (None,)]


def _concat_gradient(op: Operation, dtensor: Tensor, dlengths: Tensor | None) -> Sequence[Any]:
    dlist = apply_op("TensorListSplit", dtensor, element_shape_of(op.inputs[0]), op.outputs[1])
    return [dlist, *[None] * (len(op.inputs) - 1)]


register(
    f"TensorListConcatV2({_LIST}, element_shape:shape_type, leading_dims:int64) -> "
    f"(tensor:element_dtype, lengths:int64) [{_E}; {_S}]",
    shape=lambda context: _joined_shape(shape_operand(context, 1), context.elements(0)),
    kernel=on_elements(_concat_v2),
    gradient=_concat_gradient,
    dynamic_shape=True,
)
register(
    f"TensorListConcat({_LIST}) -> (tensor:element_dtype, lengths:int64) "
    f"[{_E}; element_shape:shape=<unknown>]",
    shape=lambda context: _joined_shape(context.attrs["element_shape"], context.elements(0)),
    kernel=_concat,
    gradient=_concat_gradient,
    dynamic_shape=True,
)


# Several lists


def _push_back_batch(dtype: DType, variants: Array, tensor: Array) -> Array:
    if tensor.ndim == 0:
        raise InvalidArgumentError("Expected tensor to be at least a vector, but saw shape: []")
    if variants.ndim != 1:
        raise InvalidArgumentError(
            f"Expected input_handles to be a vector, but saw shape: {shown(variants.shape)}"
        )
    if len(tensor) != len(variants):
        raise InvalidArgumentError(
            f"Expected tensor.shape[0] == input_handles.size, but saw {len(tensor)} vs. {len(variants)}"
        )
    longer = np.empty(variants.shape, np.object_)
    for k, variant in enumerate(variants):
        longer[k] = list_of_dtype(dtype, variant).pushed(tensor[k, ...], f" at index {k}")
    return longer


def _batch_shape(context: ShapeContext) -> Sequence[Dims]:
    dims = shapes.with_rank_at_least(context.inputs[1], 1)
    return [shapes.merge(shapes.with_rank(context.inputs[0], 1), None if dims is None else dims[:1])]


register(
    "TensorListPushBackBatch(input_handles:variant, tensor:element_dtype) -> (output_handles:variant) "
    f"[{_E}]",
    shape=_batch_shape,
    kernel=on_elements(_push_back_batch),
    gradient=NOT_DIFFERENTIABLE,
)


def _concat_lists(dtype: DType, ones: Array, others: Array) -> Array:
    if ones.shape != others.shape:
        raise InvalidArgumentError("input_a and input_b must have the same shape")
    joined = np.empty(ones.shape, np.object_)
    for place in np.ndindex(ones.shape):
        one, other = list_in(ones[place]), list_in(others[place])
        for name, each in (("input_a", one), ("input_b", other)):
            if each.dtype is not dtype:
                raise InvalidArgumentError(
                    f"{name}[0].dtype != element_dtype. Saw: {each.dtype.name} vs. {dtype.name}"
                )
        if one.dims != other.dims:
            raise InvalidArgumentError(
                "input_a and input_b TensorList element shapes are not identical at index 0. "
                f"Saw {shown(one.dims)} vs. {shown(other.dims)}"
            )
        joined[place] = one.followed_by(other)
    return joined


register(
    f"TensorListConcatLists(input_a:variant, input_b:variant) -> (output:variant) [{_E}]",
    shape=merged_shape,
    kernel=on_elements(_concat_lists),
    gradient=NOT_DIFFERENTIABLE,
)
