"""Writes a graph and its checkpoint as one GraphDef of constants, under the names of `tensorflow.python.tools.freeze_graph`."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from aioexec.errors import GraphValueError, NotFoundError
from aioexec.graph.graph import Graph
from aioexec.saved_model import loader
from aioexec.saved_model.model_files import meta_graph_of, read_saved_model
from aioexec.saved_model.tag_constants import SERVING
from aioexec.sessions.session import Session
from aioexec.train.checkpoints.checkpoint_reader import load_checkpoint
from aioexec.train.checkpoints.checkpoint_state import V2, checkpoint_exists
from aioexec.train.checkpoints.freezing import convert_variables_to_constants, freeze_with_values
from aioexec.train.checkpoints.meta_graph_import import import_meta_graph
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.off_loop import off_loop

if TYPE_CHECKING:
    from aioexec.formats.protos import GraphDef, MetaGraphDef, SaverDef


async def freeze_graph(
    input_graph: str | None,
    input_saver: str | None,
    input_binary: bool,
    input_checkpoint: str | None,
    output_node_names: str,
    restore_op_name: str | None,
    filename_tensor_name: str | None,
    output_graph: str | None,
    clear_devices: bool,
    initializer_nodes: str | None,
    variable_names_whitelist: str = "",
    variable_names_blacklist: str = "",
    input_meta_graph: str | None = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: str = SERVING,
    checkpoint_version: int = V2,
) -> GraphDef:
    """Write the nodes that some outputs need, with the variables as constants of their values in a checkpoint.

    One of `input_graph`, `input_meta_graph` and `input_saved_model_dir` names the graph.

    Args:
        input_graph: a file with a GraphDef, in binary form if `input_binary`, in text form otherwise.
        input_saver: a file with the SaverDef of the graph's saver; without it, variables are read by their names.
        input_checkpoint: the path of the checkpoint; not needed for a SavedModel.
        output_node_names: names of nodes, separated by commas.
        restore_op_name, filename_tensor_name: ignored, as in TensorFlow.
        output_graph: the file to write the GraphDef to.
        clear_devices: leave out the devices of nodes.
        initializer_nodes: names of nodes to run after the variables are restored, separated by commas.
        variable_names_whitelist, variable_names_blacklist: the variables to convert, and not to convert, separated by commas.
        input_meta_graph: a file with a MetaGraphDef.
        input_saved_model_dir: the folder of a SavedModel, whose graph has the `saved_model_tags`, separated by commas.
        checkpoint_version: ignored: the files tell.

    Returns:
        The GraphDef.

    Raises:
        NotFoundError: a file, a node or a variable does not exist.
        GraphValueError: no output or no graph is named.
        DataLossError: a file is damaged.
    """
    from aioexec.formats.proto_files import read_proto
    from aioexec.formats.protos import GraphDef, MetaGraphDef, SaverDef

    async def read(path: str | None, kind: Any) -> Any:
        return await off_loop(read_proto, path, kind) if path else None

    return await freeze_graph_with_def_protos(
        await read(input_graph, GraphDef),
        await read(input_saver, SaverDef),
        input_checkpoint,
        output_node_names,
        restore_op_name,
        filename_tensor_name,
        output_graph,
        clear_devices,
        initializer_nodes,
        variable_names_whitelist,
        variable_names_blacklist,
        await read(input_meta_graph, MetaGraphDef),
        input_saved_model_dir,
        _words(saved_model_tags),
        checkpoint_version,
    )


async def freeze_graph_with_def_protos(
    input_graph_def: GraphDef | None,
    input_saver_def: SaverDef | None,
    input_checkpoint: str | None,
    output_node_names: str,
    restore_op_name: str | None,
    filename_tensor_name: str | None,
    output_graph: str | None,
    clear_devices: bool,
    initializer_nodes: str | None,
    variable_names_whitelist: str = "",
    variable_names_blacklist: str = "",
    input_meta_graph_def: MetaGraphDef | None = None,
    input_saved_model_dir: str | None = None,
    saved_model_tags: Collection[str] | None = None,
    checkpoint_version: int = V2,
) -> GraphDef:
    """`freeze_graph` of protos instead of files; the SavedModel's tags are a list."""
    outputs = _words(output_node_names)
    if not outputs:
        raise GraphValueError(
            "freeze_graph: You need to supply the name of a node to output_node_names, got none"
        )
    is_there = bool(input_checkpoint) and await off_loop(checkpoint_exists, str(input_checkpoint))
    if not input_saved_model_dir and not is_there:
        raise NotFoundError(f"freeze_graph: Input checkpoint {input_checkpoint!r} doesn't exist!")
    chosen = _words(variable_names_whitelist) or None, _words(variable_names_blacklist) or None
    if input_saved_model_dir:
        frozen = await _freeze_saved_model(
            input_saved_model_dir, saved_model_tags or [SERVING], outputs, chosen
        )
    elif input_meta_graph_def is not None:
        frozen = await _freeze_meta_graph(
            input_meta_graph_def, str(input_checkpoint), _words(initializer_nodes), outputs, chosen
        )
    elif input_graph_def is not None:
        frozen = await _freeze_graph_def(
            input_graph_def,
            input_saver_def,
            str(input_checkpoint),
            _words(initializer_nodes),
            outputs,
            chosen,
        )
    else:
        raise GraphValueError("freeze_graph: expected a graph, a MetaGraphDef or a SavedModel, got none")
    await off_loop(_finish, frozen, output_graph, clear_devices)
    return frozen


