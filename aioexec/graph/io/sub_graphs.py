"""Functions on GraphDefs that need no graph: extraction of the subgraph that some nodes depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aioexec.errors import GraphTypeError, GraphValueError

if TYPE_CHECKING:
    from aioexec.formats.protos import GraphDef


def node_of_input(text: str) -> str:
    """The name of the node that an input of a NodeDef ("a", "a:1", "^a") refers to."""
    text = text.removeprefix("^")
    name, colon, index = text.rpartition(":")
    return name if colon and index.isdigit() else text


def extract_sub_graph(graph_def: GraphDef, dest_nodes: Sequence[str]) -> GraphDef:
    """Return `dest_nodes` and the nodes they depend on, in the order of `graph_def`.

    Raises:
        GraphTypeError: `dest_nodes` is a single name.
        GraphValueError: a name that is not in the graph.
    """
    if isinstance(dest_nodes, str):
        raise GraphTypeError(f"dest_nodes must be a list of node names, got {dest_nodes!r}")
    nodes = {node.name: node for node in graph_def.node}
    found: set[str] = set()
    waiting = list(dest_nodes)
    while waiting:
        name = waiting.pop()
        if name not in nodes:
            raise GraphValueError(f"extract_sub_graph: the graph has no node {name!r}")
        if name not in found:
            found.add(name)
            waiting.extend(map(node_of_input, nodes[name].input))
    result = type(graph_def)(versions=graph_def.versions, library=graph_def.library)
    result.node.extend(node for node in graph_def.node if node.name in found)
    return result
