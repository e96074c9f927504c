"""Pruning: what fetches and targets need, cut at the feeds, each node after what it waits for."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec.errors import InvalidArgumentError
from tests.planning.planned import by_name, names, pruned
from tests.tiers import constant, feed, graph, op


@pytest.mark.behaviour(25)
def test_only_ancestors_are_kept():
    with graph():
        x = feed([], name="x")
        a = op("Neg", x, name="a")
        op("Neg", a, name="unneeded")
        b = op("Neg", a, name="b")

    assert names(pruned([b], [x])) == ["x", "a", "b"]


@pytest.mark.behaviour(25)
def test_nothing_above_a_feed_is_kept():
    with graph():
        a = op("Neg", feed([], name="x"), name="a")
        b = op("Neg", a, name="b")
        c = op("Neg", b, name="c")

    subgraph = pruned([c], [b])

    assert [(node.name, node.feed is not None) for node in subgraph.nodes] == [("b", True), ("c", False)]
    assert subgraph.feeds == subgraph.nodes[:1]


def test_a_feed_that_is_fetched_needs_nothing():
    with graph():
        a = op("Neg", feed([]), name="a")

    subgraph = pruned([a], [a])

    assert names(subgraph) == ["a"]
    assert subgraph.fetches == [(subgraph.feeds[0], 0)]


@pytest.mark.behaviour(25)
def test_control_inputs_are_ancestors_too():
    with graph() as g:
        first, one = op("NoOp", name="first"), constant(1.0)
        with g.control_dependencies([first]):
            second = op("Neg", one, name="second")
        target = op("NoOp", name="target")
        target.add_control_inputs([second.op])

    subgraph = pruned(targets=[target])

    assert set(names(subgraph)) >= {"first", "second", "target"}
    assert [node.name for node in by_name(subgraph)["second"].controls] == ["first"]
    assert subgraph.targets == [by_name(subgraph)["target"]]


def test_one_output_fed_leaves_the_other_to_the_node():
    with graph():
        parts = op("Split", constant(0, "int32"), feed([2], name="x"), num_split=2, name="parts")
        total = op("Add", parts[0], parts[1], name="total")

    subgraph = pruned([total], [parts[1]])

    node = next(node for node in subgraph.nodes if node.name == "total")
    assert [(producer.name, producer.feed is not None, index) for producer, index in node.inputs] == [
        ("parts", False, 0),
        ("parts", True, 0),
    ]


def test_control_inputs_made_later_change_the_order():
    with graph():
        a = op("Neg", constant(1.0), name="a")
        b = op("Neg", constant(2.0), name="b")
        a.op.add_control_inputs([b.op])

    order = names(pruned([a, b]))

    assert order.index("b") < order.index("a")


def test_a_cycle_is_named():
    with graph():
        a = op("Neg", constant(1.0), name="a")
        b = op("Neg", a, name="b")
        a.op.add_control_inputs([b.op])

    with pytest.raises(
        InvalidArgumentError, match=r"cycle: 2 nodes wait for each other, among them \['a', 'b'\]"
    ):
        pruned([b])
    assert names(pruned([b], [a])) == ["a", "b"], "a feed breaks it"


def test_a_node_that_waits_for_itself_is_a_cycle():
    with graph():
        a = op("NoOp", name="a")
        a.add_control_inputs([a])

    with pytest.raises(InvalidArgumentError, match=r"cycle.*'a'"):
        pruned(targets=[a])


def test_long_chains_do_not_recurse():
    with graph():
        y = x = feed([])
        for _ in range(5000):
            y = op("Neg", y)

    assert len(pruned([y], [x]).nodes) == 5001


@given(
    edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40), seed=st.integers(0, 99)
)
def test_every_node_stands_after_what_it_waits_for_or_there_is_a_cycle(edges: list[Any], seed: int):
    with graph():
        nodes = [op("NoOp", name=f"n{k}") for k in range(12)]
        for waiting, first in edges:
            nodes[waiting].add_control_inputs([nodes[first]])
    chosen = random.Random(seed).sample(nodes, 3)

    waits = {node: set(node.control_inputs) for node in nodes}
    needed, stack = set(), list(chosen)
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(waits[node])
    left = set(needed)
    while free := {node for node in left if not waits[node] & left}:
        left -= free

    if left:
        with pytest.raises(InvalidArgumentError, match="cycle"):
            pruned(targets=chosen)
    else:
        assert set(names(pruned(targets=chosen))) == {node.name for node in needed}
