"""Checks of tensors, and what else `tf.contrib.framework` has on tensors and graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies, name_scope
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.identity import identity
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.math.arithmetic import add_n
from aioexec.ops.math.comparison import equal
from aioexec.ops.reduction.reductions import reduce_all, reduce_sum
from aioexec.ops.state.variable import Variable
from aioexec.shapes import TensorShape
from aioexec.train.global_steps import assert_global_step, get_global_step


def is_tensor(x: Any) -> bool:
    """Return whether a value is a tensor, sparse tensor or variable."""
    return isinstance(x, Tensor | SparseTensor | Variable)


def assert_scalar(tensor: Any, name: str | None = None) -> Tensor:
    """Return a value as a tensor after checking that its shape is that of a scalar.

    Raises:
        GraphValueError: it is known to be no scalar.
    """
    with name_scope(name, "assert_scalar", [tensor]):
        tensor = convert_to_tensor(tensor)
        if tensor.shape.ndims != 0:
            raise GraphValueError(f"Expected scalar shape for {tensor.name}, saw shape: {tensor.shape}.")
        return tensor  # type: ignore[no-any-return]


def assert_scalar_int(tensor: Any, name: str | None = None) -> Tensor:
    """As `assert_scalar`, for integers.

    Raises:
        GraphValueError: it is no integer, or known to be no scalar.
    """
    with name_scope(name, "assert_scalar_int", [tensor]):
        tensor = convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise GraphValueError(f"Expected integer type for {tensor.name}, received type: {tensor.dtype}.")
        return assert_scalar(tensor)


def assert_or_get_global_step(graph: Graph | None = None, global_step_tensor: Any = None) -> Any:
    """Return the given global step after checking it, or that of the graph.

    Raises:
        GraphTypeError: it is not an integer scalar.
    """
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


def with_shape(expected_shape: Any, tensor: Any) -> Tensor:
    """Return a tensor that has the shape `expected_shape`, a list, TensorShape or integer vector tensor.

    What is unknown at graph construction is checked when the tensor is computed.

    Raises:
        GraphValueError: the shapes are known to differ.
        GraphTypeError: `tensor` is a SparseTensor.
    """
    if isinstance(tensor, SparseTensor):
        raise GraphTypeError("SparseTensor not supported.")
    tensor = convert_to_tensor(tensor)
    if isinstance(expected_shape, Tensor):
        return _checked_in_a_run(expected_shape, tensor)
    expected = TensorShape(expected_shape)
    if not expected.is_compatible_with(tensor.shape):
        raise GraphValueError(
            f"Invalid shape for tensor {tensor.name}, expected {expected}, got {tensor.shape}."
        )
    if not tensor.shape.is_fully_defined() and expected.is_fully_defined():
        checked = _checked_in_a_run(convert_to_tensor(expected.as_list(), "int32"), tensor)
        checked.set_shape(expected)
        return checked
    return tensor  # type: ignore[no-any-return]


def _checked_in_a_run(expected: Tensor, tensor: Tensor) -> Tensor:
    actual = shape(tensor, out_type=expected.dtype.base_dtype)
    is_same = reduce_all(equal(expected, actual), name="is_shape")
    message = f"Wrong shape for {tensor.name} [expected] [actual]."
    with control_dependencies([Assert(is_same, [message, expected, actual])]):
        return identity(tensor)  # type: ignore[no-any-return]


def with_same_shape(expected_tensor: Any, tensor: Any) -> Tensor:
    """Return a tensor that has the shape of another one; see `with_shape`."""
    expected = convert_to_tensor(expected_tensor)
    if expected.shape.is_fully_defined():
        return with_shape(expected.shape, tensor)
    return with_shape(shape(expected), tensor)


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Tensor:
    """Return the sum of all elements of all tensors, a scalar.

    Raises:
        GraphValueError: there are no tensors.
    """
    if not tensors:
        raise GraphValueError("No tensors provided.")
    with name_scope(name, "reduce_sum_n", tensors) as scope:
        tensors = [
            reduce_sum(convert_to_tensor(each), name=f"reduce_sum_{k}") for k, each in enumerate(tensors)
        ]
        return tensors[0] if len(tensors) == 1 else add_n(tensors, name=scope)


def get_graph_from_inputs(op_input_list: Sequence[Any], graph: Graph | None = None) -> Graph:
    """Return the graph of the tensors in a list, or the default graph if there are none.

    Raises:
        GraphValueError: an input is from another graph than `graph`, or the others.
    """
    found = graph_of(op_input_list)
    if graph is not None and any(getattr(each, "graph", graph) is not graph for each in op_input_list):
        raise GraphValueError(f"{op_input_list[0]!r} is not from the passed-in graph.")
    return graph or found


def get_name_scope() -> str:
    """Return the current name scope of the default graph, "" outside of all."""
    return get_default_graph().get_name_scope()


def get_placeholders(graph: Graph) -> list[Tensor]:
    """Return the outputs of the placeholders of a graph.

    Raises:
        GraphTypeError: the argument is no graph.
    """
    if not isinstance(graph, Graph):
        raise GraphTypeError(f"Input graph needs to be a Graph: {graph!r}")
    return [node.outputs[0] for node in graph.get_operations() if node.type == "Placeholder"]
