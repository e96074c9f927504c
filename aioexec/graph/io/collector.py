"""Disables the garbage collector while many long-lived objects are allocated."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_disabled() -> Iterator[None]:
    """Disable the garbage collector in the block, which allocates many long-lived objects: each collection would traverse them.

    The switch is global: if several threads are in such a block, the first to leave enables the collector for all.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
