"""Writes graphs to files."""

from __future__ import annotations

import os
from typing import Any

from aioexec.formats.checkpoint_files import naming
from aioexec.formats.proto_files import write_proto
from aioexec.graph.graph import Graph


def write_graph(
    graph_or_graph_def: Any, logdir: str | os.PathLike[str], name: str, as_text: bool = True
) -> str:
    """Write a graph as a GraphDef to a file in a directory, which is created if needed; return the path. Blocks.

    The file is replaced atomically.

    Args:
        as_text: use protobuf's text format instead of binary.

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
