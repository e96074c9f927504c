"""Launches of products with a constant right matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aioexec.graph.kernels.epilogue import MOST_OTHERS, Epilogue
from aioexec.graph.kernels.kernel import Launches, LoopKernel, Operand, Spec
from aioexec.graph.kernels.panels import STORED_DTYPES, Panels
from aioexec.ops.common.shares import IN_PLACE, NOT_READ, Scratch, Work
from aioexec.ops.linalg import panel_loops

_LEAST_BYTES = 2**14
"""Bytes of a matrix from which packing it pays off."""
_LEAST_COLUMNS = 8
"""Columns from which most of a panel is used."""
_ROWS_GRAIN, _COLUMNS_GRAIN = 14, 32
"""Rows of the highest tiles, and columns of the widest panels: of these a share consists. Lower tiles divide the rows well."""
_FLOP_NS = 0.01
"""Nanoseconds of one operation in float32."""
_WIDEN_NS = 0.06
"""Nanoseconds to widen a number of a narrow matrix."""
_MOST_TERMS = 400
"""The most rows of a panel that are multiplied at once, see `panel_terms`."""
_NEAR_NS, _FAR, _FAR_NS = 0.015, 2**19, 0.06
"""Nanoseconds to load a byte of the panels, which with few rows takes longer than to compute: from the second-level cache; from
farther, which is from so many bytes on.
"""


def takes_panels(matrix: Spec, panels: Panels) -> bool:
    """Whether a product takes its right matrix in panels."""
    return (
        matrix.may_be_packed
        and matrix.dtype.name in ("float32", "float64")
        and panels.columns >= _LEAST_COLUMNS
        and matrix.nbytes >= _LEAST_BYTES
    )


def multiply(matrix: Spec, panels: Panels, left: Operand, output: Operand, m: int) -> Launches:
    """Return launches of a left matrix of m rows @ input 1 of the node, in panels; without scratch.

    Workers share columns if there are more of them than rows, so that each loads its own part of the panels.
    """
    if panels.storage:
        return _multiply_narrow(panels, left, output, m)
    case = matrix.dtype.name, m, panels.columns, panels.rows
    rows, _ = product_work(*case, left, Operand("packed", 0), output).cut()
    return Launches(rows, packed=((1, panels),))


def product_work(dtype: str, m: int, n: int, k: int, left: Operand, right: Operand, output: Operand) -> Work:
    """Return the product of a left matrix [m, k] and a right one of n columns in panels."""
    size = np.dtype(dtype).itemsize
    nbytes = k * n * size
    loads = nbytes * (_NEAR_NS if nbytes < _FAR else _FAR_NS)
    by_rows = m >= n
    return Work(
        LoopKernel(panel_loops.multiply_panels, (dtype,) * (4 + MOST_OTHERS), 7, 0),
        (left, right, output, *NOT_READ),
        (m, n, k, k, n, 0, 0),
        (k * size, 0, n * size, *IN_PLACE) if by_rows else (0, k * size, size, size, *IN_PLACE[1:]),
        40 + int(max(2 * m * n * k * _FLOP_NS * size / 4, loads)),
        unit=0 if by_rows else 1,
        grain=_ROWS_GRAIN if by_rows else _COLUMNS_GRAIN,
        epilogue=Epilogue(5, 2, 3, n, clips=True, others=4),
    )


def panels_of(matrix: Spec, rows: int, columns: int, transposed: bool) -> Panels:
    """The layout in which a product takes its right matrix."""
    return Panels(rows, columns, transposed, matrix.storage if matrix.dtype == np.float32 else "")


def _multiply_narrow(panels: Panels, left: Operand, output: Operand, m: int) -> Launches:
    """The same of panels in a narrow dtype: workers share columns, so that each panel is widened once."""
    k, n, stored = panels.rows, panels.columns, np.dtype(STORED_DTYPES[panels.storage])
    is_scaled = panels.storage == "int8"
    nbytes = k * n * stored.itemsize
    loads = nbytes * (_NEAR_NS if nbytes < _FAR else _FAR_NS)
    work = Work(
        LoopKernel(
            panel_loops.multiply_narrow_panels,
            ("float32", stored.name, *("float32",) * (4 + MOST_OTHERS)),
            8,
            0,
        ),
        (left, Operand("packed", 0), output, Operand("packed", 1) if is_scaled else NOT_READ[0], *NOT_READ),
        (m, n, k, k, n, int(is_scaled), 0, 0),
        (0, k * stored.itemsize, 4, 4 if is_scaled else 0, 4, *IN_PLACE[1:]),
        40 + int(max(2 * m * n * k * _FLOP_NS, loads) + n * k * _WIDEN_NS),
        unit=1,
        grain=_COLUMNS_GRAIN,
        epilogue=Epilogue(6, 2, 4, n, clips=True, others=5),
        scratch=(Scratch(0, min(k, _MOST_TERMS) * _COLUMNS_GRAIN * 4),),
    )
    rows, scratch = work.cut()
    packed = ((1, panels), (1, replace(panels, scales=True))) if is_scaled else ((1, panels),)
    return Launches(rows, scratch, packed=packed)
