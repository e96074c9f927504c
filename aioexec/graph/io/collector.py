"""Disables the garbage collector while many long-lived objects are allocated."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_inside = 0
"""The number of threads in a block; guarded by the lock, as is `_was_enabled`, the state before the first of them."""
_was_enabled = True


@contextlib.contextmanager
def collector_disabled() -> Iterator[None]:
    """Disable the garbage collector in the block, which allocates many long-lived objects: each collection would traverse them,
    and hold the interpreter's lock for more than 10 ms.

    The switch is global: the last of several threads to leave such a block restores what the first one found.
    """
    global _inside, _was_enabled
    with _lock:
        if _inside == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _was_enabled:
                gc.enable()
