"""Pads become explicit paddings of the convolution behind them, whose kernel reads the image without a padded copy.

A Pad with constant paddings of height and width, whose only use is a Conv2D or DepthwiseConv2dNative with padding "VALID" on
the same device, is dropped, and the convolution gets padding "EXPLICIT". The terms of the sums are the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from aioexec.planning.rewriting.replacement import Rewriting
from aioexec.planning.rewriting.uses import Uses
from aioexec.planning.subgraph import Bind, Node, Subgraph, known_value

_CONVOLUTIONS: Final = frozenset({"Conv2D", "DepthwiseConv2dNative"})


def fold_pads(graph: Subgraph, bind: Bind) -> None:
    """Fold pads into the convolutions behind them."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        paddings = _paddings_for(node, rewriting.uses)
        if paddings is not None:
            attrs = node.op.attrs | {"padding": "EXPLICIT", "explicit_paddings": paddings}
            inputs = [node.inputs[0][0].inputs[0], node.inputs[1]]
            rewriting.replace([node], [(node, 0)], rewriting.make(node.row.name, node, inputs, **attrs))
    rewriting.apply()


def _paddings_for(node: Node, uses: Uses) -> tuple[int, ...] | None:
    """The paddings of the Pad before a convolution, in order; None if there is none that can be folded."""
    if node.feed is not None or node.is_constant or node.row.name not in _CONVOLUTIONS:
        return None
    pad = node.inputs[0][0]
    if pad.feed is not None or pad.is_constant or pad.row.name != "Pad" or pad.controls:
        return None
    known = known_value(pad.inputs[1])
    if known is None or uses.only_user(pad) is not node or pad.device != node.device:
        return None
    order = node.op.attrs["data_format"]
    outer = [order.index("N"), order.index("C")]
    if (
        node.op.attrs["padding"] != "VALID"
        or known.shape != (4, 2)
        or np.any(known < 0)
        or np.any(known[outer])
    ):
        return None
    return tuple(int(each) for each in known.reshape(-1))
