"""Batches of elements, and batches taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError, OpError, ResourceExhaustedError
from aioexec.resources.datasets.dataset import Derived, Memory, Pass
from aioexec.resources.datasets.work import Array, Element, InWorker, Request, Turns, Work
from aioexec.shapes import Dims, shown

_LARGE = 128 * 1024
"""Bytes above which a copy would block the event loop for too long."""
_MANY = 1024
"""Elements that a worker joins, however small they are."""
_MOST_ELEMENTS = 1 << 24
"""Upper bound for the elements of a batch."""

Join = Callable[[Sequence[Element]], Element]


@dataclass(frozen=True, slots=True, eq=False)
class BatchDataset(Derived):
    """Batches of `size` elements of another dataset; the last batch is smaller or dropped."""

    size: int
    drops_remainder: bool = False

    def __post_init__(self) -> None:
        check_size(self.size)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return batched(self.source.dims, self.size if self.drops_remainder else None)

    def begin(self, memory: Memory) -> Pass:
        return Batches(self.source.begin(memory), self.size, self.drops_remainder, joined)


def check_size(size: int) -> None:
    """Check the size of batches.

    Raises:
        InvalidArgumentError: it is not positive.
    """
    if size <= 0:
        raise InvalidArgumentError(f"Batch size must be greater than zero, got {size}.")


def batched(dims: Sequence[Dims], rows: int | None) -> tuple[Dims, ...]:
    """Return the shapes of batches."""
    return tuple(None if each is None else (rows, *each) for each in dims)


class Batches:
    """A pass over batches: `_gathered` are elements of the next batch, `_request` is the pending join."""

    def __init__(self, source: Pass, size: int, drops_remainder: bool, join: Join) -> None:
        self._source = source
        self._size = size
        self._drops_remainder = drops_remainder
        self._join = join
        self._gathered: list[Element] = []
        self._request: InWorker | None = None
        self._turns = Turns()

    def next(self, work: Work) -> Element | Request | None:
        request = self._request
        if request is not None:
            if request.is_open:
                return request
            self._request = None
            return request.outcome()
        try:
            return self._gather(work)
        except OpError:
            self._gathered = []
            raise

    def _gather(self, work: Work) -> Element | Request | None:
        gathered = self._gathered
        while len(gathered) < self._size:
            found = self._source.next(work)
            if isinstance(found, Request):
                return found
            if found is None:
                break
            gathered.append(found)
            if len(gathered) > _MOST_ELEMENTS:
                raise ResourceExhaustedError(f"OOM: a batch has more than {_MOST_ELEMENTS} elements")
            turn = self._turns.due()
            if turn is not None:
                return turn
        self._gathered = []
        if not gathered or (self._drops_remainder and len(gathered) < self._size):
            return None
        if len(gathered) <= _MANY and sum(part.nbytes for part in gathered[0]) * len(gathered) <= _LARGE:
            return self._join(gathered)
        self._request = InWorker(partial(self._join, gathered))
        return self._request


def joined(elements: Sequence[Element]) -> Element:
    """Stack elements.

    Raises:
        InvalidArgumentError: the elements have different shapes.
        ResourceExhaustedError: there is not enough memory.
    """
    try:
        return tuple([_stacked(k, parts) for k, parts in enumerate(zip(*elements, strict=True))])
    except MemoryError as error:
        raise ResourceExhaustedError(f"OOM when allocating a batch of {len(elements)} elements") from error


def _stacked(position: int, parts: Sequence[Array]) -> Array:
    first = parts[0]
    shape = first.shape
    if shape == () and not first.dtype.hasobject:
        for part in parts:
            if part.shape != ():
                break
        else:
            return np.array([part.item() for part in parts], first.dtype)
    for number, part in enumerate(parts):
        if part.shape != shape:
            raise InvalidArgumentError(
                f"Cannot batch tensors with different shapes in component {position}. First element had shape "
                f"{shown(shape)} and element {number} had shape {shown(part.shape)}."
            )
    return np.stack(parts)


# Padded batches


@dataclass(frozen=True, slots=True, eq=False)
class PaddedBatchDataset(Derived):
    """Batches of elements whose components are padded to a common shape.

    `padded` are the shapes of components; -1: as large as the largest of the batch. `values` fill what is missing.
    """

    size: int
    padded: tuple[tuple[int, ...], ...]
    values: Element
    drops_remainder: bool = False

    def __post_init__(self) -> None:
        check_size(self.size)
        if len(self.padded) != len(self.source.dtypes):
            raise InvalidArgumentError(
                f"Number of padded shapes ({len(self.padded)}) must match the number of components in the input "
                f"dataset's elements ({len(self.source.dtypes)})"
            )

    @property
    def dims(self) -> tuple[Dims, ...]:
        known = [tuple(None if size < 0 else size for size in shape) for shape in self.padded]
        return batched(known, self.size if self.drops_remainder else None)

    def begin(self, memory: Memory) -> Pass:
        join = partial(_padded, self.padded, self.values)
        return Batches(self.source.begin(memory), self.size, self.drops_remainder, join)


def _padded(
    shapes: Sequence[tuple[int, ...]], values: Sequence[Array], elements: Sequence[Element]
) -> Element:
    columns = zip(*elements, strict=True)
    try:
        return tuple([_filled(*each) for each in zip(shapes, values, columns, strict=True)])
    except MemoryError as error:
        raise ResourceExhaustedError(f"OOM when allocating a batch of {len(elements)} elements") from error


def _filled(shape: tuple[int, ...], value: Array, parts: Sequence[Array]) -> Array:
    """Return a batch of parts, padded with a value."""
    for part in parts:
        if part.ndim != len(shape):
            raise InvalidArgumentError(
                "All elements in a batch must have the same rank as the padded shape for component "
                f"{shown(shape)}: expected rank {len(shape)} but got element with rank {part.ndim}"
            )
    sizes = tuple(
        max(part.shape[axis] for part in parts) if size < 0 else size for axis, size in enumerate(shape)
    )
    batch = np.full((len(parts), *sizes), value.item() if value.dtype.hasobject else value, parts[0].dtype)
    for number, part in enumerate(parts):
        if any(size > most for size, most in zip(part.shape, sizes, strict=True)):
            raise InvalidArgumentError(
                "Attempted to pad to a smaller size than the input element: the padded shape is "
                f"{shown(sizes)}, the element has shape {shown(part.shape)}"
            )
        place: tuple[Any, ...] = (number, *map(slice, part.shape))
        batch[place] = part
    return batch


# Batches taken apart


@dataclass(frozen=True, slots=True, eq=False)
class UnbatchDataset(Derived):
    """The rows of the elements of another dataset."""

    @property
    def dims(self) -> tuple[Dims, ...]:
        return tuple(None if dims is None else dims[1:] for dims in self.source.dims)

    def begin(self, memory: Memory) -> Pass:
        return _Rows(self.source.begin(memory))


class _Rows:
    """A pass over rows: `_batch` is the element being taken apart, `_position` its next row."""

    def __init__(self, source: Pass) -> None:
        self._source = source
        self._batch: Element | None = None
        self._position = 0

    def next(self, work: Work) -> Element | Request | None:
        while self._batch is None or self._position >= len(self._batch[0]):
            found = self._source.next(work)
            if found is None or isinstance(found, Request):
                return found
            if any(part.ndim == 0 for part in found):
                raise InvalidArgumentError("Unbatch: cannot unbatch a scalar component")
            if len({len(part) for part in found}) > 1:
                raise InvalidArgumentError(
                    "Input element must have the same batch size in each component, got "
                    f"{[len(part) for part in found]}"
                )
            self._batch, self._position = found, 0
        position = self._position
        self._position += 1
        return tuple([part[position, ...] for part in self._batch])
