"""Native forms of matrix products, single and batched: their launches, what they cost, and how workers share them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from aioexec.graph.kernels.epilogue import MOST_OTHERS, Epilogue
from aioexec.graph.kernels.kernel import Handover, Launch, Launches, LoopKernel, Operand, Spec, Units
from aioexec.graph.kernels.launches import collapse
from aioexec.ops.common.shares import IN_PLACE, NOT_READ
from aioexec.ops.linalg import panel_launches, product_loops
from aioexec.ops.reduction.launches import fill

BODIES = {
    "float32": product_loops.matmul_real,
    "float64": product_loops.matmul_real,
    "int32": product_loops.matmul_whole,
    "int64": product_loops.matmul_whole,
}
_OPERANDS = (Operand("input", 0), Operand("input", 1), Operand("output", 0))
MOST_LAUNCHES = 64
LARGE = 2**28
"""Multiply-adds from which BLAS (if it has kernels for the processor) is faster, because it also packs the left matrix."""
SHARE_COLUMNS, SHARE_ROWS = 384, 336
"""Columns or rows from which the other matrix is worth copying for a share."""
LEAST_COLUMNS = 128
FAR, FAR_COST = 2**19, 0.045
"""Bytes of a matrix from which a step loads it from the L3 cache or memory, and nanoseconds per byte loaded from there."""
LARGE_PRODUCT = 2**18
"""Bytes of a product from which fusing it with its consumer, so that it is not written, pays off."""
MOST_OPERANDS = 15
"""Upper bound for the operands of the elementwise kernel that consumes a product; no optimizer has more."""


def bind_product(
    flip_x: bool,
    flip_y: bool,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    operands: tuple[Operand, ...] = _OPERANDS,
) -> Launches | None:
    """Bind a matrix product. A launch loops over two batch dimensions; others, unless they collapse, take several launches.

    `operands` are the locations of the factors and the product.
    """
    x, y = inputs
    out = outputs[0]
    if x.dtype.name not in BODIES:
        return None
    if 0 in out.shape:
        return Launches(())
    n, k = out.shape[-1], x.shape[-2] if flip_x else x.shape[-1]
    if k == 0:
        row = fill("0", operands[2], out.size, out.dtype.name)
        return Launches(() if row is None else (row,))
    m, outer, step_x, step_y = batch_of(flip_x, x, y, out)
    panels = panel_launches.panels_of(y, k, n, flip_y)
    if not flip_x and prod(outer) == 1 and panel_launches.takes_panels(y, panels):
        return panel_launches.multiply(y, panels, operands[0], operands[2], m)
    if prod(outer[:-2]) > MOST_LAUNCHES:
        return None
    kernel = LoopKernel(BODIES[x.dtype.name], (x.dtype.name,) * (4 + MOST_OTHERS), 18, 0)
    how = method_of(flip_x, m, n, k)
    cost = cost_of(x.dtype, how, outer[-1] * outer[-2], m, n, k)
    lda, ldb = (m if flip_x else k), (k if flip_y else n)
    sizes = (how, int(flip_x), int(flip_y), m, n, k)
    words = (
        *sizes,
        outer[-2],
        step_x[-2],
        step_y[-2],
        outer[-1],
        step_x[-1],
        step_y[-1],
        lda,
        ldb,
        n,
        0,
        0,
        0,
    )
    units = units_of(flip_x, flip_y, words, x.dtype.itemsize) if outer[-2] * outer[-1] == 1 else None
    epilogue = epilogue_of(x.dtype, how, n)
    handover = handover_of(words, x.dtype) if units is not None and how == product_loops.IN_TILES else None
    size = m * n * outer[-1] * outer[-2]
    launches = [
        Launch(kernel, (*places, *NOT_READ), words, (), cost, units, epilogue, handover)
        for places in places_of(operands, outer[:-2], step_x, step_y, size, x.dtype.itemsize)
    ]
    return Launches(tuple(launches))


def batch_of(
    flip_x: bool, x: Spec, y: Spec, out: Spec
) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the rows of each product, the dimensions of the batch (two or more), and the steps of both factors along them."""
    rows, batch = out.shape[-2], out.shape[:-2]
    steps = [batch_steps(spec.shape, batch) for spec in (x, y)]
    if prod(y.shape[:-2]) == 1 and prod(x.shape[:-2]) == prod(batch) and not flip_x:
        # one matrix on the right: the batch is only more rows
        rows, batch, steps = rows * prod(batch), (), [(), ()]
    dims, both = collapse(batch, steps)
    missing = max(0, 2 - len(dims))
    step_x, step_y = ((0,) * missing + step for step in both)
    return rows, (1,) * missing + dims, step_x, step_y


