"""Readers: they take names of files from a queue, one at a time, and give the records of each in turn.

A reader keeps what a worker has read ahead of its callers, so most records cost no hop to a thread. Used on the event loop
only, but for `_Source._read_ahead`, which workers call, one at a time: while one reads ahead, no other thread uses the source.
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
"""What a worker reads at most before the first record is handed out."""


class Record(NamedTuple):
    key: bytes
    value: bytes


class ReaderState(NamedTuple):
    """What a reader has counted, and the last file it began."""

    work_started: int
    work_finished: int
    records_produced: int
    work: bytes


OpenRecords = Callable[[bytes], Iterator[Record]]
"""Opens the file of a name; the iterator reads as it goes. Both block."""

NextWork = Callable[[], Awaitable[bytes]]
"""Waits for the name of a file."""

InWorker = Callable[[Callable[[], Any]], Awaitable[Any]]


class _Source:
    """The records of one file. Workers read them ahead into `_ahead`, whose other end the event loop takes them from.

    `is_open`: the file was opened. `_is_over`: there is nothing more to read; `_error`: why, if something is wrong.
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
        """The next record; None at the end. A caller that is cancelled leaves the reading to the next one."""
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
        """The next records that have been read ahead, at most so many."""
        ahead = self._ahead
        return [ahead.popleft() for _ in range(min(count, len(ahead)))]


class Reader:
    """A reader of one kind of file.

    Constant: name, device, `open_records`; `is_whole`: a file is one record, and is over with it; `keeps_state`.
    Changing, by the holder of `_lock` (a read holds it while it waits for a file): `work` is the name of the last
    file, `_source` its records until they are over; counts of files begun and finished, and of records given.
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

    async def read(self, next_work: NextWork, in_worker: InWorker) -> Record:
        """The next record, of the next file of the queue if the one being read is over."""
        async with self._lock:
            while True:
                record = await self._next(next_work, in_worker)
                if record is not None:
                    return record

    async def read_up_to(self, count: int, next_work: NextWork, in_worker: InWorker) -> list[Record]:
        """So many records, or fewer where a file ends; at least one, of the next file if need be."""
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
            if not source.is_open:  # as if it had not been in the queue; what is wrong later stays wrong
                self._source = None
                self.work_started -= 1
            raise
        if record is not None:
            self.records_produced += 1
        if record is None or self._is_whole:
            self._source, self.work_finished = None, self.work_started
        return record

    async def reset(self) -> None:
        """Forget the file being read, and what was counted."""
        async with self._lock:
            self._clear()

    async def state(self) -> ReaderState:
        """What `restore` takes.

        Raises:
            UnimplementedError: readers of this kind keep no state.
        """
        self._check_state("SerializeState")
        async with self._lock:
            return ReaderState(self.work_started, self.work_finished, self.records_produced, self.work)

    async def restore(self, state: ReaderState) -> None:
        """Be as another reader was.

        Raises:
            InvalidArgumentError: no reader can be so, between two files.
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
