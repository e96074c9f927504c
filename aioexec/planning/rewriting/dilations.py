"""A convolution of the phases of an image becomes a dilated convolution of the image.

`tf.nn.convolution` with a dilation rate writes a convolution between two ops that move every b-th position into the batch and
back (à trous, by space to batch). With zero paddings (l, h) of the first and crops (m, n) of the second op

    BatchToSpaceND(Conv2D(SpaceToBatchND(x, b, (l, h)), w), b, (m, n))
        =  Conv2D(x, w) with dilations b and paddings (l - m, h - n)

if the convolution itself has padding "VALID", strides of 1 and no dilations. Each sum has the same terms in the same order. The
image is moved no more. In one dimension an ExpandDims and a Squeeze stand around the convolution, and stay.

Neither is rewritten if block sizes, paddings or crops are not constant, or if the phases that are convolved have other uses.
"""

from __future__ import annotations

from typing import Final

from aioexec.data_classes import dataclass
from aioexec.planning.new_nodes import tensor_of
from aioexec.planning.rewriting.replacement import CONVOLUTIONS, Rewriting
from aioexec.planning.rewriting.uses import Uses
from aioexec.planning.subgraph import Bind, Edge, Node, Subgraph, known_value

_IMAGE_AXES: Final = (1, 2)
"""Height and width, in the order NHWC."""


@dataclass(frozen=True, slots=True)
class _Phases:
    """An op that moves blocks into the batch or back: by image axis, the block size and the paddings or crops."""

    node: Node
    blocks: dict[int, int]
    margins: dict[int, tuple[int, int]]

    def around(self, axis: int) -> tuple[int, int]:
        return self.margins.get(axis, (0, 0))


@dataclass(frozen=True, slots=True)
class _Match:
    """A convolution of phases.

    Attributes:
        expand, squeeze: around a convolution in one dimension, the ops that add and remove the other.
        image: what is moved into phases.
    """

    node: Node
    image: Edge
    split: _Phases
    joined: _Phases
    expand: Node | None
    squeeze: Node | None


def fold_dilations(graph: Subgraph, bind: Bind) -> None:
    """Make dilated convolutions of convolutions of phases."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        match = _match(node, rewriting.uses)
        if match is not None:
            rewriting.attempt(_replace, match)
    rewriting.apply()


def _match(node: Node, uses: Uses) -> _Match | None:
    if not _is_plain_convolution(node):
        return None
    before, after = node.inputs[0][0], uses.only_user(node)
    expand = squeeze = None
    axes: tuple[int, ...] = _IMAGE_AXES
    if before.computes("ExpandDims") and after is not None and after.computes("Squeeze"):
        expand, squeeze = before, after
        added = _added_axis(expand)
        if added not in _IMAGE_AXES or _removed_axes(squeeze) != [added]:
            return None
        axes = (3 - added,)  # the other one
        before, after = expand.inputs[0][0], uses.only_user(squeeze)
    if not before.computes("SpaceToBatchND") or after is None or not after.computes("BatchToSpaceND"):
        return None
    split, joined = _phases(before, axes), _phases(after, axes)
    inside = [each for each in (before, expand, node, squeeze, after) if each is not None]
    if split is None or joined is None or split.blocks != joined.blocks:
        return None
    if any(each.controls or each.device != node.device for each in inside):
        return None
    dims = tensor_of(before.inputs[0]).dims
    if dims is None or None in dims[1:-1]:
        return None  # the size may be no multiple of the block: then the step raises
    if any(min(_margins(split, joined, axis)) < 0 for axis in axes):
        return None
    return _Match(node, before.inputs[0], split, joined, expand, squeeze)


def _is_plain_convolution(node: Node) -> bool:
    if not node.computes(*CONVOLUTIONS):
        return False
    attrs = node.op.attrs
    plain = max(*attrs["strides"], *attrs["dilations"]) == 1
    return bool(plain and attrs["padding"] == "VALID" and attrs["data_format"] == "NHWC")


def _added_axis(expand: Node) -> int | None:
    """The axis that an ExpandDims adds to a value of three dimensions."""
    axis, dims = known_value(expand.inputs[1]), tensor_of(expand.inputs[0]).dims
    return None if axis is None or axis.size != 1 or dims is None or len(dims) != 3 else int(axis.item()) % 4


def _removed_axes(squeeze: Node) -> list[int]:
    return [int(axis) % 4 for axis in squeeze.op.attrs["squeeze_dims"]]


def _phases(node: Node, axes: tuple[int, ...]) -> _Phases | None:
    """The constant operands of an op that moves blocks, by image axis."""
    blocks, margins = known_value(node.inputs[1]), known_value(node.inputs[2])
    if blocks is None or margins is None or blocks.shape != (len(axes),):
        return None
    pairs = [(before, after) for before, after in margins.tolist()]
    return _Phases(node, dict(zip(axes, blocks.tolist(), strict=True)), dict(zip(axes, pairs, strict=True)))


def _margins(split: _Phases, joined: _Phases, axis: int) -> tuple[int, int]:
    """The paddings of the dilated convolution before and after an axis."""
    (low, high), (cropped, cut) = split.around(axis), joined.around(axis)
    return low - cropped, high - cut


def _replace(rewriting: Rewriting, match: _Match) -> None:
    node, last = match.node, match.joined.node
    replaced = [each for each in (node, match.squeeze, last) if each is not None]
    if not rewriting.is_closed(replaced, [last]):
        return
    paddings = [margin for axis in range(4) for margin in _margins(match.split, match.joined, axis)]
    attrs = node.op.attrs | {
        "dilations": tuple(match.split.blocks.get(axis, 1) for axis in range(4)),
        "padding": "EXPLICIT" if any(paddings) else "VALID",
        "explicit_paddings": tuple(paddings) if any(paddings) else (),
    }
    image = match.image
    if match.expand is not None:
        image = rewriting.make("ExpandDims", match.expand, [image, match.expand.inputs[1]], "/image"), 0
    result = rewriting.make(node.row.name, node, [image, node.inputs[1]], "/dilated", **attrs)
    if match.squeeze is not None:
        result = rewriting.make("Squeeze", match.squeeze, [(result, 0)], "/image", **match.squeeze.op.attrs)
    rewriting.replace(replaced, [(last, 0)], result)
