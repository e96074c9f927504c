"""Datasets that are computed once: in memory, for the passes of one iteration, or in a file."""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.resources.datasets.dataset import Derived, Memory, Pass
from aioexec.resources.datasets.work import Element, Request, Work


@dataclass(frozen=True, slots=True, eq=False)
class CacheDataset(Derived):
    """The elements of another dataset; once a pass has ended, the later ones give the same elements."""

    def begin(self, memory: Memory) -> Pass:
        cached = memory.get(self)
        return _Caching(self, memory) if cached is None else _Cached(cached)


class _Caching:
    """The first pass, which keeps the elements."""

    def __init__(self, dataset: CacheDataset, memory: Memory) -> None:
        self._source = dataset.source.begin(memory)
        self._dataset = dataset
        self._memory = memory
        self._elements: list[Element] = []

    def next(self, work: Work) -> Element | Request | None:
        found = self._source.next(work)
        if found is None:
            self._memory[self._dataset] = self._elements
        elif not isinstance(found, Request):
            for part in found:
                part.setflags(write=False)  # each step gets a copy
            self._elements.append(found)
        return found


class _Cached:
    """A later pass."""

    def __init__(self, elements: list[Element]) -> None:
        self._elements = elements
        self._position = 0

    def next(self, work: Work) -> Element | None:
        if self._position >= len(self._elements):
            return None
        self._position += 1
        return self._elements[self._position - 1]
