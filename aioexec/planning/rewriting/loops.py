"""Changes of a subgraph with loops: new nodes inside and outside of them, and what takes the place of values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aioexec.graph.kernels.kernel import Role
from aioexec.planning.control_flow.frames import frames
from aioexec.planning.new_nodes import NodeMaker
from aioexec.planning.subgraph import Edge, Node, Subgraph, Value, in_order


def is_invariant(node: Node) -> bool:
    """Whether a node lets a value of outside into a loop, in which it does not change."""
    is_enter = node.feed is None and node.row.role is Role.ENTER
    return is_enter and bool(node.op.attrs["is_constant"]) and not node.output_dtype(0).is_ref


def entering(like: Node) -> dict[str, Any]:
    """The attributes of an Enter by which a value that does not change enters the loop that another Enter enters."""
    attrs = like.op.attrs
    return {"is_constant": True, **{name: attrs[name] for name in ("frame_name", "parallel_iterations")}}


class Loops:
    """A subgraph with loops that is being changed.

    Constant: `graph`; `frame_of` and `users`, by id(), as they were before. Changing: `_made`, the new nodes.
    """

    def __init__(self, graph: Subgraph) -> None:
        self.graph = graph
        self.frame_of = frames(graph)
        self.users = graph.consumers()
        self._made: list[Node] = []
        self._maker = NodeMaker(lambda name: name)

    def is_outermost(self, node: Node) -> bool:
        """Whether a node is in a loop that is not inside of another one."""
        parent = self.frame_of[id(node)].parent
        return parent is not None and parent.parent is None

    def takers(self, edge: Edge) -> list[Node]:
        """The nodes that take a value."""
        return [user for user in self.users.get(id(edge[0]), ()) if edge in user.inputs]

    def make(
        self,
        op_type: str,
        cause: Node,
        inputs: Sequence[Edge],
        suffix: str,
        controls: Sequence[Node] = (),
        **attrs: Any,
    ) -> Node:
        """A new node on the device of the node it is made for, whose name it has, with a suffix."""
        made = self._maker.make(op_type, cause, cause.device, inputs, controls, cause.name + suffix, **attrs)
        self._made.append(made)
        return made

    def constant(self, value: Value, cause: Node, suffix: str, **attrs: Any) -> Edge:
        """A new constant outside of all loops."""
        made = self.make("Const", cause, (), suffix, value=value, **attrs)
        made.values = (value,)
        return made, 0

    def enter(self, edge: Edge, like: Node, cause: Node, suffix: str) -> Edge:
        """A value of outside in the loop that another Enter enters."""
        return self.make("Enter", cause, [edge], suffix, **entering(like)), 0

    def redirect(self, old: Edge, new: Edge) -> list[Node]:
        """Let all nodes take another value instead of one; returns them."""
        takers = self.takers(old)
        for taker in takers:
            taker.inputs = [new if edge == old else edge for edge in taker.inputs]
        return takers

    def apply(self) -> None:
        """Put the new nodes in order, and drop what is not needed any more."""
        if self._made:
            self.graph.nodes = in_order([*self._made, *self.graph.nodes])
            self.graph.drop_unneeded()


def without_repeats(nodes: Iterable[Node]) -> list[Node]:
    """The nodes in order, each once."""
    return list(dict.fromkeys(nodes))
