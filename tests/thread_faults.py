"""Simulates a system that cannot start more threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, NoReturn
from unittest.mock import patch

_START = "_start_new_thread" if hasattr(threading, "_start_new_thread") else "_start_joinable_thread"


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """Make thread starts fail in the block, as Python does if the system cannot start any."""

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("can't start new thread")

    with patch.object(threading, _START, refuse):
        yield
