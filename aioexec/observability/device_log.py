"""Runtime notices, such as device placements: passed to listeners (a notebook registers one), otherwise logged."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

logger = logging.getLogger(__name__)

Listener = Callable[[str], object]

_listeners: list[Listener] = []


def add_listener(listener: Listener) -> bool:
    """Register a listener; False if it was registered already."""
    if listener in _listeners:
        return False
    _listeners.append(listener)
    return True


def remove_listener(listener: Listener) -> bool:
    """Remove a listener; False if it was not registered."""
    if listener not in _listeners:
        return False
    _listeners.remove(listener)
    return True


def log_to_listeners(message: str) -> bool:
    """Call the listeners; returns False if there is none.

    An exception of a listener is logged, and the others are called nevertheless.
    """
    called = list(_listeners)
    for listener in called:
        try:
            listener(message)
        except Exception:
            logger.exception("a listener failed on %r", message)
    return bool(called)


def log_notice(message: str) -> None:
    """Call the listeners; without one, write to the log, or to standard error if logging is not configured.

    Unconfigured logging drops messages below WARNING, but these were requested.
    """
    if log_to_listeners(message):
        return
    if logger.hasHandlers():
        logger.info(message)
    else:
        sys.stderr.write(f"{message}\n")
