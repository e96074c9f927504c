"""Writes operations as NodeDefs."""

from __future__ import annotations

from typing import Final

from aioexec.errors import GraphTypeError
from aioexec.formats.protos import NodeDef
from aioexec.graph.attr_values import write_attr, write_private_attr
from aioexec.graph.node import Operation

OUTPUT_SHAPES: Final = "_output_shapes"
"""The attribute with the static shapes of a node's outputs."""


def node_def(op: Operation) -> NodeDef:
    """Return one operation as a NodeDef."""
    node = NodeDef()
    write_node(node, op)
    return node


def write_node(node: NodeDef, op: Operation) -> None:
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
