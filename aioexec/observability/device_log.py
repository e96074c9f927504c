"""Where the runtime's notices go, the device placement for instance: to listeners, as a notebook wants; else to a log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

logger = logging.getLogger(__name__)

Listener = Callable[[str], object]

_listeners: list[Listener] = []


def add_listener(listener: Listener) -> bool:
    """Have messages told to a listener from now on; False: it is one already."""
    if listener in _listeners:
        return False
    _listeners.append(listener)
    return True


def remove_listener(listener: Listener) -> bool:
    """Tell a listener nothing any more; False: it was none."""
    if listener not in _listeners:
        return False
    _listeners.remove(listener)
    return True


def log_to_listeners(message: str) -> bool:
    """Tell the listeners; False: there is none, the message is the caller's to log.

    A listener that fails is reported and keeps nobody else from hearing.
    """
    told = list(_listeners)
    for listener in told:
        try:
            listener(message)
        except Exception:
            logger.exception("a listener failed on %r", message)
    return bool(told)


def log_notice(message: str) -> None:
    """Tell the listeners; where there is none the log, or standard error if nobody has set logging up.

    Logging that is not set up drops whatever is no warning, and somebody has asked for these.
    """
    if log_to_listeners(message):
        return
    if logger.hasHandlers():
        logger.info(message)
    else:
        sys.stderr.write(f"{message}\n")
