"""Barriers: tuples by key whose components come one by one; those that are complete can be taken, many at once.

A `Barrier` is a waiting room for who takes. Tuples are taken in the order of the calls of `insert_many` that began them, and
those of one call in the order they were completed. After `close` no new keys are taken in, but the tuples begun may still be
completed, unless pending ones are cancelled. It `is_finished` when it is closed and nothing more can be completed; then who
waits for more than there is fails.

Invariant (`check_invariants`): a tuple is either incomplete or ready; nobody waits in a barrier that is finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from aioexec.resources.waiting import Attempt, Line, WaitingRoom, When
from aioexec.shapes import Dims, is_fully_defined

_FIRST_INDEX = -(2**63)
_MISSING = object()


@dataclass(slots=True)
class Entry:
    """A tuple: which call of `insert_many` began it, as how manieth it was completed (0 before), its key, its components."""

    index: int
    place: int
    key: bytes
    values: list[Any]

    def __lt__(self, other: Entry) -> bool:
        return (self.index, self.place, self.key) < (other.index, other.place, other.key)


class Barrier(WaitingRoom):
    """See the module.

    Constant: name, dtypes and `dims` of the components, device (full name).
    """

    def __init__(
        self, name: str, dtypes: Sequence[DType], dims: Sequence[Dims] = (), device: str = ""
    ) -> None:
        if dims and len(dims) != len(dtypes):
            raise InvalidArgumentError(f"Barrier {name!r}: All of the component shapes must be specified")
        for item in dims:
            if not is_fully_defined(item):
                raise InvalidArgumentError(f"Barrier {name!r}: Shape {item} is not fully defined")
        self.name = name
        self.dtypes = tuple(dtypes)
        self.dims = tuple(dims) if dims else ((),) * len(self.dtypes)
        self.device = device
        self.is_closed = False
        self._is_cancelled = False
        self._calls = 0
        self._completed = 0
        self._incomplete: dict[bytes, Entry] = {}
        self._ready: list[Entry] = []
        self._taking = Line()
        super().__init__(self._taking)

    @property
    def ready_size(self) -> int:
        return len(self._ready)

    @property
    def incomplete_size(self) -> int:
        return len(self._incomplete)

    @property
    def is_finished(self) -> bool:
        return self.is_closed and not self._incomplete

    def insert_many(self, component: int, keys: Sequence[bytes], values: Sequence[Any]) -> None:
        """Bring one component of some tuples.

        Raises:
            InvalidArgumentError: a tuple has it already; those before it have got theirs.
            CancelledError: the barrier is closed, and a key is new or pending tuples have been cancelled.
        """
        if self._is_cancelled:
            raise CancelledError(f"Barrier {self.name} is closed.  Pending enqueues cancelled: 1.")
        index = _FIRST_INDEX + self._calls
        self._calls += 1
        try:
            for key, value in zip(keys, values, strict=True):
                self._insert(index, component, key, value)
        finally:
            self._flush()

    def _insert(self, index: int, component: int, key: bytes, value: Any) -> None:
        entry = self._incomplete.get(key)
        if entry is None:
            if self.is_closed:
                raise CancelledError(
                    f"Barrier {self.name} is closed, but attempted to insert a brand new key: {key.decode(errors='replace')}"
                )
            entry = Entry(index, 0, key, [_MISSING] * len(self.dtypes))
            self._incomplete[key] = entry
        if entry.values[component] is not _MISSING:
            raise InvalidArgumentError(
                f"Key {key.decode(errors='replace')} already has a value for component {component} "
                f"in barrier {self.name}"
            )
        entry.values[component] = value
        if all(value is not _MISSING for value in entry.values):
            del self._incomplete[key]
            self._completed += 1
            entry.place = self._completed
            heappush(self._ready, entry)

    def take_many(self, count: int, allow_small_batch: bool = False) -> list[Entry] | Attempt:
        """The first complete tuples; of a closed barrier, if a small batch is allowed, as many as it has.

        Raises:
            OutOfRangeError: the barrier is closed and will not have that many.
        """
        if self.is_closed:
            available = self.ready_size
            if allow_small_batch:
                count = min(count, available)
            else:
                available += self.incomplete_size
            if available < max(count, 1):
                raise self._insufficient(count, available)
        request = When(
            lambda: self.ready_size >= count or self.is_finished,
            lambda: self._take(count),
            self.give_back,
        )
        served: list[Entry] | Attempt = self._submit(self._taking, request)
        return served

    def _take(self, count: int) -> list[Entry]:
        if self.ready_size < count:
            raise self._insufficient(count, self.ready_size)
        return [heappop(self._ready) for _ in range(count)]

    def _insufficient(self, requested: int, available: int) -> OutOfRangeError:
        return OutOfRangeError(
            f"Barrier {self.name!r} is closed and has insufficient elements "
            f"(requested {requested}, total size {available})"
        )

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Tuples that were taken, and came to nothing, can be taken again."""
        for entry in entries:
            heappush(self._ready, entry)
        self._flush()

    def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Begin no more tuples; with `cancel_pending_enqueues` complete none either.

        Raises:
            CancelledError: it was closed in the same way before.
        """
        if self._is_cancelled or (self.is_closed and not cancel_pending_enqueues):
            raise CancelledError(f"Barrier {self.name!r} is already closed.")
        self.is_closed = True
        if cancel_pending_enqueues:
            self._is_cancelled = True
            self._incomplete.clear()
        self._flush()

    def check_invariants(self) -> None:
        super().check_invariants()
        assert not (self.is_finished and self._taking)
        for entry in self._ready:
            assert all(value is not _MISSING for value in entry.values)
        assert all(key == entry.key for key, entry in self._incomplete.items())
