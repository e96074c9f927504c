"""Contexts of conditionals and loops under construction: they route tensors from outside into a branch or a loop body.

Nodes guard a branch of a conditional. A tensor from outside enters the branch through a Switch; a node without inputs gets a
control edge from the branch's *pivot*, which is dead if the branch is not taken. A tensor from outside enters a loop through a
constant Enter; a node that does not depend on the iteration gets a control edge from the iteration's pivot. `Graph.create_op`
calls `capture` of the current context before it makes a node, to replace the node's inputs, and `AddOp` afterwards.

Contexts nest; each in turn, from the outermost to the innermost, captures a tensor. Method names are TensorFlow's where it has
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from aioexec.errors import GraphTypeError
from aioexec.graph.control_flow_context import (
    ControlFlowContext as ControlFlowContext,
    is_inside as is_inside,
    is_loop_constant as is_loop_constant,
    loops_around as loops_around,
    output_context as output_context,
    switch_ref_or_tensor as switch_ref_or_tensor,
    while_context as while_context,
)
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.io.control_flow_protos import fill_values, named_tensor, nested_to_proto, values_to_proto
from aioexec.graph.io.proto_functions import register_proto_function
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.scope_names import is_in_scope, prepend_name_scope, strip_name_scope

Context = TypeVar("Context", bound=ControlFlowContext)


class CondContext(ControlFlowContext):
    """One branch of a conditional: `branch` 1 is taken if `pred` is true, 0 if it is false.

    Its pivot is an output of a Switch, alive if the branch is taken.
    """

    def __init__(self, pred: Tensor, pivot: Tensor, branch: int, name: str = "cond_text") -> None:
        super().__init__(pred.graph, pred.graph.unique_name(name))
        self._pred = pred
        self._pivot = pivot
        self._branch = branch
        self._values.update((pred, pivot))

    @property
    def pred(self) -> Tensor:
        return self._pred

    @property
    def pivot(self) -> Tensor:
        return self._pivot

    @property
    def branch(self) -> int:
        return self._branch

    def IsCondContext(self) -> bool:
        return True

    @property
    def back_prop(self) -> bool:
        loop = self.GetWhileContext()
        return loop is not None and loop.back_prop

    def GetWhileContext(self) -> ControlFlowContext | None:
        return while_context(self._outer_context)

    def GetControlPivot(self) -> Tensor:
        return self.pivot

    def AddValue(self, val: Tensor) -> Tensor:
        val = self._graph.capture(val)
        if val in self._values:
            return self._external_values.get(val, val)
        self._values.add(val)
        result = val
        if self._outer_context is not None:
            result = self._outer_context.AddValue(val)
            self._values.add(result)
        with self._graph.control_dependencies(None):
            result = switch_ref_or_tensor(result, self._pred)[self._branch]
        self._graph.prevent_fetching(result.op)
        result.op._set_control_flow_context(self)
        self._add_to_enclosing([result])
        self._external_values[val] = result
        return result

    def capture(
        self, inputs: Sequence[Tensor], controls: Sequence[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        captured = [self.AddValue(tensor) for tensor in inputs]
        kept, external = self._internal_controls(controls)
        if not inputs and not any(is_inside(op._control_flow_context, self) for op in kept):
            kept.append(self.pivot.op)
        return captured, kept + self._controls_as_data(external)

    def AddOp(self, op: Operation) -> None:
        self._add_to_enclosing(op.outputs)
        self._adopt(op)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The branch as a CondContextDef, names without `export_scope`; None if it is not in that scope."""
        from aioexec.formats.protos import CondContextDef

        if not is_in_scope(self.name, export_scope):
            return None
        proto = CondContextDef(
            context_name=strip_name_scope(self.name, export_scope),
            pred_name=strip_name_scope(self.pred.name, export_scope),
            pivot_name=strip_name_scope(self._pivot.name, export_scope),
            branch=self.branch,
        )
        values_to_proto(proto.values_def, self, {self.pred: self.pred}, export_scope)
        nested_to_proto(proto, self, export_scope)
        return proto

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        context_def.cond_ctxt.CopyFrom(self.to_proto(export_scope))

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> CondContext:
        """The branch that a CondContextDef describes; its nodes are in the default graph already."""
        context = _create_unset(CondContext, context_def.context_name, import_scope)
        graph = context._graph
        context._pred = named_tensor(graph, context_def.pred_name, import_scope)
        context._pivot = named_tensor(graph, context_def.pivot_name, import_scope)
        context._branch = context_def.branch
        fill_values(context, context_def.values_def, import_scope)
        _add_nested(context, context_def.nested_contexts, import_scope)
        return context

    def _add_to_enclosing(self, tensors: Iterable[Tensor]) -> None:
        """Make tensors of a branch usable in the enclosing contexts too: a conditional has no frame of its own."""
        known = list(tensors)
        context: ControlFlowContext | None = self
        while context is not None:
            context._values.update(known)
            context = context._outer_context


