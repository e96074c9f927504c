"""The global step: the variable that counts training steps."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, GraphValueError, UnknownNameError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.initializers import Zeros
from aioexec.ops.variable_scope import get_variable

NAME = "global_step"


def get_global_step(graph: Graph | None = None) -> Any:
    """The global step of a graph: what its collection holds, else the tensor "global_step:0"; None if there is none.

    Raises:
        GraphTypeError, GraphValueError: what was found is not a scalar of integers, or there are several.
    """
    graph = graph or get_default_graph()
    held = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(held) > 1:
        raise GraphValueError(f"expected one variable in the collection global_step, got {held!r}")
    if held:
        found = held[0]
    else:
        try:
            found = graph.get_tensor_by_name(f"{NAME}:0")
        except UnknownNameError:
            return None
    assert_global_step(found)
    return found


def create_global_step(graph: Graph | None = None) -> Any:
    """A new global step: an int64 scalar that begins at 0.

    Raises:
        GraphValueError: the graph has one.
    """
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise GraphValueError('"global_step" already exists')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            NAME,
            shape=[],
            dtype=dtypes.int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The global step of a graph, made if there is none."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: Any) -> None:
    """Check that this can be a global step.

    Raises:
        GraphTypeError: it is not of an integer dtype.
        GraphValueError: it is not a scalar.
    """
    dtype = getattr(global_step_tensor, "dtype", None)
    if dtype is None or not dtype.base_dtype.is_integer:
        raise GraphTypeError(f'existing "global_step" does not have integer type: {global_step_tensor!r}')
    dims = global_step_tensor.dims
    if dims != () and shapes.is_fully_defined(dims):
        raise GraphValueError(f'existing "global_step" is not scalar: {global_step_tensor!r}')
