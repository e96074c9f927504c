"""The graph from which a plan is made: the part of a session's graph that one signature needs, in a valid order of execution.

A `Subgraph` is a copy: passes rewrite it, the session's graph never changes. Invariants (`check_invariants`): every producer of
a node precedes it, but for the back edges of loops (NextIteration to Merge); every fetch and target is among the nodes.
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
"""Makes or looks up the reference kernel of an operation on the device with that full name."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The interface of a step: the tensors fed, the tensors fetched and the operations run, in the order given.

    Attributes:
        is_partial: the feeds arrive one after another while the step runs.
        connections: (source, destination): the destination's consumers get the source instead, which is not fed.
    """

    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    is_partial: bool = False
    connections: tuple[tuple[Tensor, Tensor], ...] = ()


@dataclass(slots=True, eq=False)
class Region:
    """A branch of a conditional, or the condition or body of a loop: nodes in a valid order, and its results.

    Edges lead to nodes of the region, to parameters of the structure around it, and to nodes whose outputs are known
    (constants, variables), which may be anywhere. A result is None if the branch has none; then it is not used.
    """

    nodes: list[Node]
    results: list[Edge | None]


@dataclass(slots=True, eq=False)
class Loop:
    """While `condition` is true, `body` computes the next values of the loop's variables; the final ones are the outputs.

    Attributes:
        parameters: represent the node's inputs inside: first the variables, then the loop invariants.
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
    """Runs one of two branches, selected by the node's input 0; its results are the node's outputs.

    Attributes:
        parameters: represent the node's inputs from 1 on inside.
        regions: the branch for a false predicate, and that for a true one.
    """

    parameters: list[Node]
    regions: tuple[Region, Region]


Structure = Loop | Conditional


@dataclass(slots=True, eq=False)
class Node:
    """A node of a subgraph: an operation, or a feed, which replaces the producer of the tensor.

    Attributes:
        op: the operation; of a feed, the one it replaces.
        row: the operation's.
        feed: the tensor fed, or None.
        inputs, controls: the edges and nodes it waits for.
        values: its outputs, if a pass has computed them; the node is then a constant.
        device: the full name of the device it runs on; "" until it is placed.
        structure: the contents of a loop or conditional that runs as one node.
        on_host: its device has memory of its own, but inputs and outputs are in main memory, where the processor computes.
    """

    op: Operation
    feed: Tensor | None = None
    inputs: list[Edge] = field(default_factory=list)
    controls: list[Node] = field(default_factory=list)
    values: tuple[Value, ...] | None = None
    device: str = ""
    structure: Structure | None = None
    on_host: bool = False
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
    def is_everywhere(self) -> bool:
        """Whether it is a constant that waits for nothing: its value may be used in any frame."""
        return self.is_constant and not self.controls

    @property
    def is_pure(self) -> bool:
        """Whether the outputs depend on the inputs only, and there are no side effects; see `Row.is_pure`."""
        if self.feed is not None or not self.row.is_pure:
            return False
        return self.row.lists is None or variant not in self.output_dtypes()

    def computes(self, *op_types: str) -> bool:
        """Whether it runs an op of one of these types: it is neither fed nor constant."""
        return self.feed is None and not self.is_constant and self.row.name in op_types

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
        """The producers without the sources of back edges, which come after the loop's Merge."""
        if self.feed is not None or self.row.role is not Role.MERGE:
            return self.producers()
        return (
            producer
            for producer in self.producers()
            if producer.feed is not None or producer.row.role is not Role.NEXT_ITERATION
        )

    def dereferences(self) -> tuple[int, ...]:
        """The inputs that are references to variables, of which the kernel takes the values."""
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
    """Nodes in a valid order, the fetches and targets; `feeds[i]` is the node of the i-th feed of the signature."""

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
        """Remove nodes that no fetch or target needs; feeds stay, in the order of the signature."""
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
        """One line for each node, for reading and for comparing plans."""
        return "\n".join(_lines(self.nodes))


def known_value(edge: Edge) -> Value | None:
    """The content of an edge if its node is a constant."""
    node, index = edge
    return None if node.values is None else node.values[index]


def _lines(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        kind = "Feed" if node.feed is not None else "Folded" if node.is_constant else node.row.name
        inputs = ", ".join(f"{producer.name}:{index}" for producer, index in node.inputs)
        controls = "".join(f", ^{producer.name}" for producer in node.controls)
        yield f"{node.name} = {kind}({inputs}{controls})"


def in_order(nodes: Sequence[Node], before: Mapping[int, Sequence[Node]] | None = None) -> list[Node]:
    """Sort nodes topologically by `before` (by id(); default: their producers), otherwise stably; omits nodes of cycles."""
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
