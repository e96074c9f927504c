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
from aioexec.graph.kernels.panels import Panels

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


def pack(matrix: Array, panels: Panels) -> Array:
    """Copy a matrix, in C order, into panels that begin on a cache line."""
    shape = packed_shape(panels, matrix.itemsize)
    count, rows, wide = shape
    packed = huge_pages.empty(count * rows * wide * matrix.itemsize).view(matrix.dtype).reshape(shape)
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
    return packed