_Chosen = tuple[list[str] | None, list[str] | None]
"""The variables to convert, and those not to convert."""


async def _freeze_saved_model(
    folder: str, tags: Collection[str], outputs: list[str], chosen: _Chosen
) -> GraphDef:
    meta_graph = meta_graph_of(await off_loop(read_saved_model, folder), tags, folder)
    async with Session(graph=Graph()) as session:
        await loader.load(session, tags, folder, clear_devices=True)
        return await convert_variables_to_constants(session, meta_graph.graph_def, outputs, *chosen)


async def _freeze_meta_graph(
    meta_graph: MetaGraphDef, checkpoint: str, initializers: list[str], outputs: list[str], chosen: _Chosen
) -> GraphDef:
    graph = Graph()
    saver = await _importing(graph, lambda: import_meta_graph(meta_graph, clear_devices=True))
    async with Session(graph=graph) as session:
        if saver is not None:
            await saver.restore(session, checkpoint)
        if initializers:
            await session.run(initializers)
        return await convert_variables_to_constants(session, meta_graph.graph_def, outputs, *chosen)


async def _freeze_graph_def(
    graph_def: GraphDef,
    saver_def: SaverDef | None,
    checkpoint: str,
    initializers: list[str],
    outputs: list[str],
    chosen: _Chosen,
) -> GraphDef:
    from aioexec.graph.io.graphdef_import import import_graph_def

    def freeze() -> GraphDef:
        with load_checkpoint(checkpoint) as reader:
            return freeze_with_values(graph_def, outputs, reader.get_tensor, *chosen)

    if saver_def is None and not initializers:
        return await off_loop(freeze)
    graph = Graph()

    def saver() -> Saver:
        import_graph_def(graph_def, name="")
        return _saver_of(graph, checkpoint) if saver_def is None else Saver(saver_def=saver_def)

    restoring = await _importing(graph, saver)
    async with Session(graph=graph) as session:
        await restoring.restore(session, checkpoint)
        if initializers:
            await session.run(initializers)
        return await convert_variables_to_constants(session, graph_def, outputs, *chosen)


def _saver_of(graph: Graph, checkpoint: str) -> Saver:
    """A saver of the variables of a graph that a checkpoint has. Blocks."""
    known = {op.name for op in graph.get_operations()}
    with load_checkpoint(checkpoint) as reader:
        names = [name for name in reader.get_variable_to_shape_map() if name in known]
    return Saver({name: graph.get_tensor_by_name(f"{name}:0") for name in names})


async def _importing(graph: Graph, make: Callable[[], Any]) -> Any:
    """Add nodes to a graph in a thread."""

    def work() -> Any:
        with graph.as_default():
            return make()

    return await off_loop(work)


def _finish(frozen: GraphDef, path: str | None, clear_devices: bool) -> None:
    """Clear the devices, and write the file. Blocks."""
    from aioexec.formats.proto_files import write_proto

    for node in frozen.node if clear_devices else ():
        node.device = ""
    if path:
        write_proto(os.fspath(path), frozen, as_text=False)


def _words(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [word for word in (text or "").replace(" ", "").split(",") if word]
