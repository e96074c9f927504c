"""The interface of decoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class DataDecoder(ABC):
    """Makes the items of a sample from its record."""

    @abstractmethod
    def decode(self, data: Any, items: Sequence[str] | None = None) -> list[Any]:
        """Return tensors of the items, by default of all, in their order."""

    @abstractmethod
    def list_items(self) -> list[str]:
        """Return the names of the items."""
