"""FileWriterCache: one FileWriter per directory, shared by all code that writes there."""

from __future__ import annotations

import threading
from typing import ClassVar

from aioexec.graph.graph import get_default_graph
from aioexec.observability.summary_writer import FileWriter


class FileWriterCache:
    """The shared writers of this process; each is kept until `clear`."""

    _lock: ClassVar = threading.Lock()
    _writers: ClassVar[dict[str, FileWriter]] = {}  # by directory, guarded by the lock

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """The writer of a directory; a new one writes the default graph first."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._writers:
                FileWriterCache._writers[logdir] = FileWriter(logdir, graph=get_default_graph())
            return FileWriterCache._writers[logdir]

    @staticmethod
    async def clear() -> None:
        """Close and remove all writers.

        Raises:
            OpError: of the first whose events could not be written; the others are closed nevertheless.
        """
        with FileWriterCache._lock:
            writers = list(FileWriterCache._writers.values())
            FileWriterCache._writers.clear()
        first: Exception | None = None
        for writer in writers:
            try:
                await writer.close()
            except Exception as error:
                first = first or error
        if first is not None:
            raise first
