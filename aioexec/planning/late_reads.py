"""Reads of reference variables that show later writes, as in TensorFlow, where an Identity has the variable's own memory.

Here an Identity is a snapshot, taken when it runs; its consumers may run later. Usually there is no difference, or a race in
TensorFlow. But in TensorFlow a consumer that also waits for a write (by a control edge from an assignment, or by its result)
reads the written value, and programs rely on it: `SyncReplicasOptimizer` sends the global step after it was incremented. So
such a consumer gets the reference itself, which it reads when it runs; it still waits for the Identity.

Exception: if a node waits for the Identity by a control edge, the program requires the value at that moment, and gets it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.items import Kind, kind_of
from aioexec.planning.subgraph import Bind, Edge, Node, Subgraph

Way = tuple[Edge, int]
"""Predicate and output of a Switch: all values that passed this output are dead together."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A reference that a node writes: the node's bit, the edge, and the ways the reference came."""

    bit: int
    reference: Edge
    ways: tuple[Way, ...]


def read_late(graph: Subgraph, bind: Bind) -> None:
    """Make consumers that wait for a write to a reference variable read the variable, instead of an earlier snapshot."""
    writers = [node for node in graph.nodes if any(True for _ in _written(node))]
    if writers:
        _LateReads(graph, writers).rewrite()


_READERS: Final = (Kind.PROGRAM, Kind.ASYNCHRONOUS, Kind.SWITCH)


class _LateReads:
    """One pass over a graph: sets of writers are words with a bit for each.

    Constant: `_bits`, the bit of each writer; `_ordering`, nodes with outgoing control edges in the original program. Changing,
    for the nodes visited: `_before`, the writers among a node's ancestors; `_after`, these and the node itself, if it writes;
    `_writes`, those of each variable.
    """

    def __init__(self, graph: Subgraph, writers: list[Node]) -> None:
        self._graph = graph
        self._bits = {id(node): 1 << k for k, node in enumerate(writers)}
        self._ordering = {id(control) for node in graph.nodes for control in node.controls}
        self._before: dict[int, int] = {}
        self._after: dict[int, int] = {}
        self._writes: dict[int, list[_Write]] = {}

    def rewrite(self) -> None:
        for node in self._graph.nodes:
            before = 0
            for producer in node.producers():
                before |= self._after.get(id(producer), 0)  # 0: the back edge of a loop
            self._before[id(node)] = self._after[id(node)] = before
            if before and node.feed is None and kind_of(node, False) in _READERS:
                self._rewrite(node)
            if id(node) in self._bits:
                self._after[id(node)] |= self._bits[id(node)]
                for variable, reference, ways in _written(node):
                    write = _Write(self._bits[id(node)], reference, ways)
                    self._writes.setdefault(id(variable), []).append(write)

    def _rewrite(self, node: Node) -> None:
        for position, edge in enumerate(node.inputs):
            reference = self._late(edge, node)
            if reference is not None:
                node.inputs[position] = reference
                if edge[0] not in node.controls:
                    node.controls.append(edge[0])

    def _late(self, edge: Edge, consumer: Node) -> Edge | None:
        """The reference to read in place of a value, if that is a snapshot from before a write."""
        snapshot, ways = self._snapshot(edge, consumer.device)
        variable, all_ways = (None, ()) if snapshot is None else _origin(snapshot.inputs[0], ways)
        if snapshot is None or variable is None:
            return None
        unseen = self._before[id(consumer)] & ~self._before[id(snapshot)]
        writes = [write for write in self._writes.get(id(variable), ()) if write.bit & unseen]
        if writes and not ways:
            return snapshot.inputs[0]
        return next((write.reference for write in writes if write.ways == all_ways), None)

    def _snapshot(self, edge: Edge, device: str) -> tuple[Node | None, tuple[Way, ...]]:
        """The Identity whose snapshot an edge carries, and the ways it passed; None if the value was changed meanwhile."""
        ways: list[Way] = []
        node, index = edge
        while node.feed is None and node.device == device:
            if node.row.role is Role.SWITCH:
                ways.append((node.inputs[1], index))
            elif node.row.role is not Role.IDENTITY or len(node.inputs) > 1 or id(node) in self._ordering:
                break
            elif node.dereferences():
                return node, tuple(ways)
            node, index = node.inputs[0]
        return None, ()


def _written(node: Node) -> Iterator[tuple[Node, Edge, tuple[Way, ...]]]:
    """The reference variables that a node writes, and the edges and ways by which it gets them."""
    for position in node.row.writes if node.feed is None else ():
        variable, ways = _origin(node.inputs[position])
        if variable is not None:
            yield variable, node.inputs[position], ways


def _origin(edge: Edge, ways: tuple[Way, ...] = ()) -> tuple[Node | None, tuple[Way, ...]]:
    """The variable of a reference, followed through assignments, and the ways; None: the edge is of another kind."""
    node, index = edge
    while node.feed is None and node.output_dtype(index).is_ref:
        if node.row.role is Role.VARIABLE:
            return node, ways
        if node.row.role is Role.SWITCH:
            ways = (*ways, (node.inputs[1], index))
            node, index = node.inputs[0]
        elif node.row.role is Role.UPDATE:
            node, index = node.inputs[node.row.writes[0]]
        else:
            break
    return None, ()
