"""Variables of `tf.contrib.framework`: created by functions whose arguments an argument scope can set."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from aioexec.contrib.framework.arg_scopes import add_arg_scope
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_options import VariableAggregation, VariableSynchronization
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Get or create a variable; the arguments are those of `get_variable`.

    Args:
        collections: names of collections, each counted once; by default that of global variables.
        device: a device, or a function of the node that returns one.
        custom_getter: a function to call instead of `get_variable`, with the same arguments and `reuse` of the scope.

    Raises:
        GraphValueError: as `get_variable`.
    """
    listed = [GraphKeys.GLOBAL_VARIABLES] if collections is None else collections
    getter = get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, reuse=get_variable_scope().reuse)
    with get_default_graph().device(device) if device else contextlib.nullcontext():
        return getter(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=list(dict.fromkeys(listed)),
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
            synchronization=synchronization,
            aggregation=aggregation,
        )


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Get or create a variable of a model: as `variable`, also in MODEL_VARIABLES and GLOBAL_VARIABLES."""
    listed = [*(collections or ()), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=listed,
        caching_device=caching_device,
        device=device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )


def add_model_variable(var: Any) -> None:
    """Add a variable to MODEL_VARIABLES, unless it is there."""
    held = get_default_graph().get_collection_ref(GraphKeys.MODEL_VARIABLES)
    if all(var is not each for each in held):
        get_default_graph().add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> Any:
    """Create a variable in LOCAL_VARIABLES that is not trainable."""
    return _created(GraphKeys.LOCAL_VARIABLES, initial_value, validate_shape, name, use_resource)


def global_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> Any:
    """Create a variable in GLOBAL_VARIABLES that is not trainable."""
    return _created(GraphKeys.GLOBAL_VARIABLES, initial_value, validate_shape, name, use_resource)


def _created(
    collection: str, initial_value: Any, validate_shape: bool, name: str | None, use_resource: bool | None
) -> Any:
    return Variable(
        initial_value,
        trainable=False,
        collections=[collection],
        validate_shape=validate_shape,
        use_resource=use_resource,
        name=name,
    )
