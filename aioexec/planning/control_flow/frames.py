"""Assigns each node of a subgraph to the loop that contains it, and checks that the loops are well-formed.

A frame is named by the Enter nodes that lead into it. The check propagates frames along the edges: all inputs of a node are in
one frame, a frame has one parent frame and one condition, and only a NextIteration leads back, to a Merge of its own frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.subgraph import Node, Subgraph

MOST_NESTED = 64
"""The most nested loops: the passes over them are recursive."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A loop, or the outermost frame, which has no name and no parent. `depth` counts the frames around it."""

    name: str
    parent: Frame | None
    parallel_iterations: int
    depth: int = 0


_LOOP_ROLES = frozenset({Role.ENTER, Role.EXIT, Role.NEXT_ITERATION, Role.LOOP_COND})


def frames(graph: Subgraph) -> dict[int, Frame]:
    """The frame each node runs in, by id(): an Enter runs outside of the frame it enters, an Exit inside.

    Raises:
        InvalidArgumentError: the loops are malformed, or nested too deeply; names the nodes.
    """
    finder = _Finder()
    if _has_no_loops(graph):
        return dict.fromkeys(map(id, graph.nodes), finder.root)
    for node in graph.nodes:
        finder.visit(node)
    for node in graph.nodes:
        if node.row.role is Role.MERGE:
            finder.check_inputs(node, node.producers())
    return finder.runs_in


def check_fetches(graph: Subgraph, frame_of: Mapping[int, Frame]) -> None:
    """Check that no fetch is inside of a loop, where it has a value for each iteration.

    Raises:
        InvalidArgumentError: one is; names the node.
    """
    for node, index in graph.fetches:
        role = Role.PLACEHOLDER if node.feed is not None else node.row.role
        frame: Frame | None = frame_of[id(node)]
        if frame is not None and role is Role.EXIT:
            frame = frame.parent
        if role is Role.ENTER or (frame is not None and frame.parent is not None):
            raise InvalidArgumentError(
                f"{node.row.name} {node.name!r} cannot be fetched: its output {index} is inside a loop; fetch what leaves "
                "it through an Exit"
            )


def _has_no_loops(graph: Subgraph) -> bool:
    """Whether no node is part of a loop, or of a malformed one; a fast check for most graphs."""
    before: set[int] = set()
    for node in graph.nodes:
        if node.row.role in _LOOP_ROLES or not before.issuperset(map(id, node.producers())):
            return False
        before.add(id(node))
    return True


class _Finder:
    """Propagates frames along the edges, producers first.

    Attributes:
        root: the outermost frame.
        runs_in: the frame each node runs in, by id().
    """

    def __init__(self) -> None:
        self.runs_in: dict[int, Frame] = {}
        self.root = Frame("", None, 1)
        self._behind: dict[int, Frame] = {}  # the frame of each node's outputs
        self._entered: dict[str, Frame] = {}
        self._conditions: dict[Frame, Node] = {}

    def visit(self, node: Node) -> None:
        frame = self.root
        producers = [each for each in node.producers_before() if not each.is_everywhere]
        for producer in producers:
            if id(producer) not in self._behind:
                raise InvalidArgumentError(
                    f"node {node.name!r} is in a cycle with its input {producer.name!r}: only a NextIteration leads back, "
                    "and to a Merge"
                )
            frame = self._behind[id(producer)]
        self.runs_in[id(node)] = self._behind[id(node)] = frame
        self.check_inputs(node, producers)
        role = None if node.feed is not None else node.row.role
        if role is Role.ENTER:
            self._behind[id(node)] = self._enter(node, frame)
        elif role is Role.EXIT:
            self._behind[id(node)] = self._parent(node, frame)
        elif role is Role.NEXT_ITERATION:
            self._parent(node, frame)
        elif role is Role.LOOP_COND:
            self._note_condition(node, frame)

    def check_inputs(self, node: Node, producers: Iterable[Node]) -> None:
        """Check that the producers of a node are in the frame in which it runs."""
        frame = self.runs_in[id(node)]
        for producer in producers:
            other = self._behind[id(producer)]
            if other is not frame:
                good = next(
                    each
                    for each in node.producers_before()
                    if not each.is_everywhere and self._behind[id(each)] is frame
                )
                raise InvalidArgumentError(
                    f"{node.row.name} {node.name!r} has inputs from different frames. The input {good.name!r} is in frame "
                    f"{frame.name!r}. The input {producer.name!r} is in frame {other.name!r}"
                )

    def _enter(self, node: Node, outside: Frame) -> Frame:
        if outside.depth == MOST_NESTED:
            raise InvalidArgumentError(
                f"Enter {node.name!r}: loops are nested in one another at most {MOST_NESTED} deep"
            )
        name, at_once = node.op.attrs["frame_name"], node.op.attrs["parallel_iterations"]
        made = self._entered.setdefault(name, Frame(name, outside, at_once, outside.depth + 1))
        if made.parent is not outside:
            known = made.parent.name if made.parent is not None else ""
            raise InvalidArgumentError(
                f"Invalid loop structure: Mismatched parent frames for {name!r}: {known!r} vs {outside.name!r}, "
                f"entered by {node.name!r}"
            )
        return made

    def _parent(self, node: Node, frame: Frame) -> Frame:
        if frame.parent is None:
            raise InvalidArgumentError(f"Invalid loop structure: {node.row.name} {node.name!r} is in no loop")
        return frame.parent

    def _note_condition(self, node: Node, frame: Frame) -> None:
        first = self._conditions.setdefault(frame, node)
        if first is not node:
            raise InvalidArgumentError(
                f"Invalid loop structure: Loop {frame.name!r} has more than one LoopCond node: "
                f"{first.name!r} and {node.name!r}"
            )
