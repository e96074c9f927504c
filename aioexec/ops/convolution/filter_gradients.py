"""Launches for the gradient of a convolution in its filters: a product whose terms are the windows of all images.

If there are many windows and few elements of filters, workers share the windows: the images form groups, each has a gradient of
its own, and these are added. Otherwise they share the rows or columns of the gradient. The number of groups follows from the
shapes alone, and so do the bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.graph.kernels.kernel import Attrs, Launch, Launches, Operand, Spec
from aioexec.graph.kernels.launches import View, c_strides, launch
from aioexec.ops.common.shares import Scratch, Work
from aioexec.ops.convolution import loops
from aioexec.ops.convolution.launches import (
    FEW_CHANNELS,
    INPUTS,
    MOST_COPIED,
    OUTPUT,
    convolution_of,
    gather,
    padding,
    zeros,
)
from aioexec.ops.convolution.sizes import PANEL, TALL_TILE, Convolution

_LEAST_SIDE = 84  # filters from which a copy of the windows pays
_GROUPS = (8, 4)
_LEAST_WINDOWS = 768  # of a group
_MOST_SUMS = 2**22  # bytes of the gradients of all groups
_ROWS, _COLUMNS = 168, 128
"""About so many rows or columns of the gradient are worth a copy of the other operand."""


def bind_filter(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, _, dy = inputs
    dfilters = outputs[0]
    case = convolution_of(attrs, image, dfilters.shape)
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.n):
        return None
    if case.batch == 0:
        return zeros(dfilters)
    before: tuple[Launch, ...] = ()
    scratch: list[int] = []
    source = INPUTS[0]
    is_copied = case.c >= FEW_CHANNELS and case.n >= _LEAST_SIDE and case.windows_bytes <= MOST_COPIED
    if not case.is_pointwise and is_copied:
        source, before = gather(case, INPUTS[0], scratch)
    groups = _groups(case)
    sums = OUTPUT if groups == 1 else Operand("scratch", len(scratch))
    if groups > 1:
        scratch.append(groups * case.k * case.n * case.itemsize)
    if case.is_pointwise or is_copied:
        work = _multiply(case, source, sums, groups)
    else:
        work = _slide(case, sums, groups, len(scratch))
    rows, own = work.cut()
    return Launches((*before, *rows, *_add(case, sums, groups)), (*scratch, *own))


def _groups(case: Convolution) -> int:
    """The number of groups of images."""
    nbytes = case.k * case.n * case.itemsize
    for groups in _GROUPS:
        windows = case.batch // groups * case.places
        if case.batch % groups == 0 and windows >= _LEAST_WINDOWS and groups * nbytes <= _MOST_SUMS:
            return groups
    return 1


def _multiply(case: Convolution, windows: Operand, sums: Operand, groups: int) -> Work:
    """The products of windows, which are rows of a matrix, and dy."""
    operands, size = (windows, INPUTS[2], sums), case.itemsize
    rows = case.batch // groups * case.places
    words = (groups, rows, case.k, case.n, case.k, case.n)
    kernel = case.loop(loops.multiply_filter, 3, 6)
    if groups > 1:
        strides = (rows * case.k * size, rows * case.n * size, case.k * case.n * size)
        return Work(kernel, operands, words, strides, case.cost)
    if case.k * _COLUMNS >= case.n * _ROWS:
        grain = _even_share(case.k, _ROWS, TALL_TILE)
        return Work(kernel, operands, words, (size, 0, case.n * size), case.cost, unit=2, grain=grain)
    grain = _even_share(case.n, _COLUMNS, PANEL)
    return Work(kernel, operands, words, (0, size, size), case.cost, unit=3, grain=grain)


def _even_share(total: int, about: int, multiple: int) -> int:
    """A share of about so many units, a multiple of some number, of which there is an even number."""
    count = 2 * max(1, round(total / (2 * about)))
    return -(-total // (count * multiple)) * multiple


def _slide(case: Convolution, sums: Operand, groups: int, scratch: int) -> Work:
    """The products of windows that overlap in the images, and dy."""
    operands, block, images = (INPUTS[0], INPUTS[2], sums), case.block(), case.batch // groups
    words = (groups, images, case.n, block, int(case.pads), case.padded_width, *case.sizes())
    kernel = case.loop(loops.backward_filter, 4, 20)
    strides, unit, grain = (0, case.itemsize, case.itemsize), 2, PANEL
    if groups > 1:
        strides = images * case.image_bytes, images * case.output_bytes, case.k * case.n * case.itemsize
        unit, grain = 0, 1
    work = Work(kernel, operands, words, strides, case.cost, unit=unit, grain=grain)
    return padding(case, work, Scratch(scratch, case.padded_bytes(block)))


def _add(case: Convolution, sums: Operand, groups: int) -> tuple[Launch, ...]:
    """Add the gradients of all groups."""
    if groups == 1:
        return ()
    shape, step = (case.k, case.n), case.k * case.n * case.itemsize
    strides = c_strides(shape, case.itemsize)
    names = [f"x{group}" for group in range(groups)]
    parts = [Operand("scratch", sums.index, group * step) for group in range(groups)]
    row = launch(
        f"y = {' + '.join(names)}",
        [(name, View(part, case.dtype, strides)) for name, part in zip(names, parts, strict=True)],
        [("y", View(OUTPUT, case.dtype, strides))],
        shape,
    )
    assert row is not None
    return (row,)
