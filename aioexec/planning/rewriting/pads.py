"""Pads become explicit paddings of the convolution behind them, whose kernel reads the image without a padded copy.

A Pad with constant paddings of height and width, whose only use is a Conv2D or DepthwiseConv2dNative with padding "VALID" on
the same device, is dropped, and the convolution gets padding "EXPLICIT". The terms of the sums are the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from aioexec.planning.new_nodes import NodeMaker
from aioexec.planning.rewriting.uses import Uses
from aioexec.planning.subgraph import Bind, Node, Subgraph

_CONVOLUTIONS: Final = frozenset({"Conv2D", "DepthwiseConv2dNative"})


def fold_pads(graph: Subgraph, bind: Bind) -> None:
    """Fold pads into the convolutions behind them."""
    uses = Uses(graph)
    maker = NodeMaker(lambda name: name)
    replacements: dict[int, Node] = {}
    for node in graph.nodes:
        if node.feed is not None or node.is_constant or node.row.name not in _CONVOLUTIONS:
            continue
        pad = node.inputs[0][0]
        paddings = _paddings_of(pad, node, uses)
        if paddings is None or node.op.attrs["padding"] != "VALID":
            continue
        attrs = node.op.attrs | {"padding": "EXPLICIT", "explicit_paddings": paddings}
        inputs = [pad.inputs[0], node.inputs[1]]
        replacements[id(node)] = maker.make(
            node.row.name, node, node.device, inputs, node.controls, node.name, **attrs
        )
    if replacements:
        graph.nodes = [replacements.get(id(node), node) for node in graph.nodes]
        graph.replace(replacements)
        graph.drop_unneeded()


def _paddings_of(pad: Node, convolution: Node, uses: Uses) -> tuple[int, ...] | None:
    """The paddings of a Pad that only a convolution uses, in order; None if it cannot be folded."""
    if pad.feed is not None or pad.is_constant or pad.row.name != "Pad" or pad.controls:
        return None
    known = pad.inputs[1][0].values
    if known is None or uses.only_user(pad) is not convolution or pad.device != convolution.device:
        return None
    paddings = known[pad.inputs[1][1]]
    order = convolution.op.attrs["data_format"]
    outer = [order.index("N"), order.index("C")]
    if paddings.shape != (4, 2) or np.any(paddings < 0) or np.any(paddings[outer]):
        return None
    return tuple(int(each) for each in paddings.reshape(-1))
