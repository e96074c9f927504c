"""Conditionals and loops while they are built: contexts that bring tensors from outside into a branch or a loop.

A branch of a conditional is guarded by nodes, not by edges of the program text: a tensor from outside that is used in it goes
through a Switch, and a node without inputs waits for the *pivot* of the branch, which is dead when the branch is not taken. In
a loop a tensor from outside goes through a constant Enter, and a node that depends on nothing of the iteration waits for the
pivot of the iteration. A node is thus given its inputs before it is made (`bring_in`) and made known to its context after
(`AddOp`); `Graph.create_op` does both for the context that is entered.

Contexts nest, and a tensor is brought in from outside inwards, by each context in turn. Method names are TensorFlow's where it
has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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
from aioexec.graph.graph import get_default_graph
from aioexec.graph.io import control_flow_defs
from aioexec.graph.io.proto_functions import register_proto_function
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor


class CondContext(ControlFlowContext):
    """One branch of a conditional: `branch` 1 is taken when `pred` holds, 0 when it does not.

    Its pivot is the output of a Switch that is alive when the branch is taken.
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

    def GetWhileContext(self) -> WhileContext | None:
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
        self._add_everywhere([result])
        self._external_values[val] = result
        return result

    def bring_in(
        self, inputs: Sequence[Tensor], controls: Sequence[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        brought = [self.AddValue(tensor) for tensor in inputs]
        kept, external = self._internal_controls(controls)
        if not inputs and not any(is_inside(op._control_flow_context, self) for op in kept):
            kept.append(self.pivot.op)
        return brought, kept + self._waiting_inside(external)

    def AddOp(self, op: Operation) -> None:
        self._add_everywhere(op.outputs)
        self._adopt(op)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The branch as a CondContextDef; None if it is not in `export_scope`, which is taken off names."""
        return control_flow_defs.cond_to_proto(self, export_scope)

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        context_def.cond_ctxt.CopyFrom(self.to_proto(export_scope))

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> CondContext:
        """The branch a CondContextDef describes, of nodes that are in the default graph."""
        context = CondContext._named(context_def.context_name, import_scope)
        control_flow_defs.fill_cond(context, context_def, import_scope)
        _add_nested(context, context_def.nested_contexts, import_scope)
        return context

    def _add_everywhere(self, tensors: Iterable[Tensor]) -> None:
        """Add tensors of a branch to the contexts around it too, where they may be used, because they are in the same frame."""
        known = list(tensors)
        context: ControlFlowContext | None = self
        while context is not None:
            context._values.update(known)
            context = context._outer_context


class WhileContext(ControlFlowContext):
    """A loop: the frame named after it.

    `_pivot_for_pred` and `_pivot_for_body` are alive in each iteration whose condition is computed, or whose body is run;
    None until they are made.
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
        """The condition, as the loop sees it."""
        return self._pivot

    @property
    def differentiated(self) -> WhileContext | None:
        """The loop whose gradient this one computes: its tensors may be used here, where others stand for them."""
        return None

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
        """The loop as a WhileContextDef; None if it is not in `export_scope`, which is taken off names."""
        return control_flow_defs.while_to_proto(self, export_scope)

    def to_control_flow_context_def(self, context_def: Any, export_scope: str | None = None) -> None:
        context_def.while_ctxt.CopyFrom(self.to_proto(export_scope))

    @staticmethod
    def from_proto(context_def: Any, import_scope: str | None = None) -> WhileContext:
        """The loop a WhileContextDef describes, of nodes that are in the default graph."""
        context = WhileContext._named(context_def.context_name, import_scope)
        control_flow_defs.fill_while(context, context_def, import_scope)
        _add_nested(context, context_def.nested_contexts, import_scope)
        return context

    # Loop variables

    def enter_loop_vars(self, values: Sequence[Tensor], keep_shapes: bool) -> list[Tensor]:
        """Bring the first values of the loop variables in; with `keep_shapes` they have these shapes in every iteration."""
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
        """Make the merges of first and later values; their back edges are added by `add_back_edge`."""
        merges = []
        for enter in enters:
            op_type = "RefMerge" if enter.dtype.is_ref else "Merge"
            merges.append(self._graph.create_op(op_type, [enter, enter], name="Merge").outputs[0])
        self._pivot_for_pred = merges[0]
        return merges

    def switch_loop_vars(self, merges: Sequence[Tensor], condition: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Part the loop variables by the condition of an iteration: (out of the loop, into the body)."""
        self._pivot = self._graph.create_op("LoopCond", [condition]).outputs[0]
        return [switch_ref_or_tensor(merge, self._pivot) for merge in merges]

    def enter_body(self, switches: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """The loop variables as the body sees them."""
        inside = []
        for _, tensor in switches:
            op_type = "RefIdentity" if tensor.dtype.is_ref else "Identity"
            inside.append(self._graph.create_op(op_type, [tensor]).outputs[0])
        self._pivot_for_body = inside[0]
        return inside

    def add_back_edge(self, merge: Tensor, value: Tensor) -> Tensor:
        """Let a loop variable be `value` in the next iteration."""
        op_type = "RefNextIteration" if value.dtype.is_ref else "NextIteration"
        following = self._graph.create_op(op_type, [value]).outputs[0]
        merge.op.set_input(1, following)
        return following

    def leave(self, switches: Sequence[tuple[Tensor, Tensor]]) -> list[Tensor]:
        """The loop variables after the loop."""
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

    def bring_in(
        self, inputs: Sequence[Tensor], controls: Sequence[Operation]
    ) -> tuple[list[Tensor], list[Operation]]:
        brought = [self.AddValue(tensor) for tensor in inputs]
        kept, external = self._internal_controls(controls)
        pivot = self.GetControlPivot()
        if not kept and pivot is not None and all(is_loop_constant(tensor.op) for tensor in brought):
            kept.append(pivot.op)
        return brought, kept + self._waiting_inside(external)

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
        """Make an Enter part of the loop, and let it wait for the open control dependencies that are outside of the loop."""
        graph = self._graph
        waited_for = [op for op in graph._control_inputs_for(enter.op.inputs) if self._may_wait_for(op)]
        if waited_for:
            enter.op.add_control_inputs(waited_for)
        enter.op._set_control_flow_context(self)
        graph.prevent_feeding(enter)
        graph._record_op_seen_by_control_dependencies(enter.op)

    def _may_wait_for(self, op: Operation) -> bool:
        """Whether an operation is in a context around this one, but not beyond the next loop."""
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
    """The branch or loop a message describes, of nodes that are in the default graph."""
    if context_def.HasField("cond_ctxt"):
        return CondContext.from_proto(context_def.cond_ctxt, import_scope)
    return WhileContext.from_proto(context_def.while_ctxt, import_scope)


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
