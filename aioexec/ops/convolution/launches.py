"""Launches of the loops in `convolution.loops`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import MOST_OTHERS
from aioexec.graph.kernels.kernel import Attrs, Launch, Launches, Operand, Spec
from aioexec.graph.kernels.launches import c_strides, copy_launch, fill_launch
from aioexec.graph.kernels.panels import Panels
from aioexec.ops.common.shares import IN_PLACE, NOT_READ, Scratch, Work
from aioexec.ops.convolution import loops
from aioexec.ops.convolution.sizes import BLOCK_BYTES, PANEL, SHORT_LINE, TALL_TILE, Convolution
from aioexec.ops.convolution.windows import make_axes
from aioexec.ops.linalg import panel_launches

_OFTEN = 128  # windows from which packing the filters pays off
MOST_COPIED = 2**24  # bytes of windows up to which they are copied
_ROWS = 64  # the least for which a worker reads all filters
FEW_CHANNELS = 8  # fewer channels leave most of a vector unused
_REAL = ("float32", "float64")


INPUTS = (Operand("input", 0), Operand("input", 1), Operand("input", 2))
OUTPUT = Operand("output", 0)


def convolution_of(attrs: Attrs, image: Spec, filters: Sequence[int]) -> Convolution | None:
    """Return the sizes, or None if the loops do not support the case; the reference kernel then raises errors of shapes."""
    if attrs["data_format"] != "NHWC" or image.dtype.name not in _REAL:
        return None
    if any(attrs[name][axis] != 1 for name in ("strides", "dilations") for axis in (0, 3)):
        return None
    if filters[2] != image.shape[3] or 0 in image.shape[1:] or 0 in filters:
        return None
    vertical, horizontal = make_axes(attrs, image.shape, filters)
    dtype = image.dtype
    return Convolution(
        dtype.name, dtype.itemsize, image.shape[0], filters[2], filters[3], vertical, horizontal
    )


def finish(work: Work, *before: Launch) -> Launches:
    rows, scratch = work.cut()
    return Launches((*before, *rows), scratch)


def zeros(output: Spec) -> Launches | None:
    """Return launches that fill the output with zeros, for an empty batch."""
    if output.dtype.name not in _REAL:
        return None
    strides = c_strides(output.shape, output.dtype.itemsize)
    row = fill_launch(0.0, OUTPUT, strides, output.shape, output.dtype.name)
    return Launches(() if row is None else (row,))


# Forward


@dataclass(frozen=True, slots=True)
class Filters:
    """The layout of the filters: their operand, panel width, and strides.

    Attributes:
        each: bytes from one filter to the next.
    """

    operand: Operand
    panel: int
    pitch: int
    step: int
    each: int

    @property
    def words(self) -> tuple[int, ...]:
        return self.panel, self.pitch, self.step


def _as_given(case: Convolution) -> Filters:
    return Filters(INPUTS[1], case.panel, case.n, case.panel, case.itemsize)


def _as_one_panel(case: Convolution) -> Filters:
    """Return the layout of filters that fit the cache, as they are."""
    return Filters(INPUTS[1], case.n, case.n, 0, case.itemsize)


def in_panels(case: Convolution, panels: Operand) -> Filters:
    """Return the layout of filters that are packed: constant ones before the first run, others in scratch memory."""
    return Filters(panels, 0, 0, 0, case.k * case.itemsize)


def _pack(case: Convolution, target: Operand) -> tuple[Launch, ...]:
    words = (case.n, case.k, case.n)
    operands, strides = (INPUTS[1], target), (case.itemsize, case.k * case.itemsize)
    cost = 20 + case.k * case.n // 4
    return Work(case.loop(loops.pack, 2, 3), operands, words, strides, cost, grain=PANEL).cut()[0]


def bind_forward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, filters = inputs
    if outputs[0].size == 0:
        return Launches(())
    if image.size == 0:
        return zeros(outputs[0])
    case = convolution_of(attrs, image, filters.shape)
    if case is None:
        return None
    panels = Panels(case.k, case.n)
    pieces = case.in_pieces()
    if pieces is not None:
        return _line(case, pieces, filters, panels)
    if case.has_small_filters and not case.is_pointwise and not case.has_short_lines:
        return finish(_forward(case, INPUTS[0], _as_one_panel(case)))
    if panel_launches.takes_panels(filters, panels):
        return _with_panels(case, panels)
    if case.batch * case.places < _OFTEN:
        return finish(_forward(case, INPUTS[0], _as_given(case)))
    packed, scratch = Operand("scratch", 0), [case.packed_bytes]
    rows = convolve(case, INPUTS[0], packed, OUTPUT, scratch)
    return Launches((*_pack(case, packed), *rows), tuple(scratch))


def _with_panels(case: Convolution, panels: Panels) -> Launches:
    """Return a convolution with constant filters, which are packed before the first run."""
    scratch: list[int] = []
    rows = convolve(case, INPUTS[0], Operand("packed", 0), OUTPUT, scratch)
    return Launches(rows, tuple(scratch), packed=((1, panels),))


def _is_copied(case: Convolution) -> bool:
    """Whether all windows are copied and then multiplied at once: there are few in a line, or they are single elements."""
    is_single = case.vertical.window == case.horizontal.window == 1
    is_large = case.windows_bytes > MOST_COPIED
    begins_inside = any(axis.before < 0 for axis in (case.vertical, case.horizontal))
    return (case.horizontal.count <= SHORT_LINE or is_single) and not is_large and not begins_inside


def convolve(
    case: Convolution, image: Operand, panels: Operand, target: Operand, scratch: list[int]
) -> tuple[Launch, ...]:
    """Return a convolution with packed filters, and append the sizes of the scratch memory that it needs.

    Windows that are already rows of a matrix are multiplied all at once, and so are those that are copied first.
    """
    before: tuple[Launch, ...] = ()
    if not case.is_pointwise and not _is_copied(case):
        rows, own = _forward(case, image, in_panels(case, panels), target, len(scratch)).cut()
        scratch += own
        return rows
    if not case.is_pointwise:
        image, before = gather(case, image, scratch)
    sizes = case.batch * case.places, case.n, case.k
    return (*before, *panel_launches.product_work(case.dtype, *sizes, image, panels, target).cut()[0])


def _line(case: Convolution, pieces: Convolution, filters: Spec, panels: Panels) -> Launches:
    """Return a convolution of a line in pieces; the padded line is a copy, of which workers share nothing."""
    image, before = INPUTS[0], []
    if case.pads:
        image = Operand("scratch", 0)
        before = _padded(case, INPUTS[0], image, (1, case.padded_width))
    is_packed = not case.has_small_filters and panel_launches.takes_panels(filters, panels)
    layout = _as_one_panel(case) if case.has_small_filters else _as_given(case)
    rows, _ = _forward(pieces, image, in_panels(case, Operand("packed", 0)) if is_packed else layout).cut()
    scratch = (case.padded_bytes(1),) if case.pads else ()
    return Launches((*before, *rows), scratch, packed=((1, panels),) if is_packed else ())


def gather(case: Convolution, image: Operand, scratch: list[int]) -> tuple[Operand, tuple[Launch, ...]]:
    """Return a copy of all windows, one after the other, and its launches; append the sizes of the scratch memory."""
    v, h, size = case.vertical, case.horizontal, case.itemsize
    shape = v.size, h.size
    launches: list[Launch | None] = []
    windows = Operand("scratch", len(scratch))
    scratch.append(case.windows_bytes)
    if case.pads:
        shape = case.padded_height, case.padded_width
        given, image = image, Operand("scratch", len(scratch))
        scratch.append(case.batch * shape[0] * shape[1] * case.c * size)
        launches += _padded(case, given, image, shape)
    line, whole = shape[1] * case.c * size, shape[0] * shape[1] * case.c * size
    column = case.c * size
    strides = (whole, v.stride * line, h.stride * column, v.dilation * line, h.dilation * column, size)
    dims = (case.batch, v.count, h.count, v.window, h.window, case.c)
    launches.append(copy_launch(image, strides, windows, c_strides(dims, size), dims, size))
    return windows, tuple(each for each in launches if each is not None)


def _padded(case: Convolution, source: Operand, target: Operand, shape: tuple[int, int]) -> list[Launch]:
    """Return launches that copy the images into larger ones, and fill their borders with zeros."""
    v, h, size = case.vertical, case.horizontal, case.itemsize
    outer = c_strides((case.batch, *shape, case.c), size)
    given = c_strides((case.batch, v.size, h.size, case.c), size)
    top, left = (min(axis.before, reach) for axis, reach in zip((v, h), shape, strict=True))
    lines, columns = min(v.size, shape[0] - top), min(h.size, shape[1] - left)

    def place(line: int, column: int) -> Operand:
        return Operand("scratch", target.index, line * outer[1] + column * outer[2])

    borders = [
        (place(0, 0), top, shape[1]),
        (place(top + lines, 0), shape[0] - top - lines, shape[1]),
        (place(top, 0), lines, left),
        (place(top, left + columns), lines, shape[1] - left - columns),
    ]
    launches = [
        fill_launch(0.0, begin, outer, (case.batch, height, width, case.c), case.dtype)
        for begin, height, width in borders
        if height and width
    ]
    shown = (case.batch, lines, columns, case.c)
    launches.append(copy_launch(source, given, place(top, left), outer, shown, size))
    return [each for each in launches if each is not None]


def _forward(
    case: Convolution, image: Operand, filters: Filters, target: Operand = OUTPUT, scratch: int = 0
) -> Work:
    """Return a convolution of the images in one operand with filters; `scratch` is the number of the buffer for padding."""
    operands = (image, filters.operand, target, *NOT_READ)
    strides = (case.image_bytes, 0, case.output_bytes, *IN_PLACE)
    words: tuple[int, ...]
    if case.is_pointwise:
        strides = (case.c * case.itemsize, 0, case.n * case.itemsize, *IN_PLACE)
        block = max(BLOCK_BYTES // (2 * case.c * case.itemsize * TALL_TILE), 1) * TALL_TILE
        words = (case.batch * case.places, case.k, case.n, 0, *filters.words, block, 0)
        kernel = case.loop(loops.multiply, 4 + MOST_OTHERS, 9)
        return Work(kernel, operands, words, strides, case.cost, grain=TALL_TILE, epilogue=case.epilogue(3))
    if case.has_short_lines:
        words = (case.batch, case.padded_height, 0, *filters.words)
        words += (int(case.pads), case.padded_width, *case.sizes(), 0)
        size = case.padded_bytes(case.vertical.count)
        kernel = case.loop(loops.forward_batch, 5 + MOST_OTHERS, 23)
        work = Work(kernel, operands, words, strides, case.cost, grain=2, epilogue=case.epilogue(2))
        return padding(case, work, Scratch(scratch, size, per_unit=True))
    block = case.block()
    words = (0, case.batch * case.vertical.count, 0, case.n, *filters.words)
    words += (block, int(case.pads), case.padded_width, *case.sizes(), 0)
    kernel = case.loop(loops.forward, 5 + MOST_OTHERS, 25)
    work = Work(
        kernel, operands, words, (0, 0, 0, *IN_PLACE), case.cost, unit=1, first=0, epilogue=case.epilogue(2)
    )
    if case.shares_filters:
        strides = (0, filters.each, case.itemsize, case.itemsize, *IN_PLACE[1:])
        work = replace(work, strides=strides, unit=3, grain=PANEL, first=None)
    return padding(case, work, Scratch(scratch, case.padded_bytes(block)))


def padding(case: Convolution, work: Work, scratch: Scratch) -> Work:
    """Add scratch memory for padding; without padding the image takes its place and is not read."""
    if case.pads:
        return replace(work, scratch=(scratch,))
    return replace(
        work, operands=(*work.operands, work.operands[0]), strides=(*work.strides, work.strides[0])
    )
