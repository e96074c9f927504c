"""Which loop each node of a subgraph stands in."""

from __future__ import annotations

from dataclasses import dataclass

from aioexec.graph.kernel import Role
from aioexec.planning.subgraph import Node, Subgraph


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A loop; the outermost frame, which is none, has no name and no parent."""

    name: str
    parent: Frame | None
    parallel_iterations: int


def frames(graph: Subgraph) -> dict[int, Frame]:
    """The frame each node runs in, by id(): an Enter runs outside of the frame it enters, an Exit inside."""
    root = Frame("", None, 1)
    inside: dict[tuple[Frame, str], Frame] = {}
    behind: dict[int, Frame] = {}
    result: dict[int, Frame] = {}
    for node in graph.nodes:
        found = [behind[id(producer)] for producer in node.producers_before()]
        frame = next((each for each in found if each is not root), root)
        result[id(node)] = behind[id(node)] = frame
        role = Role.PLACEHOLDER if node.feed is not None else node.row.role
        if role is Role.ENTER:
            key = frame, node.op.attrs["frame_name"]
            made = inside.setdefault(key, Frame(key[1], frame, node.op.attrs["parallel_iterations"]))
            behind[id(node)] = made
        elif role is Role.EXIT and frame.parent is not None:
            behind[id(node)] = frame.parent
    return result
