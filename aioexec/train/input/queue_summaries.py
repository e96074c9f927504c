"""Summaries of the fill level of the queues in an input pipeline."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.math.cast import cast


def summarize_share(name: str, count: Any, whole: int) -> None:
    """Add a scalar summary of `count` / `whole`, named in the open scope."""
    graph = get_default_graph()
    share = cast(count, dtypes.float32) * (1.0 / whole)
    with graph.name_scope(name) as scope:
        summary = apply_op("ScalarSummary", scope.removesuffix("/"), share, name=scope)
    graph.add_to_collection(GraphKeys.SUMMARIES, summary)
