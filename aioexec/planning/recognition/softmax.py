"""Recognises softmax over the last dimension written as exponentials of the differences from the maximum."""

from __future__ import annotations

from aioexec.planning.recognition.patterns import Match, Value, call, match
from aioexec.planning.recognition.reductions import reduces_rows
from aioexec.planning.rewriting.replacement import Rewriting
from aioexec.planning.subgraph import Bind, Subgraph

_X = Value()
_POWERS = call("Exp", call("Sub", _X, call("Max", _X, Value(), condition=reduces_rows)))
_SOFTMAX = call("RealDiv", _POWERS, call("Sum", _POWERS, Value(), condition=reduces_rows))
_FLOATS = ("float32", "float64")


def recognize_softmax(graph: Subgraph, bind: Bind) -> None:
    """Replace the elementary operations of softmax by one node."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node.feed is None and node.row.name == "RealDiv" and node.output_dtype(0).name in _FLOATS:
            found = match(_SOFTMAX, (node, 0))
            if found is not None and rewriting.is_closed(found.nodes(), [node]):
                rewriting.attempt(_replace, found)
    rewriting.apply()


def _replace(rewriting: Rewriting, found: Match) -> None:
    rewriting.replace(found.nodes(), [found.root], rewriting.make("Softmax", found.root[0], [found[_X]]))
