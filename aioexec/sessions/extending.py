"""A session's own graph, made and extended by GraphDefs (a session that was given a Graph shares it instead)."""

from __future__ import annotations

from typing import Any

from aioexec.errors import InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.sessions.names import find_operation, parse_tensor_name
from aioexec.sessions.options import own_message


def extend_graph(graph: Graph, graph_def: Any) -> None:
    """Add the nodes of a GraphDef, whose inputs may be existing nodes; all of them, or none if there is an error.

    Raises:
        InvalidArgumentError: a node exists already, or does not fit.
        NotFoundError: an op is not registered.
    """
    from aioexec.graph.io.graphdef_import import extend_by_graph_def

    graph_def = own_message(graph_def, "GraphDef", "graph_def")
    own = {node.name for node in graph_def.node}
    for name in own:
        if find_operation(graph, name) is not None:
            raise InvalidArgumentError(
                f"GraphDef argument to Extend includes node {name!r}, which was created by a previous call "
                "to Create or Extend in this session."
            )
    extend_by_graph_def(graph, graph_def, _inputs_there(graph, graph_def, own))


def _inputs_there(graph: Graph, graph_def: Any, own: set[str]) -> dict[str, Tensor | Operation]:
    """The inputs of new nodes that are outputs of existing nodes, by the names used in the GraphDef."""
    found: dict[str, Tensor | Operation] = {}
    for node in graph_def.node:
        for text in node.input:
            name, index = parse_tensor_name(text.removeprefix("^"))
            op = None if name in own or text in found else find_operation(graph, name)
            if op is None:
                continue
            if text.startswith("^"):
                found[text] = op
            elif index < len(op.outputs):
                found[text] = op.outputs[index]
            else:
                raise InvalidArgumentError(
                    f"Node {node.name!r}: Connecting to invalid output {index} of source node {name} "
                    f"which has {len(op.outputs)} outputs"
                )
    return found
