"""Files of events under the names of `tensorflow.python.training.summary_io`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioexec.lazy_names import public_names

if TYPE_CHECKING:
    from aioexec.formats.event_files import summary_iterator as summary_iterator
    from aioexec.observability import summary_writer as _summary_writer
    from aioexec.train.hooks import file_writer_cache as _file_writer_cache

    SummaryWriter = _summary_writer.FileWriter
    SummaryWriterCache = _file_writer_cache.FileWriterCache
else:
    __getattr__, __dir__ = public_names(__name__)
