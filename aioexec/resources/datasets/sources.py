"""Datasets of values that exist: slices of arrays, whole arrays, ranges."""

from __future__ import annotations

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.datasets.dataset import Memory
from aioexec.resources.datasets.work import Element, Work
from aioexec.shapes import Dims


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

    def begin(self, memory: Memory) -> _Slices:
        return _Slices(self.components)


class _Slices:
    def __init__(self, components: Element) -> None:
        self._components = components
        self._position = 0

    def next(self, work: Work) -> Element | None:
        position = self._position
        if position >= len(self._components[0]):
            return None
        self._position += 1
        return tuple([component[position, ...] for component in self._components])


@dataclass(frozen=True, slots=True, eq=False)
class TensorDataset:
    """One element, whose components are not modified."""

    dtypes: tuple[DType, ...]
    components: Element

    @property
    def dims(self) -> tuple[Dims, ...]:
        return tuple(getattr(component, "shape", ()) for component in self.components)

    def begin(self, memory: Memory) -> _Elements:
        return _Elements([self.components])


class _Elements:
    """A pass over elements that exist."""

    def __init__(self, elements: list[Element]) -> None:
        self._elements = iter(elements)

    def next(self, work: Work) -> Element | None:
        return next(self._elements, None)


@dataclass(frozen=True, slots=True, eq=False)
class ElementsDataset:
    """Elements that exist, of any shapes."""

    dtypes: tuple[DType, ...]
    elements: list[Element]

    @property
    def dims(self) -> tuple[Dims, ...]:
        return (None,) * len(self.dtypes)

    def begin(self, memory: Memory) -> _Elements:
        return _Elements(self.elements)


@dataclass(frozen=True, slots=True, eq=False)
class RangeDataset:
    """The numbers from `start` to `stop`, exclusive."""

    dtype: DType
    start: int
    stop: int
    step: int

    def __post_init__(self) -> None:
        if self.step == 0:
            raise InvalidArgumentError("step must be a non-zero integer.")

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return (self.dtype,)

    @property
    def dims(self) -> tuple[Dims, ...]:
        return ((),)

    def begin(self, memory: Memory) -> _Numbers:
        return _Numbers(range(self.start, self.stop, self.step), self.dtype)


class _Numbers:
    def __init__(self, numbers: range, dtype: DType) -> None:
        self._numbers = iter(numbers)
        self._dtype = dtype.numpy

    def next(self, work: Work) -> Element | None:
        number = next(self._numbers, None)
        return None if number is None else (np.array(number, self._dtype),)
