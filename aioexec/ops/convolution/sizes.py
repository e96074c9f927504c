"""The sizes of a convolution, and what follows from them for its launches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aioexec.data_classes import dataclass
from aioexec.graph.kernels.epilogue import Epilogue
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.ops.convolution.windows import Axis

BLOCK_BYTES = 128 * 1024
SHORT_LINE = 8  # fewer windows per line do not fill a tile
TALL_TILE = 14
PANEL = 32  # minimum number of filters per share
_FLOPS_PER_NS = 200
_PANEL_BYTES = 128  # of a row in a panel of packed filters: two vectors of the widest kind
_SMALL_FILTERS = 64 * 1024  # bytes of filters that a line of the output leaves in the cache
_SHORTEST_PIECE, _LONGEST_PIECE = 28, 128
"""Windows of a piece of a line: as many as fill tiles, and so few that workers have lines to share."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """The sizes of a convolution of images [batch, h, w, c] with n filters.

    Attributes:
        goes_on: whether each line goes on in the next one, from which the last windows of the line take their rest.
    """

    dtype: str
    itemsize: int
    batch: int
    c: int
    n: int
    vertical: Axis
    horizontal: Axis
    goes_on: bool = False

    @property
    def k(self) -> int:
        """Elements of a window."""
        return self.vertical.window * self.horizontal.window * self.c

    @property
    def places(self) -> int:
        """Windows of one image."""
        return self.vertical.count * self.horizontal.count

    @property
    def windows_bytes(self) -> int:
        """Bytes of the windows of all images, each with all of its elements."""
        return self.batch * self.places * self.k * self.itemsize

    @property
    def cost(self) -> int:
        """Nanoseconds."""
        each = self.k * (2 * self.n / _FLOPS_PER_NS * self.itemsize / 4 + 0.02)
        return int(self.batch * self.places * each) + 50

    @property
    def is_pointwise(self) -> bool:
        return self.vertical.is_pointwise and self.horizontal.is_pointwise

    @property
    def has_short_lines(self) -> bool:
        """Whether the same window of all images makes a better tile than the windows of a line."""
        count = self.horizontal.count
        return count <= SHORT_LINE and self.batch >= max(TALL_TILE, 2 * count)

    @property
    def has_small_filters(self) -> bool:
        return self.k * self.n * self.itemsize <= _SMALL_FILTERS

    @property
    def shares_filters(self) -> bool:
        """Whether workers share the filters: each reads all of the image then, which is smaller, instead of all filters."""
        return self.batch == 1 and self.n > PANEL and self.k * self.n * self.itemsize > self.image_bytes

    @property
    def covers_once(self) -> bool:
        """Whether the windows cover the image without overlap and padding."""
        return self.vertical.is_partition and self.horizontal.is_partition

    @property
    def has_whole_panels(self) -> bool:
        """Whether the taps of a line, for all channels of the image, fill panels of every processor."""
        return self.horizontal.window * self.c % self.panel == 0

    @property
    def pads(self) -> bool:
        if self.goes_on:
            return False
        return any(axis.before != 0 or axis.reach > axis.size for axis in (self.vertical, self.horizontal))

    @property
    def padded_width(self) -> int:
        return self.horizontal.reach if self.pads else self.horizontal.size

    @property
    def padded_height(self) -> int:
        return self.vertical.reach if self.pads else self.vertical.size

    @property
    def panel(self) -> int:
        """Filters in a panel."""
        return _PANEL_BYTES // self.itemsize

    @property
    def packed_bytes(self) -> int:
        return self.k * self.itemsize * -(-self.n // self.panel) * self.panel

    @property
    def image_bytes(self) -> int:
        return self.vertical.size * self.horizontal.size * self.c * self.itemsize

    @property
    def output_bytes(self) -> int:
        """Bytes of the output for one image."""
        return self.places * self.n * self.itemsize

    def sizes(self) -> tuple[int, ...]:
        """The integer arguments of the loops, from `n` on."""
        v, h = self.vertical, self.horizontal
        return (
            *(self.n, v.size, h.size, self.c, v.count, h.count, v.window, h.window),
            *(v.stride, h.stride, v.dilation, h.dilation, v.before, h.before),
        )

    def block(self) -> int:
        """Lines of the output whose padded image fits into the cache, but at least 8."""
        pitch = self.padded_width * self.c * self.itemsize
        fitting = BLOCK_BYTES // pitch - (self.vertical.window - 1) * self.vertical.dilation
        return min(max(fitting // self.vertical.stride, 8), self.vertical.count)

    def padded_bytes(self, block: int) -> int:
        """Bytes of the padded image for that many lines of output."""
        lines = (block - 1) * self.vertical.stride + (self.vertical.window - 1) * self.vertical.dilation + 1
        return lines * self.padded_width * self.c * self.itemsize

    def epilogue(self, word: int) -> Epilogue:
        """Return the epilogue that the loops support; its operands are the output, the bias and others."""
        return Epilogue(word, 2, 3, self.n, clips=True, others=4)

    def loop(self, body: Callable[..., int], pointers: int, ints: int) -> LoopKernel:
        return LoopKernel(body, (self.dtype,) * pointers, ints, 0)

    def in_pieces(self) -> Convolution | None:
        """One long line of one image as several lines, of which each goes on in the next one: workers share lines."""
        v, h = self.vertical, self.horizontal
        if self.batch != 1 or (v.size, v.window, v.count, v.before) != (1, 1, 1, 0) or h.is_pointwise:
            return None
        lengths = range(min(_LONGEST_PIECE, h.count // 2), _SHORTEST_PIECE - 1, -1)
        length = next((each for each in lengths if h.count % each == 0), 0)
        if length == 0:
            return None
        vertical = replace(v, size=h.count // length, count=h.count // length)
        horizontal = replace(h, size=length * h.stride, count=length, before=0)
        return replace(self, vertical=vertical, horizontal=horizontal, goes_on=True)
