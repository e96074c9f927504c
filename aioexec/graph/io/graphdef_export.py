"""Writes a graph as a GraphDef, equal to TensorFlow's."""

from __future__ import annotations

from typing import Final

from aioexec.formats.protos import AttrValue, GraphDef, NodeDef
from aioexec.formats.tensor_codec import shape_to_proto
from aioexec.graph import registry
from aioexec.graph.attr_values import write_attr
from aioexec.graph.graph import Graph
from aioexec.graph.io.function_def_export import export_library
from aioexec.graph.io.node_def_export import OUTPUT_SHAPES, node_def as node_def, write_node

# The version of the GraphDef format (TensorFlow 1.15's), and the oldest consumers and producers it is compatible with.
GRAPH_DEF_VERSION: Final = 134
GRAPH_DEF_VERSION_MIN_CONSUMER: Final = 0
GRAPH_DEF_VERSION_MIN_PRODUCER: Final = 0


def graph_to_graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> GraphDef:
    """Return the nodes of a graph as a GraphDef, with all its functions.

    Args:
        from_version: leave out the nodes that existed when `graph.version` had this value.
        add_shapes: write the static output shapes to each node's attr `_output_shapes`.
    """
    result = GraphDef()
    result.versions.producer = (
        GRAPH_DEF_VERSION if graph.oldest_producer is None else min(GRAPH_DEF_VERSION, graph.oldest_producer)
    )
    result.versions.min_consumer = GRAPH_DEF_VERSION_MIN_CONSUMER
    for op in graph.get_operations()[from_version or 0 :]:
        node = result.node.add()
        write_node(node, op)
        if add_shapes and op.outputs:
            shapes = [shape_to_proto(tensor.dims) for tensor in op.outputs]
            node.attr[OUTPUT_SHAPES].list.shape.extend(shapes)
    if graph.functions:
        result.library.CopyFrom(export_library(graph.functions))
    return result


def strip_default_attrs(graph_def: GraphDef) -> None:
    """Remove attributes with their op's default from all nodes, those of functions included, so that older consumers need not
    know them. Nodes of unregistered ops, and calls of functions by name, are not changed."""
    functions = {function.signature.name for function in graph_def.library.function}
    for nodes in (graph_def.node, *(function.node_def for function in graph_def.library.function)):
        for node in nodes:
            if node.op not in functions and registry.is_registered(node.op):
                _strip(node)


def _strip(node: NodeDef) -> None:
    for attr in registry.lookup(node.op).definition.attrs:
        if attr.required or attr.name not in node.attr:
            continue
        default = AttrValue()
        write_attr(default, attr.kind, attr.default)
        if node.attr[attr.name] == default:
            del node.attr[attr.name]
