"""Allocation of large arrays aligned to cache lines.

NumPy aligns to 16 bytes, so that every other vector spans two cache lines; writing those takes an eighth longer. An aligned
array has a `base`, although it is not a view of another array; see `owns_memory`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

LINE = 64
LEAST_BYTES = 4096
"""Bytes from which alignment is worth half a microsecond."""


class _Memory(np.ndarray[Any, Any]):
    """The memory of one array. As a type of its own, it is the `base` of that array only, not of its views."""

    __slots__ = ()


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Allocate an array without initialising it."""
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < LEAST_BYTES or dtype.hasobject:
        return np.empty(shape, dtype)
    memory = _Memory(nbytes + LINE, np.uint8)
    return np.ndarray(shape, dtype, memory, -memory.__array_interface__["data"][0] % LINE)


def release_free_memory() -> None:
    """Return memory that the C library keeps after it was freed to the system: tenths of a second for gigabytes; any thread.

    NumPy kernels on several threads leave gigabytes behind a step of a large network. It does nothing without glibc.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def aligned_copy(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a copy in C order."""
    fresh = aligned_empty(value.shape, value.dtype)
    np.copyto(fresh, value)
    return fresh


def owns_memory(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is not a view, so that holding it holds no other memory."""
    return array.base is None or type(array.base) is _Memory
