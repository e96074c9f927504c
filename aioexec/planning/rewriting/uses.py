"""The uses of the nodes of a subgraph: what a rewrite checks before it removes a value."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from aioexec.planning.subgraph import Node, Subgraph


class Uses:
    """The uses of each node of a subgraph, as they were when a pass first needed them, before it changed anything."""

    def __init__(self, graph: Subgraph) -> None:
        self._graph = graph

    @cached_property
    def _users(self) -> dict[int, list[Node]]:
        """The nodes that use an output or wait for a node, by its id()."""
        return self._graph.consumers()

    @cached_property
    def _kept(self) -> set[int]:
        """The ids of feeds, fetched nodes and targets."""
        graph = self._graph
        return {id(node) for node in (*graph.feeds, *graph.targets, *(node for node, _ in graph.fetches))}

    @cached_property
    def _with_other_outputs(self) -> set[int]:
        """The ids of nodes an output of which other than the first is used or fetched."""
        edges = (edge for node in self._graph.nodes for edge in node.inputs)
        return {id(node) for node, index in (*edges, *self._graph.fetches) if index}

    def only_user(self, node: Node) -> Node | None:
        """The node that alone uses the value of a node, as one of its inputs; None if there are others, or a fetch."""
        users = self._users.get(id(node), [])
        if len(users) != 1 or id(node) in self._kept or self.has_other_outputs(node):
            return None
        uses = sum(producer is node for producer in users[0].producers())
        return users[0] if uses == 1 and node not in users[0].controls else None

    def are_among(self, node: Node, users: Collection[int]) -> bool:
        """Whether only nodes with these ids use a node or wait for it."""
        return id(node) not in self._kept and all(id(user) in users for user in self._users.get(id(node), ()))

    def has_other_outputs(self, node: Node) -> bool:
        """Whether an output other than the first is used."""
        return id(node) in self._with_other_outputs
