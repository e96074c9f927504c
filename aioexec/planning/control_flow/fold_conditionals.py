"""Folds conditionals: the Merges of one predicate, with the nodes before them that are alive in one branch.

The nodes of one predicate fall into *levels*: a branch of the backward pass depends, through the loss, on the Merges of the
forward branch, and may also use values inside of it. So a conditional consists of nodes between the same Merges, and of these
only of a connected component, since other components depend on other nodes. A value that a later level of the same branch uses
is a result that the other branch does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.draft import Draft
from aioexec.planning.control_flow.frames import Frame
from aioexec.planning.control_flow.liveness import Conditions, Predicate, deciding, is_loop_merge, role_of
from aioexec.planning.control_flow.regions import Inside, before, region
from aioexec.planning.subgraph import Conditional, Edge, Node, in_order

Key = tuple[Predicate, Conditions]
"""The predicate, and the conditions of the conditional itself."""


@dataclass(slots=True, eq=False)
class _Piece:
    """The nodes of one conditional to be folded: its Merges, and the nodes of each branch."""

    merges: list[Node] = field(default_factory=list)
    nodes: tuple[list[Node], list[Node]] = field(default_factory=lambda: ([], []))


def fold_conditionals(draft: Draft, frame: Frame) -> None:
    """Fold the conditionals of a frame, the innermost first."""
    deepest = None
    while True:
        groups = _groups(draft, frame)
        depths = sorted({len(around) for _, around in groups if deepest is None or len(around) < deepest})
        if not depths:
            return
        deepest = depths[-1]
        # The nodes folded in this iteration have fewer conditions than those searched for.
        living: dict[Conditions, list[Node]] = {}
        for node in draft.nodes_in(frame):
            living.setdefault(draft.alive[id(node)], []).append(node)
        for key, merges in groups.items():
            if len(key[1]) == deepest:
                _fold(draft, frame, key, merges, living)


def _groups(draft: Draft, frame: Frame) -> dict[Key, list[Node]]:
    """The Merges of a frame by predicate and conditions."""
    found: dict[Key, list[Node]] = {}
    for node in draft.nodes_in(frame):
        if role_of(node) is not Role.MERGE or is_loop_merge(node):
            continue
        ways = [draft.conditions_of(edge) for edge in node.inputs]
        predicate = deciding(ways)
        if predicate is not None:
            around = ways[0] & ways[1]
            found.setdefault((predicate, around), []).append(node)
    return found


def _fold(
    draft: Draft, frame: Frame, key: Key, merges: list[Node], living: Mapping[Conditions, list[Node]]
) -> None:
    """Fold all conditionals of one predicate, or none; `living` are the nodes of the frame by their conditions."""
    predicate, around = key
    branches = tuple(
        [
            node
            for node in living.get(around | {(*predicate, way)}, ())
            if draft.decided.get(id(node)) != predicate
        ]
        for way in (0, 1)
    )
    way_of = {id(node): way for way, nodes in enumerate(branches) for node in nodes}
    merged = {id(merge) for merge in merges}
    if not all(_may_merge(draft, merge) for merge in merges):
        return
    if not all(
        _may_fold(draft, node, (*predicate, way_of[id(node)]), merged) for nodes in branches for node in nodes
    ):
        return
    if any(
        _depends_on_branch(draft, node, predicate, way_of) for nodes in (*branches, merges) for node in nodes
    ):
        return
    pieces = _pieces(draft, merges, branches)
    if not pieces or any(not piece.merges for piece in pieces):
        return
    for piece in pieces:
        _fold_piece(draft, frame, piece, predicate, around)
    draft.drop_switches(predicate)


def _may_merge(draft: Draft, merge: Node) -> bool:
    """Whether a Merge can be a result: only its value is used, and no reference is involved."""
    references = any(producer.output_dtype(index).is_ref for producer, index in merge.inputs)
    if id(merge) in draft.targets or references or merge.output_dtype(0).is_ref:
        return False
    asked = [edge for user in draft.users(merge) for edge in user.inputs] + draft.graph.fetches
    return (merge, 1) not in asked


def _may_fold(draft: Draft, node: Node, condition: tuple[int, int, int], merged: set[int]) -> bool:
    """Whether a node of a branch can be in a region: each user is a Merge, or alive in the same branch only."""
    if not draft.is_plain(node) or draft.is_shown(node) or _takes_reference(node):
        return False
    return all(id(user) in merged or condition in draft.alive[id(user)] for user in draft.users(node))


def _depends_on_branch(draft: Draft, node: Node, predicate: Predicate, way_of: Mapping[int, int]) -> bool:
    """Whether a node uses one that is alive in a branch only, and not a node of the branch.

    That is so if it has fewer conditions, which a part of a graph on several devices may know less of.
    """
    outside = [edge for edge in node.inputs if id(edge[0]) not in way_of]
    if any(
        predicate == condition[:2]
        for edge in outside
        for condition in draft.conditions_of(edge)
        if draft.decided.get(id(edge[0])) != predicate
    ):
        return True
    return any(
        predicate == condition[:2]
        for producer in node.controls
        if id(producer) not in way_of
        for condition in draft.alive[id(producer)]
    )


def _takes_reference(node: Node) -> bool:
    """Whether a node takes a reference or its value: a variable may be uninitialised unless the branch is taken."""
    return any(producer.output_dtype(index).is_ref for producer, index in node.inputs)


def _sides(draft: Draft, merge: Node, predicate: Predicate) -> tuple[int, int]:
    """The input of a Merge that is alive if the predicate is false, and the one if it is true."""
    first = 0 if (*predicate, 0) in draft.conditions_of(merge.inputs[0]) else 1
    return first, 1 - first


def _pieces(draft: Draft, merges: list[Node], branches: tuple[list[Node], ...]) -> list[_Piece]:
    """Divide Merges and nodes into levels, and each level into connected components; none if there is a cycle."""
    levels = _levels(draft, merges, branches)
    everything = [*branches[0], *branches[1], *merges]
    if len(levels) < len(everything):
        return []
    parents = {member: member for member in levels}

    def root(member: int) -> int:
        while parents[member] != member:
            parents[member] = member = parents[parents[member]]
        return member

    for node in everything:
        for producer in node.producers():
            if levels.get(id(producer)) == levels[id(node)]:
                parents[root(id(producer))] = root(id(node))
    found: dict[int, _Piece] = {}
    for way, nodes in enumerate(branches):
        for node in nodes:
            found.setdefault(root(id(node)), _Piece()).nodes[way].append(node)
    for merge in merges:
        found.setdefault(root(id(merge)), _Piece()).merges.append(merge)
    return list(found.values())


def _levels(draft: Draft, merges: list[Node], branches: tuple[list[Node], ...]) -> dict[int, int]:
    """The level of each Merge, the length of the longest chain of Merges before it, and of each node, as late as possible."""
    levels: dict[int, int] = {}

    def earliest(node: Node) -> int:
        above = draft.above[id(node)]
        before = (levels[id(merge)] + 1 for merge in merges if above & draft.merge_bits[id(merge)])
        return max(before, default=0)

    for merge in merges:
        levels[id(merge)] = 0
    for merge in merges:  # in topological order, so that its predecessors have a level
        levels[id(merge)] = max(
            (
                levels[id(other)] + 1
                for other in merges
                if other is not merge and draft.above[id(merge)] & draft.merge_bits[id(other)]
            ),
            default=0,
        )
    for nodes in branches:
        for node in reversed(in_order(nodes, before(nodes))):
            users = [levels[id(user)] for user in draft.users(node) if id(user) in levels]
            levels[id(node)] = min(users) if users else earliest(node)
    return levels


def _fold_piece(draft: Draft, frame: Frame, piece: _Piece, predicate: Predicate, around: Conditions) -> None:
    own = {id(node) for nodes in piece.nodes for node in nodes}
    merged = {id(merge) for merge in piece.merges}
    inside = Inside(draft, own, merged, lambda node: draft.decided.get(id(node)) == predicate)
    escapes = _outputs_used_later(draft, piece, own, predicate)
    regions = []
    for way, nodes in enumerate(piece.nodes):
        results: list[Edge | None] = [
            inside.edge(merge.inputs[_sides(draft, merge, predicate)[way]]) for merge in piece.merges
        ]
        mine = {id(node) for node in nodes}
        results += [edge if id(edge[0]) in mine else None for edge in escapes]
        regions.append(region(inside, nodes, results))
    for merge in piece.merges:
        inside.wait_for(merge.controls)
    made = draft.fold(
        "_Conditional",
        piece.merges[0],
        frame,
        Conditional(inside.parameters, (regions[0], regions[1])),
        [draft.predicate_edge(predicate), *inside.inputs],
        inside.controls,
        [*((merge, 0) for merge in piece.merges), *escapes],
        [*piece.nodes[0], *piece.nodes[1], *piece.merges],
    )
    draft.alive[id(made)] = around


def _outputs_used_later(draft: Draft, piece: _Piece, own: set[int], predicate: Predicate) -> list[Edge]:
    """The outputs of a piece's nodes that later levels use."""
    own = own | {id(merge) for merge in piece.merges}

    def is_used_outside(edge: Edge) -> bool:
        for user in draft.users(edge[0]):
            if edge not in user.inputs or id(user) in own:
                continue
            through = draft.decided.get(id(user)) == predicate
            if not through or any(id(each) not in own for each in draft.users(user)):
                return True
        return False

    return [
        (node, index)
        for nodes in piece.nodes
        for node in nodes
        for index in range(len(node.output_dtypes()))
        if is_used_outside((node, index))
    ]