class WhileContext(ControlFlowContext):
    """A loop; `name` is also the name of its frame.

    `_pivot_for_pred` is alive in each iteration that computes the condition, `_pivot_for_body` in each that runs the body; both
    are None until they are made.
    """

    def __init__(
        self,
        maximum_iterations: Tensor | None = None,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
        name: str = "while_context",
    ) -> None:
        if parallel_iterations < 1:
            raise GraphTypeError(
                f"'parallel_iterations' must be a positive integer, got {parallel_iterations!r}"
            )
        graph = get_default_graph()
        super().__init__(graph, graph.unique_name(name))
        self._maximum_iterations = maximum_iterations
        self._parallel_iterations = parallel_iterations
        self._back_prop = back_prop
        self._swap_memory = swap_memory
        self._pivot: Tensor | None = None
        self._pivot_for_pred: Tensor | None = None
        self._pivot_for_body: Tensor | None = None
        self._loop_enters: list[Tensor] = []
        self._loop_exits: list[Tensor] = []

    @property
    def maximum_iterations(self) -> Tensor | None:
        return self._maximum_iterations

    @property
    def parallel_iterations(self) -> int:
        return self._parallel_iterations

    @property
    def back_prop(self) -> bool:
        return self._back_prop

    @property
    def swap_memory(self) -> bool:
        return self._swap_memory

    @property
    def pivot(self) -> Tensor | None:
        """The loop condition: the output of LoopCond."""
        return self._pivot

    @property
    def loop_enters(self) -> list[Tensor]:
        return list(self._loop_enters)

    @property
    def loop_exits(self) -> list[Tensor]:
        return list(self._loop_exits)

    def IsWhileContext(self) -> bool:
        return True

    def GetWhileContext(self) -> WhileContext:
        return self

    def GetControlPivot(self) -> Tensor | None:
        return self._pivot_for_pred if self._pivot_for_body is None else self._pivot_for_body

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The loop as a WhileContextDef, names without `export_scope`; None if it is not in that scope."""
        from aioexec.formats.protos import WhileContextDef

        if not is_in_scope(self.name, export_scope):
            return None

        def name(tensor: Tensor | None) -> str:
            return "" if tensor is None else str(strip_name_scope(tensor.name, export_scope))

        proto = WhileContextDef(
            context_name=strip_name_scope(self.name, export_scope),
            parallel_iterations=self.parallel_iterations,
            maximum_iterations_name=name(self.maximum_iterations),
            back_prop=self.back_prop,
            swap_memory=self.swap_memory,
            pivot_name=name(self.pivot),
            pivot_for_pred_name=name(self._pivot_for_pred),
            pivot_for_body_name=name(self._pivot_for_body),
            loop_exit_names=map(name, self.loop_exits),
            loop_enter_names=map(name, self.loop_enters),
        )
        values_to_proto(proto.values_def, self, {}, export_scope)
        nested_to_proto(proto, self, export_scope)
        return proto

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        context_def.while_ctxt.CopyFrom(self.to_proto(export_scope))

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> WhileContext:
        """The loop that a WhileContextDef describes; its nodes are in the default graph already."""
        context = _create_unset(WhileContext, context_def.context_name, import_scope)
        graph = context._graph

        def found(name: str) -> Tensor | None:
            return named_tensor(graph, name, import_scope) if name else None

        context._maximum_iterations = found(context_def.maximum_iterations_name)
        context._parallel_iterations = context_def.parallel_iterations
        context._back_prop = context_def.back_prop
        context._swap_memory = context_def.swap_memory
        context._pivot = found(context_def.pivot_name)
        context._pivot_for_pred = found(context_def.pivot_for_pred_name)
        context._pivot_for_body = found(context_def.pivot_for_body_name)
        context._loop_exits = [
            named_tensor(graph, name, import_scope) for name in context_def.loop_exit_names
        ]
        context._loop_enters = [
            named_tensor(graph, name, import_scope) for name in context_def.loop_enter_names
        ]
        fill_values(context, context_def.values_def, import_scope)
        if import_scope:
            for tensor in context._values:
                if (
                    tensor.op.row.role is Role.ENTER
                    and tensor.op.attrs["frame_name"] == context_def.context_name
                ):
                    tensor.op.set_attr("frame_name", context.name)
        _add_nested(context, context_def.nested_contexts, import_scope)
        return context

    # Loop variables

    def enter_loop_vars(self, values: Sequence[Tensor], keep_shapes: bool) -> list[Tensor]:
        """Make the Enters of the initial values of loop variables; `keep_shapes` declares their shapes loop-invariant."""
        enters = [self.enter_loop_var(value, keep_shapes) for value in values]
        self._loop_enters = enters
        self._values = set(enters)
        return enters

    def enter_loop_var(self, value: Tensor, keep_shape: bool) -> Tensor:
        real = value if self._outer_context is None else self._outer_context.AddValue(value)
        enter = self._enter(real, is_constant=False)
        if keep_shape:
            enter.set_shape(real.shape)
        if is_loop_constant(real.op) and (pivot := self._pivot_around()) is not None:
            enter.op.add_control_inputs([pivot.op])
        self._place_enter(enter)
        self._values.add(enter)
        return enter

    def merge_loop_vars(self, enters: Sequence[Tensor]) -> list[Tensor]:
        """Make the Merges of initial and next values; `add_back_edge` sets the second input of each."""
        merges = []
        for enter in enters:
            op_type = "RefMerge" if enter.dtype.is_ref else "Merge"
            merges.append(self._graph.create_op(op_type, [enter, enter], name="Merge").outputs[0])
        self._pivot_for_pred = merges[0]
        return merges

    def switch_loop_vars(self, merges: Sequence[Tensor], condition: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Switch the loop variables on the condition; for each a pair (exit value, body value)."""
        self._pivot = self._graph.create_op("LoopCond", [condition]).outputs[0]
        return [switch_ref_or_tensor(merge, self._pivot) for merge in merges]

    def enter_body(self, switches: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """The loop variables in the body."""
        inside = []
        for _, tensor in switches:
            op_type = "RefIdentity" if tensor.dtype.is_ref else "Identity"
            inside.append(self._graph.create_op(op_type, [tensor]).outputs[0])
        self._pivot_for_body = inside[0]
        return inside

    def add_back_edge(self, merge: Tensor, value: Tensor) -> Tensor:
        """Make `value` the loop variable's value in the next iteration."""
        op_type = "RefNextIteration" if value.dtype.is_ref else "NextIteration"
        following = self._graph.create_op(op_type, [value]).outputs[0]
        merge.op.set_input(1, following)
        return following

    def leave(self, switches: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """Make the Exits: the loop variables after the loop."""
        for tensor, _ in switches:
            op_type = "RefExit" if tensor.dtype.is_ref else "Exit"
            self._loop_exits.append(self._graph.create_op(op_type, [tensor]).outputs[0])
        self.ExitResult(self._loop_exits)
        return self.loop_exits

    # Tensors from outside

    def AddValue(self, val: Tensor) -> Tensor:
        val = self._graph.capture(val)
        if val in self._values or val.op._control_flow_context is self:
            return self._external_values.get(val, val)
        self._values.add(val)
        result = val if self._outer_context is None else self._outer_context.AddValue(val)
        enter = self._enter(result, is_constant=True)
        self._place_enter(enter)
        self._values.add(enter)
        self._external_values[val] = enter
        return enter

    def capture(
        self, inputs: Sequence[Tensor], controls: Sequence[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        captured = [self.AddValue(tensor) for tensor in inputs]
        kept, external = self._internal_controls(controls)
        pivot = self.GetControlPivot()
        if not kept and pivot is not None and all(is_loop_constant(tensor.op) for tensor in captured):
            kept.append(pivot.op)
        return captured, kept + self._controls_as_data(external)

    def AddOp(self, op: Operation) -> None:
        self._values.update(op.outputs)
        self._adopt(op)

    def _enter(self, data: Tensor, is_constant: bool) -> Tensor:
        op_type = "RefEnter" if data.dtype.is_ref else "Enter"
        attrs = {
            "frame_name": self._name,
            "is_constant": is_constant,
            "parallel_iterations": self._parallel_iterations,
        }
        with self._graph.control_dependencies(None):
            return self._graph.create_op(op_type, [data], attrs=attrs).outputs[0]

    def _place_enter(self, enter: Tensor) -> None:
        """Add an Enter to the loop, with control edges from the open control dependencies outside the loop."""
        graph = self._graph
        assert isinstance(graph, Graph)
        waited_for = [op for op in graph._control_inputs_for(enter.op.inputs) if self._may_wait_for(op)]
        if waited_for:
            enter.op.add_control_inputs(waited_for)
        enter.op._set_control_flow_context(self)
        graph.prevent_feeding(enter)
        graph._record_op_seen_by_control_dependencies(enter.op)

    def _may_wait_for(self, op: Operation) -> bool:
        """Whether `op` is in an enclosing context of the same frame, so that a control edge from it is allowed."""
        made_in, around = output_context(op), self._outer_context
        loop = while_context(around)
        while around is not made_in:
            if around is None or around is loop:
                return False
            around = around.outer_context
        return True

    def _pivot_around(self) -> Tensor | None:
        context, pivot = self._outer_context, None
        while context is not None and pivot is None:
            pivot, context = context.GetControlPivot(), context.outer_context
        return pivot


def from_control_flow_context_def(context_def: Any, import_scope: str | None = None) -> ControlFlowContext:
    """The branch or loop that a message describes; its nodes are in the default graph already."""
    if context_def.HasField("cond_ctxt"):
        return CondContext.from_proto(context_def.cond_ctxt, import_scope)
    return WhileContext.from_proto(context_def.while_ctxt, import_scope)


def _create_unset(kind: type[Context], name: str, import_scope: str | None) -> Context:
    """A context of the default graph of which nothing but the name is set."""
    context = kind.__new__(kind)
    ControlFlowContext.__init__(context, get_default_graph(), prepend_name_scope(name, import_scope))
    return context


def _add_nested(context: ControlFlowContext, context_defs: Iterable[Any], import_scope: str | None) -> None:
    context.Enter()
    try:
        for context_def in context_defs:
            from_control_flow_context_def(context_def, import_scope)
    finally:
        context.Exit()


register_proto_function(
    GraphKeys.COND_CONTEXT, "CondContextDef", CondContext.to_proto, CondContext.from_proto
)
register_proto_function(
    GraphKeys.WHILE_CONTEXT, "WhileContextDef", WhileContext.to_proto, WhileContext.from_proto
)
