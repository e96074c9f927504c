"""Replacement of nodes by one node that computes the same.

A match of a pattern may be replaced if no other node, fetch or target uses the values inside of it or waits for them; the
gradients of a training step often do. Then a path from the match to a node outside leaves from the results alone, and replacing
closes no cycle. The new node waits for all that the replaced ones waited for.

Nodes that a device runs by kernels registered for its type are replaced only by nodes that it has such kernels for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, Concatenate, Final, ParamSpec

import numpy as np

from aioexec.dtypes import as_dtype
from aioexec.graph.device_spec import parse
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.kernels.kernel_registry import RUN_BY_ENGINE, is_overridden
from aioexec.planning.new_nodes import NodeMaker, tensor_of
from aioexec.planning.rewriting.uses import Uses
from aioexec.planning.subgraph import Edge, Node, Subgraph, Value, in_order
from aioexec.shapes import Dims

Arguments = ParamSpec("Arguments")
CONVOLUTIONS: Final = ("Conv2D", "DepthwiseConv2dNative")


def dims_of(edge: Edge) -> Dims:
    """The static dimensions of an edge."""
    return tensor_of(edge).dims


def is_exact(node: Node, number: float) -> bool:
    """Whether an attribute of the new node, a float32, holds a number as exactly as the node's own dtype."""
    return node.output_dtype(0).name == "float32" or float(np.float32(number)) == number


class NoKernelError(Exception):
    """The device of the nodes to be replaced has no kernel for the new node."""


class Rewriting:
    """The replacements of one pass. The subgraph stays as it is until `apply`.

    Constant: `uses`, those of the nodes before.
    Changing: `_redirected`, the new edge of each replaced edge; `_new`, the new node by the id() of each node it replaces;
    `_made`, by the id() of a node, the node and the new nodes made for it, which take its place in the order;
    `_taken`, the nodes of all matches replaced so far, none of which can be part of another.
    """

    def __init__(self, graph: Subgraph) -> None:
        self.uses = Uses(graph)
        self._graph = graph
        self._redirected: dict[tuple[int, int], Edge] = {}
        self._new: dict[int, Node] = {}
        self._taken: set[int] = set()
        self._made: dict[int, list[Node]] = {}
        self._maker = NodeMaker(lambda name: name)

    def is_closed(self, nodes: Collection[Node], results: Collection[Node]) -> bool:
        """Whether only the results among some nodes are used outside of them, and none is part of an earlier match."""
        inside = {id(node) for node in nodes}
        outgoing = {id(node) for node in results}
        if inside & self._taken:
            return False
        return all(id(node) in outgoing or self.uses.are_among(node, inside) for node in nodes)

    def attempt(
        self,
        replace: Callable[Concatenate[Rewriting, Arguments], None],
        *arguments: Arguments.args,
        **options: Arguments.kwargs,
    ) -> None:
        """Call a function that makes new nodes and then replaces others by them; nothing is replaced without their kernels."""
        with contextlib.suppress(NoKernelError):
            replace(self, *arguments, **options)

    def make(self, op_type: str, cause: Node, inputs: Sequence[Edge], suffix: str = "", **attrs: Any) -> Node:
        """A new node, on the device of the node it is made for, whose name it has, with a suffix.

        Raises:
            NoKernelError: that device cannot run it.
        """
        name = cause.name + suffix
        made = self._maker.make(op_type, cause, cause.device, inputs, name=name, **attrs)
        if not _has_kernel(made, cause):
            raise NoKernelError(f"{op_type} {name!r}")
        self._made.setdefault(id(cause), [cause]).append(made)
        return made

    def constant(self, value: Value, cause: Node, suffix: str) -> Edge:
        """A new constant."""
        made = self.make("Const", cause, [], suffix, value=value, dtype=as_dtype(value.dtype))
        made.values = (value,)
        return made, 0

    def replace(self, nodes: Sequence[Node], results: Sequence[Edge], made: Node) -> None:
        """Replace nodes by a new one, whose outputs are the results."""
        inside = {id(node) for node in nodes}
        waited_for = [each for node in nodes for each in node.controls if id(each) not in inside]
        made.controls = list(dict.fromkeys(waited_for))
        self._taken |= inside
        for index, (node, output) in enumerate(results):
            self._redirected[id(node), output] = made, index
            self._new[id(node)] = made

    def apply(self) -> None:
        """Make all replacements."""
        if not self._new:
            return
        graph = self._graph
        graph.nodes = [each for node in graph.nodes for each in self._made.get(id(node), (node,))]
        graph.nodes = [node for node in graph.nodes if id(node) not in self._new]
        for node in graph.nodes:
            node.inputs = [self._edge(edge) for edge in node.inputs]
            node.controls = list(dict.fromkeys(map(self._node, node.controls)))
        graph.fetches = [self._edge(edge) for edge in graph.fetches]
        graph.targets = [self._node(node) for node in graph.targets]
        graph.drop_unneeded()
        graph.nodes = in_order(graph.nodes)

    def _edge(self, edge: Edge) -> Edge:
        return self._redirected.get((id(edge[0]), edge[1]), edge)

    def _node(self, node: Node) -> Node:
        return self._new.get(id(node), node)


def _has_kernel(made: Node, cause: Node) -> bool:
    """Whether the device that runs a node by a kernel registered for its type can run a new node; other devices can."""
    if made.row.role is Role.CONSTANT or made.row.role in RUN_BY_ENGINE:
        return True
    device_type = parse(cause.device).device_type or ""
    return not is_overridden(cause.op, device_type) or is_overridden(made.op, device_type)
