"""Sizes and structures of outputs and states: shapes with the batch dimension, zero states, scopes of recurrent networks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.control_flow_context import while_context
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.arrays import expand_dims, transpose
from aioexec.ops.array.filling import range_, zeros
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import rank, shape
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.state.variable_scope import VariableScope, variable_scope
from aioexec.shapes import Dimension, TensorShape


def static_shape(part: Any) -> TensorShape:
    """Return what is known of a size at graph construction; the size is an int, TensorShape, scalar or vector tensor."""
    if not isinstance(part, Tensor):
        return TensorShape(part)
    value = constant_value(part)
    if value is not None:
        return TensorShape([int(size) for size in value.reshape(-1)])
    if part.dims == ():
        return TensorShape([None])
    return TensorShape(None if part.dims is None or part.dims[0] is None else [None] * part.dims[0])


def batch_shape(batch_size: Any, size: Any) -> TensorShape:
    """Return the static shape of a tensor with the dimensions `size` per row of the batch."""
    return static_shape(batch_size).concatenate(static_shape(size))


def zeros_of(batch_size: Any, size: Any, dtype: Any) -> Tensor:
    """Create zeros of the shape `[batch_size, *size]`.

    Raises:
        GraphValueError: `size` is not a tensor and not fully defined.
    """
    known = batch_shape(batch_size, size)
    if known.is_fully_defined():
        return zeros(known, dtype)
    found = zeros(concat([_as_vector(batch_size), _as_vector(size)], 0), dtype)
    found.set_shape(known)
    return found


def _as_vector(part: Any) -> Tensor:
    if isinstance(part, Tensor):
        if part.dims is not None and len(part.dims) > 1:
            raise GraphValueError(f"prefix tensor must be either a scalar or vector, but saw tensor: {part}")
        return expand_dims(part, 0) if part.dims == () else part
    known = TensorShape(part)
    if not known.is_fully_defined():
        raise GraphValueError(
            f"Provided a prefix or suffix of None: {part!r}; a state of unknown size needs a tensor"
        )
    return convert_to_tensor(known.as_list(), dtypes.int32)


def zero_state_of(state_size: Any, batch_size: Any, dtype: Any) -> Any:
    """Create zeros for each size in a structure of sizes."""
    return map_structure(lambda size: zeros_of(batch_size, size, dtype), state_size)


def transpose_batch_time(x: Tensor) -> Tensor:
    """Swap the first two dimensions, batch and steps; a tensor of known rank below 2 stays as it is."""
    if x.dims is not None and len(x.dims) < 2:
        return x
    known = TensorShape(None) if x.dims is None else TensorShape([x.dims[1], x.dims[0], *x.dims[2:]])
    order = concat([[1, 0], range_(2, rank(x))], 0) if x.dims is None else [1, 0, *range(2, len(x.dims))]
    swapped = transpose(x, order)
    swapped.set_shape(known)
    return swapped


def batch_size_of(tensors: Sequence[Tensor]) -> Any:
    """Return the batch size of time-major inputs: an int if any of their shapes has it, else a scalar tensor.

    Raises:
        GraphValueError: an input is known to have fewer than two dimensions.
    """
    for tensor in tensors:
        if tensor.shape.ndims is None:
            continue
        if tensor.shape.ndims < 2:
            raise GraphValueError(f"Expected input tensor {tensor.name} to have rank at least 2")
        if tensor.shape[1].value is not None:
            return tensor.shape[1].value
    return shape(tensors[0])[1]


def state_dtype(explicit: Any, state: Any) -> DType:
    """Return the dtype of outputs: the explicit one, else that of all parts of the state.

    Raises:
        GraphValueError: there is no dtype, or the state has no parts, or parts of several dtypes.
    """
    if explicit is not None:
        return dtypes.as_dtype(explicit)
    found = {part.dtype.base_dtype for part in flatten(state)}
    if not found:
        raise GraphValueError("Unable to infer dtype from empty state.")
    if len(found) > 1:
        raise GraphValueError(
            "State has tensors of different inferred_dtypes. Unable to infer a single representative dtype."
        )
    kind: DType = found.pop()
    return kind


def assert_like_rnncell(cell_name: str, cell: Any) -> None:
    """Check that an object has the properties and the call of a cell.

    Raises:
        GraphTypeError: it lacks some of them.
    """
    missing = [
        text
        for text, found in (
            ("'output_size' property is missing", hasattr(cell, "output_size")),
            ("'state_size' property is missing", hasattr(cell, "state_size")),
            ("either 'zero_state' or 'get_initial_state' method is required", _has_initial_state(cell)),
            ("is not callable", callable(cell)),
        )
        if not found
    ]
    if missing:
        raise GraphTypeError(
            f"The argument {cell_name!r} ({cell!r}) is not an RNNCell: {', '.join(missing)}."
        )


def _has_initial_state(cell: Any) -> bool:
    return hasattr(cell, "zero_state") or hasattr(cell, "get_initial_state")


def initial_state_of(cell: Any, initial_state: Any, batch_size: Any, dtype: Any, missing: str) -> Any:
    """Return the initial state as tensors: the given one, else the cell's own.

    Raises:
        GraphValueError: with the text `missing`, if there is neither a state nor a dtype.
    """
    if initial_state is not None:
        return map_structure(convert_to_tensor, initial_state)
    if not dtype:
        raise GraphValueError(missing)
    if getattr(cell, "get_initial_state", None) is not None:
        return cell.get_initial_state(inputs=None, batch_size=batch_size, dtype=dtype)
    return cell.zero_state(batch_size, dtype)


def merged_dimension(known: Dimension, other: Dimension, message: str) -> Dimension:
    """Return what is known of two dimensions that are equal.

    Raises:
        GraphValueError: with this message, if they differ.
    """
    if not known.is_compatible_with(other):
        raise GraphValueError(message)
    return known.merge_with(other)


@contextlib.contextmanager
def recurrent_scope(scope: str | VariableScope | None) -> Iterator[VariableScope]:
    """Open the scope of a recurrent network, by default `rnn`.

    Reads of its variables are cached on their own devices, outside of the loop: else each iteration would read them. In the
    body of an outer loop they are not: its iterations may assign to the variables.
    """
    with variable_scope(scope or "rnn") as opened:
        if (
            opened.caching_device is None
            and while_context(get_default_graph()._get_control_flow_context()) is None
        ):
            opened.set_caching_device(lambda op: op.device)
        yield opened
