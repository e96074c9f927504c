"""Logs on stderr, as text or as lines of JSON; written by a thread, since a pipe that is read slowly blocks."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from typing import Final

ACCESS_LOGGER: Final = "aioexec.serving.access"
"""Logs each request at level INFO, with its fields in `extra`."""

_TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_MOST_WAITING: Final = 10_000
"""Records that wait to be written; those beyond are dropped."""

_FIELDS: Final = ("protocol", "method", "path", "status", "seconds", "trace_id")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line: time, level, logger, message, the fields of a request, and the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in _FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _Queueing(QueueHandler):
    """Puts records into a queue as they are, for a formatter that reads their fields; never waits."""

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Full):
            self.queue.put_nowait(record)


@contextlib.contextmanager
def logs_on_stderr(*, as_json: bool, with_requests: bool) -> Iterator[None]:
    """Write what is logged in the block at level INFO to stderr; of requests only if that is wanted."""
    records: Queue[logging.LogRecord] = Queue(_MOST_WAITING)
    stream = logging.StreamHandler(sys.stderr)
    stream.setFormatter(JsonFormatter() if as_json else logging.Formatter(_TEXT))
    writer, handler, root = QueueListener(records, stream), _Queueing(records), logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger(ACCESS_LOGGER).setLevel(logging.INFO if with_requests else logging.WARNING)
    writer.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        writer.stop()
