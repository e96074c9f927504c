"""Parses and checks a GraphDef, without a graph: names, attributes and edges."""

from __future__ import annotations

import heapq
import re
from collections.abc import Container, Iterator
from dataclasses import field
from typing import Any, Final

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.formats.protos import AttrValue, GraphDef, NodeDef, OpDef as OpDefProto, OpList
from aioexec.graph import registry
from aioexec.graph.attr_values import read_attr, read_private_attr
from aioexec.graph.device_spec import canonical_name
from aioexec.graph.function_library import FunctionLibrary
from aioexec.graph.io.graphdef_export import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_PRODUCER
from aioexec.graph.io.node_def_export import OUTPUT_SHAPES as OUTPUT_SHAPES
from aioexec.graph.kernels.kernel import Role
from aioexec.shapes import TensorShape

_NODE_NAME: Final = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_PARTITION_NODE_NAME: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9_.\\/>-]*")
_INPUT: Final = re.compile(
    r"(\^?)([A-Za-z0-9.$_][A-Za-z0-9_.\\/>-]*)(?::(\d{1,9}))?"
)  # "$" occurs in no node name
CONTROL: Final = -1  # the output index of a control edge
COLOCATION: Final = "_class"  # the attribute with the colocation groups of a node
COLOCATED: Final = "loc:@"  # the prefix of a colocation group in that attribute

Key = tuple[str, int]
"""An output: the name of a node in the GraphDef, and an index or CONTROL."""


def parse_key(text: str) -> Key:
    """Parse "a", "a:1" or "^a".

    Raises:
        GraphValueError: none of these.
    """
    match = _INPUT.fullmatch(text)
    if match is None or (match[1] and match[3]):
        raise GraphValueError(f"{text!r} is not a name of the form 'node', 'node:index' or '^node'")
    return match[2], CONTROL if match[1] else int(match[3] or 0)


@dataclass(slots=True)
class SourceNode:
    """A parsed NodeDef: attributes as Python values, edges as keys."""

    name: str
    row: registry.Row
    device: str
    attrs: dict[str, Any]
    inputs: list[Key] = field(default_factory=list)
    controls: list[Key] = field(default_factory=list)
    groups: tuple[str, ...] = ()
    """The colocation groups of the node."""


