"""Readers and writers of files under the names of `tensorflow.python.pywrap_tensorflow`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from aioexec.observability.summary_writer import FileWriter
from aioexec.train.checkpoints.checkpoint_reader import CheckpointReader as NewCheckpointReader

if TYPE_CHECKING:
    from aioexec.formats.protos import Event

__all__ = ["EventsWriter", "NewCheckpointReader"]


class EventsWriter:
    """Writes events to a file `events.out.tfevents.…` in the folder of a path, with the path's last part at its end.

    Args:
        file_prefix: the path, text or bytes.
    """

    def __init__(self, file_prefix: str | bytes) -> None:
        folder, name = os.path.split(os.fsdecode(file_prefix))
        self._writer = FileWriter(folder or os.curdir, filename_suffix=f".{name}" if name else None)

    def WriteEvent(self, event: Event) -> None:
        """Add an event, which is written soon, in another thread."""
        self._writer.add_event(event)

    async def Flush(self) -> None:
        """Return when the events are on the disk.

        Raises:
            OpError: they could not be written.
        """
        await self._writer.flush()

    async def Close(self) -> None:
        """Flush, and close the file; later events are ignored.

        Raises:
            OpError: events could not be written.
        """
        await self._writer.close()
