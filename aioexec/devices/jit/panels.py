"""Panels: the layout in which compiled kernels take a constant matrix, so that no step has to copy it.

The columns of the matrix are cut into panels, each as wide as a tile of `tiles.py`. A panel is contiguous: its rows follow each
other. Panels follow each other too. The last one is padded with zeros.

    rows × columns      panel 0: row 0, row 1, ...   panel 1: row 0, row 1, ...   ...
"""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec.devices.jit.huge_pages import huge_pages
from aioexec.devices.jit.target import host_class
from aioexec.dtypes import bfloat16
from aioexec.graph.kernels.panels import STORED_DTYPES, Panels, Storage

Array = np.ndarray[Any, Any]

_VECTOR_BYTES = {"x86-64-v4": 64, "x86-64-v3": 32}
"""The bytes of a vector for the classes of processors whose tiles beat BLAS; the same as in `tiles.registers`."""


def vector_bytes() -> int:
    """The bytes of a vector of this processor; 0 if products are left to BLAS, which takes no panels."""
    return _VECTOR_BYTES.get(host_class() or "", 0)


def packed_shape(panels: Panels, itemsize: int) -> tuple[int, int, int]:
    """The shape of a packed matrix: panels, rows, columns of a panel."""
    wide = 2 * vector_bytes() // itemsize
    return -(-panels.columns // wide), panels.rows, wide


def packed_bytes(panels: Panels, itemsize: int) -> int:
    """The bytes of a packed matrix, or of its scales."""
    count, rows, wide = packed_shape(panels, itemsize)
    if panels.scales:
        return count * wide * itemsize
    return (
        count
        * rows
        * wide
        * (np.dtype(STORED_DTYPES[panels.storage]).itemsize if panels.storage else itemsize)
    )


def pack(matrix: Array, panels: Panels) -> Array:
    """Copy a matrix, in C order, into panels that begin on a cache line; of narrow ones the scales apart."""
    shape = packed_shape(panels, matrix.itemsize)
    memory = huge_pages.empty(packed_bytes(panels, matrix.itemsize))
    if not panels.storage:
        packed = memory.view(matrix.dtype).reshape(shape)
        _fill(packed, matrix, panels)
        return packed
    plain = np.empty(shape, matrix.dtype)
    _fill(plain, matrix, panels)
    largest = np.abs(plain).max(axis=1)
    scales = np.where(largest == 0, np.float32(1), largest / np.float32(127))
    narrow = scales if panels.scales else _narrowed(plain, panels.storage, scales)
    memory[:] = narrow.reshape(-1).view(np.uint8)
    return memory


def _narrowed(plain: Array, storage: Storage, scales: Array) -> Array:
    """The elements as they are stored."""
    if storage == "int8":
        with np.errstate(all="ignore"):
            ratios = np.rint(plain / scales[:, None, :]).clip(
                -127, 127
            )  # a subnormal scale is itself rounded
        return np.where(np.isnan(ratios), 0, ratios).astype(
            np.int8
        )  # inf or NaN in the scale makes the product NaN
    if storage == "float16":
        largest = np.finfo(np.float16).max
        return np.clip(plain, -largest, largest).astype(np.float16)
    return plain.astype(bfloat16.numpy)


def _fill(packed: Array, matrix: Array, panels: Panels) -> None:
    count, rows, wide = packed.shape
    flat = np.ascontiguousarray(matrix)
    if panels.transposed:
        lines = flat.reshape(panels.columns, rows).T
    else:
        lines = flat.reshape(rows, panels.columns)
    whole = panels.columns // wide
    packed[:whole] = lines[:, : whole * wide].reshape(rows, whole, wide).swapaxes(0, 1) if whole else 0
    if whole < count:
        packed[whole] = 0
        packed[whole, :, : panels.columns - whole * wide] = lines[:, whole * wide :]
