"""Copies of values that state keeps longer than their step, so that what comes out later has no other reference."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.dtypes import DType
from aioexec.errors import ResourceExhaustedError
from aioexec.ops.common.elementwise import Array

LARGE = 128 * 1024
"""Bytes whose copying would hold the event loop: it is left to a worker."""
_FREED = 2000
"""Values that are freed in one turn of the loop."""
_MOST_PADDED, _MOST_PADDING = 1 << 30, 100
"""Bytes of a padded batch, and how many times those of its elements, that it may not both exceed."""


def copied(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([value.copy() if isinstance(value, np.ndarray) else value for value in values])


def nbytes_of(values: Sequence[Any]) -> int:
    return sum([getattr(value, "nbytes", 0) for value in values])


def are_large(values: Sequence[Any]) -> bool:
    """Whether to copy these on a worker."""
    return nbytes_of(values) > LARGE


def free_in_slices(values: list[Any]) -> None:
    """Empty a list that is no longer needed, a part in each turn of the loop: to free many arrays takes milliseconds."""
    del values[-_FREED:]
    if values:
        asyncio.get_running_loop().call_soon(free_in_slices, values)


def stacked_shape(rows: Sequence[Array], dims: Sequence[int | None]) -> tuple[int, ...]:
    """The shape of rows in one array: where `dims` does not say how large they are, that of the largest."""
    sizes = [
        max((row.shape[axis] for row in rows), default=0) if dim is None else dim
        for axis, dim in enumerate(dims)
    ]
    return (len(rows), *sizes)


def stacked(rows: Sequence[Array], dims: Sequence[int | None], dtype: DType) -> Array:
    """Rows in one array; behind those that are smaller are zeros, or empty strings.

    Raises:
        ResourceExhaustedError: it would be mostly padding, and absurdly large.
    """
    shape = stacked_shape(rows, dims)
    if None not in dims:
        array = np.empty(shape, dtype.numpy)
        for k, row in enumerate(rows):
            array[k, ...] = row
        return array
    nbytes = prod(shape) * dtype.numpy.itemsize
    if nbytes > _MOST_PADDED and nbytes > _MOST_PADDING * nbytes_of(rows):
        raise ResourceExhaustedError(
            f"a batch of {len(rows)} elements would be padded to {list(shape)}, {nbytes} bytes"
        )
    array = np.full(shape, b"" if dtype.numpy == np.object_ else 0, dtype.numpy)
    for k, row in enumerate(rows):
        place: tuple[Any, ...] = (k, *map(slice, row.shape))
        array[place] = row
    return array
