"""Datasets of groups of elements: windows, and groups by a key."""

from __future__ import annotations

from collections import deque

from aioexec import dtypes as dt
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.datasets.dataset import Dataset, Memory, Pass
from aioexec.resources.datasets.mapping import Function
from aioexec.resources.datasets.nesting import DatasetIn
from aioexec.resources.datasets.sources import ElementsDataset
from aioexec.resources.datasets.work import Array, Element, Request, Turns, Work
from aioexec.resources.tensor_list import boxed
from aioexec.shapes import Dims


@dataclass(frozen=True, slots=True, eq=False)
class WindowDataset:
    """Datasets, one for each component, of `size` elements, `stride` apart; the next begin `shift` elements later."""

    source: Dataset
    size: int
    shift: int
    stride: int
    drops_remainder: bool

    def __post_init__(self) -> None:
        for what, value in (("size", self.size), ("shift", self.shift), ("stride", self.stride)):
            if value <= 0:
                raise InvalidArgumentError(f"Window {what} must be greater than zero, got {value}.")

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return (dt.variant,) * len(self.source.dtypes)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return ((),) * len(self.source.dtypes)

    def begin(self, memory: Memory) -> Pass:
        return _Windows(self.source.begin(memory), self)


class _Windows:
    """A pass over windows: `_held` are elements from the beginning of the next one, `_skips` those before it."""

    def __init__(self, source: Pass, dataset: WindowDataset) -> None:
        self._source = source
        self._dataset = dataset
        self._held: deque[Element] = deque()
        self._skips = 0
        self._ended = False
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        dataset = self._dataset
        span = (dataset.size - 1) * dataset.stride + 1
        while not self._ended and len(self._held) < span:
            found = self._turns.due() or self._source.next(work)
            if isinstance(found, Request):
                return found
            if found is None:
                self._ended = True
            elif self._skips:
                self._skips -= 1
            else:
                self._held.append(found)
        if not self._held or (len(self._held) < span and dataset.drops_remainder):
            return None
        window = list(self._held)[: span : dataset.stride]
        for _ in range(dataset.shift):
            if self._held:
                self._held.popleft()
            else:
                self._skips += 1
        types = dataset.source.dtypes
        return tuple(
            [
                boxed(ElementsDataset((dtype,), [(each[k],) for each in window]))
                for k, dtype in enumerate(types)
            ]
        )


@dataclass(frozen=True, slots=True, eq=False)
class GroupByWindowDataset:
    """The elements of datasets that `reduce` makes of a key and up to `window_size(key)` elements with this key."""

    source: Dataset
    key: Function
    reduce: Function
    window_size: Function
    dataset_in: DatasetIn
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]

    def begin(self, memory: Memory) -> Pass:
        return _Groups(self.source.begin(memory), self)


class _Groups:
    """A pass over the elements of reduced groups.

    `_groups` are the elements by key, `_sizes` the sizes by key; `_current` is the pass over a reduced group. `_element` is the
    one whose key or window size is being computed, in `_call`; `_key` its key, once that is known; `_reducing` is the call that
    reduces a group.
    """

    def __init__(self, source: Pass, dataset: GroupByWindowDataset) -> None:
        self._source = source
        self._dataset = dataset
        self._groups: dict[int, list[Element]] = {}
        self._sizes: dict[int, int] = {}
        self._current: Pass | None = None
        self._element: Element | None = None
        self._key: int | None = None
        self._call: Request | None = None
        self._reducing: Request | None = None
        self._ended = False
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while True:
            if self._current is not None:
                found = self._current.next(work)
                if found is not None:
                    return found
                self._current = None
            if self._reducing is not None:
                if self._reducing.is_open:
                    return self._reducing
                reduced, self._reducing = self._reducing, None
                self._current = self._dataset.dataset_in(reduced.outcome()).begin({})
                continue
            if self._ended:
                if not self._groups:
                    return None
                self._reduce(work, next(iter(self._groups)))
                continue
            request = self._gather(work)
            if request is not None:
                return request

    def _gather(self, work: Work) -> Request | None:
        """Add the next element to its group; return what that waits for."""
        if self._element is None:
            found = self._turns.due() or self._source.next(work)
            if isinstance(found, Request):
                return found
            if found is None:
                self._ended = True
                return None
            self._element = found
            self._call = self._dataset.key.call(work, found)
        if self._key is None:
            assert self._call is not None
            if self._call.is_open:
                return self._call
            self._key = self._number(self._call, "key_func")
        key = self._key
        if key not in self._sizes:
            if self._call is None:
                self._call = self._dataset.window_size.call(work, (_scalar(key),))
            if self._call.is_open:
                return self._call
            size = self._number(self._call, "window_size_func")
            if size <= 0:
                raise InvalidArgumentError(f"Window size must be greater than zero, but got {size}.")
            self._sizes[key] = size
        element, self._element, self._key = self._element, None, None
        group = self._groups.setdefault(key, [])
        group.append(element)
        if len(group) >= self._sizes[key]:
            self._reduce(work, key)
        return None

    def _number(self, call: Request, what: str) -> int:
        """Return the result of a call; if it failed, the element is given up."""
        self._call = None
        element, self._element = self._element, None
        (value,) = call.outcome()
        if value.ndim:
            raise InvalidArgumentError(f"`{what}` must return a scalar int64.")
        self._element = element
        return int(value)

    def _reduce(self, work: Work, key: int) -> None:
        source = self._dataset.source
        group = ElementsDataset(source.dtypes, self._groups.pop(key))
        del self._sizes[key]
        self._reducing = self._dataset.reduce.call(work, (_scalar(key), boxed(group)))


def _scalar(key: int) -> Array:
    return dt.to_array(key, dt.int64)
