"""Making single nodes of loops and conditionals: what decides who runs becomes a program that branches.

Switch, Merge, Enter, Exit and NextIteration say, edge by edge, who runs when. Where they make up a plain loop or conditional
(nothing inside waits, no value leaves but through a Merge or an Exit, everything in it lives under one condition), one node
with the same inputs and outputs takes their place, and what is inside runs without the executor. Innermost first; what is not
plain stays as it is, for the executor. The subgraph that is given is not changed.
"""

from __future__ import annotations

from dataclasses import replace

from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.draft import Draft
from aioexec.planning.control_flow.fold_conditionals import fold_conditionals
from aioexec.planning.control_flow.fold_loops import fold_loop
from aioexec.planning.control_flow.liveness import role_of
from aioexec.planning.new_nodes import NewName
from aioexec.planning.subgraph import Node, Subgraph, in_order

_DECIDES = (Role.SWITCH, Role.MERGE, Role.ENTER)


def structured(graph: Subgraph, new_name: NewName) -> Subgraph:
    """Return the subgraph of one device with its plain loops and conditionals as single nodes."""
    if not any(role_of(node) in _DECIDES for node in graph.nodes):
        return graph
    draft = Draft(_copied(graph), new_name)
    for frame in draft.frames_from_inside():
        fold_conditionals(draft, frame)
        if frame.parent is not None:
            fold_loop(draft, frame)
    found = draft.result()
    ordered = in_order(found.nodes)
    if len(ordered) < len(found.nodes):  # two that were folded wait for each other, piece by piece
        return graph
    found.nodes = ordered
    return found


def _copied(graph: Subgraph) -> Subgraph:
    copies = {id(node): replace(node) for node in graph.nodes}

    def copy(node: Node) -> Node:
        return copies[id(node)]

    for node in copies.values():
        node.inputs = [(copy(producer), index) for producer, index in node.inputs]
        node.controls = [copy(producer) for producer in node.controls]
    return Subgraph(
        list(copies.values()),
        [copy(node) for node in graph.feeds],
        [(copy(node), index) for node, index in graph.fetches],
        [copy(node) for node in graph.targets],
    )
