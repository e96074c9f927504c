"""Barriers: maps from keys to tuples whose components are inserted separately; complete tuples are taken in batches.

A `Barrier` is a `BlockingResource` for takers. Tuples are taken in the order of the calls of `insert_many` that began them,
and those of one call in the order of completion. After `close` new keys are rejected, but incomplete tuples can still be
completed, unless pending ones are cancelled. A barrier `is_finished` when it is closed and has no incomplete tuples; then
takers of more tuples than there are fail.

Invariant (`check_invariants`): a tuple is either incomplete or ready; a finished barrier has no waiters.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from aioexec.resources.waiting import Attempt, BlockingResource, WaitQueue, WaitUntil
from aioexec.shapes import Dims, is_fully_defined, num_elements

_FIRST_INDEX = -(2**63)
_MISSING = object()
_FEW = 8  # up to as many tuples are inserted one by one


@dataclass(slots=True)
class Entry:
    """A tuple: the number of the call that began it, the number of its completion (0 before), its key and its components.

    `missing` is the number of components not inserted yet.
    """

    index: int
    place: int
    key: bytes
    values: list[Any]
    missing: int


Ready = tuple[int, int, Entry]
"""The call and the completion number of a complete tuple, by which tuples are ordered, and the tuple."""


class Barrier(BlockingResource):
    """A barrier; see the module docstring.

    Constant: name, dtypes and `dims` of the components, `element_bytes` of a tuple, device (full name). State:
    `_incomplete`, by key; `_ready`, in the order in which they are taken.
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
        self.element_bytes = sum(
            (num_elements(item) or 0) * dtype.numpy.itemsize
            for item, dtype in zip(self.dims, self.dtypes, strict=True)
        )
        self.device = device
        self.is_closed = False
        self._is_cancelled = False
        self._calls = 0
        self._completed = 0
        self._incomplete: dict[bytes, Entry] = {}
        self._ready: list[Ready] = []
        self._takers = WaitQueue()
        super().__init__(self._takers)

    @property
    def ready_size(self) -> int:
        return len(self._ready)

    @property
    def incomplete_size(self) -> int:
        return len(self._incomplete)

    @property
    def is_finished(self) -> bool:
        return self.is_closed and not self._incomplete

    def begun(self, component: int, keys: Sequence[bytes], values: Sequence[Any]) -> Mapping[bytes, Entry]:
        """Build entries for `insert_many` in case all keys are new; thread-safe."""
        missing = len(self.dtypes) - 1
        entries = {}
        for key, value in zip(keys, values, strict=True):
            entries[key] = entry = Entry(0, 0, key, [_MISSING] * (missing + 1), missing)
            entry.values[component] = value
        return entries

    def insert_many(
        self,
        component: int,
        keys: Sequence[bytes],
        values: Sequence[Any],
        begun: Mapping[bytes, Entry] | None = None,
    ) -> None:
        """Insert one component of some tuples.

        Args:
            begun: the result of `begun` for the same arguments, which pays off for many keys.

        Raises:
            InvalidArgumentError: a tuple has this component already; earlier keys have been inserted.
            CancelledError: the barrier is closed, and a key is new or pending tuples have been cancelled.
        """
        if self._is_cancelled:
            raise CancelledError(f"Barrier {self.name} is closed.  Pending enqueues cancelled: 1.")
        index = _FIRST_INDEX + self._calls
        self._calls += 1
        if begun is not None and self._can_keep(begun, len(keys)):
            for entry in begun.values():
                entry.index = index
            self._incomplete.update(begun)
            return
        completed: list[Entry] = []
        try:
            for key, value in zip(keys, values, strict=True):
                entry = self._incomplete.get(key) or self._begin(index, key)
                self._set(entry, component, value)
                if not entry.missing:
                    del self._incomplete[key]
                    completed.append(entry)
        finally:
            for place, entry in enumerate(completed, self._completed + 1):
                entry.place = place
            self._completed += len(completed)
            self._keep(completed)
            self._flush()

    def _can_keep(self, begun: Mapping[bytes, Entry], count: int) -> bool:
        """Return whether prebuilt entries can be used: all `count` keys are new, and none is complete."""
        is_open = not self.is_closed and len(self.dtypes) > 1
        return is_open and len(begun) == count and self._incomplete.keys().isdisjoint(begun)

    def _begin(self, index: int, key: bytes) -> Entry:
        if self.is_closed:
            raise CancelledError(
                f"Barrier {self.name} is closed, but attempted to insert a brand new key: {key.decode(errors='replace')}"
            )
        count = len(self.dtypes)
        entry = self._incomplete[key] = Entry(index, 0, key, [_MISSING] * count, count)
        return entry

    def _set(self, entry: Entry, component: int, value: Any) -> None:
        if entry.values[component] is not _MISSING:
            raise InvalidArgumentError(
                f"Key {entry.key.decode(errors='replace')} already has a value for component {component} "
                f"in barrier {self.name}"
            )
        entry.values[component] = value
        entry.missing -= 1

    def _keep(self, entries: Sequence[Entry]) -> None:
        """Add complete tuples to the ready ones."""
        ready = [(entry.index, entry.place, entry) for entry in entries]
        if len(ready) > _FEW:
            self._ready.extend(ready)
            self._ready.sort()  # merges two or three ascending runs
            return
        for each in ready:
            insort(self._ready, each)

    def take_many(self, count: int, allow_small_batch: bool = False) -> list[Entry] | Attempt:
        """Take the first `count` complete tuples, or fewer if closed and `allow_small_batch`; or return an Attempt.

        Raises:
            OutOfRangeError: the barrier is closed and cannot have that many.
        """
        if self.is_closed:
            available = self.ready_size
            if allow_small_batch:
                count = min(count, available)
            else:
                available += self.incomplete_size
            if available < max(count, 1):
                raise self._insufficient(count, available)
        request = WaitUntil(
            lambda: self.ready_size >= count or self.is_finished, lambda: self._take(count), self.give_back
        )
        served: list[Entry] | Attempt = self._submit(self._takers, request)
        return served

    def _take(self, count: int) -> list[Entry]:
        if self.ready_size < count:
            raise self._insufficient(count, self.ready_size)
        taken = [entry for _, _, entry in self._ready[:count]]
        del self._ready[:count]
        return taken

    def _insufficient(self, requested: int, available: int) -> OutOfRangeError:
        return OutOfRangeError(
            f"Barrier {self.name!r} is closed and has insufficient elements "
            f"(requested {requested}, total size {available})"
        )

    def give_back(self, entries: Sequence[Entry]) -> None:
        """Return tuples that were taken but not delivered."""
        self._keep(entries)
        self._flush()

    def close(self, cancel_pending_enqueues: bool = False) -> None:
        """Reject new keys; with `cancel_pending_enqueues`, drop incomplete tuples too.

        Raises:
            CancelledError: the barrier was already closed in this way.
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
        assert not (self.is_finished and self._takers)
        assert self._ready == sorted(self._ready, key=lambda ready: ready[:2])
        for _, _, entry in self._ready:
            assert all(value is not _MISSING for value in entry.values)
        for entry in self._incomplete.values():
            assert entry.missing == sum(value is _MISSING for value in entry.values)
        assert all(key == entry.key for key, entry in self._incomplete.items())
