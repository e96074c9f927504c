"""Nodes of a graph: operations and the symbolic tensors between them; and `BaseGraph`, the interface of a graph that they use.

An operation is immutable except for its control inputs, device, attributes and a loop's back edge. Their setters increment
`Graph.mutations`, which invalidates existing plans.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Self

from aioexec import shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError, UnknownNameError
from aioexec.graph.defaults import default_graphs
from aioexec.graph.function_library import Function, FunctionLibrary
from aioexec.graph.keys import Collections
from aioexec.graph.operators import Operators
from aioexec.graph.registry import Row
from aioexec.graph.scope_names import NameScopes
from aioexec.graph.wiring import EVALUATORS
from aioexec.shapes import Dims, TensorShape


def caller_location() -> str:
    """file:line of the nearest frame outside this package, for error messages."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("aioexec."):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"


class Tensor(Operators["Tensor"]):
    """One output of an operation: symbolic; has a dtype and a static shape but no value."""

    __slots__ = ("__weakref__", "_consumers", "_dims", "_dtype", "_op", "_value_index", "assign")

    assign: Callable[..., Any]
    """Only of a slice of a variable: assigns to that part of the variable."""

    def __init__(self, op: Operation, value_index: int, dtype: DType, dims: Dims) -> None:
        self._op = op
        self._value_index = value_index
        self._dtype = dtype
        self._dims = dims
        self._consumers: list[Operation] = []

    @property
    def op(self) -> Operation:
        return self._op

    @property
    def graph(self) -> BaseGraph:
        return self._op.graph

    @property
    def value_index(self) -> int:
        return self._value_index

    @property
    def name(self) -> str:
        return f"{self._op.name}:{self._value_index}"

    @property
    def device(self) -> str:
        return self._op.device

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def dims(self) -> Dims:
        """The static shape as a plain tuple, None for an unknown dimension or rank."""
        return self._dims

    @property
    def shape(self) -> TensorShape:
        return TensorShape(self._dims)

    def get_shape(self) -> TensorShape:
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Merge `shape` into the static shape.

        Raises:
            GraphValueError: they contradict each other.
        """
        self._dims = shapes.merge(self._dims, TensorShape(shape).plain)

    def consumers(self) -> list[Operation]:
        return list(self._consumers)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Evaluate in `session` or the default session; an awaitable."""
        return EVALUATORS["eval"](self, feed_dict, session)

    def __repr__(self) -> str:
        return f"<aioexec.Tensor {self.name!r} shape={self.shape} dtype={self._dtype.name}>"

    def __str__(self) -> str:
        return f"Tensor({self.name!r}, shape={self.shape}, dtype={self._dtype.name})"

    def __bool__(self) -> NoReturn:
        raise GraphTypeError(
            f"tensor {self.name!r} used as a Python bool: fetch it, or use cond and logical_and"
        )

    def __iter__(self) -> NoReturn:
        raise GraphTypeError(f"tensor {self.name!r} is not iterable: fetch it, or use unstack or map_fn")

    def __len__(self) -> NoReturn:
        raise GraphTypeError(f"tensor {self.name!r} has no len(): use shape or size")


