"""Reads graphs from files: a GraphDef or a MetaGraphDef (as beside a checkpoint), in binary or text format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aioexec.errors import DataLossError
from aioexec.formats.proto_files import read_proto
from aioexec.formats.protos import GraphDef, MetaGraphDef
from aioexec.graph.graph import Graph
from aioexec.graph.io.graphdef_import import import_graph_def
from aioexec.train import Saver, import_meta_graph


def read_graph(path: Path) -> Graph:
    """The graph in a file, with the collections of a MetaGraphDef.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: it contains no graph.
        InvalidArgumentError: the graph cannot run here.
    """
    return read_graph_and_saver(path)[0]


def read_graph_and_saver(path: Path) -> tuple[Graph, Saver | None]:
    """The graph in a file, and the saver of its variables, which only a MetaGraphDef has; raises as `read_graph` does."""
    message, saver = read_message(path), None
    graph = Graph()
    with graph.as_default():
        if isinstance(message, MetaGraphDef):
            saver = import_meta_graph(message, clear_devices=True)
        else:
            for node in message.node:
                node.device = ""
            import_graph_def(message, name="")
    return graph, saver


def read_message(path: Path) -> Any:
    """Parse a MetaGraphDef or GraphDef; raises as `read_graph` does.

    The bytes of one kind may parse as another; then no node of the result has an op.
    """
    errors = []
    for kind in (MetaGraphDef, GraphDef):
        try:
            message: Any = read_proto(str(path), kind)
        except DataLossError as error:
            errors.append(error.message)
            continue
        nodes = message.graph_def.node if kind is MetaGraphDef else message.node
        if nodes and all(node.op for node in nodes):
            return message
    raise DataLossError("; ".join(errors) or f"{path} holds no graph: no nodes")
