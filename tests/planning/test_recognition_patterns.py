"""Patterns match expressions over nodes, whatever the order of commutative operands, and each part the same edge each time."""

from __future__ import annotations

from typing import Any

import numpy as np

import aioexec as ax
from aioexec.planning.recognition.patterns import Scalar, Value, call, match, one_of
from aioexec.planning.rewriting.replacement import Rewriting
from aioexec.planning.subgraph import Edge, Node, Subgraph
from tests.planning.planned import by_name, pruned
from tests.tiers import constant, feed, graph, op


def edge_of(tensor: Any, feeds: list[Any]) -> tuple[Edge, dict[str, Node]]:
    nodes = by_name(pruned([tensor], feeds))
    return (nodes[tensor.op.name], 0), nodes


def test_operands_of_commutative_ops_match_in_either_order():
    x, number = Value(), Scalar()
    pattern = call("AddV2", call("Mul", x, number), x)
    with graph():
        a = feed([2], name="a")
        both = op("AddV2", a, op("Mul", constant(2.0), a)), op("AddV2", op("Mul", a, constant(2.0)), a)

    for tensor in both:
        edge, nodes = edge_of(tensor, [a])
        found = match(pattern, edge)
        assert found is not None
        assert found[x] == (nodes["a"], 0)
        assert found.scalar(number) == 2.0


def test_operands_of_other_ops_match_in_order_only():
    number = Scalar()
    with graph():
        a = feed([2], name="a")
        y = op("Sub", constant(2.0), a)

    assert match(call("Sub", Value(), number), edge_of(y, [a])[0]) is None
    assert match(call("Sub", number, Value()), edge_of(y, [a])[0]) is not None


def test_a_part_that_occurs_twice_must_be_the_same_edge():
    x = Value()
    with graph():
        a, b = feed([2], name="a"), feed([2], name="b")
        same, other = op("Mul", a, a), op("Mul", a, b)

    assert match(call("Mul", x, x), edge_of(same, [a])[0]) is not None
    assert match(call("Mul", x, x), edge_of(other, [a, b])[0]) is None


def test_a_choice_is_taken_back_if_the_rest_does_not_match_with_it():
    x, y = Value(), Value()
    either = one_of(call("Neg", x), x)
    with graph():
        a = feed([2], name="a")
        negative = op("Neg", a, name="negative")
        product = op("Mul", negative, negative, name="product")

    edge, nodes = edge_of(op("AddV2", product, negative), [a])
    found = match(call("AddV2", call("Mul", either, y), x), edge)

    assert found is not None
    assert found[x] == (nodes["negative"], 0)


def test_constants_feeds_and_other_outputs_are_not_matched_by_calls():
    with graph():
        parts = op("Split", constant(0, "int32"), feed([2], name="a"), num_split=2)
        y = op("Neg", parts[1])

    edge, nodes = edge_of(y, [])
    assert match(call("Neg", call("Split", Value(), Value())), edge) is None
    nodes[y.op.name].values = (np.zeros(1, np.float32),)
    assert match(call("Neg", Value()), edge) is None


def test_a_scalar_is_a_constant_number_of_floating_point():
    with graph():
        a = feed([2], name="a")
        tensors = [op("Mul", a, constant(value)) for value in (3.0, [[3.0]], [3.0, 3.0])]
        whole = op("Mul", feed([2], "int32"), constant(3, "int32"))

    pattern = call("Mul", Value(), Scalar())
    assert [match(pattern, edge_of(each, [a])[0]) is not None for each in tensors] == [True, False, False]
    assert match(pattern, edge_of(whole, [])[0]) is None


def negations(subgraph: Subgraph) -> Rewriting:
    """Replace pairs of negations by Identity."""
    rewriting, x = Rewriting(subgraph), Value()
    for node in subgraph.nodes:
        found = match(call("Neg", call("Neg", x)), (node, 0))
        if found is not None and rewriting.is_closed(found.nodes(), [node]):
            rewriting.replace(found.nodes(), [found.root], rewriting.make("Identity", node, [found[x]]))
    return rewriting


def test_matches_do_not_overlap_and_consumers_fetches_and_targets_get_the_new_node():
    with graph():
        a = feed([2], name="a")
        chain = [a]
        for name in "bcde":
            chain.append(op("Neg", chain[-1], name=name))
        with ax.control_dependencies([chain[-1]]):
            last = op("NoOp", name="last")
    subgraph = pruned([chain[-1]], [a], [last, chain[-1].op])

    negations(subgraph).apply()

    subgraph.check_invariants()
    assert subgraph.dump().splitlines() == [
        "a = Feed()",
        "c = Identity(a:0)",
        "e = Identity(c:0)",
        "last = NoOp(, ^e)",
    ]
    assert [node.name for node, _ in subgraph.fetches] == ["e"]
    assert [node.name for node in subgraph.targets] == ["last", "e"]


def test_a_node_that_is_fetched_targeted_or_waited_for_is_not_replaced():
    for keep in ("fetch", "target", "control"):
        with graph():
            a = feed([2], name="a")
            inner = op("Neg", a, name="inner")
            outer = op("Neg", inner, name="outer")
            with ax.control_dependencies([inner]):
                waiting = op("NoOp", name="waiting")
        kept = {
            "fetch": ([outer, inner], []),
            "target": ([outer], [inner.op]),
            "control": ([outer], [waiting]),
        }
        subgraph = pruned(kept[keep][0], [a], kept[keep][1])
        before = subgraph.dump()

        negations(subgraph).apply()

        assert subgraph.dump() == before
