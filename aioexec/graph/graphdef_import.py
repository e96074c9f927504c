"""Puts the nodes of a GraphDef into a graph: all of them, or none if anything is wrong.

In three steps. `Source` reads the proto by itself: names, attributes, edges, an order in which each node comes after its
inputs. `_Importer` then adds the nodes under a prefix, where the graph checks dtypes and shapes as for any new node, and takes
them out again if one does not fit; a Merge in a loop gets its back edge when the node it comes from is there. At last what was
asked for by `return_elements` is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.formats.protos import GraphDef, OpList
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor, stands_for_tensor
from aioexec.graph.graph import Graph
from aioexec.graph.graphdef_source import (
    COLOCATED,
    CONTROL,
    OUTPUT_SHAPES,
    Key,
    Source,
    SourceNode,
    parse_key,
)
from aioexec.graph.node import Operation, Tensor


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to the default graph (or that of the tensors in `input_map`).

    Nodes may be listed in any order. A name that is taken already gets _1, _2, … appended. If anything is wrong, the graph is
    left as it was. Functions in the library of the GraphDef are not imported.

    Args:
        graph_def: our GraphDef or TensorFlow's.
        input_map: replaces inputs, by their name in the GraphDef: "a", "a:1", or "^a" for a control input.
        return_elements: names in the GraphDef of what to return: "a" an operation, "a:0" a tensor.
        name: the scope of the new nodes, "import" by default; "" for none.
        op_dict: ignored, as in TensorFlow.
        producer_op_list: the ops of whoever wrote the GraphDef; attributes unknown here are dropped if they have the default
            they have there.

    Returns:
        The elements asked for; None if `return_elements` is None.

    Raises:
        NotFoundError: an op is not registered.
        GraphTypeError: an argument of a wrong type.
        GraphValueError: anything else that is wrong.
    """
    source = _own_proto(graph_def, GraphDef, "graph_def")
    producer_ops = (
        None if producer_op_list is None else _own_proto(producer_op_list, OpList, "producer_op_list")
    )
    wanted = _check_names("return_elements", return_elements)
    mapped = dict(input_map or {})
    _check_names("input_map", mapped)
    with graph_of(list(mapped.values())).as_default() as graph, graph.undone_on_error():
        graph._check_not_finalized()
        try:
            parsed = Source(source, producer_ops, {parse_key(text) for text in mapped})
            with graph.name_scope("import" if name is None else name) as scope:
                inputs = _convert_inputs(graph, mapped, scope)
                importer = _Importer(graph, parsed, scope, inputs)
                importer.add_nodes()
                importer.check_replacements()
            return None if return_elements is None else [importer.element(text) for text in wanted]
        except GraphValueError:
            raise
        except InvalidArgumentError as error:
            raise GraphValueError(error.message) from error


def _own_proto(message: Any, kind: Any, argument: str) -> Any:
    """`message` as a message of ours; one of TensorFlow's goes through its bytes.

    Raises:
        GraphTypeError: it is something else.
    """
    if isinstance(message, kind):
        return message
    descriptor = getattr(message, "DESCRIPTOR", None)
    if getattr(descriptor, "name", None) != kind.DESCRIPTOR.name or not hasattr(message, "SerializeToString"):
        raise GraphTypeError(
            f"{argument} must be a {kind.DESCRIPTOR.name} proto, got {type(message).__name__!r}"
        )
    return kind.FromString(message.SerializeToString())


def _check_names(argument: str, names: Any) -> list[str]:
    if names is None:
        return []
    if isinstance(names, str) or not all(isinstance(each, str) for each in names):
        raise GraphTypeError(f"{argument} must name its elements by a list or dict of strings, got {names!r}")
    return list(names)


def _convert_inputs(graph: Graph, mapped: Mapping[str, Any], scope: str) -> dict[Key, Tensor | Operation]:
    """The replacements of `input_map` as tensors (or operations, for control inputs) of the graph."""
    found: dict[Key, Tensor | Operation] = {}
    for text, value in mapped.items():
        key = parse_key(text)
        if key[1] == CONTROL and isinstance(value, Operation):
            found[key] = graph.as_graph_element(value)
            continue
        if not stands_for_tensor(value) and not scope:
            raise GraphValueError(
                f"input_map gives {text!r} a value that is no tensor: that needs a non-empty `name`"
            )
        with graph.name_scope(f"{scope}_inputs/"):
            tensor = convert_to_tensor(value)
        found[key] = graph.as_graph_element(tensor, allow_operation=False)
    return found


