"""Patterns of nodes: expressions over ops, matched against the nodes that produce an edge of a subgraph.

A pattern is a tree of `Call`s whose leaves are `Value`s and `Scalar`s. A pattern that occurs twice in the tree must match the
same edge both times, so an expression that uses a value twice is written with one object for it. The operands of a commutative
op match in either order. Used by the passes of this package, in the planner thread; matching changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Final

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.subgraph import Edge, Node, Value as Content, known_value

Bound = dict["Pattern", Edge]
"""The edge that each pattern has matched so far."""


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A pattern; equal only to itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Value(Pattern):
    """Any edge but a reference to a variable."""


@dataclass(frozen=True, slots=True, eq=False)
class Scalar(Pattern):
    """A constant number of floating point."""


@dataclass(frozen=True, slots=True, eq=False)
class Call(Pattern):
    """Output 0 of a pure node.

    Attributes:
        ops: the op types allowed.
        inputs: a pattern for each input.
        condition: what else must be true of the node.
    """

    ops: tuple[str, ...]
    inputs: tuple[Pattern, ...]
    condition: Callable[[Node], bool] = field(default=lambda node: True)


@dataclass(frozen=True, slots=True, eq=False)
class OneOf(Pattern):
    """The first of several patterns that leads to a match of the whole."""

    choices: tuple[Pattern, ...]


def call(ops: str, *inputs: Pattern, condition: Callable[[Node], bool] = lambda node: True) -> Call:
    """A node of one of these ops, given with spaces between them."""
    return Call(tuple(ops.split()), inputs, condition)


def one_of(*choices: Pattern) -> OneOf:
    return OneOf(choices)


@dataclass(frozen=True, slots=True)
class Match:
    """The edges that the patterns of an expression have matched, and the root's."""

    edges: Mapping[Pattern, Edge]
    root: Edge

    def __contains__(self, pattern: Pattern) -> bool:
        return pattern in self.edges

    def __getitem__(self, pattern: Pattern) -> Edge:
        return self.edges[pattern]

    def scalar(self, pattern: Scalar) -> float:
        content = constant_of(self.edges[pattern])
        assert content is not None
        return float(content.reshape(()))

    def nodes(self) -> list[Node]:
        """The nodes that computed the root: those of all calls."""
        found = {id(node): node for each, (node, _) in self.edges.items() if isinstance(each, Call)}
        return list(found.values())


def match(pattern: Pattern, edge: Edge) -> Match | None:
    """The first way in which an edge matches; None if there is none."""
    bound = next(_ways(pattern, edge, {}), None)
    return None if bound is None else Match(bound, edge)


def constant_of(edge: Edge) -> Content | None:
    """The content of an edge if that is constant, also inside of a loop, where constants have control edges."""
    node, _ = edge
    if node.values is not None or node.feed is not None or node.row.role is not Role.CONSTANT:
        return known_value(edge)
    value: Content = node.op.attrs["value"]
    return value


def _ways(pattern: Pattern, edge: Edge, bound: Bound) -> Iterator[Bound]:
    if pattern in bound:
        if bound[pattern] == edge:
            yield bound
    elif isinstance(pattern, OneOf):
        for choice in pattern.choices:
            for found in _ways(choice, edge, bound):
                yield {**found, pattern: edge}
    elif isinstance(pattern, Call):
        for found in _calls(pattern, edge, bound):
            yield {**found, pattern: edge}
    elif _is_leaf(pattern, edge):
        yield {**bound, pattern: edge}


def _is_leaf(pattern: Pattern, edge: Edge) -> bool:
    node, index = edge
    if isinstance(pattern, Value):
        return not node.output_dtype(index).is_ref
    content = constant_of(edge)
    return content is not None and content.ndim == 0 and content.dtype.kind == "f"


def _calls(pattern: Call, edge: Edge, bound: Bound) -> Iterator[Bound]:
    node, index = edge
    if index != 0 or not _is_op(node, pattern) or not pattern.condition(node):
        return
    yield from _all_inputs(pattern.inputs, node.inputs, bound)
    if len(node.inputs) == 2 and node.row.definition.is_commutative:
        yield from _all_inputs(pattern.inputs, node.inputs[::-1], bound)


def _is_op(node: Node, pattern: Call) -> bool:
    return (
        node.feed is None
        and not node.is_constant
        and node.row.name in pattern.ops
        and node.is_pure
        and len(node.inputs) == len(pattern.inputs)
    )


def _all_inputs(patterns: tuple[Pattern, ...], edges: list[Edge], bound: Bound) -> Iterator[Bound]:
    if not patterns:
        yield bound
        return
    for found in _ways(patterns[0], edges[0], bound):
        yield from _all_inputs(patterns[1:], edges[1:], found)


ADD: Final = "AddV2 Add"
