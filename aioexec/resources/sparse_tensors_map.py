"""SparseTensorsMap: sparse tensors under numbers, which go through queues in their place."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Generic, TypeVar

from aioexec.errors import InvalidArgumentError

Tensor = TypeVar("Tensor")


class SparseTensorsMap(Generic[Tensor]):
    """What was put in and not yet taken out, by its number; numbers count from 0 and never come again.

    Both changes of a number are one uninterrupted change of a dict, so kernels in several threads may make them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers: Iterator[int] = itertools.count()
        self._held: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, tensor: Tensor) -> int:
        """Keep a tensor; its number."""
        number = next(self._numbers)
        self._held[number] = tensor
        return number

    def take(self, number: int) -> Tensor:
        """Give a tensor back and forget it.

        Raises:
            InvalidArgumentError: there is none of that number.
        """
        try:
            return self._held.pop(number)
        except KeyError:
            raise InvalidArgumentError(f"Unable to find SparseTensor: {number} in map: {self.name}") from None
