"""Memory that vectors of any processor step through line by line: large arrays that begin where a line of its cache does.

NumPy's own begin 16 bytes behind one, where every other vector lies on two lines; to write those takes an eighth longer.
So such an array has a `base`, though it is no part of another array; see `owns_memory`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

LINE = 64
LEAST_BYTES = 4096
"""Of an array that is worth half a microsecond."""


class _Memory(np.ndarray[Any, Any]):
    """What one array lies in. Having a type of its own, it is the `base` of that array only, and not of views of it."""

    __slots__ = ()


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A new array whose content is not set."""
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < LEAST_BYTES or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = _Memory(nbytes + LINE, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.__array_interface__["data"][0] % LINE)


def aligned_copy(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy in order of rows."""
    fresh = aligned_empty(value.shape, value.dtype)
    np.copyto(fresh, value)
    return fresh


def owns_memory(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is no view of another one, so that to hold it is to hold no more than it."""
    return array.base is None or type(array.base) is _Memory
