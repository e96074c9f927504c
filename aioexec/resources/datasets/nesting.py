"""Datasets of the elements of datasets that a function returns for each element."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, OpError
from aioexec.resources.datasets.dataset import Dataset, Memory, Pass
from aioexec.resources.datasets.mapping import Function, Mapped, ParallelMapped
from aioexec.resources.datasets.prefetching import Prefetched
from aioexec.resources.datasets.work import AnyOf, Element, Request, Work
from aioexec.shapes import Dims

DatasetIn = Callable[[Element], Dataset]
"""Returns the dataset in the outputs of a function."""


@dataclass(frozen=True, slots=True, eq=False)
class FlatMapDataset:
    """The elements of each dataset that a function returns, one dataset after another."""

    source: Dataset
    function: Function
    dataset_in: DatasetIn
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]

    def begin(self, memory: Memory) -> Pass:
        return _Flat(Opened(Mapped(self.source.begin(memory), self.function), self.dataset_in))


class Opened:
    """Begins a pass over each dataset that a function returns; passes have a memory of their own.

    With `ahead`, each pass computes that many elements ahead.
    """

    def __init__(self, mapped: Pass, dataset_in: DatasetIn, ahead: int = 0) -> None:
        self._mapped = mapped
        self._dataset_in = dataset_in
        self._ahead = ahead

    def next(self, work: Work) -> Pass | Request | None:
        """As `Pass.next`, for passes instead of elements."""
        found = self._mapped.next(work)
        if found is None or isinstance(found, Request):
            return found
        through = self._dataset_in(found).begin({})
        if not self._ahead:
            return through
        prefetched = Prefetched(through, self._ahead)
        prefetched.fill(work)
        return prefetched


class _Flat:
    """A pass over the elements of one dataset after another."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._current: Pass | None = None

    def next(self, work: Work) -> Element | Request | None:
        while True:
            if self._current is None:
                opened = self._opened.next(work)
                if opened is None or isinstance(opened, Request):
                    return opened
                self._current = opened
            found = self._current.next(work)
            if found is not None:
                return found
            self._current = None


@dataclass(frozen=True, slots=True, eq=False)
class InterleaveDataset:
    """The elements of `cycle` datasets at a time, `block` of each in turn.

    Attributes:
        parallel: calls of the function made at once; from 2 on, datasets compute elements ahead.
        ahead: elements that each dataset computes ahead.
        is_sloppy: a dataset whose next element is not there is passed over.
        replaces: the place of a dataset that has ended is taken at once; once there are no others, the rest of its block is
            the next one's.
    """

    source: Dataset
    function: Function
    dataset_in: DatasetIn
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]
    cycle: int
    block: int
    parallel: int = 1
    ahead: int = 0
    is_sloppy: bool = False
    replaces: bool = False

    def __post_init__(self) -> None:
        for what, value in (("cycle_length", self.cycle), ("block_length", self.block)):
            if value < 1:
                raise InvalidArgumentError(f"{what} must be greater than zero.")

    def begin(self, memory: Memory) -> Pass:
        source = self.source.begin(memory)
        if self.parallel == 1 and not self.ahead:
            opened = Opened(Mapped(source, self.function), self.dataset_in)
            return _Interleaved(opened, self, 0)
        mapped = ParallelMapped(source, self.function, max(2, self.parallel))
        return _Interleaved(Opened(mapped, self.dataset_in, max(1, self.ahead)), self, self.cycle)


class _Interleaved:
    """A pass over several datasets in turn.

    `_slots` are the passes of the cycle, `_slot` the index of the present one, from which `_taken` elements of the block have
    come; the first passes of the last `_unopened` are to be opened before. `_early` are passes that are opened for slots to
    come, up to `_most_early`; `_ended`: there are no more datasets. `_passed_over` are what sloppy slots wait for.
    """

    def __init__(self, opened: Opened, dataset: InterleaveDataset, most_early: int) -> None:
        self._opened = opened
        self._block = dataset.block
        self._is_sloppy = dataset.is_sloppy
        self._replaces = dataset.replaces
        self._unopened = dataset.cycle if dataset.replaces else 0
        self._slots: list[Pass | None] = [None] * dataset.cycle
        self._slot = 0
        self._taken = 0
        self._passed_over: list[Request] = []
        self._early: deque[Pass] = deque()
        self._most_early = most_early
        self._ended = False

    def next(self, work: Work) -> Element | Request | None:
        self._open_early(work)
        self._passed_over.clear()
        found: Element | Request | None = self._open_first(work)
        while found is None and not self._is_over:
            current = self._slots[self._slot]
            found = self._opened_here(work) if current is None else self._next_of(current, work)
        return found

    @property
    def _is_over(self) -> bool:
        return self._ended and not self._early and all(slot is None for slot in self._slots)

    def _opened_here(self, work: Work) -> Request | None:
        """Open the pass of the present slot, or advance if there is none; return what that waits for."""
        opened = self._open(work)
        if isinstance(opened, Request):
            return AnyOf((*self._passed_over, opened)) if self._passed_over else opened
        self._slots[self._slot] = opened
        if opened is None:
            self._advance()
        return None

    def _next_of(self, current: Pass, work: Work) -> Element | Request | None:
        """Return the next element of the present slot, or what to wait for; None: advanced to the next slot."""
        try:
            found = current.next(work)
        except OpError:
            self._took()
            raise
        if found is None:
            return self._replace(work)
        if not isinstance(found, Request):
            self._took()
            return found
        if not self._is_sloppy:
            return found
        self._passed_over.append(found)
        if len(self._passed_over) >= len(self._slots):
            return AnyOf(list(self._passed_over))
        self._advance()
        return None

    def _replace(self, work: Work) -> Request | None:
        """Advance from a slot whose pass has ended; return what that waits for."""
        replacement = self._open(work) if self._replaces else None
        if isinstance(replacement, Request):
            return replacement
        taken = self._taken
        self._slots[self._slot] = replacement
        self._advance()
        if self._replaces and replacement is None:
            self._taken = taken
        return None

    def _open_early(self, work: Work) -> None:
        while not self._ended and len(self._early) < self._most_early:
            opened = self._opened.next(work)
            if isinstance(opened, Request):
                work.start(opened)
                return
            if opened is None:
                self._ended = True
            else:
                self._early.append(opened)

    def _open_first(self, work: Work) -> Request | None:
        """Open the first pass of each slot; return what that waits for."""
        while self._unopened:
            opened = self._open(work)
            if isinstance(opened, Request):
                return opened
            self._slots[-self._unopened] = opened
            self._unopened -= 1
        return None

    def _open(self, work: Work) -> Pass | Request | None:
        if self._early:
            return self._early.popleft()
        if self._ended:
            return None
        opened = self._opened.next(work)
        self._ended = opened is None
        return opened

    def _took(self) -> None:
        self._taken += 1
        if self._taken >= self._block:
            self._advance()

    def _advance(self) -> None:
        self._taken = 0
        self._slot = (self._slot + 1) % len(self._slots)
