"""`BatchScheduler`: which requests are in which batch, and when a batch runs. A state machine: events are method calls with the
time as an argument, and the returned values are what is to be done; no event loop, no clock, no arrays.

                     admit           (start)             (start)
    request:  ────────────> waiting ────────> some rows ────────> all rows ─── finish ───> answered
                               │               in batches           in batches
                               └──────────────────┴───────────────────┴─── withdraw, fail ───> over

A group, the requests of one key, is ready when it has the rows of a full batch, or when its oldest request has waited
`max_delay`. While fewer than `CONCURRENT_STEPS` batches run, the ready groups start one batch each, in turns. What is
in a batch is decided when it starts, so that requests that arrive while no step can start still join it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from aioexec.batching.fair_queue import FairQueue
from aioexec.batching.requests import Batch, Key, Request
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError, UnavailableError

CONCURRENT_STEPS: Final = 2
"""Batches that run at a time: while one is computed, the values of another are joined or split."""


class _Group(FairQueue):
    """The waiting requests of one key; `due` is when it is ready even if it has less than a full batch."""

    __slots__ = ("due",)

    def __init__(self, max_batch_size: int, due: float) -> None:
        super().__init__(max_batch_size)
        self.due = due


class BatchScheduler:
    """Decides on batches.

    Args:
        max_batch_size: the most rows of a batch.
        max_delay: the seconds that a request waits for others, 0 for none.
        max_queue: the most rows that wait.
        buckets: the sizes to which batches are padded, increasing; the last one is `max_batch_size`.

    State:
        waiting: the number of rows that wait, over all groups.
        running: the batches that have started and not ended, at most `CONCURRENT_STEPS`.
        alarm: when `start` is to be called even if nothing happens before; None: only after an event.
        is_closed: whether requests are refused, and those that wait are due at once.
        _groups: the groups that have waiting rows; the one whose turn it is stands first.
    """

    def __init__(self, max_batch_size: int, max_delay: float, max_queue: int, buckets: Sequence[int]) -> None:
        self.max_batch_size = max_batch_size
        self.max_delay = max_delay
        self.max_queue = max_queue
        self.buckets = buckets
        self.waiting = 0
        self.running: list[Batch] = []
        self.alarm: float | None = None
        self.is_closed = False
        self._groups: dict[Key, _Group] = {}

    def admit(self, request: Request, now: float) -> Sequence[Batch]:
        """Take a new request; return the batches to start.

        Raises:
            InvalidArgumentError: it has more rows than can ever wait.
            ResourceExhaustedError: too many rows wait.
            UnavailableError: after `close`.
        """
        if self.waiting + request.rows > self.max_queue or self.is_closed:
            raise self._refusal(request)
        group = self._groups.get(request.key)
        if group is None:
            group = self._groups[request.key] = _Group(self.max_batch_size, now + self.max_delay)
            if self.alarm is None and len(self.running) < CONCURRENT_STEPS:
                self.alarm = group.due
        group.add(request)
        self.waiting += request.rows
        if group.rows >= self.max_batch_size and len(self.running) < CONCURRENT_STEPS:
            return self.start(now)
        return ()

    def _refusal(self, request: Request) -> Exception:
        if self.is_closed:
            return UnavailableError("Batcher: it is closed and accepts no more requests")
        if request.rows > self.max_queue:
            return InvalidArgumentError(
                f"Batcher: a request of {request.rows} rows cannot be accepted, at most {self.max_queue} rows may wait"
            )
        return ResourceExhaustedError(
            f"Batcher: {self.waiting} of at most {self.max_queue} rows wait, no room for a request of {request.rows} rows"
        )

    def start(self, now: float) -> list[Batch]:
        """Return the batches to start now: of the groups that are ready, while steps may start."""
        started: list[Batch] = []
        while len(self.running) < CONCURRENT_STEPS:
            key = next((key for key, group in self._groups.items() if self._is_ready(group, now)), None)
            if key is None:
                break
            started.append(self._batch(key))
        self._set_alarm()
        return started

    def _is_ready(self, group: _Group, now: float) -> bool:
        return group.rows >= self.max_batch_size or group.due <= now or self.is_closed

    def _batch(self, key: Key) -> Batch:
        """Start a batch of a group; if rows of the group are left, its turn comes after the other groups'."""
        group = self._groups.pop(key)
        parts = group.take(self.max_batch_size)
        if group.rows:
            group.due = group.oldest() + self.max_delay
            self._groups[key] = group
        rows = 0
        for request, _, taken in parts:
            request.running += 1
            rows += taken
        self.waiting -= rows
        batch = Batch(key, parts, rows, self.buckets[bisect_left(self.buckets, rows)])
        self.running.append(batch)
        return batch

    def _set_alarm(self) -> None:
        if not self._groups or len(self.running) >= CONCURRENT_STEPS:
            self.alarm = None
        else:
            self.alarm = min(group.due for group in self._groups.values())

    def finish(self, batch: Batch) -> list[Request]:
        """A batch has ended with results; return the requests that are answered with it."""
        self.running.remove(batch)
        answered = []
        for request, _, _ in batch.parts:
            request.running -= 1
            if not request.running and request.placed == request.rows and not request.is_over:
                request.is_over = True
                answered.append(request)
        return answered

    def fail(self, batch: Batch) -> tuple[list[Request], list[Batch]]:
        """A batch has failed, or was cancelled; return its requests that fail, and batches that are to be cancelled
        with them."""
        self.running.remove(batch)
        failed, useless = [], []
        for request, _, _ in batch.parts:
            request.running -= 1
            if not request.is_over:
                failed.append(request)
                useless += self.withdraw(request)
        return failed, useless

    def withdraw(self, request: Request) -> list[Batch]:
        """A request has gone, if it is not over yet; return the batches to cancel: those whose requests have all gone."""
        if request.is_over:
            return []
        request.is_over = True
        if request.placed < request.rows:
            self._remove(request)
        if not request.running:
            return []
        useless = []
        for batch in self.running:
            if any(each is request for each, _, _ in batch.parts):
                batch.wanted -= 1
                if not batch.wanted:
                    useless.append(batch)
        return useless

    def _remove(self, request: Request) -> None:
        """Remove the rows of a request that wait."""
        group = self._groups[request.key]
        group.remove(request)
        self.waiting -= request.rows - request.placed
        if not group.rows:
            del self._groups[request.key]
            self._set_alarm()
        elif group.due == request.admitted + self.max_delay:
            group.due = group.oldest() + self.max_delay
            self._set_alarm()

    def close(self) -> None:
        """Refuse requests from now on, and let those that wait run without delay."""
        self.is_closed = True

    def unanswered(self) -> list[Request]:
        """All requests that are not over."""
        found = dict.fromkeys(request for group in self._groups.values() for request in group.requests())
        found.update(
            (request, None) for batch in self.running for request, _, _ in batch.parts if not request.is_over
        )
        return list(found)

    def check_invariants(self) -> None:
        """Raise AssertionError unless the state is consistent; used by tests, after each event."""
        for key, group in self._groups.items():
            requests = group.requests()
            assert group.rows == sum(request.rows - request.placed for request in requests) > 0
            assert all(request.key == key and not request.is_over for request in requests)
            assert group.due == group.oldest() + self.max_delay or self.is_closed
        assert self.waiting == sum(group.rows for group in self._groups.values()) <= self.max_queue
        assert len(self.running) <= CONCURRENT_STEPS
        for batch in self.running:
            assert 0 < batch.rows <= batch.size <= self.max_batch_size
            assert batch.rows == sum(rows for _, _, rows in batch.parts)
            assert batch.wanted == sum(not request.is_over for request, _, _ in batch.parts)
        can_start = len(self.running) < CONCURRENT_STEPS and bool(self._groups)
        assert (self.alarm is None) is not can_start
