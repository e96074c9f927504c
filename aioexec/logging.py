"""Log messages under the names of `tf.logging`, over the standard library's logging.

Messages go to the logger "aioexec", the parent of the package's own loggers: `set_verbosity(INFO)` shows what hooks log too.
Where the program has configured no handlers, messages are written to standard error as `INFO:aioexec:text`.
"""

from __future__ import annotations

import logging as _logging
import sys as _sys
from logging import DEBUG, ERROR, FATAL, INFO, WARN
from typing import Final

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "TaskLevelStatusMessage",
    "debug",
    "error",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]

_counts: Final[dict[tuple[str, int], int]] = {}
"""How often each line (file, number) has called `log_every_n` or `log_first_n`."""


class _StandardError(_logging.Handler):
    """Writes to `sys.stderr`, unless the root logger has handlers, which then have the message too."""

    def emit(self, record: _logging.LogRecord) -> None:
        if _logging.getLogger().handlers:
            return
        try:
            _sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # as every handler of the standard library does
            self.handleError(record)


def get_logger() -> _logging.Logger:
    """Return the logger "aioexec", after giving it a handler for standard error if it has none."""
    logger = _logging.getLogger("aioexec")
    if not logger.handlers:
        handler = _StandardError()
        handler.setFormatter(_logging.Formatter(_logging.BASIC_FORMAT))
        logger.addHandler(handler)
    return logger


def log(level: int, msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at a level; keywords are those of `logging.Logger.log`."""
    _log(level, msg, args, kwargs)


def debug(msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at the level DEBUG."""
    _log(DEBUG, msg, args, kwargs)


def info(msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at the level INFO."""
    _log(INFO, msg, args, kwargs)


def warn(msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at the level WARN."""
    _log(_logging.WARNING, msg, args, kwargs)


def warning(msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at the level WARN."""
    _log(_logging.WARNING, msg, args, kwargs)


def error(msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at the level ERROR."""
    _log(ERROR, msg, args, kwargs)


def fatal(msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at the level FATAL; the program goes on, as in TensorFlow."""
    _log(FATAL, msg, args, kwargs)


def vlog(level: int, msg: object, *args: object, **kwargs: object) -> None:
    """Log `msg % args` at a level, as `log` does."""
    _log(level, msg, args, kwargs)


def TaskLevelStatusMessage(msg: object) -> None:
    """Log a message at the level ERROR."""
    _log(ERROR, msg, (), {})


def log_if(level: int, msg: object, condition: object, *args: object) -> None:
    """Log `msg % args` at a level if the condition is true."""
    if condition:
        _log(level, msg, args, {})


def log_every_n(level: int, msg: object, n: int, *args: object) -> None:
    """Log `msg % args` at the first, the (n + 1)st, the (2 n + 1)st … call from the calling line."""
    if _calls_before(_caller()) % n == 0:
        _log(level, msg, args, {})


def log_first_n(level: int, msg: object, n: int, *args: object) -> None:
    """Log `msg % args` at the first n calls from the calling line."""
    if _calls_before(_caller()) < n:
        _log(level, msg, args, {})


def flush() -> None:
    """Flush the handlers that messages go to."""
    for handler in (*get_logger().handlers, *_logging.getLogger().handlers):
        handler.flush()


def get_verbosity() -> int:
    """Return the level below which messages are dropped."""
    return get_logger().getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Set the level below which messages are dropped, for the whole package."""
    get_logger().setLevel(v)


def _log(level: int, msg: object, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Log with the caller of the public function as the place of the message."""
    get_logger().log(level, msg, *args, **{"stacklevel": 3, **kwargs})  # type: ignore[arg-type]


def _caller() -> tuple[str, int]:
    """Return file and line of the caller of the public function."""
    frame = _sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno


def _calls_before(place: tuple[str, int]) -> int:
    count = _counts.get(place, 0)
    _counts[place] = count + 1
    return count
