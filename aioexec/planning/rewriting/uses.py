"""Who uses the outputs of the nodes of a subgraph: what a rewrite checks before it removes a value."""

from __future__ import annotations

from aioexec.planning.subgraph import Node, Subgraph


class Uses:
    """The uses of each node of a subgraph, as it was when this was made.

    `_users` are the nodes that use an output or wait for a node, by its id(); `_kept`, the ids of feeds, fetched nodes and
    targets; `_others`, of nodes an output of which other than the first is used or fetched.
    """

    def __init__(self, graph: Subgraph) -> None:
        self._users = graph.consumers()
        self._kept = {
            id(node) for node in (*graph.feeds, *graph.targets, *(node for node, _ in graph.fetches))
        }
        edges = (edge for node in graph.nodes for edge in node.inputs)
        self._others = {id(node) for node, index in (*edges, *graph.fetches) if index}

    def only_user(self, node: Node) -> Node | None:
        """The node that alone uses the value of a node, as one of its inputs; None if there are others, or a fetch."""
        users = self._users.get(id(node), [])
        if len(users) != 1 or id(node) in self._kept or self.has_other_outputs(node):
            return None
        uses = sum(producer is node for producer in users[0].producers())
        return users[0] if uses == 1 and node not in users[0].controls else None

    def has_other_outputs(self, node: Node) -> bool:
        """Whether an output other than the first is used."""
        return id(node) in self._others
