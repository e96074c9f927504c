"""Writes events to a file in a thread, without blocking the producers.

`add` never waits, neither for the disk nor for room. The thread exists only while something is not yet on the disk. Every 50 ms
it writes what has been added, so that TensorBoard sees events soon, and calls fsync `flush_secs` later; then it ends. A flush
writes and syncs at once, in a thread of the loop's executor.

The bytes that wait are bounded. Beyond the bound `add` raises ResourceExhaustedError, instead of waiting or losing data
silently; a producer that is faster than its disk uses `await flush()`.

If a write fails, nothing that was added is lost: the next event or flush makes another attempt. The error is raised once: by
the flush, or without one, by the next `add`. At interpreter exit everything is written.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

from aioexec.errors import OpError, ResourceExhaustedError
from aioexec.in_thread import in_thread

THREAD_NAME: Final = "aioexec-event-writer"
MOST_WAITING: Final = 64 << 20
"""The default bound, in bytes."""

_GATHERING: Final = 0.05
"""The interval of writes, in seconds."""
_URGENT: Final = 1 << 20
"""Bytes from which on a write does not wait for the interval."""
_PIECE: Final = 1 << 18
"""Bytes of one write, approximately."""

_log = logging.getLogger(__name__)


class File(Protocol):
    """A file of events; errors are `OpError`s."""

    def append(self, records: bytes) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


Item = bytes | Callable[[], None]
"""A record, or a function to call in order; its errors are `OpError`s and are raised, but it is not called again."""

_writers: weakref.WeakSet[EventWriter] = weakref.WeakSet()
"""All writers of this process: they are flushed at exit, and reset in a forked child."""


class EventWriter:
    """Writes records to a file, in the order in which they were added; from any thread.

    Constant: the file, used only by the thread that holds `_writing`.

    Changing, guarded by `_changed`, which is never held during a write:
        _waiting: records to be written, oldest first; `_waiting_bytes` includes those being written.
        _sync_at: when to call fsync; None if nothing is to be synced.
        _error: of an attempt, until it is raised.
        _is_closed: nothing is accepted any more.
        _thread: None if nothing is to be written or synced, or the last attempt failed.
    """

    def __init__(self, file: File, flush_secs: float, most_waiting: int = MOST_WAITING) -> None:
        self._file = file
        self._flush_secs = flush_secs
        self._most_waiting = most_waiting
        self._is_closed = False
        self._begin()
        _writers.add(self)

    def begin_as_child(self) -> None:
        """Reset in a forked child, which has no writer thread; the waiting records are the parent's."""
        self._file.close()
        self._begin()

    def _begin(self) -> None:
        self._writing = threading.Lock()
        self._changed = threading.Condition(threading.Lock())
        self._waiting: list[Item] = []
        self._waiting_bytes = 0
        self._sync_at: float | None = None
        self._error: OpError | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    @property
    def is_idle(self) -> bool:
        """Whether everything is on the disk, and there is no error to raise."""
        with self._changed:
            return self._is_done() and self._error is None

    def add(self, item: Item) -> None:
        """Add a record; ignored once closed.

        Raises:
            ResourceExhaustedError: the bound is reached.
            OpError: earlier records could not be written; they still wait. This one was not added.
        """
        size = _size(item)
        with self._changed:
            if self._is_closed:
                return
            self._raise_error()
            before = self._waiting_bytes
            if before and before + size > self._most_waiting:
                raise ResourceExhaustedError(
                    f"event writer: {before} bytes wait for the disk, no room for {size} more (limit {self._most_waiting}); "
                    "await flush() to keep in step"
                )
            self._waiting.append(item)
            self._waiting_bytes = before + size
            if self._thread is None:
                self._start()
            elif len(self._waiting) == 1 or before < _URGENT <= before + size:
                self._changed.notify()

    async def flush(self) -> None:
        """Return when everything added before is on the disk.

        Raises:
            OpError: it could not be written, and still waits; or an earlier error was not raised yet.
        """
        if not self.is_idle:
            await in_thread(self.flush_now)

    def flush_now(self) -> None:
        """`flush`, blocking."""
        self._attempt(must_sync=True)
        with self._changed:
            self._changed.notify()
            self._raise_error()

    async def close(self) -> None:
        """Write what waits and end; later records are ignored.

        Raises:
            OpError: something could not be written, and is lost.
        """
        with self._changed:
            self._is_closed = True
        await in_thread(self._close_now)

    def reopen(self) -> None:
        """Accept events again after `close`."""
        with self._changed:
            self._is_closed = False

    def _close_now(self) -> None:
        try:
            self.flush_now()
        finally:
            with self._writing, self._changed:
                self._file.close()
                self._waiting, self._waiting_bytes, self._sync_at = [], 0, None
                thread = self._thread
                self._changed.notify()
            if thread is not None:
                thread.join()

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    # The thread

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        try:
            thread.start()
        except (
            RuntimeError
        ):  # no more threads, or interpreter exit: a flush writes what waits, the last one at exit
            return
        self._thread = thread

    def _run(self) -> None:
        try:
            while self._wait_for_work():
                self._attempt(must_sync=False)
        finally:
            with self._changed:
                if self._thread is threading.current_thread():
                    self._thread = None

    def _wait_for_work(self) -> bool:
        """Wait until it is time to write or to sync; False if the thread should end."""
        with self._changed:
            if self._sync_at is not None and not self._is_called():
                self._changed.wait_for(self._is_called, self._sync_at - time.monotonic())
            if self._waiting and self._error is None:
                self._changed.wait_for(self._is_urgent, _GATHERING)
            if self._is_done() or self._error is not None:
                self._thread = None
            return self._thread is not None

    def _is_done(self) -> bool:
        return not self._waiting and self._sync_at is None

    def _is_called(self) -> bool:
        return bool(self._waiting) or self._sync_at is None or self._error is not None

    def _is_urgent(self) -> bool:
        return self._waiting_bytes >= _URGENT or not self._waiting

    # Any thread

    def _attempt(self, must_sync: bool) -> None:
        """Write what waits, and sync if required or due; what could not be written stays in the queue."""
        with self._writing:
            try:
                self._write()
                if self._sync_at is not None and (must_sync or time.monotonic() >= self._sync_at):
                    self._file.sync()
                    with self._changed:
                        self._sync_at = None
            except OpError as error:
                with self._changed:
                    self._error = error

    def _write(self) -> None:
        with self._changed:
            taken, self._waiting = self._waiting, []
            if taken and self._sync_at is None:
                self._sync_at = time.monotonic() + self._flush_secs
        written = 0
        try:
            for items in _pieces(taken):
                if isinstance(items, list):
                    self._file.append(b"".join(items))
                    written += len(items)
                else:
                    written += 1  # not called again: later events follow
                    items()
        finally:
            with self._changed:
                self._waiting[:0] = taken[written:]
                self._waiting_bytes -= sum(map(_size, taken[:written]))


def _size(item: Item) -> int:
    return len(item) if isinstance(item, bytes) else 0


def _pieces(items: Iterable[Item]) -> Iterator[list[bytes] | Callable[[], None]]:
    """Group records into pieces to write, and functions to call between them."""
    records, size = list[bytes](), 0
    for item in items:
        if isinstance(item, bytes):
            records.append(item)
            size += len(item)
        if records and (size >= _PIECE or not isinstance(item, bytes)):
            yield records
            records, size = [], 0
        if not isinstance(item, bytes):
            yield item
    if records:
        yield records


# The process


@atexit.register
def _write_all() -> None:
    for writer in tuple(_writers):
        try:
            writer.flush_now()
        except OpError as error:
            _log.warning("events were lost: %s", error)


def _begin_as_child() -> None:
    for writer in tuple(_writers):
        writer.begin_as_child()


os.register_at_fork(after_in_child=_begin_as_child)
