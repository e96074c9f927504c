"""BLAS runs with one thread while any session that has planned something is open: the engine's workers are the parallelism."""

from __future__ import annotations

import threading
from typing import ClassVar

from aioexec.devices.jit import blas


class BlasThreads:
    """One session's hold; both methods are idempotent. The first holder limits the threads, the last one restores them."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _holders: ClassVar[int] = 0
    _before: ClassVar[int | None] = None

    def __init__(self) -> None:
        self._holds = False

    def hold(self) -> None:
        kind = type(self)
        with kind._lock:
            if self._holds:
                return
            self._holds = True
            if kind._holders == 0:
                kind._before = blas.set_threads(1)
            kind._holders += 1

    def release(self) -> None:
        kind = type(self)
        with kind._lock:
            if not self._holds:
                return
            self._holds = False
            kind._holders -= 1
            if kind._holders == 0 and kind._before is not None:
                blas.set_threads(kind._before)
