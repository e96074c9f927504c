"""Futures for the end of threads, which users register with a coordinator."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from weakref import WeakKeyDictionary

_watched: WeakKeyDictionary[threading.Thread, asyncio.Future[None]] = WeakKeyDictionary()
"""One watcher per thread, however many callers wait for its end."""


def ended(thread: threading.Thread) -> asyncio.Future[None] | None:
    """A future that is done when the thread has ended; None if it is not alive.

    The watcher is a daemon thread of its own: in the loop's executor it would occupy a worker for as long as the thread runs,
    and delay the end of the loop.
    """
    if not thread.is_alive():
        return None
    loop = asyncio.get_running_loop()
    future = _watched.get(thread)
    if future is None or future.get_loop() is not loop:
        future = _watched[thread] = loop.create_future()
        watcher = threading.Thread(
            target=_watch, args=(thread, future), name=f"end of {thread.name}", daemon=True
        )
        watcher.start()
    return future


def _watch(thread: threading.Thread, future: asyncio.Future[None]) -> None:
    thread.join()
    with contextlib.suppress(RuntimeError):  # a closed loop has no waiters
        future.get_loop().call_soon_threadsafe(_set, future)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
