"""Static knowledge of values, before a graph runs: shapes, constants, and partly known integer vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.attrs import output_dtypes
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.kernels.work import evaluate_estimate
from aioexec.graph.registry import Maker, ShapeContext, output_dims
from aioexec.shapes import HIGHEST_RANK, Dims, TensorShape, check_rank, is_fully_defined, of_rank

if TYPE_CHECKING:
    from aioexec.graph.node import Operation, Tensor

HANDLE_SHAPE: Final = "_handle_shape"
"""The attribute of a function's input with the shape of the variable behind it."""
_DEPTH = 32
_MOST_NODES = 1000  # bounds nodes, since the paths to a value that is used many times may be far more
_FORWARDING_ROLES = (Role.IDENTITY, Role.SWITCH, Role.ENTER)  # output is input 0
_LARGEST = 1024  # the most elements of a value to compute while building, or to pass to a shape rule
_LARGEST_DIM = (1 << 63) - 1
_LONGEST_NS = 1_000_000  # the most time of a kernel that runs while a graph is built


class _SearchLimits(NamedTuple):
    """The remaining limits of a search for a value: depth, and, in a list of one element, the total number of nodes."""

    depth: int
    left: list[int]

    def deeper(self) -> _SearchLimits | None:
        self.left[0] -= 1
        return _SearchLimits(self.depth - 1, self.left) if self.depth and self.left[0] > 0 else None


def _initial_limits() -> _SearchLimits:
    return _SearchLimits(_DEPTH, [_MOST_NODES])


def infer_shapes(op: Operation) -> Sequence[Dims]:
    """The output shapes of a node under construction.

    Raises:
        GraphValueError: the inputs do not fit; the message names the node.
    """
    inputs = op.inputs
    context = ShapeContext(
        op.attrs,
        [tensor.dims for tensor in inputs],
        lambda i: _operand(op, i),
        lambda i: constant_value_as_dims(inputs[i]),
        lambda i: variable_dims(inputs[i]),
        lambda i: elements_dims(inputs[i]),
        lambda called: op.graph.functions.function(called.name).output_dims(
            called.attrs, [tensor.dims for tensor in inputs], [variable_dims(tensor) for tensor in inputs]
        ),
        lambda i: _maker(inputs[i]),
    )
    try:
        found = output_dims(op.row, context)
        for dims in found:
            _check_possible(dims)
        return found
    except GraphValueError as error:
        given = ", ".join(str(tensor.shape) for tensor in inputs)
        raise GraphValueError(f"{op.type} {op.name!r}: {error.message}; input shapes {given}") from error


def _operand(op: Operation, index: int) -> np.ndarray[Any, Any] | None:
    """The value of an input for a shape rule, which reads it element by element; None if it is long.

    The limit does not apply to operands with one element per output, as the sizes of a SplitV.
    """
    value = constant_value(op.inputs[index])
    if value is None or value.size <= _LARGEST:
        return value
    return value if value.size <= len(output_dtypes(op.row.definition, op.attrs)) else None


def _check_possible(dims: Dims) -> None:
    if dims is None:
        return
    check_rank(len(dims))
    for dim in dims:
        if dim is not None and dim > _LARGEST_DIM:
            raise GraphValueError(f"a dimension is at most {_LARGEST_DIM}, got {dim}")


def _maker(handle: Tensor) -> Maker:
    op = _making_op(handle)
    return Maker(op.type, op.attrs, [tensor.dims for tensor in op.inputs])


def variable_dims(handle: Tensor) -> Dims:
    """The shape of the variable behind a resource handle or reference, as stated by the node that makes it."""
    op = _making_op(handle)
    if op.row.role is Role.PLACEHOLDER and HANDLE_SHAPE in op.attrs:
        shape: TensorShape = op.attrs[HANDLE_SHAPE]
        return shape.plain
    return op.attrs.get("shape") if op.row.role is Role.VARIABLE else None


