"""Copies of values that state keeps longer than their step: nobody else holds what comes out of it later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.ops.elementwise import Array

LARGE = 128 * 1024
"""Bytes whose copying would hold the event loop: it is left to a worker."""


def copied(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([value.copy() if isinstance(value, np.ndarray) else value for value in values])


def nbytes_of(values: Sequence[Any]) -> int:
    return sum([getattr(value, "nbytes", 0) for value in values])


def are_large(values: Sequence[Any]) -> bool:
    """Whether to copy these on a worker."""
    return nbytes_of(values) > LARGE


def stacked(rows: Sequence[Array], dims: Sequence[int | None], dtype: DType) -> Array:
    """Rows in one array, as large as the largest of them; behind the others are zeros, or empty strings."""
    sizes = [
        max((row.shape[axis] for row in rows), default=0) if dim is None else dim
        for axis, dim in enumerate(dims)
    ]
    if None not in dims:
        array = np.empty((len(rows), *sizes), dtype.numpy)
        for k, row in enumerate(rows):
            array[k, ...] = row
        return array
    array = np.full((len(rows), *sizes), b"" if dtype.numpy == np.object_ else 0, dtype.numpy)
    for k, row in enumerate(rows):
        place: tuple[Any, ...] = (k, *map(slice, row.shape))
        array[place] = row
    return array