def handover_of(words: tuple[int, ...], dtype: np.dtype[Any]) -> Handover | None:
    """Return how an elementwise kernel can consume the product, if that pays off; the work is shared by rows."""
    _, flip_x, _, m, n, k = words[:6]
    lda, ldb, _ = words[12:15]
    if dtype.kind != "f" or k > product_loops.MOST_TERMS or m * n * dtype.itemsize < LARGE_PRODUCT:
        return None
    kernel = LoopKernel(product_loops.product_handed_over, (dtype.name,) * (2 + MOST_OPERANDS), 11, 0)
    units = Units(2, ((1 if flip_x else lda) * dtype.itemsize, 0, n * dtype.itemsize), 42)
    return Handover(kernel, (*words[1:6], lda, ldb), units, MOST_OPERANDS)


def epilogue_of(dtype: np.dtype[Any], how: int, n: int) -> Epilogue | None:
    """Return the epilogue of a product of n columns; that of integers calls nothing, since their kernels may fail."""
    has_one = how in (product_loops.IN_TILES, product_loops.LARGE)
    if not has_one or dtype.kind != "f":
        return Epilogue(16, 2, 3, n, clips=True) if has_one else None
    return Epilogue(16, 2, 3, n, clips=True, others=4, adds=15, pitch=14)


def method_of(flip_x: bool, m: int, n: int, k: int) -> int:
    """Return how the loop computes a product of floats."""
    if n == 1:
        return product_loops.COLUMN
    if m == 1:
        return product_loops.ROWS
    return product_loops.LARGE if m * n * k >= LARGE else product_loops.IN_TILES


def cost_of(dtype: np.dtype[Any], how: int, count: int, m: int, n: int, k: int) -> int:
    """Return the nanoseconds of a launch of `count` products."""
    cost = 40 + int(m * n * k * count * element_cost(dtype, how))
    matrix = n * k * dtype.itemsize
    loads = how in (product_loops.ROWS, product_loops.COLUMN) and matrix >= FAR
    return cost + int(matrix * FAR_COST) if loads else cost


def element_cost(dtype: np.dtype[Any], how: int) -> float:
    """Return the nanoseconds of a multiply-add; for vectors, the time to load a matrix element."""
    if dtype.kind != "f":
        return 0.05
    return (0.05 if how in (product_loops.ROWS, product_loops.COLUMN) else 0.02) * dtype.itemsize / 4


def units_of(flip_x: bool, flip_y: bool, words: tuple[int, ...], itemsize: int) -> Units | None:
    """Return how workers share a product: by columns, each of which packs its own part of the right matrix; by rows if columns
    are few, or if the left matrix is transposed and at least as large, and is then packed.

    Sums are never divided, so tiled results do not depend on the number of workers; those of BLAS may, since BLAS treats the
    last columns of a share differently. Large products by BLAS, and products of a transposed left matrix, copy the other
    matrix for each share. Shares are multiples of the tiles of every processor, and exceed the rows that the vector loop
    takes. The operands after the product are those of an epilogue.
    """
    how, m, n = words[0], *words[3:5]
    lda, ldb, ldc = words[12:15]
    copies = how == product_loops.LARGE or flip_x
    if m == 1 or (n >= LEAST_COLUMNS and not (flip_x and m >= n)):
        strides = (0, (ldb if flip_y else 1) * itemsize, itemsize, itemsize, *IN_PLACE[1:])
        return Units(4, strides, 32, share=SHARE_COLUMNS if copies else 1)
    strides = ((1 if flip_x else lda) * itemsize, 0, ldc * itemsize, *IN_PLACE)
    return Units(3, strides, 42, share=SHARE_ROWS if copies else 1)


def batch_steps(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the stride in elements between an operand's matrices along each batch dimension; 0 where it broadcasts."""
    own = (1,) * (len(batch) - len(shape) + 2) + shape[:-2]
    step, steps = shape[-2] * shape[-1], []
    for dim, wide in zip(reversed(own), reversed(batch), strict=True):
        steps.append(0 if dim == 1 and wide != 1 else step)
        step *= dim
    return tuple(reversed(steps))


def places_of(
    operands: tuple[Operand, ...],
    outer: tuple[int, ...],
    step_x: Sequence[int],
    step_y: Sequence[int],
    size: int,
    itemsize: int,
) -> Iterator[tuple[Operand, ...]]:
    """Yield the operands of each launch."""
    for number, index in enumerate(itertools.product(*map(range, outer))):
        begins = (
            sum(i * step for i, step in zip(index, step_x, strict=False)),
            sum(i * step for i, step in zip(index, step_y, strict=False)),
            number * size,
        )
        yield tuple(
            Operand(each.kind, each.index, each.offset + begin * itemsize)
            for each, begin in zip(operands, begins, strict=True)
        )