def _making_op(handle: Tensor) -> Operation:
    """The node that makes the resource behind a handle or reference."""
    op = handle.op
    while op.row.role in _FORWARDING_ROLES and op.inputs:
        op = op.inputs[0].op
    return op


# From an op that makes a list of tensors to the index of its input with the element shape.
_ELEMENT_SHAPE = {
    "EmptyTensorList": 0,
    "TensorListReserve": 0,
    "TensorListFromTensor": 1,
    "TensorListSplit": 1,
    "TensorListScatter": 2,
    "TensorListScatterV2": 2,
}
_LIST_IN_LIST = (
    ("TensorListPopBack", 1),
    ("TensorListGetItem", 0),
)  # outputs that may be a list nested in a list
_LONGEST_CHAIN = 1000


def elements_dims(handle: Tensor) -> Dims:
    """The shape of each element of the list or array behind a handle, as stated by the node that makes it.

    An op that makes a handle from a handle changes the list, not its element shape.
    """
    op = handle.op
    outer: tuple[int | None, ...] = ()
    for _ in range(_LONGEST_CHAIN):
        if (op.type, handle.value_index) in _LIST_IN_LIST:
            return None
        if not op.inputs or op.inputs[0].dtype.base_dtype not in (dtypes.variant, dtypes.resource):
            break
        if op.type == "TensorArrayGradWithShape":
            prepended = constant_value_as_dims(op.inputs[2])
            if prepended is None:
                return None
            outer = (*((None,) * len(prepended)), *outer)
        handle = op.inputs[0]
        op = handle.op
    if op.type in _ELEMENT_SHAPE:
        inner = _read_element_shape(op.inputs[_ELEMENT_SHAPE[op.type]])
    elif op.type == "TensorArrayV3":
        inner = op.attrs["element_shape"]
        if not (op.attrs["identical_element_shapes"] or is_fully_defined(inner)):
            return None  # as in TensorFlow
    else:
        return None
    return None if inner is None else (*outer, *inner)


def _read_element_shape(tensor: Tensor) -> Dims:
    """Read an operand `element_shape`: a vector, or the scalar -1 for an unknown shape."""
    return None if tensor.dims == () else constant_value_as_dims(tensor)


