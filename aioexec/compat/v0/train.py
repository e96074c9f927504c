"""`tf.train` of TensorFlow 0.x: `aioexec.train`, and the writer of summaries."""

from __future__ import annotations

import sys
from typing import Any

from aioexec.observability.summary_writer import FileWriter


class SummaryWriter(FileWriter):
    """A writer of event files: `summary.FileWriter` since 1.0."""


def __getattr__(name: str) -> Any:
    """Return a name of `aioexec.train`."""
    return getattr(sys.modules["aioexec"].train, name)
