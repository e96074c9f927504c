"""The tensors of a sample by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec.errors import GraphValueError


class DataProvider:
    """Provides the items of one sample after the other.

    Args:
        items_to_tensors: a tensor for each item.
        num_samples: the number of samples, None if it is not known.
    """

    def __init__(self, items_to_tensors: Mapping[str, Any], num_samples: int | None) -> None:
        self._items_to_tensors = items_to_tensors
        self._num_samples = num_samples

    def get(self, items: Sequence[str]) -> list[Any]:
        """Return the tensors of items; those of one run belong to one sample.

        Raises:
            GraphValueError: there is no such item.
        """
        for item in items:
            if item not in self._items_to_tensors:
                raise GraphValueError(f"Item [{item}] is unknown; expected one of {self.list_items()}")
        return [self._items_to_tensors[item] for item in items]

    def list_items(self) -> list[str]:
        """Return the names of the items."""
        return list(self._items_to_tensors)

    def num_samples(self) -> int | None:
        """Return the number of samples."""
        return self._num_samples
