"""Where the runtime's notices go, the device placement for instance: to listeners, as a notebook wants; else to a log."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

logger = logging.getLogger(__name__)

Listener = Callable[[str], object]

_listeners: list[Listener] = []


def add_listener(listener: Listener) -> bool:
    """Send messages to a listener from now on; False: it is one already."""
    if listener in _listeners:
        return False
    _listeners.append(listener)
    return True


def remove_listener(listener: Listener) -> bool:
    """Remove a listener; False: it was none."""
    if listener not in _listeners:
        return False
    _listeners.remove(listener)
    return True


def log_to_listeners(message: str) -> bool:
    """Call the listeners; False: there is none, the message is the caller's to log.

    A listener that fails is reported, and the others are called all the same.
    """
    called = list(_listeners)
    for listener in called:
        try:
            listener(message)
        except Exception:
            logger.exception("a listener failed on %r", message)
    return bool(called)


def log_notice(message: str) -> None:
    """Call the listeners; without one write to the log, or to standard error if logging is not set up.

    Logging that is not set up drops whatever is no warning, and these were asked for.
    """
    if log_to_listeners(message):
        return
    if logger.hasHandlers():
        logger.info(message)
    else:
        sys.stderr.write(f"{message}\n")
