"""The global step: the variable that counts training steps."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, GraphValueError, UnknownNameError
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.array.identity import identity
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.state.initializers import Zeros
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_scope import get_variable

NAME = "global_step"
READ_KEY = "global_step_read_op_cache"
"""The collection with the tensor that reads the global step."""


def get_global_step(graph: Graph | None = None) -> Any:
    """The global step of a graph: the item of its collection, else the tensor "global_step:0"; None if there is none.

    Raises:
        GraphTypeError: it is not an integer scalar.
        GraphValueError: there are several.
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
    """Create the global step: an int64 scalar that starts at 0.

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
    """The global step of a graph, created if there is none."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor: Any) -> None:
    """Check that a tensor or variable can be a global step.

    Raises:
        GraphTypeError: it is no variable or tensor, not of an integer dtype, or not a scalar.
    """
    dtype = getattr(global_step_tensor, "dtype", None)
    if dtype is None or not hasattr(global_step_tensor, "dims"):
        raise GraphTypeError(f'Existing "global_step" must be a Variable or Tensor: {global_step_tensor!r}')
    if not dtype.base_dtype.is_integer:
        raise GraphTypeError(f'Existing "global_step" does not have integer type: {global_step_tensor!r}')
    dims = global_step_tensor.dims
    if dims != () and shapes.is_fully_defined(dims):
        raise GraphTypeError(f'Existing "global_step" is not scalar: {global_step_tensor!r}')


async def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The global step in a session, as a Python integer."""
    return int(await sess.run(global_step_tensor))


def _get_global_step_read(graph: Graph | None = None) -> Any:
    """The graph's tensor for reading the global step; None if there is none yet.

    Raises:
        RuntimeError: there are several.
    """
    held = (graph or get_default_graph()).get_collection(READ_KEY)
    if len(held) > 1:
        raise RuntimeError(
            f"There are multiple items in collection {READ_KEY}. There should be only one: {held!r}"
        )
    return held[0] if held else None


def _get_or_create_global_step_read(graph: Graph | None = None) -> Any:
    """A tensor that reads the global step; None without a global step.

    There is one such tensor per graph, so that all its consumers in a run get the same value. Unlike TensorFlow's it does not
    check in each step whether the variable is initialised, which costs several times as much as the step.
    """
    graph = graph or get_default_graph()
    read, found = _get_global_step_read(graph), get_global_step(graph)
    if read is not None or found is None:
        return read
    with graph.as_default(), graph.name_scope(f"{found.op.name}/"):
        read = found.read_value() if isinstance(found, Variable) else identity(found)
        graph.add_to_collection(READ_KEY, read)
    return read


def _increment_global_step(increment: Any, graph: Graph | None = None) -> Any:
    """The global step after adding `increment`, which happens after all other reads in the run.

    Raises:
        GraphValueError: there is no global step.
    """
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    if found is None:
        raise GraphValueError(
            "Global step tensor should be created by tf.train.get_or_create_global_step before calling increment"
        )
    read = _get_or_create_global_step_read(graph)
    scope = f"{found.op.name}/"
    with graph.as_default(), graph.name_scope(scope), graph.control_dependencies([read]):
        return assign_add(found, increment)
