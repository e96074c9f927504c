"""Pauses the garbage collector while very many long-lived objects are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the garbage collector from walking, over and over, what grows and of which nothing is garbage.

    Threads may do so at once: the first to be done lets it collect again, under the others too.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
