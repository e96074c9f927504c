"""Datasets of elements of others, unchanged: repeated, taken, skipped, concatenated, zipped."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, OpError
from aioexec.resources.datasets.dataset import Dataset, Derived, Memory, Pass, check_components
from aioexec.resources.datasets.work import Element, Request, Turns, Work
from aioexec.shapes import Dims


@dataclass(frozen=True, slots=True, eq=False)
class RepeatDataset(Derived):
    """`count` repetitions of another dataset; infinitely many if negative."""

    count: int

    def begin(self, memory: Memory) -> Pass:
        return _Repetitions(self.source, self.count, memory)


class _Repetitions:
    """A pass over repetitions: `_left` passes are to begin; `_is_empty`: the current one had no element so far."""

    def __init__(self, source: Dataset, count: int, memory: Memory) -> None:
        self._dataset = source
        self._left = count
        self._memory = memory
        self._source: Pass | None = None
        self._is_empty = False

    def next(self, work: Work) -> Element | Request | None:
        while True:
            if self._source is None:
                if self._left == 0 or self._is_empty:
                    return None
                self._source, self._is_empty = self._dataset.begin(self._memory), True
                self._left -= 1
            try:
                found = self._source.next(work)
            except OpError:
                self._is_empty = False
                raise
            if found is not None:
                self._is_empty = self._is_empty and isinstance(found, Request)
                return found
            self._source = None


@dataclass(frozen=True, slots=True, eq=False)
class TakeDataset(Derived):
    """The first `count` elements of another dataset; all if negative."""

    count: int

    def begin(self, memory: Memory) -> Pass:
        source = self.source.begin(memory)
        return source if self.count < 0 else _Taken(source, self.count)


class _Taken:
    def __init__(self, source: Pass, count: int) -> None:
        self._source = source
        self._left = count

    def next(self, work: Work) -> Element | Request | None:
        if self._left == 0:
            return None
        found = self._source.next(work)
        if found is None:
            self._left = 0
        elif not isinstance(found, Request):
            self._left -= 1
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SkipDataset(Derived):
    """The elements of another dataset after the first `count`; none if negative."""

    count: int

    def begin(self, memory: Memory) -> Pass:
        source = self.source.begin(memory)
        return _Taken(source, 0) if self.count < 0 else _Skipping(source, self.count)


class _Skipping:
    def __init__(self, source: Pass, count: int) -> None:
        self._source = source
        self._left = count
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while self._left:
            found = self._source.next(work)
            if found is None or isinstance(found, Request):
                return found
            self._left -= 1
            turn = self._turns.due()
            if turn is not None:
                return turn
        return self._source.next(work)


@dataclass(frozen=True, slots=True, eq=False)
class ShardDataset(Derived):
    """Every `count`-th element of another dataset, beginning with the one at `index`."""

    count: int
    index: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InvalidArgumentError(
                f"Number of shards must be greater than zero (currently num_shards = {self.count})."
            )
        if not 0 <= self.index < self.count:
            raise InvalidArgumentError(
                f"Index must be between 0 and {self.count - 1} (currently index = {self.index})."
            )

    def begin(self, memory: Memory) -> Pass:
        return _Shard(self.source.begin(memory), self.count, self.index)


class _Shard:
    """A pass over a shard: `_position` is the index of the next element of the source, modulo `_count`."""

    def __init__(self, source: Pass, count: int, index: int) -> None:
        self._source = source
        self._count = count
        self._index = index
        self._position = 0

    def next(self, work: Work) -> Element | Request | None:
        while True:
            found = self._source.next(work)
            if found is None or isinstance(found, Request):
                return found
            position, self._position = self._position, (self._position + 1) % self._count
            if position == self._index:
                return found


@dataclass(frozen=True, slots=True, eq=False)
class ConcatenateDataset(Derived):
    """The elements of another dataset, then those of `second`."""

    second: Dataset

    def __post_init__(self) -> None:
        unknown: Sequence[Dims] = [None] * len(self.source.dims)
        check_components(self.source.dtypes, unknown, self.second.dtypes, self.second.dims)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return tuple(map(most_specific, self.source.dims, self.second.dims))

    def begin(self, memory: Memory) -> Pass:
        return _Chain([self.second, self.source], memory)


def most_specific(one: Dims, other: Dims) -> Dims:
    """Return the most specific shape that both are compatible with."""
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(size if size == theirs else None for size, theirs in zip(one, other, strict=True))


class _Chain:
    """A pass over several datasets, the last one first."""

    def __init__(self, datasets: list[Dataset], memory: Memory) -> None:
        self._datasets = datasets
        self._memory = memory
        self._source: Pass | None = None

    def next(self, work: Work) -> Element | Request | None:
        while True:
            if self._source is None:
                if not self._datasets:
                    return None
                self._source = self._datasets.pop().begin(self._memory)
            found = self._source.next(work)
            if found is not None:
                return found
            self._source = None


@dataclass(frozen=True, slots=True, eq=False)
class ZipDataset:
    """The components of elements of several datasets, as long as each has one."""

    sources: tuple[Dataset, ...]

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(dtype for source in self.sources for dtype in source.dtypes)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return tuple(dims for source in self.sources for dims in source.dims)

    def begin(self, memory: Memory) -> Pass:
        return _Zipped([source.begin(memory) for source in self.sources])


class _Zipped:
    """A pass over several at once: `_parts` are the elements of the first ones, for the next element.

    An error of one source is raised after every source has advanced, so that they stay in step.
    """

    def __init__(self, sources: Sequence[Pass]) -> None:
        self._sources = sources
        self._parts: list[Element] = []
        self._error: OpError | None = None

    def next(self, work: Work) -> Element | Request | None:
        while len(self._parts) < len(self._sources):
            try:
                found = self._sources[len(self._parts)].next(work)
            except OpError as error:
                self._error = self._error or error
                found = ()
            if found is None or isinstance(found, Request):
                return found
            self._parts.append(found)
        parts, self._parts = self._parts, []
        failed, self._error = self._error, None
        if failed is not None:
            raise failed
        return tuple([part for element in parts for part in element])
