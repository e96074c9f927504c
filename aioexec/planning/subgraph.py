"""The graph a plan is made of: the part of a session's graph one signature needs, in an order it can run in.

A `Subgraph` is a copy: passes rewrite it freely, the session's graph never changes. Invariants (`check_invariants`): every
producer of a node stands before it, but for the back edges of loops (NextIteration to Merge); every fetch and target is among
the nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType, variant
from aioexec.graph.attrs import arg_dtypes
from aioexec.graph.kernels.kernel import Compute, Role
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import Row

Value = np.ndarray[Any, Any]
Edge = tuple["Node", int]
"""An output of a node: (node, output index)."""
Bind = Callable[[Operation, str], Compute]
"""Makes, or finds, the reference kernel of an operation on the device of that full name."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a plan answers: these tensors fed, those fetched, these operations run; in the order given.

    Attributes:
        is_partial: the feeds come one after the other while the step runs.
        connections: (source, destination): the destination's consumers get the source instead, which is not fed.
    """

    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    is_partial: bool = False
    connections: tuple[tuple[Tensor, Tensor], ...] = ()


@dataclass(slots=True, eq=False)
class Region:
    """What runs in a branch of a conditional, or in one round of a loop: nodes in a runnable order, and what they come to.

    Edges lead to nodes of the region, to parameters of the structure around it, and to nodes whose outputs are known
    (constants, variables), wherever those stand. A result is None where a branch has none: nobody will ask for it.
    """

    nodes: list[Node]
    results: list[Edge | None]


@dataclass(slots=True, eq=False)
class Loop:
    """While `condition` holds, `body` makes the next values of the loop's variables; the last ones are the node's outputs.

    Attributes:
        parameters: what stands inside for the node's inputs: first the variables, then what is the same in every round.
        condition: one result, the predicate.
        body: a result for each variable.
    """

    parameters: list[Node]
    condition: Region
    body: Region

    @property
    def regions(self) -> tuple[Region, Region]:
        return self.condition, self.body


@dataclass(slots=True, eq=False)
class Conditional:
    """One of two branches runs, by the node's input 0; its results are the node's outputs.

    Attributes:
        parameters: what stands inside for the node's inputs from 1 on.
        regions: what runs if the predicate is false, and if it is true.
    """

    parameters: list[Node]
    regions: tuple[Region, Region]


Structure = Loop | Conditional


@dataclass(slots=True, eq=False)
class Node:
    """A node of a subgraph: an operation, or a feed, which replaces whatever produced the tensor.

    Attributes:
        op: the operation; of a feed, the one it replaces.
        row: the operation's.
        feed: the tensor fed, or None.
        inputs, controls: what it waits for.
        values: its outputs, where a pass has computed them; the node is then a constant.
        device: the full name of the device it runs on; "" until it is placed.
        structure: of a loop or conditional that runs as one node, what is in it.
    """

    op: Operation
    feed: Tensor | None = None
    inputs: list[Edge] = field(default_factory=list)
    controls: list[Node] = field(default_factory=list)
    values: tuple[Value, ...] | None = None
    device: str = ""
    structure: Structure | None = None
    row: Row = field(init=False)

    def __post_init__(self) -> None:
        self.row = self.op.row

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def is_constant(self) -> bool:
        return self.values is not None

    @property
    def is_pure(self) -> bool:
        """Same inputs, same outputs, nothing else; see `Row.is_pure`."""
        if self.feed is not None or not self.row.is_pure:
            return False
        return self.row.lists is None or variant not in self.output_dtypes()

    def output_dtype(self, index: int) -> DType:
        return self.op.outputs[index].dtype if self.feed is None else self.feed.dtype

    @property
    def output_count(self) -> int:
        return len(self.op.outputs) if self.feed is None else 1

    def output_dtypes(self) -> list[DType]:
        if self.feed is not None:
            return [self.feed.dtype]
        return [tensor.dtype for tensor in self.op.outputs]

    def producers(self) -> Iterator[Node]:
        for producer, _ in self.inputs:
            yield producer
        yield from self.controls

    def producers_before(self) -> Iterator[Node]:
        """The producers but those of another iteration: what leads back into a loop stands behind its Merge."""
        if self.feed is not None or self.row.role is not Role.MERGE:
            return self.producers()
        return (
            producer
            for producer in self.producers()
            if producer.feed is not None or producer.row.role is not Role.NEXT_ITERATION
        )

    def dereferences(self) -> tuple[int, ...]:
        """Inputs that arrive as a reference to a variable and are wanted as its value."""
        references = [
            position
            for position, (producer, index) in enumerate(self.inputs)
            if producer.output_dtype(index).is_ref
        ]
        if not references or self.feed is not None or self.row.role in (Role.CONSTANT, Role.PLACEHOLDER):
            return ()
        wants_reference = [
            arg.is_ref for arg in self.row.definition.inputs for _ in arg_dtypes(arg, self.op.attrs)
        ]
        return tuple(position for position in references if not wants_reference[position])


@dataclass(slots=True)
class Subgraph:
    """Nodes in a runnable order, and what is asked of them; `feeds[i]` stands for the i-th feed of the signature."""

    nodes: list[Node]
    feeds: list[Node]
    fetches: list[Edge]
    targets: list[Node]

    def check_invariants(self) -> None:
        seen: set[int] = set()
        for node in self.nodes:
            assert all(id(producer) in seen for producer in node.producers_before()), node.name
            seen.add(id(node))
        assert all(id(producer) in seen for node in self.nodes for producer in node.producers())
        assert all(id(node) in seen for node, _ in self.fetches)
        assert all(id(node) in seen for node in self.targets)

    def consumers(self) -> dict[int, list[Node]]:
        """Nodes that use a node's outputs or wait for it, by the producer's id()."""
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            for producer in dict.fromkeys(id(producer) for producer in node.producers()):
                found.setdefault(producer, []).append(node)
        return found

    def replace(self, replacements: dict[int, Node]) -> None:
        """Redirect every use of a node, by id(), to another with the same outputs, and drop the replaced ones."""

        def final(node: Node) -> Node:
            while id(node) in replacements:
                node = replacements[id(node)]
            return node

        self.nodes = [node for node in self.nodes if id(node) not in replacements]
        for node in self.nodes:
            node.inputs = [(final(producer), index) for producer, index in node.inputs]
            node.controls = list(dict.fromkeys(final(producer) for producer in node.controls))
        self.fetches = [(final(node), index) for node, index in self.fetches]
        self.targets = [final(node) for node in self.targets]

    def drop_unneeded(self) -> None:
        """Remove what no fetch or target needs any more; feeds stay, their order is the signature's."""
        needed: set[int] = set()
        stack: list[Node] = [node for node, _ in self.fetches] + list(self.targets)
        while stack:
            node = stack.pop()
            if id(node) not in needed:
                needed.add(id(node))
                stack.extend(node.producers())
        keep = needed | {id(node) for node in self.feeds}
        self.nodes = [node for node in self.nodes if id(node) in keep]

    def dump(self) -> str:
        """One line a node, for people and for comparing plans."""
        return "\n".join(_lines(self.nodes))


def _lines(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        kind = "Feed" if node.feed is not None else "Folded" if node.is_constant else node.row.name
        inputs = ", ".join(f"{producer.name}:{index}" for producer, index in node.inputs)
        controls = "".join(f", ^{producer.name}" for producer in node.controls)
        yield f"{node.name} = {kind}({inputs}{controls})"


def in_order(nodes: Sequence[Node], before: Mapping[int, Sequence[Node]] | None = None) -> list[Node]:
    """Nodes after what they must come after (by id(); else their producers), otherwise as they are; no node of a cycle."""
    if before is None:
        before = {id(node): list(node.producers_before()) for node in nodes}
    waiting = [len(before[id(node)]) for node in nodes]
    consumers: dict[int, list[int]] = {}
    for place, node in enumerate(nodes):
        for producer in before[id(node)]:
            consumers.setdefault(id(producer), []).append(place)
    ready = [place for place, count in enumerate(waiting) if count == 0]
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for place in consumers.get(id(node), ()):
            waiting[place] -= 1
            if waiting[place] == 0:
                heapq.heappush(ready, place)
    return order
