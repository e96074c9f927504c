"""TensorLists: immutable lists of tensors, passed as tensors of dtype variant; used by loops and their gradients.

The kernels call methods of `resources.tensor_list.TensorList`. The gradients of list ops are list ops again (PopBack of
PushBack and vice versa), so that higher-order gradients need no other ops. This module has the ops on whole lists and single
elements; conversions between tensors and lists are in `tensor_list_joins`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.kernels.kernel import Compute, KernelContext, plain
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.resources.tensor_list import (
    NO_LIMIT,
    Array,
    TensorList,
    boxed,
    element_dims,
    encoded_shape,
    list_in,
    reserved,
)
from aioexec.shapes import Dims, shown

# Shared by kernels, shape rules and gradients

_E = "element_dtype:type"
_S = "shape_type:type{int32|int64}"
_LIST = "input_handle:variant"
_OUT = "(output_handle:variant)"
Verb = Callable[..., Any]
"""(dtype of the elements, *inputs) to the outputs."""


def list_of_dtype(dtype: DType, variant: Any) -> TensorList:
    found = list_in(variant)
    found.check_dtype(dtype)
    return found


def on_elements(verb: Verb) -> Callable[[KernelContext], Compute]:
    """Return a kernel that passes `element_dtype` to `verb`."""

    def kernel(context: KernelContext) -> Compute:
        dtype: DType = context.attrs["element_dtype"].base_dtype
        return lambda *inputs: verb(dtype, *inputs)

    return kernel


def _number(value: Array, problem: str) -> int:
    """Return the value of a scalar operand.

    Raises:
        InvalidArgumentError: the operand is not a scalar; `problem` is the message.
    """
    if value.ndim:
        raise InvalidArgumentError(problem.format(shape=shown(value.shape)))
    return int(value)


def _index(value: Array) -> int:
    if value.size != 1:
        raise InvalidArgumentError(f"index must be a scalar but got shape: {shown(value.shape)}")
    return int(value.reshape(-1)[0])


def shape_operand(context: ShapeContext, position: int) -> Dims:
    """Return the shape that an operand `element_shape` holds."""
    dims = shapes.with_rank_at_most(context.inputs[position], 1)
    value = context.value(position)
    if value is not None:
        try:
            return element_dims(value)
        except InvalidArgumentError as error:
            raise GraphValueError(error.message) from error
    return None if dims == () else context.partial(position)


def element_of(context: ShapeContext, position: int) -> Dims:
    """Return the static shape of an element read from the list in input 0, merged with the operand at `position`."""
    _check_scalar_list(context)
    return shapes.merge(shape_operand(context, position), context.elements(0))


def a_list(context: ShapeContext) -> Sequence[Dims]:
    return [()]


def _check_scalar_list(context: ShapeContext) -> None:
    shapes.with_rank(context.inputs[0], 0)


def shape_of(tensor: Tensor) -> Tensor:
    return apply_op("Shape", tensor)


def element_shape_of(variant: Tensor) -> Tensor:
    return apply_op("TensorListElementShape", variant, shape_type=dtypes.int32)


def zeros_like(tensor: Tensor) -> Tensor:
    return apply_op("ZerosLike", tensor)


# Lists


def _empty(dtype: DType, element_shape: Array, max_num_elements: Array) -> Array:
    limit = _number(max_num_elements, "max_num_elements expected to be a scalar but got shape: {shape}")
    return boxed(TensorList(dtype, element_dims(element_shape), limit=max(limit, NO_LIMIT)))


register(
    f"EmptyTensorList(element_shape:shape_type, max_num_elements:int32) -> (handle:variant) [{_E}; {_S}]",
    shape=a_list,
    kernel=on_elements(_empty),
    gradient=NOT_DIFFERENTIABLE,
)


def _reserve(dtype: DType, element_shape: Array, num_elements: Array) -> Array:
    dims = element_dims(element_shape)
    count = _number(num_elements, "The num_elements to reserve must be a tensor size 1, but got {shape}")
    if count < 0:
        raise InvalidArgumentError(
            f"The num_elements to reserve must be a non negative number, but got {count}"
        )
    return boxed(reserved(dtype, dims, count))


register(
    f"TensorListReserve(element_shape:shape_type, num_elements:int32) -> (handle:variant) [{_E}; {_S}]",
    shape=a_list,
    kernel=on_elements(_reserve),
    gradient=NOT_DIFFERENTIABLE,
)


def _length(variant: Any) -> Array:
    return np.array(list_in(variant).length, np.int32)


register(
    f"TensorListLength({_LIST}) -> (length:int32)",
    shape=a_list,
    kernel=plain(_length),
    gradient=NOT_DIFFERENTIABLE,
)


def _element_shape(context: KernelContext) -> Compute:
    dtype = context.output_dtypes[0].numpy
    return lambda variant: encoded_shape(list_in(variant).dims, dtype)


def _spelled_shape(context: ShapeContext) -> Sequence[Dims]:
    known = context.elements(0)
    return [None if known is None else (len(known),)]


register(
    f"TensorListElementShape({_LIST}) -> (element_shape:shape_type) [{_S}]",
    shape=_spelled_shape,
    kernel=_element_shape,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)


def _resize(variant: Any, size: Array) -> Array:
    return boxed(list_in(variant).resized(_number(size, "size must be a scalar")))


def _resize_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    return [apply_op("TensorListResize", dlist, apply_op("TensorListLength", op.inputs[0])), None]


register(
    f"TensorListResize({_LIST}, size:int32) -> {_OUT}",
    shape=a_list,
    kernel=plain(_resize),
    gradient=_resize_gradient,
)


# One element


def _push_back(dtype: DType, variant: Any, tensor: Array) -> Array:
    return boxed(list_of_dtype(dtype, variant).pushed(tensor))


def _pushed_shape(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar_list(context)
    shapes.merge(context.inputs[1], context.elements(0))
    return [()]


def _push_back_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    tensor = op.inputs[1]
    popped = apply_tuple_op("TensorListPopBack", dlist, shape_of(tensor), element_dtype=tensor.dtype)
    return list(popped)


register(
    f"TensorListPushBack({_LIST}, tensor:element_dtype) -> {_OUT} [{_E}]",
    shape=_pushed_shape,
    kernel=on_elements(_push_back),
    gradient=_push_back_gradient,
)


def _pop_back(dtype: DType, variant: Any, element_shape: Array) -> tuple[Array, Array]:
    shorter, element = list_of_dtype(dtype, variant).popped(lambda: element_dims(element_shape))
    return boxed(shorter), element


def _popped_shape(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule: the operand `element_shape` only matters for uninitialised elements, so it is ignored here."""
    _check_scalar_list(context)
    return [(), context.elements(0)]


