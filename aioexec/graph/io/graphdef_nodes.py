"""Adds the nodes of a parsed GraphDef (`Source`) to a graph, under a prefix, and connects them."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_source import (
    COLOCATED,
    COLOCATION,
    CONTROL,
    OUTPUT_SHAPES,
    Key,
    Source,
    SourceNode,
    parse_key,
)
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation, Tensor


class Importer:
    """Adds the nodes of a source to a graph.

    Args:
        scope: the prefix of the names; None keeps the names, which must be free.

    Attributes:
        added: the new operations by their name in the GraphDef.

    `_back_edges`: the back edges still to be set: Merge, input position, and source node.
    """

    def __init__(
        self, graph: Graph, source: Source, scope: str | None, inputs: Mapping[Key, Tensor | Operation]
    ) -> None:
        self._graph = graph
        self._source = source
        self._inputs = inputs
        self._names = {name: name for name in source.nodes}
        if scope is not None:
            self._names = _free_names(graph, scope, source.nodes)
        self.added: dict[str, Operation] = {}
        self._back_edges: list[tuple[Operation, SourceNode, dict[int, Key]]] = []

    def add_nodes(self) -> None:
        for node in self._source.order:
            self.added[node.name] = self._add(node)
        for op, node, keys in self._back_edges:
            op.set_inputs({position: self._tensor(node, key) for position, key in keys.items()})
        for node in self._source.order:
            if node.groups and not self.added[node.name].device:
                self.added[node.name]._device = self._device_of_group(node)
        for op in self.added.values():
            if op.row.bodies is not None and op.row.role is not Role.SYMBOLIC:
                op.row.bodies(op)  # checks that the bodies fit the operation and do not call themselves

    def check_replacements(self) -> None:
        """Check that each output in `input_map` is used by the GraphDef or is in it."""
        unknown = [key for key in self._source.unused_replacements() if not self._has(key)]
        if unknown:
            names = sorted(f"{name}:{index}" if index > 0 else name for name, index in unknown)
            raise GraphValueError(f"Attempted to map inputs that were not found in graph_def: {names}")

    def _has(self, key: Key) -> bool:
        name, index = key
        return name in self.added and (index == CONTROL or index < len(self.added[name].outputs))

    def _add(self, node: SourceNode) -> Operation:
        graph = self._graph
        back_edges: dict[int, Key] = {}
        if node.row.role is Role.MERGE:
            back_edges = {i: key for i, key in enumerate(node.inputs) if self._source.is_back_edge(node, key)}
            inputs = self._forward_inputs(node, back_edges)
        else:
            inputs = [self._tensor(node, key) for key in node.inputs]
        controls = dict.fromkeys([*map(self._operation, node.controls), *graph._control_inputs_for(inputs)])
        attrs = dict(node.attrs)
        shapes = attrs.pop(OUTPUT_SHAPES, None)
        if node.groups:
            attrs[COLOCATION] = tuple(self._rename_group(group) for group in node.groups)
        op = graph.add_node(node.row, self._names[node.name], inputs, list(controls), attrs, node.device)
        if graph.functions.allowance is not None:
            graph.functions.allowance.take_outputs(len(op.outputs))
        graph._apply_scopes(op)
        if node.groups:
            op._device = node.device  # device scopes do not separate colocated nodes
        if shapes is not None:
            _merge_shapes(op, shapes)
        if back_edges:
            self._back_edges.append((op, node, back_edges))
        return op

    def _forward_inputs(self, node: SourceNode, back_edges: Collection[int]) -> list[Tensor]:
        """The inputs of a Merge: those that exist; the first of them stands in for the back edges until these are set."""
        forward = {i: self._tensor(node, key) for i, key in enumerate(node.inputs) if i not in back_edges}
        if back_edges and not forward:
            raise GraphValueError(f"Node {node.name!r}: all its inputs come from the next iteration")
        first = next(iter(forward.values()), None)
        return [tensor for i in range(len(node.inputs)) if (tensor := forward.get(i, first)) is not None]

    def _tensor(self, node: SourceNode, key: Key) -> Tensor:
        mapped = self._inputs.get(key)
        if isinstance(mapped, Tensor):
            return mapped
        outputs = self.added[key[0]].outputs
        if key[1] >= len(outputs):
            raise GraphValueError(
                f"Node {node.name!r}: Connecting to invalid output {key[1]} of source node {key[0]!r}, "
                f"which has {len(outputs)} outputs"
            )
        return outputs[key[1]]

    def _operation(self, key: Key) -> Operation:
        mapped = self._inputs.get(key)
        if mapped is None:
            return self.added[key[0]]
        return mapped.op if isinstance(mapped, Tensor) else mapped

    def _rename_group(self, group: str) -> str:
        member = group.removeprefix(COLOCATED)
        return f"{COLOCATED}{self._names[member]}" if member in self._names else group

    def _device_of_group(self, node: SourceNode) -> str:
        names = [group.removeprefix(COLOCATED) for group in node.groups]
        members = (self.added.get(name) or self._graph._by_name.get(name) for name in names)
        return next((op.device for op in members if op is not None and op.device), "")

    def operation(self, name: str) -> Operation:
        """A node by its name in the GraphDef.

        Raises:
            GraphValueError: there is none.
        """
        if name not in self.added:
            raise GraphValueError(f"{name!r} is no node")
        return self.added[name]

    def tensor(self, text: str) -> Tensor:
        """A tensor by its name in the GraphDef, "a" or "a:1".

        Raises:
            GraphValueError: there is none.
        """
        name, index = parse_key(text)
        outputs = self.operation(name).outputs
        if not 0 <= index < len(outputs):
            raise GraphValueError(f"{text!r} is no tensor: node {name!r} has {len(outputs)} outputs")
        return outputs[index]

    def element(self, text: str) -> Tensor | Operation:
        """The tensor or operation that a name of the GraphDef refers to.

        Raises:
            GraphValueError: the GraphDef has no such element.
        """
        name, index = key = parse_key(text)
        if ":" in text and key in self._inputs:
            return self._inputs[key]
        if name not in self.added or index == CONTROL:
            raise GraphValueError(f"Requested return_element {text!r} not found in graph_def")
        if ":" not in text:
            return self.added[name]
        outputs = self.added[name].outputs
        if index >= len(outputs):
            raise GraphValueError(
                f"Requested return_element {text!r}: node {name!r} has {len(outputs)} outputs"
            )
        return outputs[index]


def _free_names(graph: Graph, scope: str, names: Mapping[str, SourceNode]) -> dict[str, str]:
    """From each node to its name in the graph: under the scope, with a number if a node or scope has that name."""
    if not graph.version:
        return {name: f"{scope}{name}" for name in names}
    present = sorted(op.name for op in graph.get_operations())

    def is_taken(name: str) -> bool:
        inside = f"{name}/"
        first = bisect.bisect_left(present, inside)
        return name in graph._by_name or (first < len(present) and present[first].startswith(inside))

    found = {}
    for name in names:
        free, count = f"{scope}{name}", 0
        while is_taken(free) or (count and free.removeprefix(scope) in names):
            count += 1
            free = f"{scope}{name}_{count}"
        found[name] = free
    return found


def _merge_shapes(op: Operation, shapes: Sequence[Any]) -> None:
    """Merge the producer's static shapes into those of the outputs."""
    if len(shapes) != len(op.outputs):
        raise GraphValueError(
            f"Node {op.name!r} has {len(op.outputs)} outputs but its {OUTPUT_SHAPES} attribute has {len(shapes)} shapes"
        )
    for i, (tensor, shape) in enumerate(zip(op.outputs, shapes, strict=True)):
        try:
            tensor.set_shape(shape)
        except GraphValueError as error:
            raise GraphValueError(
                f"Node {op.name!r} has an {OUTPUT_SHAPES} attribute inconsistent with output {i}: {error.message}"
            ) from error