class Operation:
    """A node: an op applied to tensors.

    Constant after creation: graph, name, row, outputs, index (its position in the graph), created_at, and the control-flow
    context (set by its creator). Changed only by setters that increment `Graph.mutations`: attrs, device, control_inputs; one
    input of a Merge, once; for ops with bodies also the op and the number of outputs (`become`).
    """

    __slots__ = (
        "__weakref__",
        "_control_flow_context",
        "_control_inputs",
        "_device",
        "_inputs",
        "_outputs",
        "attrs",
        "created_at",
        "graph",
        "index",
        "name",
        "row",
    )

    def __init__(
        self,
        graph: BaseGraph,
        name: str,
        row: Row,
        inputs: Sequence[Tensor],
        control_inputs: Sequence[Operation],
        attrs: dict[str, Any],
        device: str,
        index: int,
    ) -> None:
        self.graph = graph
        self.name = name
        self.row = row
        self.attrs = attrs
        self.index = index
        self.created_at = caller_location()
        self._inputs = tuple(inputs)
        self._control_inputs = list(control_inputs)
        self._device = device
        self._outputs: tuple[Tensor, ...] = ()
        self._control_flow_context: Any = None  # a ControlFlowContext; that class is built on this module

    def set_outputs(self, dtypes: Sequence[DType], shapes_of_outputs: Sequence[Dims]) -> None:
        """Make the output tensors; called once, by the graph.

        Raises:
            GraphValueError: this is a call of a function whose outputs differ from its signature.
        """
        if len(dtypes) != len(shapes_of_outputs):
            raise GraphValueError(
                f"{self.type} {self.name!r}: {len(dtypes)} outputs, but shapes of {len(shapes_of_outputs)}"
            )
        self._outputs = tuple(
            Tensor(self, i, dtype, dims)
            for i, (dtype, dims) in enumerate(zip(dtypes, shapes_of_outputs, strict=True))
        )

    @property
    def type(self) -> str:
        return self.row.name

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self._inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self._outputs

    @property
    def control_inputs(self) -> list[Operation]:
        return list(self._control_inputs)

    @property
    def device(self) -> str:
        return self._device

    @property
    def node_def(self) -> Any:
        """This node as a NodeDef proto."""
        return EVALUATORS["node_def"](self)

    def get_attr(self, name: str) -> Any:
        """The value of an attribute; strings are bytes.

        Raises:
            GraphValueError: the operation has no such attribute.
        """
        if name not in self.attrs:
            raise GraphValueError(
                f"{self.type} {self.name!r} has no attr named {name!r}; it has {sorted(self.attrs)}"
            )
        return _with_bytes(self.attrs[name])

    def colocation_groups(self) -> list[bytes]:
        """The names of the groups of operations that are placed together, at least the one of the operation itself."""
        return [group.encode() for group in self.groups]

    @property
    def groups(self) -> tuple[str, ...]:
        """The colocation groups as text."""
        return tuple(self.attrs.get("_class", (f"loc:@{self.name}",)))

    def add_control_inputs(self, operations: Sequence[Operation]) -> None:
        self._control_inputs.extend(op for op in operations if op not in self._control_inputs)
        self.graph.mutations += 1

    def set_input(self, index: int, tensor: Tensor) -> None:
        """Replace input `index`: sets the back edge of a loop, made last, at its Merge.

        Raises:
            GraphTypeError: the dtype differs from that of the present input.
        """
        self.set_inputs({index: tensor})

    def set_inputs(self, tensors: Mapping[int, Tensor]) -> None:
        """Replace several inputs, by index.

        Raises:
            GraphTypeError: a dtype differs from that of the present input.
        """
        inputs = list(self._inputs)
        for index, tensor in tensors.items():
            old = inputs[index]
            if tensor.dtype.base_dtype != old.dtype.base_dtype:
                raise GraphTypeError(
                    f"input {index} of {self.type} {self.name!r} must be {old.dtype.base_dtype.name}, "
                    f"got {tensor.dtype.base_dtype.name} from {tensor.name!r}"
                )
            inputs[index] = tensor
        before, after = dict.fromkeys(self._inputs), dict.fromkeys(inputs)
        self._inputs = tuple(inputs)
        for tensor in before:
            if tensor not in after:
                tensor._consumers.remove(self)
        for tensor in after:
            if tensor not in before:
                tensor._consumers.append(self)
        self.graph.mutations += 1

    def become(self, row: Row, attrs: dict[str, Any], dtypes: Sequence[DType], dims: Sequence[Dims]) -> None:
        """Change this node's op, keeping inputs and outputs, and append outputs: for a call that returns more than before."""
        self.row = row
        self.attrs = attrs
        known = len(self._outputs)
        more = (Tensor(self, known + k, *each) for k, each in enumerate(zip(dtypes, dims, strict=True)))
        self._outputs = (*self._outputs, *more)
        self.graph.mutations += 1

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def set_device(self, device: str) -> None:
        self._device = device
        self.graph.mutations += 1

    def set_attr(self, name: str, value: Any) -> None:
        self.attrs[name] = value
        self.graph.mutations += 1

    def values(self) -> tuple[Tensor, ...]:
        return self._outputs

    def run(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Run in `session` or the default session; an awaitable."""
        return EVALUATORS["run"](self, feed_dict, session)

    def __repr__(self) -> str:
        return f"<aioexec.Operation {self.name!r} type={self.type}>"


class BaseGraph(NameScopes, Collections, abc.ABC):
    """A graph as its operations, tensors and control-flow contexts use it.

    The abstract methods, which create nodes or set the scopes of new nodes, are in `Graph`: they need the inference of shapes
    and the contexts, which are built on this module.

    State: the seed of random ops, nodes (`_nodes`, `_by_name`), the current control-flow context, the nodes that must not be
    fed or fetched, the library of functions. `version` counts nodes, `mutations` counts changes of existing nodes.
    """

    def __init__(self) -> None:
        NameScopes.__init__(self)
        Collections.__init__(self)
        self.seed: int | None = None
        self.mutations = 0
        self.functions = FunctionLibrary()
        self._nodes: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._control_flow_context: Any = None  # a ControlFlowContext; that class is built on this module
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()

    @property
    def version(self) -> int:
        return len(self._nodes)

    def get_operations(self) -> list[Operation]:
        return list(self._nodes)

    @abc.abstractmethod
    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        *,
        name: str | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Operation: ...

    @abc.abstractmethod
    def device(self, device_name_or_function: Any) -> AbstractContextManager[None]: ...

    @abc.abstractmethod
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]: ...

    @abc.abstractmethod
    def control_dependencies(self, control_inputs: Any) -> AbstractContextManager[None]: ...

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The nodes as a GraphDef proto.

        Args:
            from_version: leave out the nodes that existed when `version` had this value.
            add_shapes: write the static output shapes to each node's attr `_output_shapes`.
        """
        return EVALUATORS["graph_def"](self, from_version, add_shapes)

    @property
    def graph_def_versions(self) -> Any:
        """The `versions` of a GraphDef of this graph, as a VersionDef proto."""
        return self.as_graph_def(from_version=self.version).versions

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    def is_inside(self, graph: BaseGraph) -> bool:
        """Whether this is a function body that may capture tensors of `graph`."""
        return False

    def capture(self, tensor: Tensor) -> Tensor:
        """The tensor that stands for `tensor` in this graph; it is `tensor` itself except in a function body.

        Raises:
            GraphTypeError, GraphValueError: it is no tensor, or of a graph that does not enclose this one.
        """
        self._check_is_tensor(tensor)
        if tensor.graph is not self:
            raise GraphValueError(f"{tensor!r} is not an element of this graph, it belongs to another")
        return tensor

    def add_function(self, function: Function) -> None:
        """Add a function and those its body calls.

        Raises:
            InvalidArgumentError: one of the names has another meaning in this graph.
        """
        waiting = [function]
        while waiting:
            each = waiting.pop()
            is_new = each.name not in self.functions
            self.functions.add(each)
            waiting.extend(each.called() if is_new else ())

    def as_default(self) -> AbstractContextManager[Self]:
        """Make this the default graph of the running context."""
        return default_graphs.get_controller(self)

    def _check_is_tensor(self, tensor: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise GraphTypeError(f"expected a Tensor of this graph, got {tensor!r}")

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The Tensor or Operation that `obj` denotes: an element, a name, or an object convertible to a tensor.

        Raises:
            UnknownNameError: no such name.
            GraphValueError: a malformed name, or an element of another graph.
            GraphTypeError: `obj` denotes no element, or one of a kind that is not allowed.
        """
        if hasattr(obj, "_as_graph_element"):
            obj = obj._as_graph_element()
        if isinstance(obj, str):
            obj = self._by_element_name(obj, allow_tensor, allow_operation)
        allowed = (Tensor,) * allow_tensor + (Operation,) * allow_operation
        if not isinstance(obj, allowed):
            wanted = " or ".join(kind.__name__ for kind in allowed)
            raise GraphTypeError(f"cannot convert a {type(obj).__name__} ({obj!r}) into a {wanted}")
        if obj.graph is not self:
            raise GraphValueError(f"{obj!r} is not an element of this graph, it belongs to another")
        return obj

    def _by_element_name(self, name: str, allow_tensor: bool, allow_operation: bool) -> Any:
        op_name, colon, index = name.partition(":")
        if not colon:
            if not allow_operation:
                raise GraphValueError(
                    f"{name!r} is the name of an operation; the name of a tensor is '<op_name>:<index>'"
                )
            if op_name not in self._by_name:
                raise UnknownNameError(f"operation {name!r} not found: the graph has no node of that name")
            return self._by_name[op_name]
        if not allow_tensor:
            raise GraphValueError(f"{name!r} is the name of a tensor; expected the name of an operation")
        if not index.isdigit():
            raise GraphValueError(f"{name!r} is not a valid tensor name; expected '<op_name>:<index>'")
        if op_name not in self._by_name:
            raise UnknownNameError(f"tensor {name!r} not found: the graph has no node {op_name!r}")
        outputs = self._by_name[op_name].outputs
        if int(index) >= len(outputs):
            raise UnknownNameError(f"tensor {name!r} not found: node {op_name!r} has {len(outputs)} outputs")
        return outputs[int(index)]

    def get_operation_by_name(self, name: str) -> Operation:
        if not isinstance(name, str):
            raise GraphTypeError(f"operation names are strings, got {name!r}")
        operation: Operation = self.as_graph_element(name, allow_tensor=False)
        return operation

    def get_tensor_by_name(self, name: str) -> Tensor:
        if not isinstance(name, str):
            raise GraphTypeError(f"tensor names are strings, got {name!r}")
        return self.as_graph_element(name, allow_operation=False)  # type: ignore[no-any-return]

    def is_feedable(self, tensor: Any) -> bool:
        return tensor not in self._unfeedable

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        return (
            tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        ) not in self._unfetchable

    def prevent_feeding(self, tensor: Any) -> None:
        self._unfeedable.add(tensor)

    def prevent_fetching(self, op: Any) -> None:
        self._unfetchable.add(op)


def _with_bytes(value: Any) -> Any:
    """The value of an attribute with its strings as bytes."""
    if isinstance(value, str):
        return value.encode()
    return [_with_bytes(each) for each in value] if isinstance(value, list | tuple) else value


def producers(op: Operation) -> Iterator[Operation]:
    """The operations that `op` depends on: those of its inputs, then its control inputs."""
    for tensor in op.inputs:
        yield tensor.op
    yield from op._control_inputs
