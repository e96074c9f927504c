"""Writes the signatures of ops as OpDefs, for the op list of a MetaGraphDef."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from aioexec.formats.protos import FunctionDef, GraphDef, NodeDef, OpDef as OpDefProto, OpList
from aioexec.graph import registry
from aioexec.graph.attr_values import write_attr
from aioexec.graph.opdef import ArgDef, AttrDef, OpDef


def op_def_proto(definition: OpDef) -> OpDefProto:
    """A signature as an OpDef, without descriptions."""
    proto = OpDefProto(
        name=definition.name,
        is_stateful=definition.is_stateful,
        is_commutative=definition.is_commutative,
        is_aggregate=definition.is_aggregate,
        allows_uninitialized_input=definition.allows_uninitialized_input,
    )
    for args, into in ((definition.inputs, proto.input_arg), (definition.outputs, proto.output_arg)):
        for arg in args:
            _write_arg(into.add(name=arg.name), arg)
    for attr in definition.attrs:
        _write_attr(proto.attr.add(name=attr.name, type=attr.kind), attr)
    return proto


def _write_arg(proto: OpDefProto.ArgDef, arg: ArgDef) -> None:
    if arg.dtype is not None:
        proto.type = arg.dtype.as_datatype_enum
    proto.type_attr = arg.type_attr
    proto.number_attr = arg.number_attr
    proto.type_list_attr = arg.type_list_attr
    proto.is_ref = arg.is_ref


def _write_attr(proto: OpDefProto.AttrDef, attr: AttrDef) -> None:
    if not attr.required:
        write_attr(proto.default_value, attr.kind, attr.default)
    if attr.minimum is not None:
        proto.has_minimum, proto.minimum = True, attr.minimum
    if attr.allowed is not None:
        kind = "list(type)" if "type" in attr.kind else "list(string)"
        write_attr(proto.allowed_values, kind, attr.allowed)


def ops_used_by_graph_def(graph_def: GraphDef) -> list[str]:
    """The ops of the nodes in a GraphDef, and of those in the functions they call."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    used: set[str] = set()
    waiting: list[Iterable[NodeDef]] = [graph_def.node]
    while waiting:
        for name in _called(waiting.pop(), functions):
            if name not in used and name in functions:
                waiting.append(functions[name].node_def)
            used.add(name)
    return sorted(used - functions.keys())


def _called(nodes: Iterable[NodeDef], functions: Mapping[str, FunctionDef]) -> Iterator[str]:
    """The ops of nodes, and the functions that their attributes name."""
    for node in nodes:
        yield node.op
        if not functions:
            continue
        for held in node.attr.values():
            named = [held.func.name] if held.HasField("func") else [func.name for func in held.list.func]
            yield from (name for name in named if name in functions)


def stripped_op_list_for_graph(graph_def: GraphDef) -> OpList:
    """The OpDefs of the ops that a GraphDef uses, sorted by name; unregistered ops are left out."""
    known = (name for name in ops_used_by_graph_def(graph_def) if registry.is_registered(name))
    return OpList(op=[op_def_proto(registry.lookup(name).definition) for name in known])