def _pop_back_gradient(op: Operation, dlist: Tensor | None, delement: Tensor | None) -> Sequence[Any]:
    rest, element = op.outputs
    if delement is None:
        delement = zeros_like(element)
    if dlist is None:  # the rest of the list is unused: its gradient is zeros
        length = apply_op("TensorListLength", rest)
        dlist = apply_op("TensorListReserve", element_shape_of(rest), length, element_dtype=element.dtype)
    return [apply_op("TensorListPushBack", dlist, delement), None]


register(
    f"TensorListPopBack({_LIST}, element_shape:int32) -> (output_handle:variant, tensor:element_dtype) [{_E}]",
    shape=_popped_shape,
    kernel=on_elements(_pop_back),
    gradient=_pop_back_gradient,
    dynamic_shape=True,
)


def _get_item(dtype: DType, variant: Any, index: Array, element_shape: Array) -> Array:
    return list_of_dtype(dtype, variant).get(_index(index), element_dims(element_shape))


def _item_shape(context: ShapeContext) -> Sequence[Dims]:
    return [element_of(context, 2)]


def _get_item_gradient(op: Operation, ditem: Tensor) -> Sequence[Any]:
    variant, index, _ = op.inputs
    length = apply_op("TensorListLength", variant)
    dlist = apply_op("TensorListReserve", element_shape_of(variant), length, element_dtype=ditem.dtype)
    return [apply_op("TensorListSetItem", dlist, index, ditem), None, None]


register(
    f"TensorListGetItem({_LIST}, index:int32, element_shape:Tshape) -> (item:element_dtype) "
    f"[{_E}; Tshape:type{{int32|int64}}=int32]",
    shape=_item_shape,
    kernel=on_elements(_get_item),
    gradient=_get_item_gradient,
    dynamic_shape=True,
)


def _set_item(context: KernelContext) -> Compute:
    dtype: DType = context.attrs["element_dtype"].base_dtype
    resizes: bool = context.attrs["resize_if_index_out_of_bounds"]
    return lambda variant, index, item: boxed(
        list_of_dtype(dtype, variant).replaced(_index(index), item, resizes)
    )


def _set_shape(context: ShapeContext) -> Sequence[Dims]:
    _check_scalar_list(context)
    shapes.merge(context.inputs[2], context.elements(0))
    return [()]


def _set_item_gradient(op: Operation, dlist: Tensor) -> Sequence[Any]:
    variant, index, item = op.inputs
    ditem = apply_op("TensorListGetItem", dlist, index, shape_of(item), element_dtype=item.dtype)
    without = apply_op("TensorListSetItem", dlist, index, zeros_like(item))
    if op.attrs["resize_if_index_out_of_bounds"]:
        without = apply_op("TensorListResize", without, apply_op("TensorListLength", variant))
    return [without, None, ditem]


register(
    f"TensorListSetItem({_LIST}, index:int32, item:element_dtype) -> {_OUT} "
    f"[{_E}; resize_if_index_out_of_bounds:bool=false]",
    shape=_set_shape,
    kernel=_set_item,
    gradient=_set_item_gradient,
)
