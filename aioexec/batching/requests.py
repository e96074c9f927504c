"""What the scheduler of batches knows of requests and batches: numbers of rows and states, no values."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

Key: TypeAlias = Hashable
"""What requests must have in common to be in one batch."""


class Request:
    """Rows of one caller that are to be computed.

    Constant:
        key: the group; only requests of equal keys are in one batch.
        caller: whose request it is.
        rows: their number, at least 1.
        admitted: the time at which it was admitted.

    Written by the scheduler only:
        placed: the number of its rows that are, or were, in batches; the first ones.
        running: the number of batches that have rows of it and have not ended.
        is_over: whether it was answered, failed or withdrawn; nothing changes after that.
    """

    __slots__ = ("admitted", "caller", "is_over", "key", "placed", "rows", "running")

    def __init__(self, key: Key, caller: Hashable, rows: int, admitted: float) -> None:
        self.key = key
        self.caller = caller
        self.rows = rows
        self.admitted = admitted
        self.placed = 0
        self.running = 0
        self.is_over = False


Part: TypeAlias = tuple[Request, int, int]
"""Rows of a request in a batch: the request, the first of its rows, and their number."""


class Batch:
    """Rows that one step computes.

    Constant:
        key: the group of its requests.
        parts: the rows, in their order in the batch; each request once.
        rows: their number.
        size: the number of rows of the step: `rows`, padded to a bucket.

    Written by the scheduler only:
        wanted: the number of its requests that are not over; the step is cancelled when it becomes 0.
    """

    __slots__ = ("key", "parts", "rows", "size", "wanted")

    def __init__(self, key: Key, parts: list[Part], rows: int, size: int) -> None:
        self.key = key
        self.parts = parts
        self.rows = rows
        self.size = size
        self.wanted = len(parts)
