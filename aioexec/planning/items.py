"""Cutting a subgraph into items: the pieces that are scheduled.

Some nodes are items of their own: those that wait (asynchronous kernels, Recv, the feeds of a partial run), those that decide
who runs (control flow, triggers), and Send. All other nodes are put together into programs, by *wait set*: the sources among a
node's ancestors. A source is a node whose outcome is not known when the step starts: every node that is an item of its own,
and every node whose output shape depends on data (what follows it is laid out when the shape is known).

Nodes share a program only if their wait sets are equal. That is convex by construction: on a path out of an item and back the
wait set could only grow. So no item waits, through another, for itself, no node waits for an event it does not depend on, and,
since each output of a Switch is a source of its own, a program is dead as a whole or not at all. Equal wait sets also mean the
same frame: what is inside a loop waits for its Enter, what is behind it for its Exit.
"""

from __future__ import annotations

import enum
from typing import Final

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.subgraph import Node, Subgraph


class Kind(enum.Enum):
    """What an item is; all but programs hold one node."""

    PROGRAM = "program"
    ASYNCHRONOUS = "asynchronous"
    FEED = "feed"  # of a partial run: comes when it comes
    SWITCH = "switch"
    MERGE = "merge"
    ENTER = "enter"
    EXIT = "exit"
    NEXT_ITERATION = "next_iteration"
    SEND = "send"
    RECV = "recv"
    TRIGGER = "trigger"  # runs even if what it waits for is dead


_KINDS: Final = {
    Role.SWITCH: Kind.SWITCH,
    Role.MERGE: Kind.MERGE,
    Role.ENTER: Kind.ENTER,
    Role.EXIT: Kind.EXIT,
    Role.NEXT_ITERATION: Kind.NEXT_ITERATION,
    Role.SEND: Kind.SEND,
    Role.RECV: Kind.RECV,
    Role.CONTROL_TRIGGER: Kind.TRIGGER,
}
CONTROL_PORT = -1
"""The port of a control edge that leaves a Switch: alive when the Switch is, whichever way it went."""


@dataclass(slots=True, eq=False)
class ItemNodes:
    """The nodes of one item, in order, and the sources it waits for."""

    kind: Kind
    wait_set: int
    nodes: list[Node]


def kind_of(node: Node, is_partial: bool) -> Kind:
    if node.feed is not None:
        assert is_partial
        return Kind.FEED
    if node.row.asynchronous:
        return Kind.ASYNCHRONOUS
    return _KINDS.get(node.row.role, Kind.PROGRAM)


def is_known(node: Node, is_partial: bool = False) -> bool:
    """Whether a node's outputs are there when the step starts: feeds, constants and variables belong to no item.

    A variable that waits for something does: on a branch that is not taken it is dead.
    """
    if node.feed is not None:
        return not is_partial
    return node.is_constant or (node.row.role is Role.VARIABLE and not node.controls)


def port_of(producer: Node, index: int) -> int:
    """Which outcome of an item a data edge carries; only a Switch has several."""
    return index if producer.feed is None and producer.row.role is Role.SWITCH else 0


def control_port_of(producer: Node) -> int:
    return CONTROL_PORT if producer.feed is None and producer.row.role is Role.SWITCH else 0


def wait_sets(graph: Subgraph, is_partial: bool = False) -> dict[int, int]:
    """The wait set of each node, by id(): a bit for each source, and for each port of one."""
    sets: dict[int, int] = {}
    after: dict[tuple[int, int], int] = {}
    sources = 0
    for node in graph.nodes:
        waits = 0
        for producer, index in node.inputs:
            waits |= after.get((id(producer), port_of(producer, index)), 0)  # 0: the back edge of a loop
        for producer in node.controls:
            waits |= after[id(producer), control_port_of(producer)]
        sets[id(node)] = waits
        for port in _ports(node):
            after[id(node), port] = waits
            if _is_source(node, is_partial):
                after[id(node), port] |= 1 << sources
                sources += 1
    return sets


def _ports(node: Node) -> tuple[int, ...]:
    return (CONTROL_PORT, 0, 1) if node.feed is None and node.row.role is Role.SWITCH else (0,)


def _is_source(node: Node, is_partial: bool) -> bool:
    if is_known(node, is_partial):
        return False
    has_shape_of_data = (
        node.row.dynamic_shape and node.row.lists is None
    )  # elements have the shape of what was put in
    return kind_of(node, is_partial) is not Kind.PROGRAM or has_shape_of_data


def cut_items(graph: Subgraph, is_partial: bool = False) -> list[ItemNodes]:
    """Items in an order in which they can run, but for the back edges of loops."""
    sets = wait_sets(graph, is_partial)
    programs: dict[int, ItemNodes] = {}
    singles: list[ItemNodes] = []
    for node in graph.nodes:
        if is_known(node, is_partial):
            continue
        waits, kind = sets[id(node)], kind_of(node, is_partial)
        if kind is Kind.PROGRAM:
            programs.setdefault(waits, ItemNodes(kind, waits, [])).nodes.append(node)
        else:
            singles.append(ItemNodes(kind, waits, [node]))
    return sorted([*programs.values(), *singles], key=lambda item: item.wait_set.bit_count())