def constant_value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The value of a tensor that does not depend on feeds or state, if it is small and cheap to compute."""
    return _value(tensor, _initial_limits())


def _value(tensor: Tensor, limits: _SearchLimits | None) -> np.ndarray[Any, Any] | None:
    op = tensor.op
    row = op.row
    if row.role is Role.CONSTANT:
        value: np.ndarray[Any, Any] = op.attrs["value"]
        return value
    dims = tensor.dims
    if limits is None or not row.is_pure or row.kernel is None or dims is None or None in dims:
        return None
    if math.prod(d for d in dims if d is not None) > _LARGEST:
        return None
    values = _input_values(op, limits.deeper())
    if values is None or (
        row.work is not None and evaluate_estimate(row.work, op.attrs, values) > _LONGEST_NS
    ):
        return None
    return _compute(op, values, tensor.value_index)


def _input_values(op: Operation, limits: _SearchLimits | None) -> list[np.ndarray[Any, Any]] | None:
    values = []
    for tensor in op.inputs:
        value = _value(tensor, limits)
        if value is None and op.row.shape_only and tensor.dims is not None and None not in tensor.dims:
            value = np.broadcast_to(np.zeros((), tensor.dtype.numpy), [int(d or 0) for d in tensor.dims])
        if value is None or (value.size > _LARGEST and not op.row.shape_only):
            return None
        values.append(value)
    return values


def _compute(
    op: Operation, values: Sequence[np.ndarray[Any, Any]], index: int
) -> np.ndarray[Any, Any] | None:
    assert op.row.kernel is not None
    context: Any = SimpleNamespace(
        node_name=op.name,
        attrs=op.attrs,
        input_dtypes=[tensor.dtype for tensor in op.inputs],
        output_dtypes=[tensor.dtype for tensor in op.outputs],
        resources=None,
    )
    try:
        with np.errstate(all="ignore"):
            result = op.row.kernel(context)(*values)
    except Exception:
        return None  # the error is raised when the node runs, where it becomes an OpError
    return np.asarray(result[index] if len(op.outputs) > 1 else result)


def constant_value_as_dims(tensor: Tensor) -> Dims:
    """Read an integer vector as a shape: None for an unknown element, None as a whole if nothing is known.

    Raises:
        GraphValueError: it has more elements than a shape has dimensions.
    """
    if tensor.dims is not None and len(tensor.dims) == 1:
        check_rank(tensor.dims[0] or 0)
    return _as_dims(tensor, _initial_limits())


def _as_dims(tensor: Tensor, limits: _SearchLimits | None) -> Dims:
    if tensor.dims is None or len(tensor.dims) != 1 or (tensor.dims[0] or 0) > HIGHEST_RANK:
        return None
    rule = _PARTIAL.get(tensor.op.type)
    deeper = None if limits is None else limits.deeper()
    known = rule(tensor.op, deeper) if rule is not None and deeper is not None else None
    if known is not None:
        return known
    value = _value(tensor, limits)
    if value is not None:
        return tuple(None if dim < 0 else int(dim) for dim in value)
    length = tensor.dims[0]
    return of_rank(length)


def _partial_shape(op: Operation, limits: _SearchLimits) -> Dims:
    return op.inputs[0].dims


def _partial_pack(op: Operation, limits: _SearchLimits) -> Dims:
    if op.attrs["axis"] not in (0, -1) or any(tensor.dims != () for tensor in op.inputs):
        return None
    return tuple(_scalar(tensor, limits) for tensor in op.inputs)


def _scalar(tensor: Tensor, limits: _SearchLimits) -> int | None:
    """An integer scalar, which may be one element of a partly known shape."""
    value = _value(tensor, limits)
    if value is not None:
        return None if int(value) < 0 else int(value)
    op = tensor.op
    deeper = limits.deeper()
    if op.type in ("Cast", "Identity"):
        return None if deeper is None else _scalar(op.inputs[0], deeper)
    if op.type == "StridedSlice" and op.attrs["shrink_axis_mask"] == 1 and deeper is not None:
        begin, source = _value(op.inputs[1], deeper), _as_dims(op.inputs[0], deeper)
        if (
            begin is not None
            and source is not None
            and len(begin) == 1
            and -len(source) <= begin[0] < len(source)
        ):
            return source[int(begin[0])]
    return None


def _partial_concat(op: Operation, limits: _SearchLimits) -> Dims:
    parts = [_as_dims(tensor, limits) for tensor in op.inputs[:-1]]
    if any(part is None for part in parts):
        return None
    return tuple(dim for part in parts if part is not None for dim in part)


def _partial_same(op: Operation, limits: _SearchLimits) -> Dims:
    return _as_dims(op.inputs[0], limits)


def _partial_slice(op: Operation, limits: _SearchLimits) -> Dims:
    masks = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    source = _as_dims(op.inputs[0], limits)
    bounds = [_value(tensor, limits) for tensor in op.inputs[1:]]
    if (
        source is None
        or any(op.attrs[mask] for mask in masks)
        or any(bound is None or bound.size != 1 for bound in bounds)
    ):
        return None
    begin, end, step = (int(bound.item()) for bound in bounds if bound is not None)
    if not step:
        return None
    first = None if op.attrs["begin_mask"] & 1 else begin
    last = None if op.attrs["end_mask"] & 1 else end
    return source[first:last:step]


# Ops in shape computations, for which known dimensions are propagated. An op that is missing here only makes a static shape
# less precise.
_PARTIAL: dict[str, Callable[[Operation, _SearchLimits], Dims]] = {
    "Shape": _partial_shape,
    "Pack": _partial_pack,
    "ConcatV2": _partial_concat,
    "Cast": _partial_same,
    "Identity": _partial_same,
    "StridedSlice": _partial_slice,
}
