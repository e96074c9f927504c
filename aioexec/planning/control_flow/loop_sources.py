"""Sources of a loop that count as one when nodes are grouped into items.

Each Enter and each Merge of a loop is an item of its own. But in most loops all of them are alive alike in each iteration, and
nothing between two of them waits for anything outside. So nodes behind different ones may be one program, which waits for all:
else the variables of a loop, and each value from outside, would have programs of their own.

That is so if all Enters of the loop are alive under the same conditions, and no node inside waits for something that comes from
outside while the loop runs: then nodes that do not need it are to run before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.frames import Frame, frames
from aioexec.planning.control_flow.liveness import Conditions, conditions, is_loop_merge, role_of
from aioexec.planning.subgraph import Node, Subgraph

Sources = tuple[Frame, Role]
"""The sources of a loop that have one role."""
_NONE: Final[Mapping[int, Sources]] = {}


def shared_sources(
    graph: Subgraph, waits: Callable[[Node], bool], always_alive: Collection[int]
) -> Mapping[int, Sources]:
    """Which sources each node is one of, by id(); without those that count by themselves.

    Args:
        waits: whether a node waits for something from outside.
        always_alive: nodes that receive a value that is never dead, by id().
    """
    if not any(role_of(node) is Role.ENTER for node in graph.nodes):
        return _NONE
    frame_of = frames(graph)
    alive = {
        key: frozenset(each for each in found if each[0] not in always_alive)
        for key, found in conditions(graph).items()
    }
    entered = {(frame.name, frame.parent): frame for frame in frame_of.values()}
    joined = _joined(graph, frame_of, waits, alive, entered)
    found: dict[int, Sources] = {}
    for node in graph.nodes:
        role = role_of(node)
        if role is None:
            continue
        frame = frame_of[id(node)]
        if role is Role.ENTER:
            frame = _entered(node, frame, entered)
        if frame in joined and (role is Role.ENTER or is_loop_merge(node)):
            found[id(node)] = frame, role
    return found


def _entered(enter: Node, outside: Frame, entered: Mapping[tuple[str, Frame | None], Frame]) -> Frame:
    """The frame that an Enter leads into; the one around it if no node is inside."""
    return entered.get((enter.op.attrs["frame_name"], outside), outside)


def _joined(
    graph: Subgraph,
    frame_of: Mapping[int, Frame],
    waits: Callable[[Node], bool],
    alive: Mapping[int, Conditions],
    entered: Mapping[tuple[str, Frame | None], Frame],
) -> set[Frame]:
    """The loops whose sources of one role count as one."""
    found = {frame for frame in frame_of.values() if frame.parent is not None}
    around: dict[Frame, Conditions] = {}
    for node in graph.nodes:
        frame: Frame | None = frame_of[id(node)]
        assert frame is not None
        if role_of(node) is Role.ENTER:
            inside = _entered(node, frame, entered)
            if around.setdefault(inside, alive[id(node)]) != alive[id(node)]:
                found.discard(inside)
        elif waits(node):
            while frame is not None:
                found.discard(frame)
                frame = frame.parent
    return found
