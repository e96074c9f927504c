"""The configuration of TensorBoard's projector, which shows embeddings of a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format

from aioexec.errors import GraphValueError
from aioexec.formats.protos.projector_pb2 import (
    EmbeddingInfo as EmbeddingInfo,
    ProjectorConfig as ProjectorConfig,
    SpriteMetadata as SpriteMetadata,
)

PROJECTOR_FILENAME: Final = "projector_config.pbtxt"
"""The name of the file that TensorBoard reads, in its log directory."""


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Write the configuration as text into the directory of a summary writer. Blocks while it writes that small file.

    Raises:
        GraphValueError: the writer has no directory.
        OSError: the file cannot be written.
    """
    logdir = summary_writer.get_logdir()
    if logdir is None:
        raise GraphValueError("Summary writer must have a logdir")
    (Path(logdir) / PROJECTOR_FILENAME).write_text(text_format.MessageToString(config), "utf-8")
