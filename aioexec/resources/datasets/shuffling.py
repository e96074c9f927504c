"""Shuffled datasets, in TensorFlow's order for the same seeds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.resources.datasets.dataset import Dataset, Derived, Memory, Pass
from aioexec.resources.datasets.work import Element, Request, Turns, Work

Samples = Callable[[int, int], Iterator[int]]
"""From two seeds to an endless stream of random 32-bit numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class ShuffleDataset(Derived):
    """The elements of `count` passes (-1: endless) over another dataset, in random order.

    A buffer of `size` elements is filled; each element is drawn from those in the buffer that belong to the oldest pass.
    With `reshuffles`, each pass, over this dataset and over the other one, draws seeds of its own from the stream of the seeds.
    """

    size: int
    seeds: tuple[int, int]
    samples: Samples
    reshuffles: bool = False
    count: int = 1

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise InvalidArgumentError(f"buffer_size must be greater than zero, got {self.size}.")
        if self.count == 0 or self.count < -1:
            raise InvalidArgumentError(f"count must be greater than zero or equal to -1, got {self.count}.")

    def begin(self, memory: Memory) -> Pass:
        seeds = memory.get(self)
        if seeds is None:
            numbers = self.samples(*self.seeds)
            seeds = memory[self] = (
                zip(numbers, numbers, strict=False) if self.reshuffles else repeat(self.seeds)
            )
        return _Shuffled(self, memory, seeds)


class _Shuffled:
    """A pass in random order.

    `_buffer` is a ring; `_slices` are the parts of it, [start, end), that belong to one pass over the source each, as positions
    in the sequence of all elements; `_source` is None when all passes have ended; `_numbers` are the random ones of the present
    pass, by the next of `_seeds`.
    """

    def __init__(self, dataset: ShuffleDataset, memory: Memory, seeds: Iterator[tuple[int, int]]) -> None:
        self._dataset: Dataset = dataset.source
        self._size = dataset.size
        self._passes_left = dataset.count - 1
        self._memory = memory
        self._samples = dataset.samples
        self._seeds = seeds
        self._numbers = self._samples(*next(seeds))
        self._source: Pass | None = dataset.source.begin(memory)
        self._buffer: dict[int, Element] = {}
        self._slices = deque([[0, 0]])
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while self._source is not None and len(self._buffer) < self._size:
            found = self._source.next(work)
            if isinstance(found, Request):
                return found
            if found is None:
                self._pass_ended()
                continue
            last = self._slices[-1]
            self._buffer[last[1] % self._size] = found
            last[1] += 1
            turn = self._turns.due()
            if turn is not None:
                return turn
        return self._drawn() if self._buffer else None

    def _pass_ended(self) -> None:
        end = self._slices[-1][1]
        if self._passes_left == 0 or end == 0:  # a dataset without elements is not repeated
            self._source = None
            return
        self._passes_left -= 1
        self._slices.append([end, end])
        self._source = self._dataset.begin(self._memory)

    def _drawn(self) -> Element:
        slices = self._slices
        while slices[0][0] == slices[0][1]:
            slices.popleft()
            self._numbers = self._samples(*next(self._seeds))
        start, end = slices[0]
        position = (start + next(self._numbers) % (end - start)) % self._size
        element = self._buffer[position]
        first = self._buffer.pop(start % self._size)
        if position != start % self._size:
            self._buffer[position] = first
        slices[0][0] += 1
        return element
