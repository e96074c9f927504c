"""Logs as lines of JSON, for machines that collect them."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

ACCESS_LOGGER: Final = "aioexec.serving.access"
"""Logs each request at level INFO, with its fields in `extra`."""

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
