"""Native convolution with filters that fit the cache, as in the first layer of a network, where the image has three channels.

As `loops.forward`, but lines of the output are the units of work, and the filters are used as they are, all of them for each
line. So an image is shared by workers however few filters there are, and no worker pads more of it than it needs.
"""

from __future__ import annotations

from aioexec.graph.kernels.loop_language import Pointer, offset
from aioexec.ops.common.epilogue_loops import call, finish
from aioexec.ops.convolution.loops import pad_lines, windows

BLOCK = 8
"""Lines of the output whose padded image is made at once: each line of the image is needed for several of them."""


def forward_lines(
    x: Pointer, filters: Pointer, y: Pointer, bias: Pointer, o0: Pointer, o1: Pointer, o2: Pointer, o3: Pointer, o4: Pointer,
    o5: Pointer, padded: Pointer, first: int, count: int, ends: int, pads: int, wp: int, n: int, h: int, w: int, c: int,
    oh: int, ow: int, kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, ph: int, pw: int, kernel: int,
) -> int:  # fmt: skip
    """Compute `count` lines of the output of all images, from line `first` on; sizes are as in `loops`."""
    others = (o0, o1, o2, o3, o4, o5)
    number = first
    while number < first + count:
        image = number // oh
        begin = number - image * oh
        lines = min(BLOCK, first + count - number, oh - begin)
        source = offset(x, (image * h + begin * sh) * w * c)
        if pads:
            needed = (lines - 1) * sh + (kh - 1) * dh + 1
            pad_lines(offset(x, image * h * w * c), padded, begin * sh - ph, needed, h, w, c, pw, wp)
            source = padded
        for row in range(lines):
            a = offset(source, row * sh * wp * c)
            result = offset(y, (number + row) * ow * n)
            windows(ow, n, a, sw * c, filters, n, result, n, c, kh, kw, dh, dw, wp * c)
            finish(result, bias, ow, n, n, ends)
        call(y, number * ow * n, others, lines * ow, n, n, ends, kernel)
        number += lines
    return 0
