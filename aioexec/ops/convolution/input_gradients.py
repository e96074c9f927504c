"""Launches for the gradient of a convolution in its input.

With a stride of 1 it is a convolution of dy with turned filters: the last tap first, inputs exchanged with outputs. With other
strides, elements of the image that are a stride apart meet the same taps. They are such a convolution with these taps alone,
which is computed apart and copied to its places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import MOST_OTHERS, Epilogue
from aioexec.graph.kernels.kernel import Attrs, Launch, Launches, Operand, Spec
from aioexec.graph.kernels.launches import c_strides, copy_launch, fill_launch
from aioexec.graph.kernels.panels import Panels
from aioexec.ops.common.shares import IN_PLACE, NOT_READ, Scratch, Work
from aioexec.ops.convolution import loops
from aioexec.ops.convolution.launches import (
    FEW_CHANNELS,
    INPUTS,
    OUTPUT,
    Filters,
    convolution_of,
    convolve,
    in_panels,
)
from aioexec.ops.convolution.sizes import BLOCK_BYTES, PANEL, Convolution
from aioexec.ops.convolution.windows import Axis
from aioexec.ops.linalg import panel_launches

_ROWS = 64  # the least for which a worker reads all filters


def bind_input(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    sizes, filters, dy = inputs
    if sizes.value is not None and sizes.value.min(initial=0) < 0:
        return None
    dx = outputs[0]
    case = convolution_of(attrs, dx, filters.shape)
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.n):
        return None
    if case.batch == 0:
        return Launches(())
    is_even = case.vertical.stride == case.horizontal.stride == 1
    if case.covers_once and not is_even:
        return _cover(case, filters)
    axes = case.vertical, case.horizontal
    if case.c >= FEW_CHANNELS and (is_even or all(axis.dilation == 1 for axis in axes)):
        return _turn_back(case)
    turned = Operand("scratch", 0)
    rows, scratch = _spread(case, turned).cut()
    return Launches((_turn(case, turned), *rows), (filters.nbytes, *scratch))


# Convolutions of dy


@dataclass(frozen=True, slots=True)
class _Phase:
    """Elements of the image a stride apart along an axis, from `start` on.

    Attributes:
        taps: the taps that they meet, the first one and the one after the last, a stride apart.
        back: the axis of the convolution of dy that computes them.
    """

    start: int
    taps: range
    back: Axis


def _phases(axis: Axis) -> list[_Phase]:
    if axis.stride == 1:
        before = (axis.window - 1) * axis.dilation - axis.before
        back = Axis(axis.count, axis.window, 1, axis.dilation, before, axis.size)
        return [_Phase(0, range(axis.window), back)]
    found = []
    for start in range(min(axis.stride, axis.size)):
        quotient, first = divmod(start + axis.before, axis.stride)
        taps = range(first, axis.window, axis.stride)
        count = len(range(start, axis.size, axis.stride))
        found.append(_Phase(start, taps, Axis(axis.count, len(taps), 1, 1, len(taps) - 1 - quotient, count)))
    return found


def _turn_back(case: Convolution) -> Launches:
    rows: list[Launch | None] = []
    scratch: list[int] = []
    size = case.itemsize
    line, column = case.horizontal.size * case.c * size, case.c * size
    phases = [(v, h) for v in _phases(case.vertical) for h in _phases(case.horizontal)]
    for v, h in phases:
        shape = (case.batch, v.back.count, h.back.count, case.c)
        strides = (case.image_bytes, case.vertical.stride * line, case.horizontal.stride * column, size)
        place = replace(OUTPUT, offset=v.start * line + h.start * column)
        if not v.taps or not h.taps:
            rows.append(fill_launch(0.0, place, strides, shape, case.dtype))
            continue
        back = Convolution(case.dtype, size, case.batch, case.n, case.c, v.back, h.back)
        panels = Operand("scratch", len(scratch))
        scratch.append(back.packed_bytes)
        rows += _pack_turned(case, v.taps, h.taps, panels)
        if len(phases) == 1:
            rows += convolve(back, INPUTS[2], panels, OUTPUT, scratch)
            continue
        apart = Operand("scratch", len(scratch))
        scratch.append(back.output_bytes * case.batch)
        rows += convolve(back, INPUTS[2], panels, apart, scratch)
        rows.append(copy_launch(apart, c_strides(shape, size), place, strides, shape, size))
    return Launches(tuple(row for row in rows if row is not None), tuple(scratch))


def _pack_turned(case: Convolution, rows: range, columns: range, panels: Operand) -> tuple[Launch, ...]:
    """Pack some taps of the filters (input 1), the last one first."""
    size, taps, width = case.itemsize, len(rows) * len(columns), case.horizontal.window
    operands, strides = (INPUTS[1], panels), (case.n * size, taps * case.n * size)
    last = rows[-1] * width + columns[-1]
    words = (case.c, len(rows), len(columns), last, rows.step * width, columns.step, case.c, case.n)
    kernel = case.loop(loops.pack_turned, 2, 8)
    cost = 20 + taps * case.c * case.n
    return Work(kernel, operands, words, strides, cost, grain=PANEL).cut()[0]


# Products whose rows are added to the image


def _turn(case: Convolution, target: Operand) -> Launch:
    """Transpose the filters (input 1) from taps × c × n to n × taps × c."""
    size = case.itemsize
    shape = (case.n, case.k)
    row = copy_launch(INPUTS[1], (size, case.n * size), target, c_strides(shape, size), shape, size)
    assert row is not None
    return row


def _cover(case: Convolution, filters: Spec) -> Launches:
    """Return the gradient for windows that cover the image once."""
    panels = Panels(case.n, case.k, transposed=True)
    if panel_launches.takes_panels(filters, panels) and case.has_whole_panels:
        rows, _ = _enlarge(case, in_panels(case, Operand("packed", 0))).cut()
        return Launches(rows, packed=((1, panels),))
    size, turned = case.horizontal.window * case.c, Operand("scratch", 0)
    rows, _ = _enlarge(case, Filters(turned, size, case.k, size, 0)).cut()
    return Launches((_turn(case, turned), *rows), (filters.nbytes,))


def _enlarge(case: Convolution, turned: Filters) -> Work:
    """Return the gradient in the input for windows that cover it once."""
    count = case.horizontal.count
    words = (0, case.batch * case.vertical.count, 0, *turned.words)
    words += (case.n, case.c, count, case.vertical.window, case.horizontal.window, 0)
    return Work(
        case.loop(loops.enlarge, 4 + MOST_OTHERS, 12),
        (turned.operand, INPUTS[2], OUTPUT, *NOT_READ),
        words,
        (0, 0, 0, *IN_PLACE),
        case.cost,
        unit=1,
        grain=max(_ROWS // count, 1),
        epilogue=Epilogue(2, 2, 3, case.c, clips=True, others=4),
        first=0,
    )


def _spread(case: Convolution, turned: Operand) -> Work:
    """Return the gradient in the input for strides above 1."""
    line = case.horizontal.count * case.k * case.itemsize
    block = max(1, min(2 * BLOCK_BYTES // line, case.batch * case.vertical.count))
    words = (case.batch, block, *case.sizes())
    scratch = Scratch(1, block * line)
    operands, strides = (turned, INPUTS[2], OUTPUT), (0, case.output_bytes, case.image_bytes)
    return Work(
        case.loop(loops.backward_input, 4, 16), operands, words, strides, 2 * case.cost, scratch=(scratch,)
    )
