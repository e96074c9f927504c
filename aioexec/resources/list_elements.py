"""What a list has where NumPy cannot compute with its elements, since they are in the memory of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.data_classes import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Stacked:
    """A tensor of rows of which some are in the memory of a device: zeros but for those at these places."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: Sequence[tuple[int, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Sum:
    """The sum of two elements of which one is in the memory of a device."""

    one: Any
    other: Any

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self.one.dtype
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = self.one.shape
        return found
