"""Readers: dequeue file names one at a time, and return the records of each file.

A worker reads records ahead, so that most reads need no thread. All methods run on the event loop, except
`_Source._read_ahead`, which runs on one worker at a time; meanwhile no other thread accesses the source.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from aioexec.errors import InvalidArgumentError, OpError, UnimplementedError

_AHEAD_BYTES: Final = 1 << 18
_AHEAD_RECORDS: Final = 1 << 12
"""Upper bound for the records that a worker reads before the first is returned."""


class Record(NamedTuple):
    key: bytes
    value: bytes


class ReaderState(NamedTuple):
    """The counters of a reader, and the name of the last file it began."""

    work_started: int
    work_finished: int
    records_produced: int
    work: bytes


OpenRecords = Callable[[bytes], Iterator[Record]]
"""Opens a file by name; both the call and the iterator block."""

NextWork = Callable[[], Awaitable[bytes]]
"""Waits for a file name."""

InWorker = Callable[[Callable[[], Any]], Awaitable[Any]]


class _Source:
    """The records of one file. A worker appends to `_ahead`, the event loop takes from its other end.

    `is_open`: the file was opened. `_is_over`: nothing is left to read; `_error`: the error, if reading failed.
    """

    def __init__(self, opens: Callable[[], Iterator[Record]]) -> None:
        self._opens = opens
        self._records: Iterator[Record] | None = None
        self._ahead: deque[Record] = deque()
        self._is_over = False
        self._error: OpError | None = None
        self._reading: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._records is not None

    def _read_ahead(self) -> None:
        size = 0
        try:
            if self._records is None:
                self._records = self._opens()
            while size < _AHEAD_BYTES and len(self._ahead) < _AHEAD_RECORDS:
                record = next(self._records, None)
                if record is None:
                    self._is_over = True
                    return
                self._ahead.append(record)
                size += len(record.key) + len(record.value)
        except OpError as error:
            self._error, self._is_over = error, True

    async def next(self, in_worker: InWorker) -> Record | None:
        """Return the next record, None at the end. If the caller is cancelled, the read continues for the next one."""
        while not self._ahead:
            if self._error is not None:
                raise type(self._error)(self._error.message)
            if self._is_over:
                return None
            if self._reading is None:
                self._reading = asyncio.ensure_future(in_worker(self._read_ahead))
            await asyncio.shield(self._reading)
            self._reading = None
        return self._ahead.popleft()

    def taken(self, count: int) -> list[Record]:
        """Take up to `count` records that have been read ahead."""
        ahead = self._ahead
        return [ahead.popleft() for _ in range(min(count, len(ahead)))]


class Reader:
    """A reader of one kind of file.

    Constant: name, device, `open_records`; `is_whole`: each file is one record; `keeps_state`.

    Changing, under `_lock` (which a read holds while it waits for a file name): `work`, the name of the last file; `_source`,
    its records, None at its end; the numbers of files begun and finished and of records returned.
    """

    def __init__(
        self, name: str, device: str, open_records: OpenRecords, is_whole: bool, keeps_state: bool
    ) -> None:
        self.name = name
        self.device = device
        self._open_records = open_records
        self._is_whole = is_whole
        self._keeps_state = keeps_state
        self._lock = asyncio.Lock()
        self._clear()

    def _clear(self) -> None:
        self.work = b""
        self._source: _Source | None = None
        self.work_started = self.work_finished = self.records_produced = 0

    def read_now(self) -> Record | None:
        """Return the next record if it was read ahead and no other read is under way, else None."""
        if self._source is None or self._lock.locked():
            return None
        records = self._source.taken(1)
        self.records_produced += len(records)
        return records[0] if records else None

    async def read(self, next_work: NextWork, in_worker: InWorker) -> Record:
        """Return the next record; at the end of a file, of the next file in the queue."""
        async with self._lock:
            while True:
                record = await self._next(next_work, in_worker)
                if record is not None:
                    return record

    async def read_up_to(self, count: int, next_work: NextWork, in_worker: InWorker) -> list[Record]:
        """Return up to `count` records, fewer at the end of a file, but at least one."""
        found: list[Record] = []
        async with self._lock:
            while len(found) < count:
                record = await self._next(next_work, in_worker)
                if record is not None:
                    found.append(record)
                if self._source is not None:
                    more = self._source.taken(count - len(found))
                    self.records_produced += len(more)
                    found += more
                if self._source is None and found:
                    break
        return found

    async def _next(self, next_work: NextWork, in_worker: InWorker) -> Record | None:
        if self._source is None:
            work = await next_work()
            self.work, self._source = work, _Source(partial(self._open_records, work))
            self.work_started += 1
        source = self._source
        try:
            record = await source.next(in_worker)
        except OpError:
            if not source.is_open:  # as if the name had not been dequeued; later errors are permanent
                self._source = None
                self.work_started -= 1
            raise
        if record is not None:
            self.records_produced += 1
        if record is None or self._is_whole:
            self._source, self.work_finished = None, self.work_started
        return record

    async def reset(self) -> None:
        """Close the current file and reset the counters."""
        async with self._lock:
            self._clear()

    async def state(self) -> ReaderState:
        """Return the state for `restore`.

        Raises:
            UnimplementedError: readers of this kind keep no state.
        """
        self._check_state("SerializeState")
        async with self._lock:
            return ReaderState(self.work_started, self.work_finished, self.records_produced, self.work)

    async def restore(self, state: ReaderState) -> None:
        """Restore the state of another reader.

        Raises:
            InvalidArgumentError: the state is inconsistent, or not between two files.
            UnimplementedError: readers of this kind keep no state.
        """
        self._check_state("RestoreState")
        if state.work_started > state.work_finished or min(state[:3]) < 0:
            raise InvalidArgumentError(f"Inconsistent state for {self.name}: {state}")
        async with self._lock:
            self._clear()
            self.work_started, self.work_finished, self.records_produced, self.work = state

    def _check_state(self, verb: str) -> None:
        if not self._keeps_state:
            raise UnimplementedError(f"Reader {verb}")
