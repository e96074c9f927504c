"""Copies of values that outlive their step, so that values taken out later have no other reference."""

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
"""Bytes above which a copy would block the event loop for too long and runs on a worker."""
_FREED = 2000
"""Values freed per iteration of the event loop."""
_MOST_PADDED, _MOST_PADDING = 1 << 30, 100
"""A padded batch may exceed this many bytes, or this many times the bytes of its elements, but not both."""


def copied(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([value.copy() if isinstance(value, np.ndarray) else value for value in values])


def nbytes_of(values: Sequence[Any]) -> int:
    return sum([getattr(value, "nbytes", 0) for value in values])


def are_large(values: Sequence[Any]) -> bool:
    """Return whether copying the values belongs on a worker."""
    return nbytes_of(values) > LARGE


def free_in_slices(values: list[Any]) -> None:
    """Empty a list in parts, one per iteration of the event loop: freeing many arrays at once takes milliseconds."""
    del values[-_FREED:]
    if values:
        asyncio.get_running_loop().call_soon(free_in_slices, values)


def stacked_shape(rows: Sequence[Array], dims: Sequence[int | None]) -> tuple[int, ...]:
    """Return the shape of stacked rows: unknown dimensions are those of the largest row."""
    sizes = [
        max((row.shape[axis] for row in rows), default=0) if dim is None else dim
        for axis, dim in enumerate(dims)
    ]
    return (len(rows), *sizes)


def stacked(rows: Sequence[Array], dims: Sequence[int | None], dtype: DType) -> Array:
    """Stack rows into one array, padding smaller ones with zeros or empty strings.

    Raises:
        ResourceExhaustedError: the batch exceeds both limits of padding (`_MOST_PADDED`, `_MOST_PADDING`).
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
