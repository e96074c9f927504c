"""Staging areas: tuples of values that one step passes to another.

A `StagingArea` is FIFO. A `StagingMap` returns tuples by key or, without one, the first: the oldest, or with `is_ordered` the
one of the lowest key. A tuple can be put in parts and is available once complete; it can be taken in parts and is removed with
the last.

Both are a `BlockingResource`: putters wait in FIFO order while the area is full; a taker waits for its key and is served when
it is available, independently of other takers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.resources.waiting import Attempt, BlockingResource, WaitQueue, WaitUntil

Values = tuple[Any, ...]
ABSENT = object()
"""Stands for a component that is not put yet, or was taken."""
STRING_BYTES = 24
"""Bytes of a string besides its characters, as TensorFlow counts."""


def bytes_of(values: Sequence[Any]) -> int:
    """Return the memory of values, as TensorFlow counts it."""
    total = 0
    for value in values:
        if value.dtype.hasobject:
            total += sum(STRING_BYTES + len(item) for item in value.reshape(-1).tolist())
        else:
            total += value.nbytes
    return total


class _Area(BlockingResource):
    """Holds up to `capacity` tuples of `memory_limit` bytes in total; 0 means unbounded.

    `_bytes` is the size of the stored values.
    """

    def __init__(self, capacity: int = 0, memory_limit: int = 0) -> None:
        self.capacity = capacity
        self.memory_limit = memory_limit
        self._bytes = 0
        self._putters = WaitQueue()
        self._getters = WaitQueue(is_strict=False)
        super().__init__(self._putters, self._getters)

    @property
    def size(self) -> int:
        """The number of tuples that can be taken."""
        raise NotImplementedError

    def _values(self) -> Iterator[Any]:
        """Yield all stored values."""
        raise NotImplementedError

    def _put(self, values: Sequence[Any], keep: Callable[[], bool], is_whole: bool = True) -> Attempt | None:
        """Store values once there is room; return None if done, else an Attempt. `keep` returns whether it stored them."""
        nbytes = bytes_of(values)
        if self.memory_limit and nbytes > self.memory_limit:
            raise ResourceExhaustedError(
                f"Attempted to insert tensors with combined size of '{nbytes}' bytes into Staging Area "
                f"with a memory limit of '{self.memory_limit}'."
            )

        def has_room() -> bool:
            if is_whole and self.capacity and self.size >= self.capacity:
                return False
            return not self.memory_limit or self._bytes + nbytes <= self.memory_limit

        def put() -> None:
            if keep():
                self._bytes += nbytes

        served: Attempt | None = self._submit(self._putters, WaitUntil(has_room, put))
        return served

    def _reset_size(self) -> None:
        """Reset the size after a clear."""
        self._bytes = 0
        self._flush()

    def check_invariants(self) -> None:
        super().check_invariants()
        assert self._bytes == bytes_of(list(self._values()))


class StagingArea(_Area):
    """A FIFO of tuples."""

    def __init__(self, capacity: int = 0, memory_limit: int = 0) -> None:
        super().__init__(capacity, memory_limit)
        self._tuples: deque[Values] = deque()

    @property
    def size(self) -> int:
        return len(self._tuples)

    def _values(self) -> Iterator[Any]:
        return (value for values in self._tuples for value in values)

    def put(self, values: Values) -> Attempt | None:
        """Put a tuple; return None if done, else an Attempt.

        Raises:
            ResourceExhaustedError: the tuple exceeds the memory limit.
        """

        def keep() -> bool:
            self._tuples.append(values)
            return True

        return self._put(values, keep)

    def get(self) -> Values | Attempt:
        """Take the first tuple, or return an Attempt."""
        request = WaitUntil(lambda: self.size > 0, self._take, self._give_back)
        served: Values | Attempt = self._submit(self._getters, request)
        return served

    def peek(self, index: int) -> Values | Attempt:
        """Return the tuple at a position without removing it, or an Attempt.

        Raises:
            InvalidArgumentError: the position is negative.
        """
        if index < 0:
            raise InvalidArgumentError(f"Staging Area: index must not be negative, it is {index}")
        request = WaitUntil(lambda: self.size > index, lambda: self._tuples[index])
        served: Values | Attempt = self._submit(self._getters, request)
        return served

    def clear(self) -> None:
        """Remove everything."""
        self._tuples.clear()
        self._reset_size()

    def _take(self) -> Values:
        values = self._tuples.popleft()
        self._bytes -= bytes_of(values)
        return values

    def _give_back(self, values: Values) -> None:
        self._tuples.appendleft(values)
        self._bytes += bytes_of(values)


def _present(held: Sequence[Any]) -> list[Any]:
    return [value for value in held if value is not ABSENT]


Part = tuple[int, Values]
"""A key, and values of its tuple."""


class StagingMap(_Area):
    """Maps keys to tuples; the first `put` determines the number of components: `width`, None before.

    `_whole` are the available tuples, in the order of completion, `_parts` the incomplete ones; ABSENT marks components that
    were taken or are missing.
    """

    def __init__(self, is_ordered: bool = False, capacity: int = 0, memory_limit: int = 0) -> None:
        super().__init__(capacity, memory_limit)
        self.width: int | None = None
        self.is_ordered = is_ordered
        self._whole: dict[int, list[Any]] = {}
        self._parts: dict[int, list[Any]] = {}

    @property
    def size(self) -> int:
        return len(self._whole)

    @property
    def incomplete_size(self) -> int:
        """The number of incomplete tuples."""
        return len(self._parts)

    def _values(self) -> Iterator[Any]:
        held = [*self._whole.values(), *self._parts.values()]
        return (value for values in held for value in _present(values))

    def put(self, key: int, indices: Sequence[int], values: Values, width: int) -> Attempt | None:
        """Put a tuple of `width` components, or some of them; return None if done. Complete ones of existing keys are lost.

        Raises:
            InvalidArgumentError: an index is out of range, or its component was put before.
            ResourceExhaustedError: the values exceed the memory limit.
        """
        if self.width is None:
            self.width = width
        self._check(key, indices)
        if len(values) != len(indices):
            raise InvalidArgumentError(f"Expected {len(indices)} values, one an index, got {len(values)}")
        if len(indices) == self.width:
            return self._put(values, lambda: self._keep(key, list(values)))
        return self._put(values, lambda: self._complete(key, indices, values), is_whole=False)

    def get(self, key: int, indices: Sequence[int]) -> Part | Attempt:
        """Take components of the tuple of a key, or return an Attempt.

        Raises:
            InvalidArgumentError: an index is out of range, or its component was taken before.
        """
        self._check(key, indices)
        return self._take_when(lambda: key in self._whole, lambda: key, indices)

    def get_first(self, indices: Sequence[int]) -> Part | Attempt:
        """Take components of the first tuple, or return an Attempt.

        Raises:
            InvalidArgumentError: an index is out of range, or its component was taken before.
        """
        self._check(None, indices)

        def first() -> int:
            return min(self._whole) if self.is_ordered else next(iter(self._whole))

        return self._take_when(lambda: self.size > 0, first, indices)

    def _take_when(
        self, is_there: Callable[[], bool], key_of: Callable[[], int], indices: Sequence[int]
    ) -> Part | Attempt:
        """Take components of a tuple once `is_there`."""
        held: list[Any] = []

        def take() -> Part:
            nonlocal held
            key = key_of()
            values, held = self._components_of(key, indices), self._whole[key]
            for index in indices:
                held[index] = ABSENT
            if not _present(held):
                del self._whole[key]
            self._bytes -= bytes_of(values)
            return key, values

        def give_back(part: Part) -> None:
            """Return components; if their tuple was removed and its key put again meanwhile, they are dropped."""
            key, values = part
            if key not in self._whole:
                self._whole = {key: held, **self._whole}
            if self._whole[key] is held:
                for index, value in zip(indices, values, strict=True):
                    held[index] = value
                self._bytes += bytes_of(values)

        served: Part | Attempt = self._submit(self._getters, WaitUntil(is_there, take, give_back))
        return served

    def peek(self, key: int, indices: Sequence[int]) -> Values | Attempt:
        """Return components without removing them, or an Attempt.

        Raises:
            InvalidArgumentError: an index is out of range, or its component was taken before.
        """
        self._check(key, indices)
        request = WaitUntil(lambda: key in self._whole, lambda: self._components_of(key, indices))
        served: Values | Attempt = self._submit(self._getters, request)
        return served

    def clear(self) -> None:
        """Remove everything."""
        self._whole.clear()
        self._parts.clear()
        self._reset_size()

    # Service

    def _check(self, key: int | None, indices: Sequence[int]) -> None:
        if any(later <= earlier for earlier, later in pairwise(indices)):
            raise InvalidArgumentError("Indices are not strictly ordered")
        for index in indices:
            if index < 0 or (self.width is not None and index >= self.width):
                raise InvalidArgumentError(
                    f"Index '{index}' for key '{key}' was out of bounds '{self.width}'."
                )

    def _keep(self, key: int, values: list[Any]) -> bool:
        return self._whole.setdefault(key, values) is values

    def _complete(self, key: int, indices: Sequence[int], values: Values) -> bool:
        """Add components to an incomplete tuple, which becomes available when all are present."""
        assert self.width is not None
        held = self._parts.setdefault(key, [ABSENT] * self.width)
        for index in indices:
            if held[index] is not ABSENT:
                raise InvalidArgumentError(
                    f"The tensor for index '{index}' for key '{key}' was already initialized '{self.width}'."
                )
        for index, value in zip(indices, values, strict=True):
            held[index] = value
        if len(_present(held)) == self.width:
            del self._parts[key]
            if not self._keep(key, held):
                self._bytes -= bytes_of(held) - bytes_of(values)
                return False
        return True

    def _components_of(self, key: int, indices: Sequence[int]) -> Values:
        held = self._whole[key]
        self._check(key, indices)  # indices could not be checked before the first put
        for index in indices:
            if held[index] is ABSENT:
                raise InvalidArgumentError(
                    f"Tensor at index '{index}' for key '{key}' has already been removed."
                )
        return tuple([held[index] for index in indices])
