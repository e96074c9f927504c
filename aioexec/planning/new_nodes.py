"""Nodes that planning adds to a subgraph: transfers between devices, and the control loops for transfers inside of loops.

They are ordinary operations in a graph of their own: the session's graph never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec.graph.attrs import complete_attrs, output_dtypes
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import lookup
from aioexec.graph.static_values import infer_shapes
from aioexec.planning.subgraph import Edge, Node

NewName = Callable[[str], str]
"""Makes a name that is unique in the session from another one."""


def tensor_of(edge: Edge) -> Tensor:
    """The symbolic tensor of an edge."""
    node, index = edge
    return node.feed if node.feed is not None else node.op.outputs[index]


class NodeMaker:
    """Makes nodes; each on behalf of an existing node, from which it takes the name and the position in the source."""

    def __init__(self, new_name: NewName) -> None:
        self.new_name = new_name
        self._graph = Graph()

    def make(
        self,
        op_type: str,
        cause: Node,
        device: str,
        inputs: Sequence[Edge] = (),
        controls: Sequence[Node] = (),
        name: str | None = None,
        **attrs: Any,
    ) -> Node:
        """A new node of `op_type` on a device; its name is made from that of `cause` unless it is given."""
        row = lookup(op_type)
        name = name or self.new_name(cause.name)
        tensors = [tensor_of(edge) for edge in inputs]
        waits_for = [node.op for node in controls]
        complete = complete_attrs(row.definition, name, attrs, [tensor.dtype for tensor in tensors])
        op = Operation(self._graph, name, row, tensors, waits_for, complete, device, 0)
        op.set_outputs(output_dtypes(row.definition, complete), infer_shapes(op))
        op.created_at = cause.op.created_at
        return Node(op, None, list(inputs), list(controls), device=device)
