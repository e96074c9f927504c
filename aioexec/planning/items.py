"""Partitions a subgraph into items, the units of scheduling.

Some nodes are items of their own: those that wait (asynchronous kernels, Recv, copies from the memory of a device, the feeds of
a partial run), those that decide which nodes run (control flow, triggers), and Send. All other nodes are grouped into programs
by *wait set*: the sources among a node's ancestors. A source is a node whose outcome is not known when the step starts: every
node that is an item of its own, and every node whose output shape depends on data (its consumers are laid out when the shape is
known). A Recv of a feed on a device with memory of its own is none, since its value is there when the step starts. Sources that
are alive alike and wait for the same may count as one: Switches on one predicate, Exits, and the variables of a loop (see
`control_flow.loop_sources`).

Nodes share a program if and only if their wait sets are equal. Programs are convex by construction, since along a path the wait
set only grows. So no item depends on itself through another item, no node waits for an event on which it does not depend, and,
since each output of a Switch is a separate source, a program is dead as a whole or not at all. Equal wait sets also imply the
same frame: nodes inside a loop wait for its Enter, nodes after it for its Exit.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Hashable, Mapping
from typing import Any, Final

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import OpError
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.registry import ShapeContext, output_dims
from aioexec.planning.control_flow.loop_sources import Sources, shared_sources
from aioexec.planning.subgraph import Node, Subgraph


class Kind(enum.Enum):
    """The kind of an item; all but programs hold one node."""

    PROGRAM = "program"
    ASYNCHRONOUS = "asynchronous"
    FEED = "feed"  # of a partial run: arrives while the step runs
    SWITCH = "switch"
    MERGE = "merge"
    ENTER = "enter"
    EXIT = "exit"
    NEXT_ITERATION = "next_iteration"
    SEND = "send"
    RECV = "recv"
    COPY_TO_HOST = "copy_to_host"
    TRIGGER = "trigger"  # runs even if its inputs are dead


_KINDS: Final = {
    Role.SWITCH: Kind.SWITCH,
    Role.MERGE: Kind.MERGE,
    Role.ENTER: Kind.ENTER,
    Role.EXIT: Kind.EXIT,
    Role.NEXT_ITERATION: Kind.NEXT_ITERATION,
    Role.SEND: Kind.SEND,
    Role.RECV: Kind.RECV,
    Role.COPY_TO_HOST: Kind.COPY_TO_HOST,
    Role.CONTROL_TRIGGER: Kind.TRIGGER,
}
_FROM_OUTSIDE: Final = (Kind.ASYNCHRONOUS, Kind.FEED, Kind.RECV)
CONTROL_PORT = -1
"""The port of a control edge that leaves a Switch: alive when the Switch is, whichever output it took."""


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
    """Whether a node's outputs are known when the step starts: feeds, constants and variables belong to no item.

    A variable with control inputs belongs to an item, since it is dead in a branch that is not taken.
    """
    if node.feed is not None:
        return not is_partial
    return node.is_constant or (node.row.role is Role.VARIABLE and not node.controls)


def port_of(producer: Node, index: int) -> int:
    """The outcome of an item that a data edge carries; only a Switch has several."""
    return index if producer.feed is None and producer.row.role is Role.SWITCH else 0


def control_port_of(producer: Node) -> int:
    return CONTROL_PORT if producer.feed is None and producer.row.role is Role.SWITCH else 0


def wait_sets(graph: Subgraph, is_partial: bool = False, fed: Collection[str] = ()) -> dict[int, int]:
    """The wait set of each node, by id(): a bit for each source, or those that count as one, and for each port.

    Args:
        fed: the names of transfers of feeds that are no sources.
    """
    sets: dict[int, int] = {}
    after: dict[tuple[int, int], int] = {}
    shared = _shared_sources(graph, is_partial, fed)
    bits: dict[tuple[Hashable, int], int] = {}
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
            if not _is_source(node, is_partial) or _brings_feed(node, fed):
                continue
            bit = 1 << sources
            key = shared.get(id(node)) or _decision(node, waits)
            if key is not None:
                bit = bits.setdefault((key, port), bit)
            if bit & waits:  # it comes after another one of these sources
                bit = 1 << sources
            after[id(node), port] |= bit
            sources += 1
    return sets


def _decision(node: Node, waits: int) -> Hashable:
    """What is the same for Switches that are decided alike and wait for the same, and for Exits: they count as one source."""
    if node.row.role is Role.SWITCH and node.feed is None:
        predicate, index = node.inputs[1]
        return id(predicate), index, waits
    return (Role.EXIT, waits) if node.row.role is Role.EXIT and node.feed is None else None


def _shared_sources(graph: Subgraph, is_partial: bool, fed: Collection[str]) -> Mapping[int, Sources]:
    def waits(node: Node) -> bool:
        return not is_known(node, is_partial) and kind_of(node, is_partial) in _FROM_OUTSIDE

    fed_nodes = {id(node) for node in graph.nodes if _brings_feed(node, fed)}
    return shared_sources(graph, waits, fed_nodes)


def _ports(node: Node) -> tuple[int, ...]:
    return (CONTROL_PORT, 0, 1) if node.feed is None and node.row.role is Role.SWITCH else (0,)


def _is_source(node: Node, is_partial: bool) -> bool:
    if is_known(node, is_partial):
        return False
    return kind_of(node, is_partial) is not Kind.PROGRAM or _has_shape_of_data(node)


def _brings_feed(node: Node, fed: Collection[str]) -> bool:
    if not fed or node.feed is not None or node.row.role is not Role.RECV or node.controls:
        return False
    return node.op.attrs["tensor_name"] in fed


def _has_shape_of_data(node: Node) -> bool:
    """Whether constants and the shapes of the inputs do not determine the output shapes, as they may (DynamicStitch)."""
    if not node.row.dynamic_shape or node.row.lists is not None:  # elements of lists keep their shape
        return False

    def value(k: int) -> np.ndarray[Any, Any] | None:
        producer, index = node.inputs[k]
        return None if producer.values is None else producer.values[index]

    given = [tensor.dims for tensor in node.op.inputs]
    try:
        found = output_dims(node.row, ShapeContext(node.op.attrs, given, value, lambda k: None))
    except OpError:
        return True  # a step raises it
    return any(dims is None or None in dims for dims in found)


def cut_items(graph: Subgraph, is_partial: bool = False, fed: Collection[str] = ()) -> list[ItemNodes]:
    """Items in an order in which they can run, but for the back edges of loops; for `fed` see `wait_sets`."""
    sets = wait_sets(graph, is_partial, fed)
    programs: dict[int, ItemNodes] = {}
    first: list[ItemNodes] = []
    singles: list[ItemNodes] = []
    for node in graph.nodes:
        if is_known(node, is_partial):
            continue
        waits, kind = sets[id(node)], kind_of(node, is_partial)
        if kind is Kind.PROGRAM:
            programs.setdefault(waits, ItemNodes(kind, waits, [])).nodes.append(node)
        elif _brings_feed(node, fed):
            first.append(ItemNodes(kind, waits, [node]))
        else:
            singles.append(ItemNodes(kind, waits, [node]))
    return first + sorted([*programs.values(), *singles], key=lambda item: item.wait_set.bit_count())
