"""Conversion of Python values, and of objects that represent tensors, to tensors of a graph."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.formats.repeated import SMALL, is_one_repeated
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor

Conversion = Callable[[Any, DType | None, str | None, bool], Tensor]
_conversions: list[tuple[type | tuple[type, ...], Conversion]] = []


def register_tensor_conversion_function(
    base_type: type | tuple[type, ...], conversion_func: Conversion, priority: int = 100
) -> None:
    """Register a conversion of objects of `base_type` to tensors: `conversion_func(value, dtype, name, as_ref) -> Tensor`.

    Later registrations are tried first; `priority` is accepted and ignored.
    """
    _conversions.insert(0, (base_type, conversion_func))


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """A constant tensor.

    Args:
        shape: the shape of the tensor; if `value` has fewer elements, its last one is repeated, and a shape without elements
            accepts any value. One number repeated takes the memory of one, whatever the shape.
        verify_shape: refuse a value of another shape instead of repeating.

    Raises:
        GraphTypeError, GraphValueError: the value does not convert to `dtype` or `shape`.
    """
    array = dtypes.to_array(value, None if dtype is None else dtypes.as_dtype(dtype))
    if shape is not None:
        array = _reshape(array, shape, verify_shape)
    if is_one_repeated(array):
        array = np.broadcast_to(array[(0,) * array.ndim].copy(), array.shape)
    else:
        array = np.array(array, copy=True, order="C")
        array.setflags(write=False)
    attrs = {"value": array, "dtype": dtypes.as_dtype(dtype) if dtype is not None else _dtype_of(array)}
    return get_default_graph().create_op("Const", (), name=name, attrs=attrs).outputs[0]


def _dtype_of(array: np.ndarray[Any, Any]) -> DType:
    return dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)


def _reshape(array: np.ndarray[Any, Any], shape: Any, verify_shape: bool) -> np.ndarray[Any, Any]:
    dims = tuple(
        int(dim)
        for dim in (shape.as_list() if hasattr(shape, "as_list") else np.atleast_1d(np.asarray(shape, int)))
    )
    if array.shape == dims:
        return array
    if verify_shape:
        raise GraphTypeError(f"constant: expected a value of shape {dims}, got {array.shape}")
    size = math.prod(dims)
    if math.prod(dim or 1 for dim in dims) * array.itemsize >= 1 << 63:
        raise GraphValueError(f"constant: no memory can hold a value of shape {dims}")
    if size == 0:
        return np.empty(dims, array.dtype)
    if array.size > size or (array.size == 0 and size > 0):
        raise GraphValueError(f"constant: {array.size} values do not fit shape {dims}")
    if array.size == 1 and array.dtype != object and size * array.itemsize > SMALL:
        return np.broadcast_to(array.reshape(()), dims)
    flat = array.reshape(-1)
    fill = np.full(size - flat.size, flat[-1] if flat.size else 0, dtype=array.dtype)
    return np.concatenate([flat, fill]).reshape(dims)


def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, as_ref: bool = False
) -> Tensor:
    """Convert `value` to a tensor: registered types by their conversion, Python and NumPy values to constants.

    Args:
        preferred_dtype: the dtype to use if `dtype` is None and the value converts to it.

    Raises:
        GraphTypeError: the value does not convert, or is a tensor of another dtype.
    """
    wanted = None if dtype is None else dtypes.as_dtype(dtype).base_dtype
    for kinds, conversion in _conversions:
        if isinstance(value, kinds):
            value = conversion(value, wanted, name, as_ref)
            break
    if isinstance(value, IndexedSlices):
        value = densify(value)
    if isinstance(value, Tensor):
        if wanted is not None and value.dtype.base_dtype != wanted:
            raise GraphTypeError(
                f"tensor conversion requested dtype {wanted.name} for a tensor with dtype {value.dtype.name}: {value!r}"
            )
        return value
    if isinstance(value, list | tuple) and _holds_tensor(value):
        return _pack(value, wanted, name)
    if wanted is None and preferred_dtype is not None:
        with contextlib.suppress(GraphTypeError, GraphValueError):  # it is only a preference
            return constant(value, preferred_dtype, name=name or "Const")
    return constant(value, wanted, name=name or "Const")


def convert_to_tensor_or_indexed_slices(
    value: Any, dtype: Any = None, name: str | None = None
) -> Tensor | IndexedSlices:
    """IndexedSlices as they are; any other value as a tensor.

    Raises:
        GraphTypeError: the value does not convert, or is of another dtype.
    """
    if not isinstance(value, IndexedSlices):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and value.dtype.base_dtype != dtypes.as_dtype(dtype).base_dtype:
        raise GraphTypeError(f"expected IndexedSlices of dtype {dtypes.as_dtype(dtype).name}, got {value!r}")
    return value


def stands_for_tensor(value: Any) -> bool:
    """Whether the value is symbolic: a tensor, IndexedSlices, or of a type registered for conversion."""
    return isinstance(value, Tensor | IndexedSlices) or any(
        isinstance(value, kinds) for kinds, _ in _conversions
    )


def building(symbolic: Any) -> Graph:
    """The graph for a node that uses `symbolic`: that of the value, or the function body being built, which captures it."""
    graph: Graph = symbolic.graph
    default = get_default_graph()
    return default if default.is_inside(graph) else graph


def _holds_tensor(values: Sequence[Any]) -> bool:
    return any(
        _holds_tensor(item) if isinstance(item, list | tuple) else stands_for_tensor(item) for item in values
    )


def _pack(values: Sequence[Any], dtype: DType | None, name: str | None) -> Tensor:
    """The stack of the values; tensors in a list are cast to the dtype that is asked for."""
    tensors = convert_n_to_tensor(
        values if dtype is None else [_cast(value, dtype) for value in values], dtype
    )
    return (
        building(tensors[0]).create_op("Pack", tensors, name=name or "packed", attrs={"axis": 0}).outputs[0]
    )


def _cast(value: Any, dtype: DType) -> Any:
    """A symbolic value in a dtype; any other value as it is."""
    if not stands_for_tensor(value) or symbolic_dtype(value) == dtype:
        return value
    tensor = convert_to_tensor(value)
    return building(tensor).create_op("Cast", [tensor], name="Cast", attrs={"DstT": dtype}).outputs[0]


def convert_n_to_tensor(
    values: Sequence[Any], dtype: DType | None = None, name: str | None = None
) -> list[Tensor]:
    """Convert each value to a tensor; Python values take the dtype of the first tensor, and names are numbered."""
    if dtype is None:
        dtype = next((symbolic_dtype(value) for value in values if symbolic_dtype(value) is not None), None)
    return [convert_to_tensor(value, dtype, name and f"{name}_{place}") for place, value in enumerate(values)]


def symbolic_dtype(value: Any) -> DType | None:
    """The dtype of a symbolic value, or of the first one nested in a sequence; None if there is none."""
    if isinstance(value, list | tuple):
        return next((found for item in value if (found := symbolic_dtype(item)) is not None), None)
    if stands_for_tensor(value):
        dtype: DType = value.dtype
        return dtype.base_dtype
    return None


def densify(slices: IndexedSlices) -> Tensor:
    """The dense tensor that IndexedSlices represent.

    Raises:
        GraphValueError: their dense shape is not known.
    """
    if slices.dense_shape is None:
        raise GraphValueError(
            f"IndexedSlices {slices.name!r} has no dense_shape: it cannot become a dense tensor"
        )
    graph = building(slices)
    rows = graph.create_op(
        "StridedSlice",
        [slices.dense_shape, *(constant(n, slices.dense_shape.dtype, [1]) for n in (0, 1, 1))],
        attrs={"shrink_axis_mask": 1},
        name="rows",
    ).outputs[0]
    return graph.create_op("UnsortedSegmentSum", [slices.values, slices.indices, rows], name="dense").outputs[
        0
    ]