class Source:
    """A parsed GraphDef that is consistent in itself.

    Args:
        functions: the library of the graph that imports it, with its allowance.
        is_partition: it comes from a master, whose node names users cannot give, and whose colocation groups may name other
            nodes.
        is_sent: it comes from another process, whose version may define more attributes of an op: unknown ones are dropped.
        there: nodes of the graph to be extended, which colocation groups may name.

    Attributes:
        nodes: by name.
        order: topological, back edges of loops excepted, and as close to the order of listing as that allows.
    """

    def __init__(
        self,
        graph_def: GraphDef,
        producer_ops: OpList | None,
        mapped: set[Key],
        functions: FunctionLibrary,
        *,
        is_partition: bool = False,
        is_sent: bool = False,
        there: Container[str] = (),
    ) -> None:
        _check_versions(graph_def)
        allowed = _PARTITION_NODE_NAME if is_partition else _NODE_NAME
        self._functions = functions
        self._producer_ops = {op.name: op for op in producer_ops.op} if producer_ops is not None else {}
        self._mapped = mapped
        self._is_sent = is_sent
        self._there = there
        self._version = graph_def.versions.producer
        self.nodes: dict[str, SourceNode] = {}
        for proto in graph_def.node:
            if not allowed.fullmatch(proto.name):
                raise GraphValueError(f"Node {proto.name!r}: the name contains invalid characters")
            if proto.name in self.nodes:
                raise GraphValueError(f"Node {proto.name!r} is not unique in the GraphDef")
            node = self.nodes[proto.name] = self._read_node(proto)
            if is_partition:
                node.groups, _ = (), node.attrs.pop(COLOCATION, None)
        for node in self.nodes.values():
            self._check_edges(node)
        self.order = self._sorted()

    def _read_node(self, proto: NodeDef) -> SourceNode:
        row = self._functions.row(proto.op)
        registry.check_in_use(proto.op, self._version)
        try:
            attrs = self._read_attrs(row, proto)
            device = canonical_name(proto.device) if proto.device else ""
        except InvalidArgumentError as error:
            raise GraphValueError(f"{proto.op} {proto.name!r}: {error.message}") from error
        node = SourceNode(proto.name, row, device, attrs, groups=attrs.get(COLOCATION, ()))
        for text in proto.input:
            self._read_input(node, text)
        return node

    def _read_attrs(self, row: registry.Row, proto: NodeDef) -> dict[str, Any]:
        held_attrs = proto.attr
        given = {name: held_attrs[name] for name in held_attrs}  # a third of the time of `dict(proto.attr)`
        if self._functions.allowance is not None:
            self._functions.allowance.take_tensors(given.values())
        attrs = {}
        for attr in row.definition.attrs:
            held = given.pop(attr.name, None)
            if held is not None:
                attrs[attr.name] = read_attr(attr, held)
            elif attr.required and self._is_sent:
                raise GraphValueError(
                    f"NodeDef missing attr {attr.name!r} from Op<name={proto.op}> ({attr.kind})"
                )
            elif attr.required:
                raise GraphValueError(f"lacks its attr {attr.name!r} ({attr.kind})")
        for name, held in given.items():
            if name.startswith("_"):
                attrs[name] = _read_private(name, held)
            elif not self._is_sent and self._must_be_refused(proto.op, name, held):
                known = [attr.name for attr in row.definition.attrs]
                raise GraphValueError(f"has an attr {name!r} that is not known here; the op has {known}")
        if row.role is Role.CONSTANT and dtypes.as_dtype(attrs["value"].dtype) != attrs["dtype"]:
            raise GraphValueError(
                f"expected a value of {attrs['dtype'].name}, got one of {attrs['value'].dtype}"
            )
        return attrs

    def _must_be_refused(self, op_type: str, name: str, held: AttrValue) -> bool:
        """Whether an attribute unknown to the op must be refused rather than dropped."""
        return self._version <= GRAPH_DEF_VERSION and not _has_default(
            self._producer_ops.get(op_type), name, held
        )

    def _read_input(self, node: SourceNode, text: str) -> None:
        try:
            key = parse_key(text)
        except GraphValueError as error:
            raise GraphValueError(f"Node {node.name!r}: Unknown input node: {error.message}") from error
        if key[1] == CONTROL:
            node.controls.append(key)
        elif node.controls:
            raise GraphValueError(
                f"Node {node.name!r}: Control dependencies must come after regular dependencies"
            )
        else:
            node.inputs.append(key)

    def _check_edges(self, node: SourceNode) -> None:
        for key in (*node.inputs, *node.controls):
            if key not in self._mapped and key[0] not in self.nodes:
                raise GraphValueError(f"Node {node.name!r}: Unknown input node {key[0]!r}")
        for group in node.groups:
            member = group.removeprefix(COLOCATED)
            if member != group and member not in self.nodes and member not in self._there:
                raise GraphValueError(
                    f"Node {node.name!r}: expects to be colocated with an unknown node, {group!r}"
                )

    def unused_replacements(self) -> set[Key]:
        """Names in `input_map` that are not an input of any node."""
        return self._mapped.difference(*((*node.inputs, *node.controls) for node in self.nodes.values()))

    def _sorted(self) -> list[SourceNode]:
        """Topological order by Kahn's algorithm; among ready nodes, the one listed first comes first."""
        nodes = list(self.nodes.values())
        place = {node.name: i for i, node in enumerate(nodes)}
        waits = [0] * len(nodes)
        consumers: list[list[int]] = [[] for _ in nodes]
        for i, node in enumerate(nodes):
            for producer in self._producers(node):
                waits[i] += 1
                consumers[place[producer]].append(i)
        ready = [i for i, count in enumerate(waits) if not count]
        order = []
        while ready:
            i = heapq.heappop(ready)
            order.append(nodes[i])
            for consumer in consumers[i]:
                waits[consumer] -= 1
                if not waits[consumer]:
                    heapq.heappush(ready, consumer)
        if len(order) < len(nodes):
            raise GraphValueError(
                self._describe_cycle({nodes[i].name for i, count in enumerate(waits) if count})
            )
        return order

    def _producers(self, node: SourceNode) -> Iterator[str]:
        """The nodes that must precede a node: its inputs, but for back edges."""
        for key in (*node.inputs, *node.controls):
            if key not in self._mapped and not self.is_back_edge(node, key):
                yield key[0]

    def is_back_edge(self, node: SourceNode, key: Key) -> bool:
        """Whether an input is a back edge: the next value of a loop variable."""
        return (
            node.row.role is Role.MERGE
            and key[1] != CONTROL
            and key not in self._mapped
            and self.nodes[key[0]].row.role is Role.NEXT_ITERATION
        )

    def _describe_cycle(self, blocked: set[str]) -> str:
        positions: dict[str, int] = {}
        name = min(blocked)
        while name not in positions:
            positions[name] = len(positions)
            name = next(each for each in self._producers(self.nodes[name]) if each in blocked)
        cycle = [*positions][positions[name] :]
        shown = [*reversed(cycle[:8]), cycle[0]] if len(cycle) <= 8 else [*reversed(cycle[:8]), "…"]
        return f"{len(cycle)} nodes in a cycle: {' -> '.join(shown)}"


def _read_private(name: str, held: AttrValue) -> Any:
    value = read_private_attr(held)
    items = {COLOCATION: str, OUTPUT_SHAPES: TensorShape}.get(name)
    if items is not None and not (
        isinstance(value, tuple) and all(isinstance(item, items) for item in value)
    ):
        raise GraphValueError(f"attr {name!r} must be a list of {items.__name__}, got {value!r}")
    return value


def _has_default(op: OpDefProto | None, name: str, held: Any) -> bool:
    """Whether the attribute's value is the default in the producer's op definition."""
    for attr in op.attr if op is not None else ():
        if attr.name == name:
            return attr.HasField("default_value") and attr.default_value == held
    return False


def _check_versions(graph_def: GraphDef) -> None:
    versions = graph_def.versions
    if versions.min_consumer > GRAPH_DEF_VERSION:
        raise GraphValueError(
            f"GraphDef min consumer version {versions.min_consumer} above current version {GRAPH_DEF_VERSION}"
        )
    if versions.producer < GRAPH_DEF_VERSION_MIN_PRODUCER:
        raise GraphValueError(
            f"GraphDef producer version {versions.producer} below min producer {GRAPH_DEF_VERSION_MIN_PRODUCER}"
        )
    if GRAPH_DEF_VERSION in versions.bad_consumers:
        raise GraphValueError(f"GraphDef disallows consumer version {GRAPH_DEF_VERSION}")
