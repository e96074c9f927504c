"""Recognises attention: softmax(scale * Q Kᵀ + mask) V for the heads of a layer, with the permutations of axes around it.

The scale may be a factor of the scores or the queries, a divisor (whose reciprocal the kernel multiplies by) or absent; the
mask may be added, subtracted or absent. Permutations before and after the products become strides of the kernel, so nothing is
transposed in memory.
"""

from __future__ import annotations

from aioexec.planning.recognition.patterns import (
    ADD,
    Match,
    Scalar,
    Value,
    call,
    constant_of,
    match,
    one_of,
)
from aioexec.planning.rewriting.replacement import Rewriting, dims_of, is_exact
from aioexec.planning.subgraph import Bind, Edge, Node, Subgraph

_PRODUCTS = "BatchMatMulV2 BatchMatMulV3 BatchMatMul"
_RANKS = (3, 4)
_FLOATS = ("float32", "float64")

_OPERANDS = _QUERY, _KEY, _VALUE = Value(), Value(), Value()
_MASK = Value()
_FACTOR, _DIVISOR, _QUERY_FACTOR = Scalar(), Scalar(), Scalar()
_SCORES = call(
    _PRODUCTS,
    one_of(call("Mul", _QUERY, _QUERY_FACTOR), _QUERY),
    _KEY,
    condition=lambda node: not node.op.attrs["adj_x"],
)
_SCALED = one_of(call("Mul", _SCORES, _FACTOR), call("RealDiv", _SCORES, _DIVISOR), _SCORES)
_SUBTRACTED = call("Sub", _SCALED, _MASK)
_LOGITS = one_of(call(ADD, _SCALED, _MASK), _SUBTRACTED, _SCALED)
_WEIGHTS = call("Softmax", _LOGITS)
_ATTENTION = call(
    _PRODUCTS,
    _WEIGHTS,
    _VALUE,
    condition=lambda node: not node.op.attrs["adj_x"] and not node.op.attrs["adj_y"],
)


def recognize_attention(graph: Subgraph, bind: Bind) -> None:
    """Replace products, mask and softmax of attention by one node."""
    rewriting = Rewriting(graph)
    for node in graph.nodes:
        if node.feed is None and node.row.name in _ATTENTION.ops:
            found = match(_ATTENTION, (node, 0))
            if found is not None:
                rewriting.attempt(_replace, found)
    rewriting.apply()


def _replace(rewriting: Rewriting, found: Match) -> None:
    core, rank = found.root[0], _rank(found)
    if core.output_dtype(0).name not in _FLOATS or rank is None or not _has_equal_batches(found):
        return
    if not is_exact(core, _scale(found)) or not rewriting.is_closed(found.nodes(), [core]):
        return
    query, query_order = _before(found[_QUERY], rank)
    key, key_order = _before(found[_KEY], rank)
    value, value_order = _before(found[_VALUE], rank)
    if not found[_SCORES][0].op.attrs["adj_y"]:
        key_order = (*key_order[:-2], key_order[-1], key_order[-2])
    nodes, root, order = found.nodes(), core, tuple(range(rank))
    after = rewriting.uses.only_user(core)
    permutation = None if after is None else _permutation(after, rank)
    if after is not None and permutation is not None:
        nodes, root, order = [*nodes, after], after, permutation
    made = rewriting.make(
        "_Attention",
        root,
        [query, key, value, *([found[_MASK]] if _MASK in found else ())],
        N=int(_MASK in found),
        scale=_scale(found),
        subtracts=_SUBTRACTED in found,
        query_order=list(query_order),
        key_order=list(key_order),
        value_order=list(value_order),
        output_order=list(order),
    )
    rewriting.replace(nodes, [(root, 0)], made)


def _scale(found: Match) -> float:
    factor = found.scalar(_QUERY_FACTOR) if _QUERY_FACTOR in found else 1.0
    if _FACTOR in found:
        return factor * found.scalar(_FACTOR)
    return factor / found.scalar(_DIVISOR) if _DIVISOR in found else factor


def _rank(found: Match) -> int | None:
    """The rank of all operands; None if the kernel does not support it, or if it may differ or be that of the mask instead."""
    query, key, value = (len(dims_of(found[each]) or ()) for each in _OPERANDS)
    mask = dims_of(found[_MASK]) if _MASK in found else ()
    if query not in _RANKS or not query == key == value or mask is None or len(mask) > query:
        return None
    return query


def _has_equal_batches(found: Match) -> bool:
    """Whether BatchMatMul, which does not broadcast, would accept the operands; the newer ops broadcast, as the kernel does."""
    products = [found[_SCORES][0], found[_ATTENTION][0]]
    if all(node.row.name != "BatchMatMul" for node in products):
        return True
    batches = [(dims_of(found[each]) or ())[:-2] for each in _OPERANDS]
    return None not in batches[0] and all(batch == batches[0] for batch in batches)


def _before(edge: Edge, rank: int) -> tuple[Edge, tuple[int, ...]]:
    """An edge without the permutation that made it, and the permutation."""
    node, _ = edge
    order = _permutation(node, rank)
    return (node.inputs[0], order) if order is not None else (edge, tuple(range(rank)))


def _permutation(node: Node, rank: int) -> tuple[int, ...] | None:
    """The constant permutation of a transposition; None if the node is something else."""
    if node.feed is not None or node.row.name != "Transpose" or node.is_constant or node.controls:
        return None
    order = constant_of(node.inputs[1])
    return None if order is None or sorted(order.tolist()) != [*range(rank)] else tuple(order.tolist())
