"""Freezing of a graph in a file under the name of `tensorflow.python.tools.freeze_graph`."""

from __future__ import annotations

import os

from aioexec.errors import GraphValueError, UnimplementedError
from aioexec.formats.proto_files import read_proto
from aioexec.formats.protos import GraphDef, MetaGraphDef
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_import import import_graph_def
from aioexec.sessions.session import Session
from aioexec.train.checkpoints.checkpoint_reader import CheckpointReader
from aioexec.train.checkpoints.freezing import convert_variables_to_constants
from aioexec.train.checkpoints.graph_files import write_graph
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.off_loop import off_loop


async def freeze_graph(
    input_graph: str | None,
    input_saver: str | None,
    input_binary: bool,
    input_checkpoint: str,
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
    saved_model_tags: str = "serve",
    checkpoint_version: int = 2,
) -> GraphDef:
    """Write the subgraph of some nodes, with the variables' values of a checkpoint as constants, and return it.

    Args:
        input_graph, input_binary: the file of a GraphDef, and whether it is binary.
        output_node_names: nodes, separated by commas.
        output_graph: the file to write, binary.
        clear_devices: forget the devices of nodes.
        initializer_nodes: nodes to run after the variables are restored, separated by commas.
        variable_names_whitelist, variable_names_blacklist: variables to convert, and not to convert, separated by commas.
        input_meta_graph: the file of a MetaGraphDef, read instead of `input_graph`.
        input_saver, restore_op_name, filename_tensor_name, saved_model_tags, checkpoint_version: have no effect: variables are
            restored by their names.

    Raises:
        GraphValueError: there is no graph, or no output is named.
        NotFoundError: a file is missing.
        UnimplementedError: `input_saved_model_dir` is given; `aioexec.load` reads saved models.
    """
    if input_saved_model_dir:
        raise UnimplementedError("freeze_graph: input_saved_model_dir: load the model with `aioexec.load`")
    outputs = _names(output_node_names)
    if not outputs:
        raise GraphValueError("You need to supply the name of a node to --output_node_names.")
    graph_def = await off_loop(_read, input_graph, input_meta_graph)
    if clear_devices:
        for node in graph_def.node:
            node.ClearField("device")
    with Graph().as_default() as graph:
        import_graph_def(graph_def, name="")
        saver = await off_loop(_saver_of, graph, input_checkpoint)
        async with Session(graph=graph) as session:
            await saver.restore(session, input_checkpoint)
            if initializer_nodes:
                await session.run([graph.get_operation_by_name(name) for name in _names(initializer_nodes)])
            frozen = await convert_variables_to_constants(
                session,
                graph_def,
                outputs,
                _names(variable_names_whitelist) or None,
                _names(variable_names_blacklist),
            )
    if output_graph:
        folder, name = os.path.split(output_graph)
        await off_loop(write_graph, frozen, folder, name, as_text=False)
    return frozen


def _names(text: str) -> list[str]:
    return [name for name in text.replace(" ", "").split(",") if name]


def _read(input_graph: str | None, input_meta_graph: str | None) -> GraphDef:
    """The graph of a file, a copy that may be changed."""
    if input_meta_graph:
        return read_proto(input_meta_graph, MetaGraphDef).graph_def
    if not input_graph:
        raise GraphValueError("freeze_graph: neither input_graph nor input_meta_graph is given")
    return read_proto(input_graph, GraphDef)


def _saver_of(graph: Graph, checkpoint: str) -> Saver:
    """A saver of the variables of a graph that a checkpoint has."""
    known = {node.name for node in graph.get_operations()}
    with CheckpointReader(checkpoint) as reader:
        names = [name for name in reader.get_variable_to_shape_map() if name in known]
    with graph.as_default():
        return Saver({name: graph.get_tensor_by_name(f"{name}:0") for name in names})
