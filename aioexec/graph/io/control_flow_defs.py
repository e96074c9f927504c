"""Conversion of conditional and loop contexts to messages of a MetaGraphDef and back; their nodes are in the graph already.

A message lists the tensors of a context, and the tensors from outside with their replacements inside. Messages nest as contexts
do; a collection lists the outermost ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aioexec.graph.control_flow_context import is_inside, output_context
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Tensor
from aioexec.graph.scope_names import is_in_scope, prepend_name_scope, strip_name_scope

if TYPE_CHECKING:
    from aioexec.formats.protos import CondContextDef, ValuesDef, WhileContextDef
    from aioexec.graph.control_flow import CondContext, ControlFlowContext, WhileContext


# To messages


def cond_to_proto(context: CondContext, export_scope: str | None = None) -> CondContextDef | None:
    """A branch as a CondContextDef, names without `export_scope`; None if it is not in that scope."""
    from aioexec.formats.protos import CondContextDef

    if not is_in_scope(context.name, export_scope):
        return None
    proto = CondContextDef(
        context_name=strip_name_scope(context.name, export_scope),
        pred_name=strip_name_scope(context.pred.name, export_scope),
        pivot_name=strip_name_scope(context._pivot.name, export_scope),
        branch=context.branch,
    )
    _write_values(proto.values_def, context, {context.pred: context.pred}, export_scope)
    _write_nested(proto, context, export_scope)
    return proto


def while_to_proto(context: WhileContext, export_scope: str | None = None) -> WhileContextDef | None:
    """A loop as a WhileContextDef, names without `export_scope`; None if it is not in that scope."""
    from aioexec.formats.protos import WhileContextDef

    if not is_in_scope(context.name, export_scope):
        return None

    def name(tensor: Tensor | None) -> str:
        return "" if tensor is None else str(strip_name_scope(tensor.name, export_scope))

    proto = WhileContextDef(
        context_name=strip_name_scope(context.name, export_scope),
        parallel_iterations=context.parallel_iterations,
        maximum_iterations_name=name(context.maximum_iterations),
        back_prop=context.back_prop,
        swap_memory=context.swap_memory,
        pivot_name=name(context.pivot),
        pivot_for_pred_name=name(context._pivot_for_pred),
        pivot_for_body_name=name(context._pivot_for_body),
        loop_exit_names=map(name, context.loop_exits),
        loop_enter_names=map(name, context.loop_enters),
    )
    _write_values(proto.values_def, context, {}, export_scope)
    _write_nested(proto, context, export_scope)
    return proto


def _write_values(
    proto: ValuesDef, context: ControlFlowContext, more: dict[Tensor, Tensor], scope: str | None
) -> None:
    """Write the tensors of a context. A gradient's context also uses saved tensors of the loop that it differentiates. They are
    in no enclosing context, so an importer could not use them, and they are left out."""
    external = {**context._external_values, **more}
    candidates = external if context.replaces_foreign else ()
    foreign = {each for each in candidates if not is_inside(context, output_context(each.op))}
    names = sorted(each.name for each in context._values if each not in foreign)
    proto.values.extend(strip_name_scope(name, scope) for name in names)
    for outside, inside in external.items():
        if outside not in foreign:
            proto.external_values[strip_name_scope(outside.name, scope)] = strip_name_scope(
                inside.name, scope
            )


def _write_nested(proto: Any, context: ControlFlowContext, scope: str | None) -> None:
    for nested in context._nested_contexts:
        nested.to_control_flow_context_def(proto.nested_contexts.add(), scope)


# From messages


def fill_cond(context: CondContext, proto: CondContextDef, import_scope: str | None) -> None:
    """Set the fields of a branch from its message.

    Raises:
        UnknownNameError: a tensor named there is not in the graph.
    """
    graph = context._graph
    context._pred = _tensor(graph, proto.pred_name, import_scope)
    context._pivot = _tensor(graph, proto.pivot_name, import_scope)
    context._branch = proto.branch
    _fill_values(context, proto.values_def, import_scope)


def fill_while(context: WhileContext, proto: WhileContextDef, import_scope: str | None) -> None:
    """Set the fields of a loop from its message; under an import scope the frame's name gets that prefix.

    Raises:
        UnknownNameError: a tensor named there is not in the graph.
    """
    graph = context._graph

    def found(name: str) -> Tensor | None:
        return _tensor(graph, name, import_scope) if name else None

    context._maximum_iterations = found(proto.maximum_iterations_name)
    context._parallel_iterations = proto.parallel_iterations
    context._back_prop = proto.back_prop
    context._swap_memory = proto.swap_memory
    context._pivot = found(proto.pivot_name)
    context._pivot_for_pred = found(proto.pivot_for_pred_name)
    context._pivot_for_body = found(proto.pivot_for_body_name)
    context._loop_exits = [_tensor(graph, name, import_scope) for name in proto.loop_exit_names]
    context._loop_enters = [_tensor(graph, name, import_scope) for name in proto.loop_enter_names]
    _fill_values(context, proto.values_def, import_scope)
    if import_scope:
        for tensor in context._values:
            if tensor.op.row.role is Role.ENTER and tensor.op.attrs["frame_name"] == proto.context_name:
                tensor.op.set_attr("frame_name", context.name)


def _tensor(graph: Graph, name: str, scope: str | None) -> Tensor:
    return graph.get_tensor_by_name(prepend_name_scope(name, scope))


def _fill_values(context: ControlFlowContext, proto: ValuesDef, scope: str | None) -> None:
    """Set the tensors of a context. Those from outside the exported scope are missing; only their replacements are used."""
    graph = context._graph
    for name in proto.values:
        if name not in proto.external_values:
            tensor = _tensor(graph, name, scope)
            tensor.op._set_control_flow_context(context)
            context._values.add(tensor)
    for outside, inside in _known_pairs(graph, proto, scope):
        context._values.add(outside)
        context._external_values[outside] = inside


def _known_pairs(graph: Graph, proto: ValuesDef, scope: str | None) -> Iterator[tuple[Tensor, Tensor]]:
    for name, inside in sorted(proto.external_values.items()):
        try:
            outside = _tensor(graph, name, scope)
        except KeyError:
            continue
        yield outside, _tensor(graph, inside, scope)
