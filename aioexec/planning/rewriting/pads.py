"""Pads become explicit paddings of the convolutions behind them, whose kernels read the image without a padded copy.

A Pad with constant paddings of height and width, whose only uses are Conv2Ds or DepthwiseConv2dNatives with padding "VALID" or
"EXPLICIT" on the same device, is dropped: its paddings are added to theirs. An ExpandDims may stand between, as before a
convolution in one dimension. The terms of the sums are the same.
"""

from __future__ import annotations

from aioexec.data_classes import dataclass
from aioexec.planning.new_nodes import tensor_of
from aioexec.planning.rewriting.replacement import CONVOLUTIONS, Rewriting
from aioexec.planning.subgraph import Bind, Node, Subgraph, known_value


@dataclass(frozen=True, slots=True)
class _Padded:
    """A convolution of a padded image.

    Attributes:
        expand: the ExpandDims between the Pad and the convolution, if there is one.
        paddings: of the convolution without the Pad, before and after each dimension.
    """

    node: Node
    pad: Node
    expand: Node | None
    paddings: tuple[int, ...]


def fold_pads(graph: Subgraph, bind: Bind) -> None:
    """Fold pads into the convolutions behind them."""
    rewriting = Rewriting(graph)
    by_pad: dict[int, list[_Padded]] = {}
    for node in graph.nodes:
        padded = _padded(node)
        if padded is not None:
            by_pad.setdefault(id(padded.pad), []).append(padded)
    for users in by_pad.values():
        inside = {id(node) for each in users for node in (each.node, each.expand)}
        passed = {id(node): node for each in users for node in (each.pad, each.expand) if node is not None}
        if all(rewriting.uses.are_among(node, inside) for node in passed.values()):
            for each in users:
                rewriting.attempt(_replace, each)
    rewriting.apply()


def _padded(node: Node) -> _Padded | None:
    """A convolution of an image that a Pad in front of it pads; None for anything else."""
    if not node.computes(*CONVOLUTIONS):
        return None
    attrs, before = node.op.attrs, node.inputs[0][0]
    if attrs["padding"] not in ("VALID", "EXPLICIT"):
        return None
    expand = before if before.computes("ExpandDims") else None
    pad = before if expand is None else expand.inputs[0][0]
    if (
        not pad.computes("Pad")
        or {pad.device, before.device} != {node.device}
        or pad.controls
        or before.controls
    ):
        return None
    widths = _widths(pad, expand)
    if widths is None or len(widths) != 4:
        return None
    order = attrs["data_format"]
    if any(any(widths[order.index(axis)]) for axis in "NC"):
        return None
    own = attrs["explicit_paddings"] if attrs["padding"] == "EXPLICIT" else (0,) * 8
    flat = [width for pair in widths for width in pair]
    return _Padded(node, pad, expand, tuple(a + b for a, b in zip(own, flat, strict=True)))


def _widths(pad: Node, expand: Node | None) -> list[tuple[int, int]] | None:
    """The constant paddings by dimension of the image that a convolution reads, none of them negative."""
    known = known_value(pad.inputs[1])
    if known is None or known.ndim != 2 or known.shape[1] != 2 or (known < 0).any():
        return None
    widths = [(int(before), int(after)) for before, after in known]
    if expand is None:
        return widths
    axis, dims = known_value(expand.inputs[1]), tensor_of(expand.inputs[0]).dims
    if axis is None or axis.size != 1 or dims is None:
        return None
    place = int(axis.item()) % (len(dims) + 1)
    return [*widths[:place], (0, 0), *widths[place:]]


def _replace(rewriting: Rewriting, padded: _Padded) -> None:
    node, image = padded.node, padded.pad.inputs[0]
    if padded.expand is not None:
        image = rewriting.make("ExpandDims", padded.expand, [image, padded.expand.inputs[1]], "/image"), 0
    attrs = node.op.attrs | {"padding": "EXPLICIT", "explicit_paddings": padded.paddings}
    made = rewriting.make(node.row.name, node, [image, node.inputs[1]], **attrs)
    rewriting.replace([node], [(node, 0)], made)
