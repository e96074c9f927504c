"""Convolution of 3 × 3 windows with stride 1 by Winograd's algorithm F(4 × 4, 3 × 3), with filters transformed before.

Planning substitutes it for `Conv2D` with constant filters where the session allows it; clients never add it. For a tile d of
6 × 6 places of a channel, and filters g of 3 × 3 taps, the 4 × 4 outputs are

    Aᵀ [(G g Gᵀ) ∘ (Bᵀ d B)] A

with a product for each of the 36 points instead of 9 for each of the 16 outputs: a quarter of them. The matrices are those of
A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks, 2015, for the points 0, 1, -1, 2, -2 and infinity.

The terms of an output include places and taps that cancel. So its rounding error is relative to the largest products of the
tile, where that of the sum over its own window is relative to the products in the window. NaN and infinity spread in the tile.

Rejected as a default: F(2 × 2, 3 × 3), whose factors are 1 and 1/2. Each of its outputs depends on the places of its own window
only, and for at least 32 channels its error is below the direct one's bound in terms of the largest place and the largest tap
of each channel. But its terms multiply a place by other taps, and cancel. So where the image is zero under all taps but a small
one, the error is relative to the large taps, and exceeds the direct bound, k u Σ |place × tap|, without limit (measured: up to
2,500 times for 32 channels and a tap 1e-5 as large as the others of its channel).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.kernels.epilogue import Epilogue
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.shares import Scratch, Work
from aioexec.ops.convolution import winograd_loops
from aioexec.ops.convolution.windows import Axes, check_attrs, counts, infer_windows, make_axes
from aioexec.ops.convolution.winograd_loops import POINTS, SEEN, TILE
from aioexec.shapes import Dims, with_rank

Array = np.ndarray[Any, Any]

INPUT = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
"""Bᵀ."""
OUTPUT = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]])
"""Aᵀ."""
WINDOW = (3, 3)
_BLOCK = 12  # tiles; their points stay in the second-level cache
_GRAIN = 6  # tiles of a share: the rows of a tile of the product
_NS_PER_PRODUCT, _NS_PER_POINT = 0.011, 0.06  # of float32
_VECTOR = 64  # bytes, of the widest kind


def _attrs(attrs: Attrs) -> dict[str, Any]:
    """The attributes of the `Conv2D` that this replaces."""
    return {"strides": (1, 1, 1, 1), "dilations": (1, 1, 1, 1), "data_format": "NHWC", **attrs}


def _shape(context: ShapeContext) -> Sequence[Dims]:
    attrs = _attrs(context.attrs)
    check_attrs(attrs)
    image, filters = with_rank(context.inputs[0], 4), with_rank(context.inputs[1], 3)
    assert image is not None
    assert filters is not None
    if filters[0] not in (None, POINTS):
        raise GraphValueError(f"expected filters with {POINTS} points, got {filters}")
    return [infer_windows(attrs, image, WINDOW, filters[2])]


def _fits(image: Sequence[int], filters: Sequence[int]) -> bool:
    """Whether the shapes fit each other."""
    return len(image) == 4 and len(filters) == 3 and tuple(filters[:2]) == (POINTS, image[3])


def _axes(attrs: Attrs, image: Sequence[int], filters: Sequence[int]) -> Axes:
    """Return the windows, after checking the shapes."""
    if not _fits(image, filters):
        raise InvalidArgumentError(
            f"expected an image [batch, height, width, channels] and filters [{POINTS}, channels, n], got "
            f"{list(image)} and {list(filters)}"
        )
    return make_axes(_attrs(attrs), image, WINDOW)


def _kernel(context: KernelContext) -> Compute:
    def compute(image: Array, filters: Array) -> Array:
        axes = _axes(context.attrs, image.shape, filters.shape)
        (oh, ow), (vertical, horizontal) = counts(axes), axes
        down, across = -(-oh // TILE), -(-ow // TILE)
        padded = np.zeros((len(image), TILE * down + 2, TILE * across + 2, image.shape[3]), image.dtype)
        seen = image[:, : padded.shape[1] - vertical.before, : padded.shape[2] - horizontal.before]
        inside = padded[:, vertical.before :, horizontal.before :]
        inside[:, : seen.shape[1], : seen.shape[2]] = seen
        tiles = np.lib.stride_tricks.sliding_window_view(padded, (SEEN, SEEN), (1, 2))[:, ::TILE, ::TILE]
        points = np.einsum("ai,bj,zyxcij->abzyxc", INPUT, INPUT, tiles, optimize=True).astype(image.dtype)
        sums = points.reshape(POINTS, -1, image.shape[3]) @ filters
        shape = (SEEN, SEEN, len(image), down, across, filters.shape[2])
        result = np.einsum("pa,qb,abzyxn->zypxqn", OUTPUT, OUTPUT, sums.reshape(shape), optimize=True)
        whole = result.reshape(len(image), TILE * down, TILE * across, filters.shape[2])
        return np.ascontiguousarray(whole[:, :oh, :ow]).astype(image.dtype, copy=False)

    return compute


def _bind(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    image, filters = inputs
    if outputs[0].size == 0:
        return Launches(())
    size = image.dtype.itemsize
    if not _fits(image.shape, filters.shape) or min(filters.shape[1:]) * size < _VECTOR:
        return None
    (vertical, horizontal), (_, c, n) = _axes(attrs, image.shape, filters.shape), filters.shape
    tiles = image.shape[0] * -(-vertical.count // TILE) * -(-horizontal.count // TILE)
    each = c * n * _NS_PER_PRODUCT + (c + n) * _NS_PER_POINT
    work = Work(
        LoopKernel(winograd_loops.forward, (image.dtype.name,) * 7, 12, 0),
        (Operand("input", 0), Operand("input", 1), Operand("output", 0), Operand("input", 1)),
        (
            0,
            tiles,
            0,
            _BLOCK,
            *image.shape[1:],
            vertical.count,
            horizontal.count,
            n,
            vertical.before,
            horizontal.before,
        ),
        (0, 0, 0, 0),
        50 + int(tiles * POINTS * each * size / 4),
        unit=1,
        grain=_GRAIN,
        scratch=(
            Scratch(0, POINTS * _BLOCK * c * size),
            Scratch(1, POINTS * _BLOCK * n * size),
            Scratch(2, POINTS * _VECTOR),
        ),
        epilogue=Epilogue(2, 2, 3, n, clips=True),
        first=0,
    )
    return Launches(*work.cut())


register(
    "_WinogradConv2D(input:T, filter:T) -> (output:T) "
    "[T:type{float|double}; padding:string{SAME|VALID|EXPLICIT}; explicit_paddings:list(int)=[]]",
    shape=_shape,
    kernel=_kernel,
    gradient=NOT_DIFFERENTIABLE,
    native=Native(_bind, frozenset({"float32", "float64"})),
)
