"""Replaces convolutions of 3 × 3 windows with constant filters by Winograd's algorithm, with the filters transformed once.

It takes a quarter of the multiplications, but the rounding errors of a result are relative to the values around its window too
(see `ops.convolution.winograd`). So the pass runs only where the session asks for it: `RewriterConfig.remapping` is AGGRESSIVE.

A convolution of float32, channels last, with stride 1 and without dilation is replaced where that is faster: for at least
`LEAST_CHANNELS` channels and filters, at least `LEAST_TILES` tiles an image, and transformed filters of at most `MOST_BYTES`,
four times as many as before.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.graph.node import Operation
from aioexec.planning.rewriting.replacement import Rewriting
from aioexec.planning.subgraph import Bind, Node, Subgraph, Value, known_value

LEAST_CHANNELS: Final = 32
LEAST_TILES: Final = 49
MOST_BYTES: Final = 2**22
TILE: Final = 4
"""Outputs of a tile along an axis."""

FILTER: Final = np.array(
    [
        [1 / 4, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6],
        [1 / 24, -1 / 12, 1 / 6],
        [0, 0, 1],
    ]
)
"""G, by which filters g become G g Gᵀ; see `ops.convolution.winograd` for the source and the other matrices."""


@dataclass(frozen=True, slots=True)
class _Transformed:
    """The filters of a convolution, and what they became."""

    source: Value
    filter: Value


_transformed: Final[WeakKeyDictionary[Operation, _Transformed]] = WeakKeyDictionary()
"""The transformed filters of a convolution: signatures and sessions of a graph share their memory."""


def transform_filters(filter: Value) -> Value:
    """Return the filters at 36 points, computed in float64: [36, channels, filters]."""
    wide = np.einsum("ai,bj,ijcn->abcn", FILTER, FILTER, filter.astype(np.float64), optimize=True)
    return np.ascontiguousarray(wide.reshape(-1, *filter.shape[2:]), filter.dtype)


def use_winograd(graph: Subgraph, bind: Bind) -> None:
    """Replace convolutions by Winograd's algorithm where that is faster."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        filter = _filter_of(node)
        if filter is not None:
            rewriting.attempt(_replace, node, filter)
    rewriting.apply()


def _filter_of(node: Node) -> Value | None:
    """The constant filters of a convolution that is to be replaced; None for any other node."""
    if not node.computes("Conv2D") or node.controls:
        return None
    attrs, filter = node.op.attrs, known_value(node.inputs[1])
    if filter is None or filter.dtype != np.float32 or filter.shape[:2] != (3, 3):
        return None
    if attrs["data_format"] != "NHWC" or max(*attrs["strides"], *attrs["dilations"]) > 1:
        return None
    channels, image, output = filter.shape[2:], node.op.inputs[0].dims, node.op.outputs[0].dims
    if image is None or image[3] != channels[0] or output is None or output[1] is None or output[2] is None:
        return None
    tiles = -(-output[1] // TILE) * -(-output[2] // TILE)
    nbytes = FILTER.shape[0] ** 2 * channels[0] * channels[1] * filter.itemsize
    if min(channels) < LEAST_CHANNELS or tiles < LEAST_TILES or nbytes > MOST_BYTES:
        return None
    return filter if np.isfinite(filter).all() else None


def _replace(rewriting: Rewriting, node: Node, filter: Value) -> None:
    """Replace a convolution by one with the transformed filters, a constant.

    They are transformed last, when the device is known to have a kernel for the new node.
    """
    names = ("padding", "explicit_paddings")
    attrs = {name: node.op.attrs[name] for name in names if name in node.op.attrs}
    empty = rewriting.constant(np.broadcast_to(filter.dtype.type(0), _shape_of(filter)), node, "/winograd")
    made = rewriting.make("_WinogradConv2D", node, [node.inputs[0], empty], **attrs)
    made.inputs[1] = rewriting.constant(_transformed_filters(node.op, filter), node, "/winograd")
    rewriting.replace([node], [(node, 0)], made)


def _shape_of(filter: Value) -> tuple[int, ...]:
    """The shape of the transformed filters."""
    return (FILTER.shape[0] ** 2, *filter.shape[2:])


def _transformed_filters(op: Operation, filter: Value) -> Value:
    known = _transformed.get(op)
    if known is None or known.source is not filter:
        known = _transformed[op] = _Transformed(filter, transform_filters(filter))
    return known.filter
