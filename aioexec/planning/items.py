"""Cutting a subgraph into items: the pieces that are scheduled.

Each node has a wait set: the sources among its ancestors whose outcome is not known when the step starts. Nodes share an item
only if their wait sets are equal. That is convex by construction: on a path out of an item and back the wait set could only
grow. So no item waits, through another, for itself, and no node waits for an event it does not depend on.

Sources here are nodes whose output shape depends on data: what follows them is laid out when the shape is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from aioexec.graph.kernel import Role
from aioexec.planning.subgraph import Node, Subgraph


@dataclass(slots=True, eq=False)
class ItemNodes:
    """The nodes of one item, in order, and the sources it waits for."""

    wait_set: int
    nodes: list[Node]


def is_source(node: Node) -> bool:
    return node.feed is None and not node.is_constant and node.row.dynamic_shape


def wait_sets(graph: Subgraph) -> dict[int, int]:
    """The wait set of each node, by id(): a bit for each source."""
    sets: dict[int, int] = {}
    after: dict[int, int] = {}
    sources = 0
    for node in graph.nodes:
        waits = 0
        for producer in node.producers():
            waits |= after[id(producer)]
        sets[id(node)] = after[id(node)] = waits
        if is_source(node):
            after[id(node)] |= 1 << sources
            sources += 1
    return sets


def cut_items(graph: Subgraph) -> list[ItemNodes]:
    """Items in an order in which they can run; feeds, constants and variables belong to none."""
    sets = wait_sets(graph)
    items: dict[int, ItemNodes] = {}
    for node in graph.nodes:
        if node.feed is None and not node.is_constant and node.row.role is not Role.VARIABLE:
            items.setdefault(sets[id(node)], ItemNodes(sets[id(node)], [])).nodes.append(node)
    return sorted(items.values(), key=lambda item: item.wait_set.bit_count())
