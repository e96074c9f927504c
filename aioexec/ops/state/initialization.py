"""The collections of variables of a graph, and nodes that initialise variables or report uninitialised ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.ops.control_flow.dependencies import group, no_op
from aioexec.ops.state.assignments import is_variable_initialized


def global_variables(scope: str | None = None) -> list[Any]:
    """Return the variables shared by all processes of a cluster; with `scope`, those whose name it matches from the start."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def all_variables() -> list[Any]:
    """The old name of `global_variables`."""
    return global_variables()


def local_variables(scope: str | None = None) -> list[Any]:
    """Return the variables local to the process."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that a model needs for inference, as registered by its author."""
    return get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that optimizers update by default."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    """Return the variables that have moving averages."""
    return get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list: Sequence[Any], name: str = "init") -> Operation:
    """Return an operation that initialises these variables in parallel."""
    if not var_list:
        return no_op(name=name)
    return group(*(variable.initializer for variable in var_list), name=name)


def initialize_variables(var_list: Sequence[Any], name: str = "init") -> Operation:
    """The old name of `variables_initializer`."""
    return variables_initializer(var_list, name)


def global_variables_initializer() -> Operation:
    """Return an operation that initialises all global variables."""
    return variables_initializer(global_variables())


def initialize_all_variables() -> Operation:
    """The old name of `global_variables_initializer`."""
    return global_variables_initializer()


def local_variables_initializer() -> Operation:
    """Return an operation that initialises all local variables."""
    return variables_initializer(local_variables())


def initialize_local_variables() -> Operation:
    """The old name of `local_variables_initializer`."""
    return local_variables_initializer()


def report_uninitialized_variables(
    var_list: Sequence[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """Return the names of uninitialised variables, a vector of strings; by default of all global and local ones."""
    variables = _given_or_all(var_list)
    with get_default_graph().name_scope(name):
        if not variables:
            return constant([], dtypes.string, shape=[0])
        initialized = [is_variable_initialized(variable) for variable in variables]
        missing = apply_op("LogicalNot", apply_op("Pack", initialized, axis=0, name="stack"))
        names = constant([variable.op.name for variable in variables], dtypes.string)
        places = apply_op("Where", missing)
        return apply_op("GatherV2", names, apply_op("Squeeze", places, squeeze_dims=[1]), 0)


def assert_variables_initialized(var_list: Sequence[Any] | None = None) -> Operation | None:
    """Return an operation that fails with FailedPreconditionError if a variable is uninitialised; None for no variables."""
    variables = _given_or_all(var_list)
    if not variables:
        return None
    with get_default_graph().name_scope("assert_variables_initialized"):
        return group(*(variable.read_value() for variable in variables), name="group")


def _given_or_all(var_list: Sequence[Any] | None) -> list[Any]:
    return global_variables() + local_variables() if var_list is None else list(var_list)
