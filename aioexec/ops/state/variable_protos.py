"""VariableDef protos of variables, as the collections of a MetaGraphDef hold them.

A VariableDef names the nodes of a variable of either kind: reference or handle, initial value, its assignment, and the read
op.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from aioexec.dtypes import resource
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.scope_names import is_in_scope, prepend_name_scope, strip_name_scope
from aioexec.ops.state.save_slices import SaveSliceInfo
from aioexec.ops.state.variable_ops import var_is_initialized_op
from aioexec.ops.state.variable_options import VariableAggregation, VariableSynchronization, checked_copies

COLLECTIONS: Final = (
    GraphKeys.GLOBAL_VARIABLES,
    GraphKeys.TRAINABLE_VARIABLES,
    GraphKeys.MOVING_AVERAGE_VARIABLES,
    GraphKeys.LOCAL_VARIABLES,
    GraphKeys.MODEL_VARIABLES,
    GraphKeys.GLOBAL_STEP,
    GraphKeys.METRIC_VARIABLES,
)
"""The collections whose items are variables."""

if TYPE_CHECKING:
    from aioexec.formats.protos import VariableDef


class Variable(Protocol):
    """The part of `variable.Variable` that a VariableDef describes."""

    synchronization: VariableSynchronization
    aggregation: VariableAggregation
    slice_info: SaveSliceInfo | None
    _initial_value: Tensor | None
    _initializer: Operation
    _snapshot: Tensor
    _tensor: Tensor
    _trainable: bool
    _validate_shape: bool

    @property
    def name(self) -> str: ...
    def _take_snapshot(self, snapshot: Tensor | None) -> None: ...


def to_proto(variable: Variable, export_scope: str | None = None) -> VariableDef | None:
    """Return a variable as a VariableDef.

    Args:
        export_scope: the prefix to remove from names; a variable without it yields None.
    """
    from aioexec.formats.protos import VariableDef

    if not is_in_scope(variable.name, export_scope):
        return None
    synchronization: Any = variable.synchronization.value  # an int; the proto accepts it as its enum
    aggregation: Any = variable.aggregation.value
    proto = VariableDef(
        variable_name=strip_name_scope(variable.name, export_scope),
        initializer_name=strip_name_scope(variable._initializer.name, export_scope),
        snapshot_name=strip_name_scope(variable._snapshot.name, export_scope),
        is_resource=variable._tensor.dtype == resource,
        trainable=variable._trainable,
        synchronization=synchronization,
        aggregation=aggregation,
    )
    if variable._initial_value is not None:
        proto.initial_value_name = strip_name_scope(variable._initial_value.name, export_scope)
    part = variable.slice_info
    if part is not None:
        held = proto.save_slice_info_def
        held.full_name = strip_name_scope(part.full_name, export_scope)
        held.full_shape.extend(part.full_shape)
        held.var_offset.extend(part.var_offset)
        held.var_shape.extend(part.var_shape)
    return proto


def is_of_resource(variable_def: Any) -> bool:
    """Return whether a VariableDef describes a resource variable.

    Raises:
        GraphTypeError: the argument is not a VariableDef.
    """
    from aioexec.formats.protos import VariableDef

    if not isinstance(variable_def, VariableDef):
        raise GraphTypeError(f"variable_def must be a VariableDef, got {type(variable_def).__name__!r}")
    return variable_def.is_resource


def fill(variable: Variable, proto: VariableDef, import_scope: str | None) -> None:
    """Initialise a Python object from a VariableDef, whose nodes are in the default graph.

    Raises:
        UnknownNameError: the graph has no node of that name.
        GraphValueError: the node is not a variable.
    """
    graph = get_default_graph()

    def element(name: str) -> Any:
        return graph.as_graph_element(prepend_name_scope(name, import_scope))

    found = element(proto.variable_name)
    if not isinstance(found, Tensor) or (found.dtype == resource) != proto.is_resource:
        raise GraphValueError(f"{proto.variable_name!r} does not match its VariableDef: found {found!r}")
    variable._tensor = found
    variable._initializer = element(proto.initializer_name)
    if proto.initial_value_name:
        variable._initial_value = element(proto.initial_value_name)
    variable.synchronization, variable.aggregation, variable._trainable = checked_copies(
        proto.synchronization, proto.aggregation, proto.trainable, proto.variable_name
    )
    variable._validate_shape = bool(variable._initializer.attrs.get("validate_shape", True))
    if proto.HasField("save_slice_info_def"):
        part = proto.save_slice_info_def
        variable.slice_info = SaveSliceInfo(
            prepend_name_scope(part.full_name, import_scope),
            list(part.full_shape),
            list(part.var_offset),
            list(part.var_shape),
        )
    variable._take_snapshot(element(proto.snapshot_name) if proto.snapshot_name else None)


def known_is_initialized(handle: Tensor) -> Tensor:
    """Return the op that checks whether a resource variable is initialised, adding it if necessary."""
    for op in handle.consumers():
        if op.type == "VarIsInitializedOp":
            return op.outputs[0]
    graph = handle.graph
    with graph.control_dependencies(None), graph.name_scope(f"{handle.op.name}/IsInitialized/"):
        return var_is_initialized_op(handle)
