"""Writes a graph as a GraphDef, as TensorFlow would write it."""

from __future__ import annotations

from typing import Final

from aioexec.errors import GraphTypeError
from aioexec.formats.protos import GraphDef, NodeDef
from aioexec.formats.tensor_codec import shape_to_proto
from aioexec.graph.attr_values import write_attr, write_private_attr
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation

# The version of the GraphDef format (TensorFlow 1.15's), and how far back and forth it is understood.
GRAPH_DEF_VERSION: Final = 134
GRAPH_DEF_VERSION_MIN_CONSUMER: Final = 0
GRAPH_DEF_VERSION_MIN_PRODUCER: Final = 0


def graph_to_graph_def(graph: Graph, from_version: int | None = None, add_shapes: bool = False) -> GraphDef:
    """Return the nodes of a graph as a GraphDef.

    Args:
        from_version: leave out the nodes that were there when `graph.version` was this.
        add_shapes: give each node what is known of its output shapes, in its attr `_output_shapes`.
    """
    result = GraphDef()
    result.versions.producer = GRAPH_DEF_VERSION
    result.versions.min_consumer = GRAPH_DEF_VERSION_MIN_CONSUMER
    for op in graph.get_operations()[from_version or 0 :]:
        node = result.node.add()
        _write_node(node, op)
        if add_shapes and op.outputs:
            shapes = [shape_to_proto(tensor.dims) for tensor in op.outputs]
            node.attr["_output_shapes"].list.shape.extend(shapes)
    return result


def node_def(op: Operation) -> NodeDef:
    """Return one operation as a NodeDef."""
    node = NodeDef()
    _write_node(node, op)
    return node


def _write_node(node: NodeDef, op: Operation) -> None:
    node.name = op.name
    node.op = op.type
    node.device = op.device
    for tensor in op.inputs:
        node.input.append(tensor.name if tensor.value_index else tensor.op.name)
    node.input.extend(sorted(f"^{control.name}" for control in op.control_inputs))
    attrs = dict(op.attrs)
    for attr in op.row.definition.attrs:
        write_attr(node.attr[attr.name], attr.kind, attrs.pop(attr.name))
    for name, value in attrs.items():
        try:
            write_private_attr(node.attr[name], value)
        except GraphTypeError as error:
            raise GraphTypeError(f"{op.type} {op.name!r}: attr {name!r}: {error.message}") from error
