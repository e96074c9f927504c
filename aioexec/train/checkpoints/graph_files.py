"""Writes graphs to files, for people and tools to read."""

from __future__ import annotations

import os
from typing import Any

from aioexec.formats.checkpoint_files import naming
from aioexec.formats.proto_files import write_proto
from aioexec.graph.graph import Graph


def write_graph(
    graph_or_graph_def: Any, logdir: str | os.PathLike[str], name: str, as_text: bool = True
) -> str:
    """Write a graph as a GraphDef into a file of a directory, which is made if need be; return the path. Blocks.

    Readers see the file that was there, or the whole new one.

    Args:
        as_text: in protobuf's text format; else its bytes.

    Raises:
        OpError: the file cannot be written.
    """
    message = graph_or_graph_def
    if isinstance(message, Graph):
        message = message.as_graph_def()
    folder = os.fspath(logdir)
    if folder:
        with naming(folder):
            os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, name)
    write_proto(path, message, as_text)
    return path
