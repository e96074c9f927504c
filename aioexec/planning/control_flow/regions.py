"""Makes a region from the nodes of a branch or a loop: edges from outside become parameters.

Inside a region no value is dead, so edges that only express "this branch runs" are removed with their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from aioexec.dtypes import variant
from aioexec.graph.kernels.kernel import CHANGING, ListVerb, Role
from aioexec.planning.control_flow.draft import Draft
from aioexec.planning.items import is_known
from aioexec.planning.new_nodes import tensor_of
from aioexec.planning.subgraph import Edge, Node, Region, in_order


class Inside:
    """Maps edges from outside of one structure to edges inside: each becomes one parameter.

    Known values (constants, resources) need no parameter; of a reference the variable's content is passed.

    Attributes:
        inputs, parameters: edges from outside, and the parameters that represent them.
        controls: nodes outside for which the structure waits.

    Args:
        own: nodes inside, by id().
        deciding: control-flow nodes of the structure, by id(), which do not exist any more once it is one node.
        is_transparent: whether a node outside is replaced by its first input.
    """

    def __init__(
        self, draft: Draft, own: set[int], deciding: set[int], is_transparent: Callable[[Node], bool]
    ) -> None:
        self.draft = draft
        self.own = own
        self._deciding = deciding
        self.inputs: list[Edge] = []
        self.parameters: list[Node] = []
        self.controls: list[Node] = []
        self._is_transparent = is_transparent
        self._known: dict[Edge, Edge] = {}

    def edge(self, edge: Edge) -> Edge:
        """The edge inside that represents an edge."""
        while self._is_transparent(edge[0]) and id(edge[0]) not in self.own and edge not in self._known:
            self.wait_for(edge[0].controls)
            edge = edge[0].inputs[0]
        producer, index = edge
        if edge in self._known:
            return self._known[edge]
        if id(producer) in self.own:
            return edge
        if is_known(producer, is_partial=True) and not producer.output_dtype(index).is_ref:
            return edge
        self._known[edge] = self.add(edge)
        return self._known[edge]

    def set_replacement(self, edge: Edge, inside: Edge) -> None:
        """Set the edge inside that represents an edge from outside."""
        self._known[edge] = inside

    def add(self, edge: Edge) -> Edge:
        """Add a parameter for an edge."""
        self.inputs.append(edge)
        self.parameters.append(Node(edge[0].op, tensor_of(edge), device=edge[0].device))
        return self.parameters[-1], 0

    def wait_for(self, controls: Iterable[Node]) -> None:
        """Add control inputs of the structure; nodes inside and its own control-flow nodes are ignored."""
        for control in controls:
            if id(control) in self.own or id(control) in self._deciding:
                continue
            if self._is_transparent(control):
                self.wait_for(control.producers())
            else:
                self.controls.append(control)


def before(nodes: Iterable[Node]) -> dict[int, list[Node]]:
    """For each node, the producers that are among the nodes."""
    nodes = list(nodes)
    own = {id(node) for node in nodes}
    return {id(node): [producer for producer in node.producers() if id(producer) in own] for node in nodes}


def region(
    inside: Inside, nodes: Sequence[Node], results: list[Edge | None], also_used: Container[int] = ()
) -> Region:
    """Make a region of nodes, redirecting their edges to the inside; `also_used` are nodes that other regions use, by id()."""
    for node in nodes:
        inside.draft.forget_uses(node)
        node.inputs = [inside.edge(edge) for edge in node.inputs]
        inside.wait_for(node.controls)
        node.controls = [control for control in node.controls if id(control) in inside.own]
    ordered = in_order(nodes, before(nodes))
    results = _without_identities(ordered, results)
    return Region(_readers_first(_drop_unneeded(ordered, results, also_used)), results)


def _without_identities(nodes: list[Node], results: Sequence[Edge | None]) -> list[Edge | None]:
    """Bypass Identities, and make constants known without their control inputs; returns the results after that."""
    aliases: dict[Edge, Edge] = {}
    for node in nodes:
        node.inputs = [aliases.get(edge, edge) for edge in node.inputs]
        if node.is_constant or node.row.role is Role.CONSTANT:
            node.values = node.values or (node.op.attrs["value"],)
            node.controls = []
        elif node.row.role is Role.IDENTITY and len(node.inputs) == 1 and not node.dereferences():
            aliases[node, 0] = node.inputs[0]
    return [None if edge is None else aliases.get(edge, edge) for edge in results]


def _drop_unneeded(
    nodes: list[Node], results: Sequence[Edge | None], also_used: Container[int]
) -> list[Node]:
    """Remove pure nodes that are not used; nodes that waited for them wait for their producers instead."""
    used = {id(edge[0]) for edge in results if edge is not None}
    kept: list[Node] = []
    dropped: dict[int, Node] = {}
    for node in reversed(nodes):
        if node.structure is None and node.is_pure and id(node) not in used and id(node) not in also_used:
            dropped[id(node)] = node
        else:
            used.update(id(producer) for producer, _ in node.inputs)
            kept.append(node)
    ids = {id(node) for node in kept}
    for node in kept:
        node.controls = [each for each in _splice(node.controls, dropped) if id(each) in ids]
    return kept[::-1]


def _readers_first(nodes: list[Node]) -> list[Node]:
    """Sort readers of a list value before the nodes that change it, where possible: in a program both share one memory."""
    waited_for = before(nodes)
    uses: dict[Edge, list[tuple[Node, bool]]] = {}
    for node in nodes:
        use = node.row.lists if node.feed is None and node.structure is None else None
        if use is not None:
            for edge in node.inputs if use.verb is ListVerb.ADD else node.inputs[:1]:
                if edge[0].output_dtype(edge[1]) == variant:
                    uses.setdefault(edge, []).append((node, use.verb in CHANGING))
    for users in uses.values():
        readers = [node for node, changes in users if not changes]
        for node, changes in users:
            if changes:
                waited_for[id(node)] += readers
    ordered = in_order(nodes, waited_for)
    return ordered if len(ordered) == len(nodes) else nodes


def _splice(controls: Iterable[Node], dropped: dict[int, Node]) -> list[Node]:
    """Control inputs, with those that were removed replaced by their producers."""
    seen: dict[int, Node] = {}
    waiting = list(controls)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            if id(node) in dropped:
                waiting += node.producers()
    return [node for node in seen.values() if id(node) not in dropped]
