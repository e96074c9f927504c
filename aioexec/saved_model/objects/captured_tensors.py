"""Finds the tensors of an imported graph that stand for the objects of its object graph.

Functions capture objects; a call of a function needs their tensors. A constant is a node of the graph by its name. An asset
file is its path. Variables and tables are made by nodes whose names do not matter, so they are found where the graph uses them:

1. in the calls of functions whose captured objects are known: those of signatures, and those that initialise tables;
2. variables also in the function that restores them: it assigns the tensor of a key of the checkpoint to each, and the
   checkpoint lists the key of each object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from aioexec.errors import DataLossError, InvalidArgumentError, OpError
from aioexec.formats.tensor_codec import decode_tensor
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.saved_model.objects.object_graph import ObjectGraph

if TYPE_CHECKING:
    from aioexec.formats.protos import FunctionDef, GraphDef, MetaGraphDef, NodeDef, TrackableObjectGraph


def tensor_names(
    meta_graph: MetaGraphDef, objects: ObjectGraph, checkpoint: TrackableObjectGraph | None
) -> dict[int, str]:
    """The names of the tensors that stand for variables, tables and constants, by the numbers of the objects.

    Args:
        checkpoint: the objects of the checkpoint; None if there is none.
    """
    graph_def = meta_graph.graph_def
    found = {
        node.number: f"{node.proto.constant.operation}:0" for node in objects.nodes if node.kind == "constant"
    }
    for number, name in _in_calls(graph_def, objects):
        if objects.nodes[number].kind in ("variable", "resource"):
            found.setdefault(number, name)
    missing = [node.number for node in objects.nodes if node.kind == "variable" and node.number not in found]
    if missing and checkpoint is not None:
        keys, handles = checkpoint_keys(objects, checkpoint), _restored(meta_graph)
        found |= {number: handles[keys[number]] for number in missing if keys.get(number) in handles}
    return found


def _in_calls(graph_def: GraphDef, objects: ObjectGraph) -> Iterator[tuple[int, str]]:
    """The objects that are captured by functions called in the graph, with the names of their tensors."""
    for node in graph_def.node:
        trace = objects.traces.get(node.attr["f"].func.name) if "f" in node.attr else None
        if trace is not None and trace.captured:
            yield from zip(trace.captured, _data_inputs(node)[-len(trace.captured) :], strict=False)


def _data_inputs(node: NodeDef) -> list[str]:
    inputs = [text for text in node.input if not text.startswith("^")]
    return [text if ":" in text else f"{text}:0" for text in inputs]


def checkpoint_keys(objects: ObjectGraph, checkpoint: TrackableObjectGraph) -> dict[int, str]:
    """The keys of the objects' values in the checkpoint, by number: both graphs have the same paths from their roots."""
    keys: dict[int, str] = {}
    seen, waiting = {0}, [(0, 0)]
    while waiting:
        number, place = waiting.pop()
        if not 0 <= place < len(checkpoint.nodes):
            continue
        for attribute in checkpoint.nodes[place].attributes:
            keys.setdefault(number, attribute.checkpoint_key)
        for child in checkpoint.nodes[place].children:
            inner = objects.nodes[number].children.get(child.local_name)
            if inner is not None and inner not in seen:
                seen.add(inner)
                waiting.append((inner, child.node_id))
    return keys


def _restored(meta_graph: MetaGraphDef) -> dict[str, str]:
    """The names of the handles to which the restore function assigns, by the keys of the values."""
    graph_def, called = (
        meta_graph.graph_def,
        meta_graph.saver_def.restore_op_name.removeprefix("^").split(":")[0],
    )
    call = next((node for node in graph_def.node if node.name == called and "f" in node.attr), None)
    if call is None:
        return {}
    name = call.attr["f"].func.name
    function = next((each for each in graph_def.library.function if each.signature.name == name), None)
    if function is None:
        return {}
    parameters = [arg.name for arg in function.signature.input_arg]
    handles = dict(zip(parameters, _data_inputs(call), strict=False))
    return {key: handles[parameter] for key, parameter in _assignments(function) if parameter in handles}


def _assignments(function: FunctionDef) -> Iterator[tuple[str, str]]:
    """The keys that a restore function reads from the checkpoint, and the parameters to which it assigns their values."""
    nodes = {node.name: node for node in function.node_def}
    for node in function.node_def:
        if node.op != "AssignVariableOp" or len(node.input) < 2:
            continue
        source = node.input[1].split(":")
        copy = nodes.get(source[0])
        if copy is not None and copy.op == "Identity" and copy.input:
            source = copy.input[0].split(":")
        restore = nodes.get(source[0])
        if restore is None or restore.op != "RestoreV2" or len(restore.input) < 2:
            continue
        keys = _strings(nodes.get(restore.input[1].split(":")[0]))
        if source[-1].isdigit() and int(source[-1]) < len(keys):
            yield keys[int(source[-1])], node.input[0]


def _strings(node: NodeDef | None) -> Sequence[str]:
    """The elements of a node that is a constant vector of strings; none of any other."""
    if node is None or node.op != "Const":
        return []
    try:
        return [key.decode() for key in decode_tensor(node.attr["value"].tensor).ravel().tolist()]
    except (OpError, AttributeError, UnicodeDecodeError):
        return []


class CapturedTensors:
    """The tensors of one imported graph that stand for objects.

    Constant: the graph, its objects, the SavedModel's path, the names of tensors by number, the paths of the asset files.
    Growing: `_tensors`, those looked up so far. Used by the event loop's thread only.
    """

    def __init__(
        self,
        graph: Graph,
        objects: ObjectGraph,
        path: str,
        names: Mapping[int, str],
        assets: Sequence[str],
    ) -> None:
        self._graph = graph
        self._objects = objects
        self._path = path
        self._names = names
        self._assets = assets
        self._tensors: dict[int, Tensor] = {}

    def tensor(self, number: int) -> Tensor:
        """The tensor of an object.

        Raises:
            InvalidArgumentError: the graph has none.
        """
        found = self._tensors.get(number)
        if found is None:
            found = self._tensors[number] = self._find(number)
        return found

    def asset(self, number: int) -> str:
        """The path of an asset file."""
        return self._assets[self._objects.nodes[number].proto.asset.asset_file_def_index]

    def _find(self, number: int) -> Tensor:
        node = self._objects.nodes[number]
        if node.kind == "asset":
            with self._graph.as_default(), self._graph.control_dependencies(None):
                return constant(self.asset(number), name="asset_path")
        if number not in self._names:
            raise InvalidArgumentError(
                f"{self._path}: object graph, object {number}: expected a tensor of the graph for this "
                f"{node.kind or 'object'}, got none that uses it"
            )
        try:
            tensor: Tensor = self._graph.as_graph_element(self._names[number], allow_operation=False)
        except OpError as error:
            raise DataLossError(
                f"{self._path}: object graph, object {number}: expected a tensor of the graph, got {self._names[number]!r}"
            ) from error
        return tensor
