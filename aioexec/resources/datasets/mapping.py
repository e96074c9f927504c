"""Datasets of the results of a function of elements."""

from __future__ import annotations

from collections import deque
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, OpError
from aioexec.resources.datasets.dataset import Dataset, Memory, Pass
from aioexec.resources.datasets.work import AnyOf, Element, Failed, Request, Turns, Work
from aioexec.shapes import Dims


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of elements: `body` takes the components, then `captured`."""

    body: Any
    captured: Element

    def call(self, work: Work, element: Element) -> Request:
        """Begin a call."""
        return work.call(self.body, (*element, *self.captured))


@dataclass(frozen=True, slots=True, eq=False)
class MapDataset:
    """The results of a function for each element of another dataset; `parallel` calls are made at once."""

    source: Dataset
    function: Function
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]
    parallel: int = 1

    def __post_init__(self) -> None:
        if self.parallel < 1:
            raise InvalidArgumentError(f"num_parallel_calls must be greater than zero, got {self.parallel}.")

    def begin(self, memory: Memory) -> Pass:
        source = self.source.begin(memory)
        if self.parallel == 1:
            return Mapped(source, self.function)
        return ParallelMapped(source, self.function, self.parallel)


class Mapped:
    """A pass over mapped elements: `_call` is the pending request."""

    def __init__(self, source: Pass, function: Function) -> None:
        self._source = source
        self._function = function
        self._call: Request | None = None

    def next(self, work: Work) -> Element | Request | None:
        call = self._call
        if call is None:
            found = self._source.next(work)
            if found is None or isinstance(found, Request):
                return found
            call = self._function.call(work, found)
        if call.is_open:
            self._call = call
            return call
        self._call = None
        return call.outcome()


class ParallelMapped:
    """A pass that makes several calls at once: `_calls` in the order of the elements; `_ended`: the source has."""

    def __init__(self, source: Pass, function: Function, count: int) -> None:
        self._source = source
        self._function = function
        self._count = count
        self._calls: deque[Request] = deque()
        self._ended = False
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        blocked = self._top_up(work)
        if not self._calls:
            return blocked
        first = self._calls[0]
        if first.is_open:
            return first if blocked is None else AnyOf((first, blocked))
        self._calls.popleft()
        if (
            self._calls and self._calls[0].is_open
        ):  # the others are under way while the caller uses the element
            self._top_up(work)
        return first.outcome()

    def _top_up(self, work: Work) -> Request | None:
        """Begin calls; return the request that the source waits for, if any."""
        for call in self._calls:
            work.start(call)  # of a session that has closed since
        while not self._ended and len(self._calls) < self._count:
            try:
                found = self._source.next(work)
            except OpError as error:
                self._calls.append(Failed(error))
                continue
            if isinstance(found, Request):
                work.start(found)
                return found
            if found is None:
                self._ended = True
                break
            call = self._function.call(work, found)
            work.start(call)
            self._calls.append(call)
            if not call.is_open:
                break  # a cheap function: no need to run ahead of the caller
        return None


# Elements chosen by a function


@dataclass(frozen=True, slots=True, eq=False)
class FilterDataset:
    """The elements of another dataset for which a function returns true; with `stops`, those before the first false."""

    source: Dataset
    function: Function
    stops: bool = False

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.source.dtypes

    @property
    def dims(self) -> tuple[Dims, ...]:
        return self.source.dims

    def begin(self, memory: Memory) -> Pass:
        return _Filtered(self.source.begin(memory), self.function, self.stops)


class _Filtered:
    """A pass over chosen elements: `_element` is the one that the pending `_call` decides on."""

    def __init__(self, source: Pass, function: Function, stops: bool) -> None:
        self._source = source
        self._function = function
        self._stops = stops
        self._element: Element = ()
        self._call: Request | None = None
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        while True:
            call = self._call
            if call is None:
                turn = self._turns.due()
                found = turn or self._source.next(work)
                if found is None or isinstance(found, Request):
                    return found
                self._element = found
                call = self._call = self._function.call(work, found)
            if call.is_open:
                return call
            self._call = None
            if _is_true(call.outcome()):
                return self._element
            if self._stops:
                return None


def _is_true(outputs: Element) -> bool:
    (value,) = outputs
    if value.ndim or value.dtype != bool:
        raise InvalidArgumentError("Function invocation did not return a scalar bool")
    return bool(value)
