"""Folds plain loops and conditionals to single nodes with regions (structured control flow).

Switch, Merge, Enter, Exit and NextIteration express control flow by dead values on edges. Where they form a plain loop or
conditional (no node inside waits, values leave only through a Merge or an Exit, all nodes have one condition), one node with
the same inputs and outputs replaces them, and its contents run without the scheduler. Inner ones are folded first; loops and
conditionals that are not plain stay for the scheduler. The subgraph passed is not changed.
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


def fold_control_flow(graph: Subgraph, new_name: NewName) -> Subgraph:
    """Return the subgraph of one device with its plain loops and conditionals as single nodes."""
    if not any(role_of(node) in _DECIDES for node in graph.nodes):
        return graph
    draft = Draft(_copy(graph), new_name)
    for frame in draft.frames_from_inside():
        fold_conditionals(draft, frame)
        if frame.parent is not None:
            fold_loop(draft, frame)
    found = draft.result()
    ordered = in_order(found.nodes)
    if len(ordered) < len(found.nodes):  # two folded nodes depend on each other: a cycle
        return graph
    found.nodes = ordered
    return found


def _copy(graph: Subgraph) -> Subgraph:
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
