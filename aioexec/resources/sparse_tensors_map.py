"""SparseTensorsMap: sparse tensors under integer handles, which represent them in queues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Generic, TypeVar

from aioexec.errors import InvalidArgumentError

Tensor = TypeVar("Tensor")


class SparseTensorsMap(Generic[Tensor]):
    """Maps handles to sparse tensors; handles count from 0 and are never reused.

    Both modifications are single dict operations, so kernels may call them from any thread.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers: Iterator[int] = itertools.count()
        self._held: dict[int, Tensor] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, tensor: Tensor) -> int:
        """Store a tensor; return its handle."""
        number = next(self._numbers)
        self._held[number] = tensor
        return number

    def take(self, number: int) -> Tensor:
        """Remove and return a tensor.

        Raises:
            InvalidArgumentError: the handle is unknown.
        """
        try:
            return self._held.pop(number)
        except KeyError:
            raise InvalidArgumentError(f"Unable to find SparseTensor: {number} in map: {self.name}") from None
