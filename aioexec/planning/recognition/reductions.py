"""Conditions on reductions in patterns."""

from __future__ import annotations

from aioexec.planning.recognition.patterns import constant_of
from aioexec.planning.rewriting.replacement import dims_of
from aioexec.planning.subgraph import Node


def reduces_rows(node: Node) -> bool:
    """Whether a reduction is over the last dimension, which is kept with one element."""
    axes, dims = constant_of(node.inputs[1]), dims_of(node.inputs[0])
    if axes is None or axes.size != 1 or not node.op.attrs["keep_dims"]:
        return False
    return int(axes.reshape(())) in ((-1,) if dims is None else (-1, len(dims) - 1))
