"""Where `aioexec.load` finds a graph: a SavedModel, a MetaGraph with a checkpoint, or a frozen GraphDef. Everything blocks."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from aioexec.errors import DataLossError, NotFoundError
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.saved_model.constants import SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT
from aioexec.saved_model.errors import NoSavedModelError, naming_model
from aioexec.saved_model.model_files import contains_saved_model, meta_graph_of, read_saved_model
from aioexec.saved_model.restoring import Imported, import_graph
from aioexec.saved_model.tag_constants import SERVING
from aioexec.train.checkpoints.checkpoint_state import checkpoint_exists, latest_checkpoint
from aioexec.train.checkpoints.meta_graph_import import import_meta_graph, read_meta_graph_file

if TYPE_CHECKING:
    from aioexec.formats.protos import SavedModel

_META: Final = ".meta"


def import_model(path: str, tags: Collection[str] | None, graph: Graph) -> Imported:
    """Find the graph of a model, and add it to `graph`.

    Args:
        path: the folder of a SavedModel; the folder of a training, whose latest checkpoint is taken; a checkpoint, or its file
            "….meta"; a file with a GraphDef.
        tags: of the graph in a SavedModel.
    """
    if os.path.basename(path) in (SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT):
        path = os.path.dirname(path) or os.curdir
    if contains_saved_model(path):
        saved_model = read_saved_model(path)
        meta_graph = meta_graph_of(saved_model, _tags(saved_model) if tags is None else tags, path)
        return import_graph(meta_graph, path, graph)
    prefix = (latest_checkpoint(path) or path).removesuffix(_META)
    if os.path.isfile(prefix + _META):
        return _import_meta_graph(prefix, graph)
    if os.path.isfile(path):
        return _import_graph_def(path, graph)
    raise NoSavedModelError(
        f"{path}: expected a SavedModel, a checkpoint with its {_META} file, or a file with a GraphDef; SavedModel file does "
        f"not exist at: {os.path.join(path, SAVED_MODEL_FILENAME_PB)}"
    )


def _tags(saved_model: SavedModel) -> Collection[str]:
    """The tags of the only graph; "serve" if there are several."""
    if len(saved_model.meta_graphs) == 1:
        return list(saved_model.meta_graphs[0].meta_info_def.tags)
    return [SERVING]


def _import_meta_graph(prefix: str, graph: Graph) -> Imported:
    """Import the graph beside a checkpoint; its tables are initialized after the variables are restored."""
    meta_graph = read_meta_graph_file(prefix + _META)
    with graph.as_default(), naming_model(prefix):
        saver = import_meta_graph(meta_graph, clear_devices=True)
    if saver is not None and not checkpoint_exists(prefix):
        raise NotFoundError(f"{prefix}: expected a checkpoint with the variables of the graph, got none")
    tables = [op.name for op in graph.get_collection(GraphKeys.TABLE_INITIALIZERS)]
    return Imported(meta_graph, saver, prefix, {}, tables)


def _import_graph_def(path: str, graph: Graph) -> Imported:
    """Import a graph without variables. It is not kept as a proto, since its constants may be large."""
    from aioexec.formats.proto_files import read_proto
    from aioexec.formats.protos import GraphDef, MetaGraphDef
    from aioexec.graph.io.graphdef_import import import_graph_def

    graph_def = read_proto(path, GraphDef)
    if not graph_def.node or not all(node.op for node in graph_def.node):
        raise DataLossError(f"{path}: expected a GraphDef with nodes, got another content")
    for node in graph_def.node:
        node.device = ""
    with graph.as_default(), naming_model(path):
        import_graph_def(graph_def, name="")
    return Imported(MetaGraphDef(), None, None, {}, ())
