"""Conversion of conditional and loop contexts to messages of a MetaGraphDef and back; their nodes are in the graph already.

A message lists the tensors of a context, and the tensors from outside with their replacements inside. Messages nest as contexts
do; a collection lists the outermost ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from aioexec.graph.control_flow_context import ControlFlowContext, is_inside, output_context
from aioexec.graph.node import BaseGraph, Tensor
from aioexec.graph.scope_names import prepend_name_scope, strip_name_scope

if TYPE_CHECKING:
    from aioexec.formats.protos import ValuesDef


def values_to_proto(
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


def nested_to_proto(proto: Any, context: ControlFlowContext, scope: str | None) -> None:
    for nested in context._nested_contexts:
        nested.to_control_flow_context_def(proto.nested_contexts.add(), scope)


def named_tensor(graph: BaseGraph, name: str, scope: str | None) -> Tensor:
    return graph.get_tensor_by_name(prepend_name_scope(name, scope))


def fill_values(context: ControlFlowContext, proto: ValuesDef, scope: str | None) -> None:
    """Set the tensors of a context. Those from outside the exported scope are missing; only their replacements are used."""
    graph = context._graph
    for name in proto.values:
        if name not in proto.external_values:
            tensor = named_tensor(graph, name, scope)
            tensor.op._set_control_flow_context(context)
            context._values.add(tensor)
    for outside, inside in _known_pairs(graph, proto, scope):
        context._values.add(outside)
        context._external_values[outside] = inside


def _known_pairs(graph: BaseGraph, proto: ValuesDef, scope: str | None) -> Iterator[tuple[Tensor, Tensor]]:
    for name, inside in sorted(proto.external_values.items()):
        try:
            outside = named_tensor(graph, name, scope)
        except KeyError:
            continue
        yield outside, named_tensor(graph, inside, scope)