class _Importer:
    """Adds the nodes of a source to a graph.

    Attributes:
        added: the new operations by their name in the GraphDef.

    `_back_edges`: inputs of Merges still to be set: operation, position, and what it is an input of and from.
    """

    def __init__(
        self, graph: Graph, source: Source, scope: str, inputs: Mapping[Key, Tensor | Operation]
    ) -> None:
        self._graph = graph
        self._source = source
        self._inputs = inputs
        self._names = _free_names(graph, scope, source.nodes)
        self.added: dict[str, Operation] = {}
        self._back_edges: list[tuple[Operation, int, SourceNode, Key]] = []

    def add_nodes(self) -> None:
        for node in self._source.order:
            self.added[node.name] = self._add(node)
        for op, position, node, key in self._back_edges:
            op.set_input(position, self._tensor(node, key))
        for node in self._source.order:
            if node.groups and not self.added[node.name].device:
                self.added[node.name]._device = self._device_of_group(node)

    def check_replacements(self) -> None:
        """Refuse an `input_map` of outputs that the GraphDef neither uses nor has."""
        unknown = [key for key in self._source.unused_replacements() if not self._has(key)]
        if unknown:
            names = sorted(f"{name}:{index}" if index > 0 else name for name, index in unknown)
            raise GraphValueError(f"Attempted to map inputs that were not found in graph_def: {names}")

    def _has(self, key: Key) -> bool:
        name, index = key
        return name in self.added and (index == CONTROL or index < len(self.added[name].outputs))

    def _add(self, node: SourceNode) -> Operation:
        graph = self._graph
        back_edges = [i for i, key in enumerate(node.inputs) if self._source.is_back_edge(node, key)]
        inputs = self._forward_inputs(node, back_edges)
        controls = dict.fromkeys(self._operation(key) for key in node.controls)
        controls.update(dict.fromkeys(graph._control_inputs_for(inputs)))
        attrs = dict(node.attrs)
        shapes = attrs.pop(OUTPUT_SHAPES, None)
        if node.groups:
            attrs["_class"] = tuple(self._renamed_group(group) for group in node.groups)
        op = graph.add_node(node.row, self._names[node.name], inputs, list(controls), attrs, node.device)
        graph._apply_scopes(op)
        if node.groups:
            op._device = node.device  # device scopes do not part what is colocated
        if shapes is not None:
            _merge_shapes(op, shapes)
        self._back_edges.extend((op, i, node, node.inputs[i]) for i in back_edges)
        return op

    def _forward_inputs(self, node: SourceNode, back_edges: Sequence[int]) -> list[Tensor]:
        """The inputs that are there already, the first of them also in the place of those that are not."""
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

    def _renamed_group(self, group: str) -> str:
        member = group.removeprefix(COLOCATED)
        return f"{COLOCATED}{self._names[member]}" if member in self._names else group

    def _device_of_group(self, node: SourceNode) -> str:
        members = (self.added.get(group.removeprefix(COLOCATED)) for group in node.groups)
        return next((op.device for op in members if op is not None and op.device), "")

    def element(self, text: str) -> Tensor | Operation:
        """What a name of the GraphDef stands for now.

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
    """The name in the graph of each node: under the scope, and numbered where that is taken by a node or a scope."""
    taken = set()
    for op in graph.get_operations():
        name = op.name
        while name and name not in taken:
            taken.add(name)
            name = name.rpartition("/")[0]
    found = {}
    for name in names:
        free, count = f"{scope}{name}", 0
        while free in taken or (count and free.removeprefix(scope) in names):
            count += 1
            free = f"{scope}{name}_{count}"
        found[name] = free
    return found


def _merge_shapes(op: Operation, shapes: Sequence[Any]) -> None:
    """Narrow the shapes of the outputs to those the producer knew."""
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
