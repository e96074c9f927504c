"""Datasets of some elements of others: those that do not fail, different ones, those of the dataset whose turn it is."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, OpError
from aioexec.resources.datasets.dataset import Dataset, Derived, Memory, Pass
from aioexec.resources.datasets.selections import most_specific
from aioexec.resources.datasets.shuffling import Samples
from aioexec.resources.datasets.work import Element, Request, Turns, Work
from aioexec.shapes import Dims


@dataclass(frozen=True, slots=True, eq=False)
class IgnoreErrorsDataset(Derived):
    """The elements of another dataset without those that fail."""

    def begin(self, memory: Memory) -> Pass:
        return _WithoutErrors(self.source.begin(memory))


class _WithoutErrors:
    def __init__(self, source: Pass) -> None:
        self._source = source
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while True:
            try:
                return self._source.next(work)
            except OpError:
                turn = self._turns.due()
                if turn is not None:
                    return turn


@dataclass(frozen=True, slots=True, eq=False)
class UniqueDataset(Derived):
    """The first of equal elements, which are scalars."""

    def begin(self, memory: Memory) -> Pass:
        return _Unique(self.source.begin(memory))


class _Unique:
    def __init__(self, source: Pass) -> None:
        self._source = source
        self._seen: set[object] = set()
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while True:
            found = self._turns.due() or self._source.next(work)
            if found is None or isinstance(found, Request):
                return found
            value = found[0].item()
            if value not in self._seen:
                self._seen.add(value)
                return found


@dataclass(frozen=True, slots=True, eq=False)
class DirectedInterleaveDataset:
    """The elements of several datasets, each of the one whose index `choices` has next; those that have ended are skipped."""

    choices: Dataset
    sources: tuple[Dataset, ...]

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.sources[0].dtypes

    @property
    def dims(self) -> tuple[Dims, ...]:
        first, *others = (source.dims for source in self.sources)
        for dims in others:
            first = tuple(map(most_specific, first, dims))
        return first

    def begin(self, memory: Memory) -> Pass:
        sources = [source.begin(memory) for source in self.sources]
        return _Directed(self.choices.begin(memory), sources)


class _Directed:
    """A pass over chosen datasets: `_index` is that of the dataset that is next, None before it is chosen."""

    def __init__(self, choices: Pass, sources: list[Pass]) -> None:
        self._choices = choices
        self._sources: dict[int, Pass] = dict(enumerate(sources))
        self._count = len(sources)
        self._index: int | None = None
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while self._sources:
            if self._index is None:
                found = self._turns.due() or self._choices.next(work)
                if found is None or isinstance(found, Request):
                    return found
                self._index = int(found[0])
                if not 0 <= self._index < self._count:
                    index, self._index = self._index, None
                    raise InvalidArgumentError(f"Selector index out of range: {index} >= {self._count}")
            source = self._sources.get(self._index)
            element = None if source is None else source.next(work)
            if isinstance(element, Request):
                return element
            if element is None:
                self._sources.pop(self._index, None)
            self._index = None
            if element is not None:
                return element
        return None


@dataclass(frozen=True, slots=True, eq=False)
class RandomDataset:
    """The endless stream of random 32-bit numbers of two seeds, as int64."""

    seeds: tuple[int, int]
    samples: Samples

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return (dt.int64,)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return ((),)

    def begin(self, memory: Memory) -> Pass:
        return _Random(self.samples(*self.seeds))


class _Random:
    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers

    def next(self, work: Work) -> Element | None:
        return (np.array(next(self._numbers), np.int64),)
