"""The base class of conditional and loop contexts; see `control_flow`."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from aioexec.errors import GraphValueError
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.registry import Row

_CLEAR_CONTEXT: Final = (Role.SWITCH, Role.ENTER)  # made outside of any context when they capture a tensor


def output_context(op: Operation) -> ControlFlowContext | None:
    """The context of an operation's outputs: that of the operation, but for an Exit the one around its loop."""
    context: ControlFlowContext | None = op._control_flow_context
    if context is not None and op.row.role is Role.EXIT:
        return context.outer_context
    return context


def while_context(context: ControlFlowContext | None) -> ControlFlowContext | None:
    """The innermost loop that `context` is, or is nested in."""
    return None if context is None else context.GetWhileContext()


def is_inside(inner: ControlFlowContext | None, outer: ControlFlowContext | None) -> bool:
    """Whether `inner` is `outer` or nested in it; every context is nested in None."""
    while inner is not outer and inner is not None:
        inner = inner.outer_context
    return inner is outer


def loops_around(context: ControlFlowContext | None) -> Iterator[ControlFlowContext]:
    """The loops that `context` is, or is nested in, from the innermost outwards."""
    loop = while_context(context)
    while loop is not None:
        yield loop
        loop = while_context(loop.outer_context)


def switch_ref_or_tensor(data: Tensor, pred: Tensor, name: str = "Switch") -> tuple[Tensor, Tensor]:
    """A Switch colocated with `data`; a RefSwitch if `data` is a reference."""
    graph = data.graph
    with graph.colocate_with(data.op, ignore_existing=True):
        op_type = "RefSwitch" if data.dtype.is_ref else "Switch"
        op = graph.create_op(op_type, [data, pred], name=name)
    return op.outputs[0], op.outputs[1]


class ControlFlowContext(abc.ABC):
    """A branch of a conditional, or a loop.

    Constant: the graph, the enclosing context. Growing: `_values`, the tensors usable inside without conversion;
    `_external_values`, from a tensor outside to its replacement inside; `_nested_contexts`.
    """

    def __init__(self, graph: BaseGraph, name: str) -> None:
        self._graph = graph
        self._name = name
        self._outer_context: ControlFlowContext | None = graph._get_control_flow_context()
        self._values: set[Tensor] = set()
        self._external_values: dict[Tensor, Tensor] = {}
        self._entered_from: list[ControlFlowContext | None] = []
        self._nested_contexts: list[ControlFlowContext] = []
        if self._outer_context is not None:
            self._outer_context._nested_contexts.append(self)

    @property
    def name(self) -> str:
        return self._name

    @property
    def outer_context(self) -> ControlFlowContext | None:
        return self._outer_context

    replaces_foreign: ClassVar[bool] = False
    """Whether tensors of contexts that do not enclose this one are replaced too; gradients need that."""

    @property
    @abc.abstractmethod
    def back_prop(self) -> bool: ...

    @property
    def differentiated(self) -> ControlFlowContext | None:
        """The loop whose gradient this loop computes; its tensors may be used here, replaced by their saved values."""
        return None

    @abc.abstractmethod
    def GetWhileContext(self) -> ControlFlowContext | None:
        """The innermost loop that this context is, or is nested in."""

    @abc.abstractmethod
    def GetControlPivot(self) -> Tensor | None:
        """The tensor that is alive exactly if nodes of this context run."""

    @abc.abstractmethod
    def AddValue(self, val: Tensor) -> Tensor:
        """Return the replacement of a tensor in this context; a tensor from outside is captured."""

    @abc.abstractmethod
    def capture(
        self, inputs: Sequence[Tensor], controls: Sequence[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        """Return the inputs and control inputs for a node of this context, with replacements for those from outside."""

    @abc.abstractmethod
    def AddOp(self, op: Operation) -> None:
        """Record an operation just made in this context."""

    def find_equivalent(
        self, row: Row, inputs: Sequence[Tensor], attrs: Mapping[str, Any]
    ) -> Operation | None:
        """Find an existing operation with the same outputs as a node of this row, inputs and attrs; None if there is none."""
        return None

    def IsCondContext(self) -> bool:
        return False

    def IsWhileContext(self) -> bool:
        return False

    def Enter(self) -> None:
        """Make this the current context of the graph."""
        self._entered_from.append(self._graph._get_control_flow_context())
        self._graph._set_control_flow_context(self)

    def Exit(self) -> None:
        """Restore the context that was current before `Enter`."""
        self._graph._set_control_flow_context(self._entered_from.pop())

    def ExitResult(self, result: Iterable[Tensor]) -> None:
        """Let the enclosing context use these tensors of this one."""
        if self._outer_context is not None:
            self._outer_context._values.update(result)

    def check_use(self, tensor: Tensor, row: Row, name: str, user: ControlFlowContext | None) -> None:
        """Check that node `name`, made in context `user`, may use `tensor`, made in this context.

        Raises:
            GraphValueError: the tensor is in a loop that does not contain the node.
        """
        made_in = while_context(output_context(tensor.op))
        used_in = while_context(user)
        if is_inside(used_in, made_in) or (used_in is None and row.role in _CLEAR_CONTEXT):
            return
        if any(context.differentiated is made_in for context in loops_around(used_in)):
            return
        source = tensor.op.name
        reason = f"{source!r} is in a while loop" if used_in is None else "they are in different while loops"
        raise GraphValueError(f"Cannot use {source!r} as input to {name!r} because {reason}")

    def _adopt(self, op: Operation) -> None:
        """Set the context of a node whose outputs are not visible outside of this context."""
        op._set_control_flow_context(self)
        if self._outer_context is not None or op.row.role is not Role.EXIT:
            self._graph.prevent_fetching(op)
            for tensor in op.outputs:
                self._graph.prevent_feeding(tensor)

    def _internal_controls(self, controls: Sequence[Operation]) -> tuple[list[Operation], list[Operation]]:
        """Split control inputs into those in the same loop and those outside of it."""
        loop = self.GetWhileContext()
        if loop is None:
            return list(controls), []
        internal: list[Operation] = []
        external: list[Operation] = []
        for op in controls:
            (internal if while_context(output_context(op)) is loop else external).append(op)
        return internal, external

    # Serialization

    @abc.abstractmethod
    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        """Write this context to a ControlFlowContextDef."""

    def _controls_as_data(self, external: Sequence[Operation]) -> list[Operation]:
        """Nodes of this context that stand for control inputs from outside the loop; operations without outputs are left out.

        A control edge must not lead into a loop, so an output of the operation is captured as data.
        """
        if not external:
            return []
        with self._graph.control_dependencies(None):
            self.Enter()
            try:
                return [self._snapshot(op.outputs[0]) for op in external if op.outputs]
            finally:
                self.Exit()

    def _snapshot(self, tensor: Tensor) -> Operation:
        with self._graph.name_scope("Identity") as scope:
            return self._graph.create_op("Identity", [tensor], name=scope)


def is_loop_constant(op: Operation) -> bool:
    """Whether an operation is a constant Enter: it yields the same tensor in each iteration."""
    return op.row.role is Role.ENTER and bool(op.attrs["is_constant"])
