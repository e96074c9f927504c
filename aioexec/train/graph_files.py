"""Graphs as files, for people and tools to look at."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from google.protobuf import text_format

from aioexec.formats.file_errors import canonical
from aioexec.graph.graph import Graph


def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Write a graph as a GraphDef into a file of a directory, which is made if need be; return the path. Blocks.

    Readers see the file that was there, or the whole new one.

    Args:
        as_text: in protobuf's text format; else its bytes.

    Raises:
        OpError: the file cannot be written.
    """
    graph_def = graph_or_graph_def
    if isinstance(graph_def, Graph):
        graph_def = graph_def.as_graph_def()
    data = text_format.MessageToString(graph_def).encode() if as_text else graph_def.SerializeToString()
    path = os.path.join(logdir, name)
    aside = Path(f"{path}.tmp{os.getpid()}")
    try:
        Path(logdir).mkdir(parents=True, exist_ok=True)
        aside.write_bytes(data)
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise canonical(path, error) from error
    return path
