"""Launches of the loops in `depthwise_loops` and `depthwise_rows` for depthwise convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import MOST_OTHERS, Epilogue
from aioexec.graph.kernels.kernel import Attrs, Launch, Launches, LoopKernel, Operand, Spec
from aioexec.ops.common.shares import IN_PLACE, LAUNCH_NS, NOT_READ, Scratch, Work
from aioexec.ops.convolution import depthwise_loops, depthwise_rows
from aioexec.ops.convolution.launches import zeros
from aioexec.ops.convolution.windows import Axis, make_axes

_BLOCK_BYTES = 128 * 1024
_STRIP = 512  # elements of a filter strip
_NS_PER_TAP = 0.06  # per element of float32
_NS_PER_TAP_OF_ROWS, _NS_PER_ELEMENT = 0.03, 0.05  # the same for sums in registers
_TWO_VECTORS = 128  # bytes, of the widest kind
_FAR_BYTES = 10 * 2**20  # of images and outputs from which prefetching pays: less stays in the caches
_REAL = ("float32", "float64")
_ROW_KERNELS: dict[tuple[int, int, int], Callable[..., int]] = {
    (3, 1, 1): depthwise_rows.three_adjacent_taps,
    (3, 2, 1): depthwise_rows.three_adjacent_taps_strided,
    (5, 1, 1): depthwise_rows.five_adjacent_taps,
    (5, 2, 1): depthwise_rows.five_adjacent_taps_strided,
}
"""Kernels by the number of taps along a line, their stride and their dilation."""
_INPUTS = (Operand("input", 0), Operand("input", 1), Operand("input", 2))
_OUTPUT = Operand("output", 0)


@dataclass(frozen=True, slots=True)
class Depthwise:
    """The sizes of a depthwise convolution of images [batch, h, w, c] with m filters per channel."""

    dtype: str
    itemsize: int
    batch: int
    c: int
    m: int
    vertical: Axis
    horizontal: Axis

    @property
    def cm(self) -> int:
        return self.c * self.m

    @property
    def pads(self) -> bool:
        """Whether the loops need a padded copy of the image."""
        axes = (self.vertical, self.horizontal)
        return (
            self.m > 1
            or self.horizontal.stride > 1
            or any(axis.before != 0 or axis.reach > axis.size for axis in axes)
        )

    @property
    def phase_width(self) -> int:
        """Columns of a padded line per phase (column number modulo the stride)."""
        width = self.horizontal.reach if self.pads else self.horizontal.size
        return -(-width // self.horizontal.stride)

    @property
    def padded_height(self) -> int:
        return max(self.vertical.reach, self.vertical.before + self.vertical.size)

    @property
    def line_bytes(self) -> int:
        """Bytes of a padded line."""
        return self.horizontal.stride * self.phase_width * self.cm * self.itemsize

    @property
    def group(self) -> int:
        """Columns that a filter strip covers."""
        return max(1, min(_STRIP // self.cm, self.horizontal.count))

    @property
    def taps(self) -> int:
        return self.vertical.window * self.horizontal.window

    @property
    def strips(self) -> Scratch:
        return Scratch(1, self.taps * self.group * self.cm * self.itemsize)

    @property
    def cost(self) -> int:
        """Nanoseconds."""
        elements = self.batch * self.vertical.count * self.horizontal.count * self.cm
        return int(elements * self.taps * _NS_PER_TAP * self.itemsize / 4) + 50

    @property
    def image_bytes(self) -> int:
        return self.vertical.size * self.horizontal.size * self.c * self.itemsize

    @property
    def output_bytes(self) -> int:
        return self.vertical.count * self.horizontal.count * self.cm * self.itemsize

    def block(self) -> int:
        """Lines of the output whose padded image fits into the cache."""
        fitting = _BLOCK_BYTES // self.line_bytes - (self.vertical.window - 1) * self.vertical.dilation
        return min(max(fitting // self.vertical.stride, 8), self.vertical.count)

    def padded(self, block: int) -> Scratch:
        lines = (block - 1) * self.vertical.stride + (self.vertical.window - 1) * self.vertical.dilation + 1
        return Scratch(0, lines * self.line_bytes if self.pads else 8)

    def sizes(self) -> tuple[int, ...]:
        """The integer arguments of the loops, from `group` on."""
        v, h = self.vertical, self.horizontal
        return (
            *(
                self.group,
                self.m,
                self.phase_width,
                v.size,
                h.size,
                self.c,
                v.count,
                h.count,
                v.window,
                h.window,
            ),
            *(v.stride, h.stride, v.dilation, h.dilation, v.before, h.before),
        )

    def loop(self, body: Callable[..., int], ints: int) -> LoopKernel:
        return LoopKernel(body, (self.dtype,) * 5, ints, 0)


def _depthwise(attrs: Attrs, image: Spec, filters: Sequence[int]) -> Depthwise | None:
    """Return the sizes, or None if the loops do not support the case; the reference kernel then raises errors of shapes."""
    if image.dtype.name not in _REAL or len(image.shape) != 4 or len(filters) != 4:
        return None
    if any((attrs.get(name) or (1,) * 4)[axis] != 1 for name in ("strides", "dilations") for axis in (0, 3)):
        return None
    if filters[2] != image.shape[3] or 0 in image.shape[1:] or 0 in filters:
        return None
    axes = make_axes(attrs, image.shape, filters)
    dtype = image.dtype
    return Depthwise(dtype.name, dtype.itemsize, image.shape[0], filters[2], filters[3], *axes)


def bind_forward(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, filters = inputs
    if outputs[0].size == 0:
        return Launches(())
    case = _depthwise(attrs, image, filters.shape)
    if case is None:
        return None
    work = _rows(case) or _padded_forward(case)
    return Launches(*work.cut())


def _rows(case: Depthwise) -> Work | None:
    """Return the convolution with sums in registers, or None if there is no kernel for it."""
    h = case.horizontal
    body = _ROW_KERNELS.get((h.window, h.stride, h.dilation))
    if body is None and h.window == 3:
        body = depthwise_rows.three_taps
    if body is None or case.m > 1 or case.c * case.itemsize < _TWO_VECTORS:
        return None
    is_far = case.batch * (case.image_bytes + case.output_bytes) >= _FAR_BYTES
    ahead = case.vertical.stride if is_far else 0
    words = (0, case.batch * case.vertical.count, 0, ahead, *case.sizes()[3:], 0)
    elements = case.batch * case.vertical.count * h.count * case.c
    each = (case.taps * _NS_PER_TAP_OF_ROWS + _NS_PER_ELEMENT) * case.itemsize / 4
    return Work(
        LoopKernel(body, (case.dtype,) * (4 + MOST_OTHERS), 18, 0),
        (_INPUTS[0], _INPUTS[1], _OUTPUT, *NOT_READ),
        words,
        (0, 0, 0, *IN_PLACE),
        50 + int(elements * each),
        unit=1,
        first=0,
        epilogue=Epilogue(2, 2, 3, case.c, clips=True, others=4),
    )


def _padded_forward(case: Depthwise) -> Work:
    block = case.block()
    words = (case.batch, block, int(case.pads), *case.sizes())
    return Work(
        case.loop(depthwise_loops.forward, 19),
        (_INPUTS[0], _INPUTS[1], _OUTPUT),
        words,
        (case.image_bytes, 0, case.output_bytes),
        case.cost,
        scratch=(case.padded(block), case.strips),
    )


def bind_input(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    sizes, filters, dy = inputs
    if sizes.value is not None and sizes.value.min(initial=0) < 0:
        return None
    dx = outputs[0]
    case = _depthwise(attrs, dx, filters.shape)
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.cm):
        return None
    if case.batch == 0:
        return Launches(())
    line = case.horizontal.stride * _reach(case) * case.cm
    words = (case.batch, case.padded_height, *case.sizes()[:2], _reach(case), *case.sizes()[3:])
    work = Work(
        case.loop(depthwise_loops.backward_input, 18),
        (_INPUTS[1], _INPUTS[2], _OUTPUT),
        words,
        (0, case.output_bytes, case.image_bytes),
        case.cost,
        scratch=(Scratch(0, case.padded_height * line * case.itemsize), case.strips),
    )
    return Launches(*work.cut())


def _reach(case: Depthwise) -> int:
    """Return the columns per phase of a padded image that contains the whole image."""
    width = max(case.horizontal.reach, case.horizontal.before + case.horizontal.size)
    return -(-width // case.horizontal.stride)


def bind_filter(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, _, dy = inputs
    dfilters = outputs[0]
    case = _depthwise(attrs, image, dfilters.shape)
    if case is None or dy.shape != (case.batch, case.vertical.count, case.horizontal.count, case.cm):
        return None
    if case.batch == 0:
        return zeros(dfilters)
    block = case.block()
    step = max(1, case.batch * LAUNCH_NS // max(case.cost, LAUNCH_NS))
    kernel = case.loop(depthwise_loops.backward_filter, 20)
    rows = []
    for first in range(0, case.batch, step):
        count = min(step, case.batch - first)
        operands = (
            Operand("input", 0, first * case.image_bytes),
            Operand("input", 2, first * case.output_bytes),
            _OUTPUT,
            Operand("scratch", 0),
            Operand("scratch", 1),
        )
        words = (count, block, int(case.pads), int(first > 0), *case.sizes())
        rows.append(Launch(kernel, operands, words, cost=20 + case.cost * count // case.batch))
    return Launches(tuple(rows), (case.padded(block).size, case.strips.size))
