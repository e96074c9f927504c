"""Datasets and iterators: immutable descriptions of sequences, and passes over them.

A dataset is a value, over which any number of *passes* iterate. A pass is a pure state machine: `next` returns an element,
None at the end, or a `Request` for work that must be done first. The caller does it, sets the answer or the error, and calls
`next` again. A request without an answer (its step was cancelled) is returned to the next caller, so that no element is lost.
Arrays of elements that are not writeable have another owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
)
from aioexec.resources.tensor_list import shown
from aioexec.shapes import Dims, compatible

Array = np.ndarray[Any, Any]
Element = tuple[Array, ...]

_LARGE = 128 * 1024
"""Bytes above which a copy would block the event loop for too long."""
_TURN = 256
"""Elements of a batch that are collected per iteration of the event loop."""
_MANY = 1024
"""Elements that a worker joins, however small they are."""
_MOST_ELEMENTS = 1 << 24
"""Upper bound for the elements of a batch."""


class Request:
    """Work that a pass waits for, until it has an answer or an error; the base class just yields to the event loop."""

    __slots__ = ("answer", "error")

    def __init__(self) -> None:
        self.answer: Element | None = None
        self.error: OpError | None = None

    @property
    def is_open(self) -> bool:
        return self.answer is None and self.error is None

    def outcome(self) -> Element:
        """Return the answer.

        Raises:
            OpError: the work failed.
        """
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


class Call(Request):
    """Request to run the body of a function; the answer is its outputs."""

    __slots__ = ("body", "inputs")

    def __init__(self, body: Any, inputs: Element) -> None:
        super().__init__()
        self.body = body
        self.inputs = inputs


class Join(Request):
    """Request to stack elements on a worker, since they are large or many."""

    __slots__ = ("elements",)

    def __init__(self, elements: Sequence[Element]) -> None:
        super().__init__()
        self.elements = elements


class Pass(Protocol):
    """One iteration over a dataset."""

    def next(self) -> Element | Request | None:
        """Return the next element, a request to fulfil first, or None at the end.

        Raises:
            OpError: the next element failed; later ones may succeed.
        """
        ...


class Dataset(Protocol):
    """A sequence of elements with components of these dtypes and shapes."""

    @property
    def dtypes(self) -> tuple[DType, ...]: ...
    @property
    def dims(self) -> tuple[Dims, ...]: ...
    def begin(self) -> Pass: ...


# Slices


@dataclass(frozen=True, slots=True, eq=False)
class SliceDataset:
    """The rows of arrays of equal length, which are not modified."""

    dtypes: tuple[DType, ...]
    components: Element

    def __post_init__(self) -> None:
        if any(component.ndim == 0 for component in self.components):
            raise InvalidArgumentError("All components must be at least 1-dimensional")
        lengths = {len(component) for component in self.components}
        if len(lengths) > 1:
            raise InvalidArgumentError(
                f"All components must have the same size in the 0th dimension, got {sorted(lengths)}"
            )

    @property
    def dims(self) -> tuple[Dims, ...]:
        return tuple(component.shape[1:] for component in self.components)

    def begin(self) -> Pass:
        return _Slices(self.components)


class _Slices:
    def __init__(self, components: Element) -> None:
        self._components = components
        self._position = 0

    def next(self) -> Element | None:
        position = self._position
        if position >= len(self._components[0]):
            return None
        self._position += 1
        return tuple([component[position, ...] for component in self._components])


# Batches


@dataclass(frozen=True, slots=True, eq=False)
class BatchDataset:
    """Batches of `size` elements of another dataset; the last batch is smaller or dropped."""

    source: Dataset
    size: int
    drops_remainder: bool = False

    def __post_init__(self) -> None:
        if self.size <= 0:
            raise InvalidArgumentError(f"Batch size must be greater than zero, got {self.size}.")

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.source.dtypes

    @property
    def dims(self) -> tuple[Dims, ...]:
        rows = self.size if self.drops_remainder else None
        return tuple(None if dims is None else (rows, *dims) for dims in self.source.dims)

    def begin(self) -> Pass:
        return _Batches(self.source.begin(), self.size, self.drops_remainder)


class _Batches:
    """A pass over batches: `_gathered` are elements of the next batch, `_request` is a pending join or yield."""

    def __init__(self, source: Pass, size: int, drops_remainder: bool) -> None:
        self._source = source
        self._size = size
        self._drops_remainder = drops_remainder
        self._gathered: list[Element] = []
        self._request: Request | None = None

    def next(self) -> Element | Request | None:
        request = self._request
        if request is not None:
            if request.is_open:
                return request
            self._request = None
            if isinstance(request, Join):
                return request.outcome()
        try:
            return self._gather()
        except OpError:
            self._gathered = []
            raise

    def _gather(self) -> Element | Request | None:
        gathered = self._gathered
        while len(gathered) < self._size:
            found = self._source.next()
            if isinstance(found, Request):
                return found
            if found is None:
                break
            gathered.append(found)
            if len(gathered) % _TURN == 0 and len(gathered) < self._size:
                self._request = Request()
                return self._request
            if len(gathered) > _MOST_ELEMENTS:
                raise ResourceExhaustedError(f"OOM: a batch has more than {_MOST_ELEMENTS} elements")
        self._gathered = []
        if not gathered or (self._drops_remainder and len(gathered) < self._size):
            return None
        if len(gathered) <= _MANY and sum(part.nbytes for part in gathered[0]) * len(gathered) <= _LARGE:
            return joined(gathered)
        self._request = Join(gathered)
        return self._request


def joined(elements: Sequence[Element]) -> Element:
    """Stack elements.

    Raises:
        InvalidArgumentError: the elements have different shapes.
        ResourceExhaustedError: there is not enough memory.
    """
    for k, first in enumerate(elements[0]):
        for number, element in enumerate(elements):
            if element[k].shape != first.shape:
                raise InvalidArgumentError(
                    f"Cannot batch tensors with different shapes in component {k}. First element had shape "
                    f"{shown(first.shape)} and element {number} had shape {shown(element[k].shape)}."
                )
    try:
        return tuple([np.stack(parts) for parts in zip(*elements, strict=True)])
    except MemoryError as error:
        raise ResourceExhaustedError(f"OOM when allocating a batch of {len(elements)} elements") from error


# Repetitions


@dataclass(frozen=True, slots=True, eq=False)
class RepeatDataset:
    """`count` repetitions of another dataset; infinitely many if negative."""

    source: Dataset
    count: int

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return self.source.dtypes

    @property
    def dims(self) -> tuple[Dims, ...]:
        return self.source.dims

    def begin(self) -> Pass:
        return _Repetitions(self.source, self.count)


class _Repetitions:
    """A pass over repetitions: `_left` passes are to begin; `_is_empty`: the current one had no element so far."""

    def __init__(self, source: Dataset, count: int) -> None:
        self._dataset = source
        self._left = count
        self._source: Pass | None = None
        self._is_empty = False

    def next(self) -> Element | Request | None:
        while True:
            if self._source is None:
                if self._left == 0 or self._is_empty:
                    return None
                self._source, self._is_empty = self._dataset.begin(), True
                self._left -= 1
            try:
                found = self._source.next()
            except OpError:
                self._is_empty = False
                raise
            if found is not None:
                self._is_empty = self._is_empty and isinstance(found, Request)
                return found
            self._source = None


# Functions of elements


@dataclass(frozen=True, slots=True, eq=False)
class MapDataset:
    """The results of a function for each element of another dataset; `body` takes the components and `captured`."""

    source: Dataset
    body: Any
    captured: Element
    dtypes: tuple[DType, ...]
    dims: tuple[Dims, ...]

    def begin(self) -> Pass:
        return _Mapped(self.source.begin(), self.body, self.captured)


class _Mapped:
    """A pass over mapped elements: `_call` is the pending request."""

    def __init__(self, source: Pass, body: Any, captured: Element) -> None:
        self._source = source
        self._body = body
        self._captured = captured
        self._call: Call | None = None

    def next(self) -> Element | Request | None:
        call = self._call
        if call is None:
            found = self._source.next()
            if found is None or isinstance(found, Request):
                return found
            call = self._call = Call(self._body, (*found, *self._captured))
        if call.is_open:
            return call
        self._call = None
        return call.outcome()


# Iterators

Caller = Callable[[Any, Element], Awaitable[Sequence[Array]]]
"""Runs a body with inputs."""
InWorker = Callable[[Callable[[], Element]], Awaitable[Element]]


class Iterator:
    """Iterates over a dataset for several callers, one at a time.

    Constant: name, container, device, dtypes, dims. Changing: `_pass`, None before initialisation. `_lock` is held by the
    caller that waits for an element.
    """

    def __init__(
        self, name: str, container: str, device: str, dtypes: Sequence[DType], dims: Sequence[Dims]
    ) -> None:
        self.name = name
        self.container = container
        self.device = device
        self.dtypes = tuple(dtypes)
        self.dims = tuple(dims)
        self._pass: Pass | None = None
        self._lock = asyncio.Lock()

    def begin(self, dataset: Dataset) -> None:
        """Start to iterate over a dataset.

        Raises:
            InvalidArgumentError: its dtypes or shapes differ from the iterator's.
        """
        check_components(self.dtypes, self.dims, dataset.dtypes, dataset.dims)
        self._pass = dataset.begin()

    async def begin_once(self, make: Callable[[], Awaitable[Dataset]]) -> None:
        """Start to iterate over the result of `make`, unless the iterator is initialised."""
        async with self._lock:
            if self._pass is None:
                self.begin(await make())

    def next_nowait(self) -> Element | None:
        """Return the next element if it is available without waiting, else None.

        Raises:
            FailedPreconditionError: the iterator is not initialised.
            OutOfRangeError: there are no more elements.
        """
        if self._lock.locked():
            return None
        found = self._begun().next()
        return None if isinstance(found, Request) else _element(found)

    async def next(self, call: Caller, in_worker: InWorker) -> Element:
        """Return the next element.

        Raises:
            FailedPreconditionError: the iterator is not initialised.
            OutOfRangeError: there are no more elements.
        """
        async with self._lock:
            through = self._begun()
            while isinstance(found := through.next(), Request):
                await _answer(found, call, in_worker)
            return _element(found)

    def _begun(self) -> Pass:
        if self._pass is None:
            raise FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                "initializer operation for this iterator before getting the next element."
            )
        return self._pass


def _element(found: Element | None) -> Element:
    if found is None:
        raise OutOfRangeError("End of sequence")
    return found


async def _answer(request: Request, call: Caller, in_worker: InWorker) -> None:
    try:
        if isinstance(request, Call):
            request.answer = tuple(await call(request.body, request.inputs))
        elif isinstance(request, Join):
            elements = request.elements
            request.answer = await in_worker(lambda: joined(elements))
        else:
            await asyncio.sleep(0)
            request.answer = ()
    except OpError as error:
        request.error = error


def check_components(
    expected: Sequence[DType], dims: Sequence[Dims], got: Sequence[DType], got_dims: Sequence[Dims]
) -> None:
    """Check that elements of dtypes and shapes `got` are compatible with those expected.

    Raises:
        InvalidArgumentError: they are incompatible.
    """
    if len(expected) != len(got):
        raise InvalidArgumentError(
            f"Number of components does not match: expected {len(expected)} got {len(got)}"
        )
    for k, (wanted, found) in enumerate(zip(expected, got, strict=True)):
        if wanted != found:
            raise InvalidArgumentError(
                f"Data type mismatch at component {k}: expected {wanted.name} but got {found.name}"
            )
    for k, (wanted_dims, found_dims) in enumerate(zip(dims, got_dims, strict=True)):
        if not compatible(wanted_dims, found_dims):
            raise InvalidArgumentError(
                f"Incompatible shapes at component {k}: expected {shown(wanted_dims)} but got {shown(found_dims)}"
            )
