"""Liveness: the conditions under which a node runs, each a Switch that must have taken one output.

A condition is (predicate node, its output, the way taken). A node runs if all conditions of its inputs hold, so its set is the
union of theirs. A Merge drops the condition in which its two inputs differ, if they differ exactly in the two ways of one
predicate. Otherwise its set gets a new, unique condition, so that no other node is assumed to run together with its consumers.
"""

from __future__ import annotations

from collections.abc import Mapping

from aioexec.graph.kernels.kernel import Role
from aioexec.planning.subgraph import Edge, Node, Subgraph

Predicate = tuple[int, int]
"""A predicate: the id() of a node, and its output; -1 if it is unknown."""
Condition = tuple[int, int, int]
"""A predicate, and the way taken."""
Conditions = frozenset[Condition]


def role_of(node: Node) -> Role | None:
    """The role of a node; None for a feed, whatever it replaces."""
    return None if node.feed is not None else node.row.role


def is_loop_merge(node: Node) -> bool:
    """Whether a node is the target of a loop's back edge."""
    return role_of(node) is Role.MERGE and any(
        role_of(producer) is Role.NEXT_ITERATION for producer, _ in node.inputs
    )


def decided_by(switch: Node) -> Predicate:
    """The predicate of a Switch."""
    producer, index = switch.inputs[1]
    return id(producer), index


def conditions(graph: Subgraph) -> dict[int, Conditions]:
    """The conditions of each node, by id()."""
    found: dict[int, Conditions] = {}
    for node in graph.nodes:
        role = role_of(node)
        if role is Role.MERGE:
            found[id(node)] = _of_merge(node, found)
            continue
        mine: set[Condition] = {(id(node), -1, 0)} if role is Role.RECV else set()
        for edge in node.inputs:
            mine |= of_edge(edge, found)
        for producer in node.controls:
            mine |= found[id(producer)]
        if role is Role.EXIT:
            mine = {condition for condition in mine if not _is_loop_end(condition, node)}
        found[id(node)] = frozenset(mine)
    return found


def of_edge(
    edge: Edge, found: Mapping[int, Conditions], decided: Mapping[int, Predicate] | None = None
) -> Conditions:
    """The conditions under which an edge carries a value; `decided` are predicates of Switches whose inputs were changed."""
    producer, index = edge
    known = found.get(id(producer), frozenset())
    if role_of(producer) is Role.SWITCH:
        predicate = decided_by(producer) if decided is None else decided[id(producer)]
        return known | {(*predicate, index)}
    return known


def _is_loop_end(condition: Condition, exit_node: Node) -> bool:
    """Whether a condition is that the loop of an Exit has ended."""
    switch, _ = exit_node.inputs[0]
    return role_of(switch) is Role.SWITCH and condition == (*decided_by(switch), 0)


def _of_merge(node: Node, found: Mapping[int, Conditions]) -> Conditions:
    if is_loop_merge(node):
        entered = [edge for edge in node.inputs if role_of(edge[0]) is not Role.NEXT_ITERATION]
        return frozenset().union(*(of_edge(edge, found) for edge in entered))
    waits_for: set[Condition] = set()
    for producer in node.controls:
        waits_for |= found[id(producer)]
    ways = [of_edge(edge, found) for edge in node.inputs]
    decides = deciding(ways)
    common = frozenset.intersection(*ways) if ways else frozenset()
    if decides is None:
        return common | waits_for | {(id(node), -1, 0)}
    return common | waits_for


def deciding(ways: list[Conditions]) -> Predicate | None:
    """The predicate that selects one of two ways; None if there is no single one."""
    if len(ways) != 2:
        return None
    one, other = ways[0] - ways[1], ways[1] - ways[0]
    if len(one) != 1 or len(other) != 1:
        return None
    (first,), (second,) = one, other
    return first[:2] if first[:2] == second[:2] and first[2] != second[2] and first[1] >= 0 else None
