"""A subgraph whose loops and conditionals are being folded: the data of its nodes, and their replacement by single nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.frames import Frame, frames
from aioexec.planning.control_flow.liveness import (
    Conditions,
    Predicate,
    conditions,
    decided_by,
    is_loop_merge,
    of_edge,
    role_of,
)
from aioexec.planning.items import is_known
from aioexec.planning.new_nodes import NewName, NodeMaker, tensor_of
from aioexec.planning.subgraph import Edge, Node, Structure, Subgraph

_RUN_BY_EXECUTOR = frozenset(
    {Role.SWITCH, Role.MERGE, Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.SEND, Role.RECV}
)


class Draft:
    """The state of one folding.

    Constant: `decided`, the predicate of each Switch, as conditions name it. Changing: `members`, the nodes of each frame
    without folded ones; `alive`, the conditions of each node; `above`, the bit set of Merges among a node's ancestors;
    `consumers`, the nodes that use or wait for a node, by its id(); `switches`, those of each predicate.
    """

    def __init__(self, graph: Subgraph, new_name: NewName) -> None:
        self.graph = graph
        self.frame_of = frames(graph)
        self.alive: dict[int, Conditions] = conditions(graph)
        self.members: dict[Frame, dict[int, Node]] = {}
        self.consumers: dict[int, dict[int, Node]] = {}
        self.decided: dict[int, Predicate] = {}
        self.switches: dict[Predicate, list[Node]] = {}
        for node in graph.nodes:
            self.members.setdefault(self.frame_of[id(node)], {})[id(node)] = node
            self.note_uses(node)
            if role_of(node) is Role.SWITCH:
                self.decided[id(node)] = decided_by(node)
                self.switches.setdefault(decided_by(node), []).append(node)
        self.merge_bits: dict[int, int] = {}
        self.above: dict[int, int] = {}
        for node in graph.nodes:
            self.above[id(node)] = self._merges_above(node)
            if role_of(node) is Role.MERGE and not is_loop_merge(node):
                self.merge_bits[id(node)] = 1 << len(self.merge_bits)
        self.fetched = {id(node) for node, _ in graph.fetches}
        self.targets = {id(node) for node in graph.targets}
        self._maker = NodeMaker(new_name)

    def _merges_above(self, node: Node) -> int:
        found = 0
        for producer in node.producers_before():
            found |= self.above[id(producer)] | self.merge_bits.get(id(producer), 0)
        return found

    def note_uses(self, node: Node) -> None:
        for producer in node.producers():
            self.consumers.setdefault(id(producer), {})[id(node)] = node

    def forget_uses(self, node: Node) -> None:
        for producer in node.producers():
            self.consumers.get(id(producer), {}).pop(id(node), None)

    def frames_from_inside(self) -> list[Frame]:
        """The frames, inner ones first."""
        found: dict[Frame, None] = {}
        for frame in self.members:
            outer: Frame | None = frame
            while outer is not None and outer not in found:
                found[outer] = None
                outer = outer.parent
        return sorted(found, key=lambda frame: -frame.depth)

    def nodes_in(self, frame: Frame) -> list[Node]:
        return list(self.members.get(frame, {}).values())

    def users(self, node: Node) -> list[Node]:
        return list(self.consumers.get(id(node), {}).values())

    def predicate_edge(self, predicate: Predicate) -> Edge:
        """The edge that carries a predicate now."""
        return self.switches[predicate][0].inputs[1]

    def conditions_of(self, edge: Edge) -> Conditions:
        """The conditions under which an edge carries a value."""
        return of_edge(edge, self.alive, self.decided)

    def drop_switches(self, predicate: Predicate) -> None:
        """Remove the Switches of a predicate that are not used any more."""
        switches = self.switches[predicate]
        for node in reversed(switches.copy()):
            if not self.users(node) and not self.is_shown(node):
                self.remove(node)
                switches.remove(node)

    def is_plain(self, node: Node) -> bool:
        """Whether a node may be in a region: it neither waits nor is control flow."""
        return node.feed is None and not node.row.asynchronous and node.row.role not in _RUN_BY_EXECUTOR

    def is_shown(self, node: Node) -> bool:
        """Whether the node is fetched or a target."""
        return id(node) in self.fetched or id(node) in self.targets

    def fold(
        self,
        op_type: str,
        cause: Node,
        frame: Frame,
        structure: Structure,
        inputs: Sequence[Edge],
        controls: Iterable[Node],
        outputs: Sequence[Edge],
        folded: Iterable[Node],
    ) -> Node:
        """Replace several nodes of a frame by one; `outputs[k]` is the edge that its output k replaces."""
        tensors = [tensor_of(edge) for edge in outputs]
        made = self._maker.make(
            op_type,
            cause,
            cause.device,
            inputs,
            list(dict.fromkeys(controls)),
            Tout=tuple(tensor.dtype.base_dtype for tensor in tensors),
            output_shapes=tuple(tensor.dims for tensor in tensors),
        )
        made.structure = structure
        gone = list(folded)
        for node in gone:
            self.remove(node)
        self.members.setdefault(frame, {})[id(made)] = made
        self.frame_of[id(made)] = frame
        self.graph.nodes.append(made)
        self.note_uses(made)
        self.above[id(made)] = self._merges_above(made)
        for index, edge in enumerate(outputs):
            self.bypass(edge, (made, index))
        for node in gone:
            self._redirect_controls(node, made)
        return made

    def remove(self, node: Node) -> None:
        """Remove a node that is not used any more."""
        self.members[self.frame_of[id(node)]].pop(id(node), None)
        self.forget_uses(node)

    def bypass(self, old: Edge, new: Edge) -> None:
        """Redirect all uses of an edge to another."""
        for user in self.users(old[0]):
            user.inputs = [new if edge == old else edge for edge in user.inputs]
            self._note_change(user, old[0])
        self.graph.fetches = [new if edge == old else edge for edge in self.graph.fetches]

    def _redirect_controls(self, old: Node, new: Node) -> None:
        for user in self.users(old):
            controls = (new if control is old else control for control in user.controls)
            user.controls = list(dict.fromkeys(controls))
            self._note_change(user, old)

    def _note_change(self, user: Node, old: Node) -> None:
        self.note_uses(user)
        if not any(producer is old for producer in user.producers()):
            del self.consumers[id(old)][id(user)]

    def result(self) -> Subgraph:
        """The subgraph after folding."""
        everything = self.graph.nodes
        self.graph.drop_unneeded()
        there = {id(node) for node in self.graph.nodes}
        missing = {id(node) for node in _used_inside(self.graph.nodes)} - there
        known = [node for node in everything if id(node) in missing and is_known(node)]
        self.graph.nodes = known + self.graph.nodes
        return self.graph


def _used_inside(nodes: Iterable[Node]) -> Iterator[Node]:
    """The nodes that are used inside of structures."""
    for node in nodes:
        for part in () if node.structure is None else node.structure.regions:
            yield from (edge[0] for edge in part.results if edge is not None)
            for inner in part.nodes:
                yield from inner.producers()
            yield from _used_inside(part.nodes)
