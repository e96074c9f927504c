"""Reads the object graph of a SavedModel, with what is needed to find its tensors. Blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from aioexec.data_classes import dataclass
from aioexec.dtypes import as_dtype
from aioexec.errors import DataLossError, InvalidArgumentError
from aioexec.formats.tensor_codec import shape_from_proto
from aioexec.graph.graph import Graph
from aioexec.saved_model.objects.captured_tensors import CapturedTensors, checkpoint_keys, tensor_names
from aioexec.saved_model.objects.loaded_objects import LoadedObjects
from aioexec.saved_model.objects.object_graph import ObjectGraph, read_object_graph
from aioexec.saved_model.objects.structures import TensorSpec
from aioexec.saved_model.signature import Runner
from aioexec.shapes import compatible

if TYPE_CHECKING:
    from aioexec.formats.protos import MetaGraphDef, SavedVariable, TrackableObjectGraph

OBJECTS_KEY: Final = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The key in the checkpoint of its TrackableObjectGraph."""


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """An object graph that was read: the names of tensors by the objects' numbers, the paths of the asset files in order."""

    objects: ObjectGraph
    names: dict[int, str]
    assets: Sequence[str]
    path: str

    def loaded(self, graph: Graph, session: Runner) -> LoadedObjects:
        """The objects, in the graph that was imported."""
        captured = CapturedTensors(graph, self.objects, self.path, self.names, self.assets)
        return LoadedObjects(graph, session, self.objects, captured)


def read_objects(
    meta_graph: MetaGraphDef, path: str, prefix: str | None, assets: Mapping[str, str]
) -> ReadObjects | None:
    """The object graph of a MetaGraphDef; None if it has none.

    Args:
        path: the SavedModel.
        prefix: its checkpoint; None if there is none.
        assets: the paths of its asset files by the names of tensors.

    Raises:
        DataLossError: the object graph contradicts itself or the graph, or the checkpoint's objects cannot be read.
        InvalidArgumentError: a variable has another dtype or shape in the checkpoint.
    """
    objects = read_object_graph(meta_graph, path)
    if objects is None:
        return None
    paths = [assets[each.tensor_info.name] for each in meta_graph.asset_file_def]
    has_variables = any(node.kind == "variable" for node in objects.nodes)
    checkpoint = _checkpoint_objects(prefix, objects, path) if prefix and has_variables else None
    return ReadObjects(objects, tensor_names(meta_graph, objects, checkpoint), paths, path)


def _checkpoint_objects(prefix: str, objects: ObjectGraph, path: str) -> TrackableObjectGraph | None:
    """The objects of a checkpoint, whose variables are compared with those of the object graph."""
    from aioexec.formats.protos import TrackableObjectGraph
    from aioexec.train.checkpoints.checkpoint_reader import CheckpointReader

    with CheckpointReader(prefix) as reader:
        if not reader.has_tensor(OBJECTS_KEY):
            return None
        data = reader.get_tensor(OBJECTS_KEY)
        dtypes, shapes = reader.get_variable_to_dtype_map(), reader.get_variable_to_shape_map()
    try:
        found = TrackableObjectGraph.FromString(data)
    except Exception as error:  # a DecodeError or TypeError, as protobuf's implementation and the value are
        raise DataLossError(f"{prefix}: {OBJECTS_KEY!r} is no TrackableObjectGraph") from error
    for number, key in checkpoint_keys(objects, found).items():
        if objects.nodes[number].kind == "variable" and key in shapes:
            stored = TensorSpec(key, dtypes[key], tuple(shapes[key]))
            _check_variable(objects.nodes[number].proto.variable, stored, path)
    return found


def _check_variable(variable: SavedVariable, stored: TensorSpec, path: str) -> None:
    """Check that a variable has the dtype and shape of its value in the checkpoint."""
    expected = TensorSpec(variable.name, as_dtype(variable.dtype), shape_from_proto(variable.shape))
    if stored.dtype != expected.dtype or not compatible(expected.dims, stored.dims):
        raise InvalidArgumentError(
            f"{path}: variable {variable.name!r}: expected {expected}, got {stored} in the checkpoint, key {stored.name!r}"
        )
