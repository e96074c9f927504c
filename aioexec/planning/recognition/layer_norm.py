"""Recognises layer normalisation, and an addition before it, in the forms in which it is usually written.

With the mean m and variance v of the last dimension and f = rsqrt(v + epsilon): x * (f * scale) + (shift - m * (f * scale)),
which `batch_normalization` builds, or (x - m) * f * scale + shift with the factors in either order. The variance is the mean of
squared differences or of the squares of x - m. Scale and shift must be vectors of the last dimension.
"""

from __future__ import annotations

from aioexec.planning.recognition.patterns import (
    ADD,
    Match,
    Pattern,
    Scalar,
    Value,
    call,
    match,
    one_of,
)
from aioexec.planning.recognition.reductions import reduces_rows
from aioexec.planning.rewriting.replacement import Rewriting, dims_of, is_exact
from aioexec.planning.subgraph import Bind, Edge, Subgraph

_FLOATS = ("float32", "float64")


def _mean(of: Pattern) -> Pattern:
    return call("Mean", of, Value(), condition=reduces_rows)


_X, _SCALE, _SHIFT, _EPSILON = Value(), Value(), Value(), Scalar()
_MEAN = _mean(_X)
_STOPPED = one_of(_MEAN, call("StopGradient", _MEAN))
_CENTRED = call("Sub", _X, _MEAN)
_SQUARES = one_of(
    call("SquaredDifference", _X, _STOPPED), call("Square", _CENTRED), call("Mul", _CENTRED, _CENTRED)
)
_VARIANCE = call(ADD, _mean(_SQUARES), _EPSILON)
_FACTOR = call("Rsqrt", _VARIANCE)
_SCALED_FACTOR = call("Mul", _FACTOR, _SCALE)
_NORMALIZED = one_of(
    call(
        ADD,
        call("Mul", _X, _SCALED_FACTOR),
        call("Sub", _SHIFT, call("Mul", _MEAN, _SCALED_FACTOR)),
    ),
    call(
        ADD,
        one_of(
            call("Mul", _CENTRED, _SCALED_FACTOR),
            call(
                "Mul",
                one_of(call("Mul", _CENTRED, _FACTOR), call("RealDiv", _CENTRED, call("Sqrt", _VARIANCE))),
                _SCALE,
            ),
        ),
        _SHIFT,
    ),
)
_SUM = call(ADD, Value(), Value())


def recognize_layer_norm(graph: Subgraph, bind: Bind) -> None:
    """Replace the elementary operations of layer normalisations by one node each."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node.feed is None and node.row.name in ADD.split():
            found = match(_NORMALIZED, (node, 0))
            if found is not None:
                rewriting.attempt(_replace, found)
    rewriting.apply()


def _replace(rewriting: Rewriting, found: Match) -> None:
    x, (root, _) = found[_X], found.root
    dims = dims_of(x)
    if root.output_dtype(0).name not in _FLOATS or not is_exact(root, found.scalar(_EPSILON)):
        return
    if not dims or dims[-1] is None or any(dims_of(found[each]) != dims[-1:] for each in (_SCALE, _SHIFT)):
        return
    if not rewriting.is_closed(found.nodes(), [root]):
        return
    nodes, terms = found.nodes(), [x]
    if _is_sum_of_equal_shapes(x) and rewriting.is_closed([*nodes, x[0]], [root]):
        nodes, terms = [*nodes, x[0]], x[0].inputs
    inputs = [*terms, found[_SCALE], found[_SHIFT]]
    made = rewriting.make("_LayerNorm", root, inputs, N=len(terms), epsilon=found.scalar(_EPSILON))
    rewriting.replace(nodes, [found.root], made)


def _is_sum_of_equal_shapes(edge: Edge) -> bool:
    """Whether an edge is the sum of two values, neither of which is known to broadcast."""
    if match(_SUM, edge) is None:
        return False
    left, right = (dims_of(each) for each in edge[0].inputs)
    return left is not None and left == right
