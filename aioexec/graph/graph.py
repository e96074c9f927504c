"""The graph: creation of nodes, in scopes that set their devices and control inputs; and the default graph.

A graph only grows. Nodes are appended in topological order, back edges of loops (NextIteration to Merge) excepted; every change
of an existing node increments `mutations`. A plan thus stays valid while nodes are added.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph import registry
from aioexec.graph.attrs import complete_attrs, output_dtypes
from aioexec.graph.control_flow_context import ControlFlowContext
from aioexec.graph.defaults import default_graphs
from aioexec.graph.device_spec import canonical_name, merge_names
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.scope_names import GRADIENT_NAME, OP_NAME
from aioexec.graph.static_values import infer_shapes


class _ControlDependencies:
    """One `with graph.control_dependencies(...)`: its operations, and the nodes made in the block, which depend on them."""

    def __init__(self, operations: Sequence[Operation], clears: bool) -> None:
        self.operations = operations
        self.clears = clears
        self.made_here: set[Operation] = set()


class Graph(BaseGraph):
    """A dataflow graph under construction: a `BaseGraph` that creates nodes, in scopes that set devices and control inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.oldest_producer: int | None = None  # the lowest producer version of the imported GraphDefs
        self._control_stack: list[_ControlDependencies] = []
        self._device_stack: list[Callable[[Operation], str] | str | None] = []
        self._colocation_stack: list[Operation] = []

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[DType] | None = None,
        input_types: Sequence[DType] | None = None,
        name: str | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> Operation:
        """Append a node; `dtypes` and `input_types` are ignored, since attributes determine them.

        In a function body or control-flow context, inputs from outside are captured first: the node gets their replacements.

        Args:
            name: with a trailing "/" it is used as it is, otherwise it is put under the current scope and made unique.

        Raises:
            NotFoundError: unknown op.
            GraphValueError, GraphTypeError: the inputs or attributes do not fit the op.
        """
        self._check_not_finalized()
        row = self.functions.row(op_type)
        inputs = [self.capture(tensor) for tensor in inputs]
        context: ControlFlowContext | None = self._control_flow_context
        if context is not None and (known := context.find_equivalent(row, inputs, attrs or {})) is not None:
            return known
        name = name or op_type
        name = name[:-1] if name.endswith("/") else self.unique_name(name)
        controls = self._control_inputs_for(inputs)
        for tensor in inputs:
            made_in: ControlFlowContext | None = tensor.op._control_flow_context
            if made_in is not None:
                made_in.check_use(tensor, row, name, context)
        if context is not None:
            inputs, controls = context.capture(inputs, controls)
        op = self.add_node(row, name, inputs, controls, dict(attrs or {}), None)
        if context is not None:
            context.AddOp(op)
        return op

    def add_node(
        self,
        row: registry.Row,
        name: str,
        inputs: Sequence[Tensor],
        control_inputs: Sequence[Operation],
        attrs: dict[str, Any],
        device: str | None,
    ) -> Operation:
        """Append a node with exactly this name; if `device` is None, the current scopes determine the device.

        Raises:
            GraphValueError: the name is taken or malformed.
        """
        self._check_name(name)
        attrs = complete_attrs(row.definition, name, attrs, [tensor.dtype for tensor in inputs])
        op = Operation(self, name, row, inputs, control_inputs, attrs, device or "", len(self._nodes))
        op.set_outputs(output_dtypes(row.definition, attrs), infer_shapes(op))
        self._nodes.append(op)
        self._by_name[name] = op
        self._names_in_use.setdefault(name.lower(), 1)
        for tensor in dict.fromkeys(inputs):
            tensor._consumers.append(op)
        if device is None:
            self._apply_scopes(op)
        return op

    @contextlib.contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Remove the nodes and names added in the block if it raises."""
        count, names, functions = len(self._nodes), dict(self._names_in_use), len(self.functions)
        try:
            yield
        except BaseException:
            self.functions.forget([*self.functions][functions:])
            for op in self._nodes[count:]:
                del self._by_name[op.name]
                for tensor in op.inputs:
                    tensor._consumers = [consumer for consumer in tensor._consumers if consumer.index < count]
            for controller in self._control_stack:
                controller.made_here = {op for op in controller.made_here if op.index < count}
            self._unfeedable = {tensor for tensor in self._unfeedable if tensor.op.index < count}
            self._unfetchable = {op for op in self._unfetchable if op.index < count}
            del self._nodes[count:]
            self._names_in_use = names
            raise

    def _check_name(self, name: str) -> None:
        if not OP_NAME.match(name):
            raise GraphValueError(f"{name!r} is not a valid node name")
        if name in self._by_name:
            raise GraphValueError(f"node name {name!r} is taken already by {self._by_name[name]!r}")

    def _apply_scopes(self, op: Operation) -> None:
        for item in reversed(self._device_stack):
            if item is None:
                break
            op._device = canonical_name(item(op)) if callable(item) else merge_names(item, op._device)
        if self._colocation_stack:
            groups = {group for target in self._colocation_stack for group in target.groups}
            op.attrs["_class"] = tuple(sorted(groups | set(op.attrs.get("_class", ()))))
            op._device = self._colocation_stack[-1].device or op._device
        if op.type in self._gradient_names:
            op.attrs.setdefault(GRADIENT_NAME, self._gradient_names[op.type])
        self._record_op_seen_by_control_dependencies(op)

    def _record_op_seen_by_control_dependencies(self, op: Operation) -> None:
        for controller in self._open_controllers():
            controller.made_here.add(op)

    def _control_inputs_for(self, inputs: Sequence[Tensor]) -> list[Operation]:
        """Control inputs from the open scopes, without those that an input of the node depends on already."""
        controllers = self._open_controllers()
        if not controllers:
            return []
        producers = {tensor.op for tensor in inputs}
        found: dict[Operation, None] = {}
        for controller in controllers:
            if not producers & controller.made_here:
                found.update((op, None) for op in controller.operations if op not in producers)
        return list(found)

    def _open_controllers(self) -> list[_ControlDependencies]:
        """The open control-dependency scopes after the last one that cleared them, from the outermost inwards."""
        if not self._control_stack:
            return []
        cleared = [place for place, controller in enumerate(self._control_stack) if controller.clears]
        return self._control_stack[cleared[-1] if cleared else 0 :]

    # Scopes

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Set the device of new nodes: a (partial) name, a function of the node, or None to ignore the enclosing scopes."""
        item = device_name_or_function
        if item is not None and not callable(item):
            item = canonical_name(item)  # validate the name here, at the user's call
        self._device_stack.append(item)
        try:
            yield
        finally:
            self._device_stack.pop()

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Put new nodes on the device of `op`; None with `ignore_existing` clears the enclosing colocation scopes."""
        saved = self._colocation_stack
        outer_devices = self._device_stack
        targets = [] if op is None else [self.as_graph_element(op, allow_tensor=True, allow_operation=True)]
        targets = [target.op if isinstance(target, Tensor) else target for target in targets]
        self._colocation_stack = targets if ignore_existing else [*saved, *targets]
        self._device_stack = []
        try:
            yield
        finally:
            self._colocation_stack = saved
            self._device_stack = outer_devices

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Make new nodes depend on `control_inputs`; None clears the enclosing scopes and control-flow contexts."""
        operations = []
        for item in control_inputs or ():
            waited_for = self._control_operation(item)
            if waited_for is not None:
                operations.append(waited_for)
        scope = _ControlDependencies(operations, clears=control_inputs is None)
        self._control_stack.append(scope)
        context = self._control_flow_context
        if scope.clears:
            self._control_flow_context = None
        try:
            yield
        finally:
            self._control_stack.remove(scope)
            if scope.clears:
                self._control_flow_context = context

    def _control_operation(self, item: Any) -> Operation | None:
        """The operation of this graph that an item of control inputs denotes; None if it implies no control edge."""
        element = self.as_graph_element(item)
        return element.op if isinstance(element, Tensor) else element


_fallback: list[Graph] = []


def get_default_graph() -> Graph:
    """The innermost default graph of this context, or the one of the process."""
    graph: Graph | None = default_graphs.top()
    if graph is not None:
        return graph
    if not _fallback:
        _fallback.append(Graph())
    return _fallback[0]


def reset_default_graph() -> None:
    """Replace the default graph of the process by an empty one; GraphValueError inside `with graph.as_default()`."""
    if default_graphs.depth:
        raise GraphValueError("reset_default_graph inside a `with graph.as_default()`: leave the graph first")
    _fallback.clear()
