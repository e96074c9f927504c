"""`Variable`: the Python object of a variable, in both kinds.

`Variable(...)` creates a ReferenceVariable (VariableV2, read through a reference edge, which has the content at the time when
its consumer runs) or a ResourceVariable (VarHandleOp, with a read op for each use). `use_resource` selects the kind, else the
current variable scope, else `enable_resource_variables`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from aioexec.dtypes import DType, as_dtype
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor, register_tensor_conversion_function
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.io.proto_functions import register_proto_function
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.operators import OPERATORS, Operators
from aioexec.graph.scopes import init_scope
from aioexec.graph.wiring import EVALUATORS
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.state import assignments, counting, save_slices, scatter_updates, variable_protos
from aioexec.ops.state.initial_values import guarded, initial_tensor
from aioexec.ops.state.scatter_methods import ScatterMethods
from aioexec.ops.state.variable_ops import (
    assign_add_variable_op,
    assign_sub_variable_op,
    assign_variable_op,
    read_variable_op,
    var_handle_op,
    var_is_initialized_op,
    variable_op_v2,
)
from aioexec.ops.state.variable_options import (
    VariableAggregation,
    VariableSynchronization,
    check_variable_arguments,
    checked_copies,
    choose_resource,
    disable_resource_variables as disable_resource_variables,
    enable_resource_variables as enable_resource_variables,
    resource_variables_enabled as resource_variables_enabled,
)
from aioexec.shapes import Dims, TensorShape

_REFERENCE_UPDATES: dict[str, Callable[..., Tensor]] = {
    "assign": assignments.assign,
    "assign_add": assignments.assign_add,
    "assign_sub": assignments.assign_sub,
}
_RESOURCE_UPDATES: dict[str, Callable[..., Operation]] = {
    "assign": assign_variable_op,
    "assign_add": assign_add_variable_op,
    "assign_sub": assign_sub_variable_op,
}


class Variable(Operators[Tensor], ScatterMethods):
    """State kept in the session, with an initial value that its `initializer` assigns.

    Used as a tensor, it is its content; `assign` and the like add nodes that change it.

    Args:
        initial_value: a value that converts to a tensor, or a function without arguments that returns it.
        trainable: whether optimizers update it by default.
        collections: collections to add it to; GLOBAL_VARIABLES by default.
        validate_shape: False allows values of any shape.
        caching_device: device of a copy that reads use.
        name: name, made unique; "Variable" by default.
        dtype: dtype to convert the initial value to.
        constraint: projection that an optimizer applies after its update.
        use_resource: the kind; see the module docstring.
        shape: shape of a resource variable, if it may change within it.

    Raises:
        GraphValueError: there is no initial value, or its shape is unknown.
    """

    def __new__(cls, *args: Any, use_resource: bool | None = None, **kwargs: Any) -> Variable:
        if cls is Variable:
            if kwargs.get("variable_def") is not None:
                use_resource = variable_protos.is_of_resource(kwargs["variable_def"])
            kind = ResourceVariable if choose_resource(use_resource) else ReferenceVariable
            return object.__new__(kind)
        return object.__new__(cls)

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Iterable[Any] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        self._constraint = constraint
        self._declared: Any = shape
        if variable_def is not None:
            variable_protos.fill(self, variable_def, import_scope)
            return
        check_variable_arguments(name, initial_value, collections, constraint)
        self.synchronization, self.aggregation, self._trainable = checked_copies(
            synchronization, aggregation, trainable, name
        )
        self._validate_shape = validate_shape
        graph = get_default_graph()
        placed = graph.device(caching_device) if caching_device is not None else None
        with graph.control_dependencies(None), graph.name_scope(name or "Variable") as scope:
            self._make(graph, initial_value, None if dtype is None else as_dtype(dtype), scope, placed)
        wanted = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in wanted:
            wanted.append(GraphKeys.TRAINABLE_VARIABLES)
        graph.add_to_collections(wanted, self)

    # Implemented by each kind

    synchronization: VariableSynchronization
    aggregation: VariableAggregation
    _initial_value: Tensor | None = None  # None for an imported variable without one
    _initializer: Operation
    _tensor: Tensor  # the reference, or the handle
    _element: Tensor  # the read op for fetches and evaluation
    _snapshot: Tensor  # the shared read op, which a VariableDef names

    def _make(
        self,
        graph: Graph,
        initial_value: Any,
        dtype: DType | None,
        scope: str,
        caching: contextlib.AbstractContextManager[None] | None,
    ) -> None:
        """Add the nodes; `scope` is the name of the variable with a slash."""
        raise NotImplementedError

    def _take_snapshot(self, snapshot: Tensor | None) -> None:
        """Set the read op of an imported variable."""
        raise NotImplementedError

    def value(self) -> Tensor:
        """Return the content as a tensor at the time of the read, which may be cached or shared."""
        raise NotImplementedError

    def read_value(self) -> Tensor:
        """Return the content by a new read op, which follows the current control dependencies."""
        raise NotImplementedError

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Replace the content.

        Args:
            read_value: return an object that reads the new content; otherwise the operation.
        """
        return self._assign("assign", value, use_locking, name, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the content."""
        return self._assign("assign_add", delta, use_locking, name, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the content."""
        return self._assign("assign_sub", delta, use_locking, name, read_value)

    def _assign(self, verb: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> Any:
        """Add the op of `assign`, `assign_add` or `assign_sub`."""
        raise NotImplementedError

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Return whether the variable is initialised."""
        return assignments.is_variable_initialized(self, name=name)

    def _as_tensor(self, dtype: DType | None, as_ref: bool) -> Tensor:
        if dtype is not None and dtype != self.dtype.base_dtype:
            raise GraphTypeError(
                f"variable {self.name!r} is {self.dtype.base_dtype.name}, expected {dtype.name}"
            )
        return self._ref() if as_ref else self.value()

    def _ref(self) -> Tensor:
        raise NotImplementedError

    # Shared by both kinds

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Return the variable as a VariableDef without the prefix `export_scope`; None if it is not in that scope."""
        return variable_protos.to_proto(self, export_scope)

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Variable:
        """Create a variable from a VariableDef; its nodes must be in the default graph."""
        return Variable(variable_def=variable_def, import_scope=import_scope)

    SaveSliceInfo = save_slices.SaveSliceInfo
    slice_info: save_slices.SaveSliceInfo | None = None
    """Set for a variable that is a partition of another."""

    def _set_save_slice_info(self, save_slice_info: save_slices.SaveSliceInfo) -> None:
        self.slice_info = save_slice_info

    def _get_save_slice_info(self) -> save_slices.SaveSliceInfo | None:
        return self.slice_info

    @property
    def dtype(self) -> DType:
        return self._tensor.dtype

    @property
    def name(self) -> str:
        return self._tensor.name

    @property
    def op(self) -> Operation:
        return self._tensor.op

    @property
    def graph(self) -> BaseGraph:
        return self._tensor.graph

    @property
    def device(self) -> str:
        return self._tensor.device

    @property
    def dims(self) -> Dims:
        """The static shape as a tuple."""
        return self._element.dims

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self.dims)

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merge `shape` into the static shape."""
        self._element.set_shape(shape)

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def constraint(self) -> Callable[[Any], Any] | None:
        return self._constraint

    @property
    def initializer(self) -> Operation:
        """The operation that assigns the initial value."""
        return self._initializer

    def initialize_by(self, initial_value: Tensor, initializer: Operation) -> None:
        """Replace the initial value, and the operation that assigns it."""
        self._initial_value, self._initializer = initial_value, initializer

    @property
    def initial_value(self) -> Tensor | None:
        return self._initial_value

    def initialized_value(self) -> Tensor:
        """Return the content if the variable is initialised, else its initial value: for initial values of others."""
        if self._initial_value is None:
            raise GraphValueError(f"variable {self.name!r} was imported without its initial value")
        with init_scope():
            found: Tensor = cond(self.is_initialized(), self.read_value, lambda: guarded(self))
        return found

    def eval(self, session: Any = None) -> Any:
        """Return the content in `session` or the default session; an awaitable."""
        return EVALUATORS["eval"](self._element, None, session)

    def load(self, value: Any, session: Any = None) -> Any:
        """Assign a value from outside of the graph in `session` or the default session; an awaitable."""
        return EVALUATORS["run"](self._initializer, {self._initializer.inputs[1]: value}, session)

    def __getitem__(self, key: Any) -> Tensor:
        """A part of the content; `variable[key].assign(value)` assigns to the part."""
        part: Tensor = OPERATORS["getitem"](self._operand(), key, self)
        return part

    def assign_slice(self, bounds: Sequence[Tensor], masks: Mapping[str, int], value: Any, name: str) -> Any:
        """Assign to a strided slice; `bounds` are its begin, end and strides."""
        raise NotImplementedError

    def count_up_to(self, limit: int) -> Tensor:
        """Increment the variable and return its previous value; OutOfRangeError once it has reached the limit."""
        return counting.count_up_to(self, limit)

    def _as_graph_element(self) -> Tensor:
        return self._element

    def __repr__(self) -> str:
        return f"<aioexec.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"

    def __iter__(self) -> NoReturn:
        raise GraphTypeError(f"variable {self.name!r} is not iterable")

    def _operand(self) -> Tensor:
        return self.value()


class ReferenceVariable(Variable):
    """A variable as VariableV2, assigned and read through a reference edge."""

    def _make(
        self,
        graph: Graph,
        initial_value: Any,
        dtype: DType | None,
        scope: str,
        caching: contextlib.AbstractContextManager[None] | None,
    ) -> None:
        self._initial_value = value = initial_tensor(graph, initial_value, dtype, self._validate_shape)
        dims = value.dims if self._validate_shape else None
        self._tensor = self._element = variable_op_v2(dims, value.dtype, name=scope)
        assigned = assignments.assign(self._tensor, guarded(self), validate_shape=self._validate_shape)
        self._initializer = assigned.op
        with caching or graph.colocate_with(self._tensor.op):
            self._snapshot = apply_op("Identity", self._tensor, name="read")

    def _take_snapshot(self, snapshot: Tensor | None) -> None:
        self._element = self._tensor
        self._snapshot = self.read_value() if snapshot is None else snapshot

    def _ref(self) -> Tensor:
        return self._tensor

    def value(self) -> Tensor:
        return self._snapshot

    def read_value(self) -> Tensor:
        return apply_op("Identity", self._tensor, name="read")

    def _assign(self, verb: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> Any:
        result = _REFERENCE_UPDATES[verb](self._tensor, value, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def assign_slice(self, bounds: Sequence[Tensor], masks: Mapping[str, int], value: Any, name: str) -> Any:
        return assignments.update_reference(
            "StridedSliceAssign", self._tensor, *bounds, value, name=name, **masks
        )


class ResourceVariable(Variable):
    """A variable as VarHandleOp; each use is a ReadVariableOp, ordered by control dependencies."""

    _cached: Tensor | None = None
    _update: Operation | None = None

    def _make(
        self,
        graph: Graph,
        initial_value: Any,
        dtype: DType | None,
        scope: str,
        caching: contextlib.AbstractContextManager[None] | None,
    ) -> None:
        with contextlib.nullcontext() if callable(initial_value) else graph.name_scope("Initializer"):
            self._initial_value = value = initial_tensor(graph, initial_value, dtype, self._validate_shape)
        dims = value.dims if self._validate_shape else None
        if self._declared is not None:
            dims = TensorShape(self._declared).plain
        name = scope.rstrip("/")
        self._tensor = handle = var_handle_op(value.dtype, dims, shared_name=name, name=scope)
        self._dtype = value.dtype.base_dtype
        with graph.name_scope("IsInitialized"):
            self._is_initialized = var_is_initialized_op(handle)
        with graph.name_scope("Assign") as assign:
            self._initializer = assign_variable_op(handle, guarded(self), name=assign)
        with graph.name_scope("Read"):
            self._element = self._snapshot = self._read()
        if caching is not None:
            with caching:
                self._cached = self._snapshot = apply_op("Identity", self._element)

    def _take_snapshot(self, snapshot: Tensor | None) -> None:
        self._dtype = self._tensor.op.attrs["dtype"]
        self._is_initialized = variable_protos.known_is_initialized(self._tensor)
        self._element = self._snapshot = self._read() if snapshot is None else snapshot
        if snapshot is not None and snapshot.op.type != "ReadVariableOp":
            self._cached = snapshot

    def after_update(self) -> contextlib.AbstractContextManager[Any]:
        """Ops that are made in this context follow the update that returned this object, if any."""
        update = self._update
        return contextlib.nullcontext() if update is None else update.graph.control_dependencies([update])

    def _read(self) -> Tensor:
        with self.after_update():
            return read_variable_op(self._tensor, self._dtype)

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def handle(self) -> Tensor:
        """The resource handle."""
        return self._tensor

    @property
    def op(self) -> Operation:
        return self._tensor.op if self._update is None else self._update

    def _ref(self) -> Tensor:
        raise GraphTypeError(f"variable {self.name!r} is a resource and has no reference")

    def value(self) -> Tensor:
        return self._cached if self._cached is not None else self._read()

    def read_value(self) -> Tensor:
        with get_default_graph().name_scope("Read"):
            value = self._read()
        return apply_op("Identity", value)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Return rows of the content without reading the whole."""
        with self.after_update():
            return scatter_updates.resource_gather(self._tensor, indices, self._dtype, name=name or "Gather")

    def after(self, update: Operation) -> ResourceVariable:
        """Return an object for this variable whose reads follow `update`."""
        updated = copy.copy(self)
        updated._update = update
        updated._cached = None
        updated._element = updated._read()
        return updated

    def is_initialized(self, name: str | None = None) -> Tensor:
        return self._is_initialized if name is None else var_is_initialized_op(self._tensor, name)

    def _assign(self, verb: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> Any:
        options = {"validate_shape": self._validate_shape} if verb == "assign" else {}
        content = convert_to_tensor(value, self._dtype)
        with self.after_update():
            update = _RESOURCE_UPDATES[verb](self._tensor, content, name=name, **options)
        return self.after(update) if read_value else update

    def assign_slice(self, bounds: Sequence[Tensor], masks: Mapping[str, int], value: Any, name: str) -> Any:
        content = convert_to_tensor(value, self._dtype)
        with self.after_update():
            update = apply_no_output_op(
                "ResourceStridedSliceAssign", self._tensor, *bounds, content, name=name, **masks
            )
        return self.after(update)


def _converted(variable: Any, dtype: DType | None, name: str | None, as_ref: bool) -> Tensor:
    tensor: Tensor = variable._as_tensor(dtype, as_ref)
    return tensor


register_tensor_conversion_function(Variable, _converted)


def is_resource_variable(variable: Any) -> bool:
    return isinstance(variable, ResourceVariable)


for _collection in variable_protos.COLLECTIONS:
    register_proto_function(_collection, "VariableDef", Variable.to_proto, Variable.from_proto)
