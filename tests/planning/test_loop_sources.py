"""Which sources of loops and conditionals count as one when nodes are grouped into items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import aioexec as ax
from aioexec.planning.items import ItemNodes, Kind, cut_items
from tests.planning.planned import pruned
from tests.tiers import Ops, feed, graph, op


def programs(fetches: Any, feeds: Any) -> list[set[str]]:
    """The names of the nodes of each program, without identities and constants."""
    items: list[ItemNodes] = cut_items(pruned(fetches, feeds))
    found = [
        {node.name for node in item.nodes if node.row.name not in ("Identity", "Const", "NoOp")}
        for item in items
        if item.kind is Kind.PROGRAM
    ]
    return [each for each in found if each]


def two_variables(body: Callable[[Any, Any], Any], start: Any, other: Any) -> list[Any]:
    """The final values of a loop of which the condition depends on one variable."""
    found: list[Any] = ax.while_loop(lambda x, y: op("Less", x, 5.0, name="less"), body, [start, other])
    return found


def both(x: Any, y: Any) -> Any:
    return op("Add", x, 1.0, name="one"), op("Mul", op("Neg", y, name="two"), x, name="three")


def test_the_variables_of_a_loop_count_as_one():
    with graph():
        a, b = feed([]), feed([])
        x, y = two_variables(both, a, b)
        after = op("Add", op("Neg", x, name="left"), op("Neg", y, name="right"), name="after")

    assert programs([after], [a, b]) == [
        {"while/LoopCond", "while/less"},
        {"while/one", "while/two", "while/three"},
        {"left", "right", "after"},
    ]


def test_values_from_outside_count_as_one_with_each_other():
    with graph():
        a, b = feed([]), feed([])
        negative = op("Neg", b)
        x, _ = two_variables(lambda x, y: (x + negative, op("Mul", y, b)), a, b)

    assert len(programs([x], [a, b])) == 3


def test_nodes_that_do_not_wait_for_an_awaited_one_are_not_with_those_that_do(ops: Ops):
    async def wait(step: Any, x: Any) -> Any:
        return x

    ops.add("TestWait(x:T) -> (y:T) [T:type]", wait, asynchronous=True)

    def body(x: Any, y: Any) -> Any:
        return op("Add", x, 1.0, name="one"), op(
            "Neg", op("TestWait", op("Neg", y, name="two")), name="three"
        )

    with graph():
        a, b = feed([]), feed([])
        found = two_variables(body, a, b)

    assert {"while/one"} in programs(found, [a, b])
    assert {"while/two"} in programs(found, [a, b])


def test_a_value_that_may_be_dead_is_a_source_of_its_own():
    with graph():
        a, b, p = feed([]), feed([]), feed([], "bool")
        alive = op("Switch", b, p)[1]
        x, y = two_variables(both, a, alive)

    assert {"while/one"} in programs([x, y], [a, b, p])


@pytest.mark.parametrize(
    ("same", "expected"), [(True, [{"one", "two", "three"}]), (False, [{"one"}, {"two"}, {"three"}])]
)
def test_switches_with_one_predicate_count_as_one(same: bool, expected: list[set[str]]):
    with graph():
        a, b, p, q = feed([]), feed([]), feed([], "bool"), feed([], "bool")
        one = op("Neg", op("Switch", a, p)[0], name="one")
        two = op("Neg", op("Switch", b, p if same else q)[0], name="two")
        three = op("Add", one, two, name="three")

    assert programs([three], [a, b, p, q]) == expected


def test_a_switch_behind_another_one_with_its_predicate_is_a_source_of_its_own():
    with graph():
        a, p = feed([]), feed([], "bool")
        one = op("Neg", op("Switch", a, p)[0], name="one")
        two = op("Neg", op("Switch", one, p)[0], name="two")

    assert programs([two], [a, p]) == [{"one"}, {"two"}]
