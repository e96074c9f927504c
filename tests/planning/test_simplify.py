"""Folding, merging and dropping: fewer nodes, the same values, and what orders or changes state stays."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.planning import simplify
from aioexec.planning.layout.variant_builder import lay_out_item
from aioexec.planning.simplify import (
    drop_identities,
    drop_unused,
    fold_constants,
    merge_common_subexpressions,
)
from tests.planning.planned import Binder, by_name, names, plan, pruned
from tests.tiers import Ops, constant, feed, graph, op, read, reference, resource

# Folding


@pytest.mark.behaviour(158)
def test_what_depends_on_constants_alone_is_computed():
    with graph():
        total = op("Add", op("Mul", constant([1.0, 2.0]), constant(3.0)), constant(1.0))
    subgraph = pruned([total])

    fold_constants(subgraph, Binder())

    assert len(subgraph.nodes) == 1
    (value,) = subgraph.nodes[0].values or ()
    np.testing.assert_array_equal(value, [4, 7])


@pytest.mark.behaviour(158)
def test_a_fed_constant_is_not_folded_into_what_uses_it():
    with graph():
        c = constant(1.0)
        y = op("Neg", c, name="y")
    subgraph = pruned([y], [c])

    fold_constants(subgraph, Binder())

    assert not by_name(subgraph)["y"].is_constant


@pytest.mark.behaviour(158)
def test_nodes_that_wait_for_others_are_not_folded():
    with graph() as g:
        first = op("NoOp", name="first")
        with g.control_dependencies([first]):
            c = op("Const", value=np.float32(1), dtype=constant(0.0).dtype, name="c")
        y = op("Neg", c, name="y")
    subgraph = pruned([y])

    fold_constants(subgraph, Binder())

    assert names(subgraph) == ["first", "c", "y"]


@pytest.mark.behaviour(158)
def test_stateful_ops_and_reads_are_not_folded(ops: Ops):
    ops.broken("TestRandom", lambda x: x + np.random.default_rng().random())
    with graph():
        v = resource([], name="v")
        y = [op("TestRandom", constant(1.0)), read(v), op("Neg", reference([]))]
    subgraph = pruned([*y])

    fold_constants(subgraph, Binder())

    assert sum(node.is_constant for node in subgraph.nodes) == 1


@pytest.mark.behaviour(158)
def test_large_results_are_left_to_each_step(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simplify, "LARGEST_FOLDED", 4000)
    with graph():
        small = op("Fill", constant([1000], "int32"), constant(1.0), name="small")
        large = op("Fill", constant([1001], "int32"), constant(1.0), name="large")
        huge = op("Fill", constant([10**6, 10**6], "int32"), constant(1.0), name="huge")
    subgraph = pruned([small, large, huge])

    fold_constants(subgraph, Binder())

    assert {name: node.is_constant for name, node in by_name(subgraph).items() if "Const" not in name} == {
        "small": True,
        "large": False,
        "huge": False,
    }


@pytest.mark.parametrize(
    "build",
    [
        lambda: op("StringJoin", [many_texts(10**6), texts("b")]),
        lambda: op("StringJoin", [texts(*"a" * 1000), texts("b" * 10**5)]),
        lambda: op("RegexReplace", texts("a" * 5000), texts("a"), texts("b" * 5000)),
        lambda: op("AsString", constant(np.ones(5000)), width=2**16),
        lambda: op("StringLength", many_texts(10**6)),
    ],
    ids=["many", "joined", "replaced", "padded", "read"],
)
def test_strings_that_stand_for_much_memory_or_work_are_left_to_each_step(build: Callable[[], Any]):
    with graph():
        y = build()
    subgraph = pruned([y])
    tracemalloc.start()
    try:
        fold_constants(subgraph, Binder())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert not subgraph.nodes[-1].is_constant
    assert peak < 1 << 20


def many_texts(count: int) -> Any:
    """One text, again and again, in the memory of one."""
    return op("Const", value=np.broadcast_to(np.array(b"a", object), [count]), dtype=dtypes.string)


def texts(*elements: str) -> Any:
    value = np.array([each.encode() for each in elements], object)
    return op("Const", value=value.reshape(()) if value.size == 1 else value, dtype=dtypes.string)


def test_short_strings_are_folded():
    with graph():
        y = op("StringJoin", [texts("a", "b"), texts("c")])
    subgraph = pruned([y])

    fold_constants(subgraph, Binder())

    (value,) = subgraph.nodes[0].values or ()
    assert value.tolist() == [b"ac", b"bc"]


def test_a_fill_that_no_memory_could_hold_is_not_tried_while_laying_out():
    with graph():
        y = op("Size", op("Fill", constant([10**6, 10**5], "int32"), constant(1.0)))
    made = plan([y])

    variant = lay_out_item(made.items[0], made.values, {})

    assert variant.arena_bytes == 4 * 10**11


@pytest.mark.parametrize("error", [ValueError, ZeroDivisionError, KeyError, MemoryError])
def test_what_cannot_be_computed_is_left_to_the_step(ops: Ops, error: type[Exception]):
    def fail(x: Any) -> Any:
        raise error("no")

    ops.add("TestPureFail(x:T) -> (y:T) [T:type]", fail)
    with graph():
        y = op("TestPureFail", constant(1.0), name="y")
    subgraph = pruned([y])

    fold_constants(subgraph, Binder())

    assert not by_name(subgraph)["y"].is_constant


# Merging


def merged(fetches: list[Any], feeds: list[Any]) -> int:
    subgraph = pruned(fetches, feeds)
    merge_common_subexpressions(subgraph, Binder())
    subgraph.check_invariants()
    return len(subgraph.nodes) - len(feeds)


@pytest.mark.behaviour(159)
def test_equal_nodes_are_computed_once():
    with graph():
        x, y = feed([]), feed([])
        assert merged([op("Neg", x), op("Neg", x)], [x]) == 1
        assert merged([op("Neg", op("Neg", x)), op("Neg", op("Neg", x))], [x]) == 2
        assert merged([op("Mul", x, y), op("Mul", y, x)], [x, y]) == 1, "commutative"
        assert merged([op("Sub", x, y), op("Sub", y, x)], [x, y]) == 2
        assert merged([op("Neg", x), op("Neg", y)], [x, y]) == 2
        assert merged([op("Neg", x), op("Abs", x)], [x]) == 2


def test_nodes_with_other_attributes_are_not_merged():
    with graph():
        x = feed([2, 2])
        assert merged([op("MatMul", x, x), op("MatMul", x, x, transpose_a=True)], [x]) == 2
        assert merged([op("MatMul", x, x), op("MatMul", x, x)], [x]) == 1


@pytest.mark.behaviour(159)
def test_constants_merge_by_content_dtype_and_shape():
    nan, other_nan = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    with graph():
        assert merged([constant(1.0), constant(1.0)], []) == 1
        assert merged([constant(1.0), constant([1.0])], []) == 2
        assert merged([constant(0.0), constant(-0.0)], []) == 2
        assert merged([constant(1), constant(1, "int32"), constant(1, "int64")], []) == 3
        assert merged([constant(nan), constant(nan), constant(other_nan)], []) == 2
        assert merged([constant(np.arange(2000)), constant(np.arange(2000))], []) == 1
        long = np.arange(2000)
        changed = long.copy()
        changed[1000] = -1
        assert merged([constant(long), constant(changed)], []) == 2


def test_long_list_attributes_are_compared_in_full(ops: Ops):
    ops.add("TestListed(x:T) -> (y:T) [T:type; values:list(int)]", lambda x: x)
    with graph():
        x = feed([])
        a, b = list(range(2000)), list(range(2000))
        b[1000] = -1
        assert merged([op("TestListed", x, values=a), op("TestListed", x, values=b)], [x]) == 2


@pytest.mark.behaviour(159)
def test_stateful_nodes_reads_and_waiting_nodes_are_never_merged(ops: Ops):
    ops.broken("TestRandom", lambda x: x)
    with graph() as g:
        x, v = feed([]), resource([])
        first = op("NoOp")
        with g.control_dependencies([first]):
            waiting = op("Neg", x)

        assert merged([op("TestRandom", x), op("TestRandom", x)], [x]) == 2
        assert merged([read(v), read(v)], []) == 3
        assert merged([op("Neg", x), waiting], [x]) == 3


def test_who_waited_for_a_merged_node_waits_for_the_one_kept():
    with graph() as g:
        x = feed([])
        a, b = op("Neg", x, name="a"), op("Neg", x, name="b")
        with g.control_dependencies([b]):
            c = op("Abs", x, name="c")
    subgraph = pruned([c, a], [x], [b.op])

    merge_common_subexpressions(subgraph, Binder())
    subgraph.check_invariants()

    assert [node.name for node in by_name(subgraph)["c"].controls] == ["a"]
    assert [node.name for node in subgraph.targets] == ["a"]


# Identities


def dropped(
    fetches: list[Any], feeds: list[Any] | None = None, targets: list[Any] | None = None
) -> list[str]:
    subgraph = pruned(fetches, feeds or [], targets or [])
    drop_identities(subgraph, Binder())
    subgraph.check_invariants()
    return [node.name for node in subgraph.nodes if node.row.name == "Identity" and node.feed is None]


def test_identities_between_values_are_dropped():
    with graph():
        x = feed([])
        y = op("Identity", op("Identity", op("Neg", x)))

        assert dropped([op("Abs", y)], [x]) == []
        assert dropped([y], [x]) == []


def test_an_identity_of_a_feed_stays_where_it_is_fetched():
    """Fetching the feed gives the caller's object, fetching its Identity a copy."""
    with graph():
        x = feed([])
        y = op("Identity", x, name="copy")

        assert dropped([y], [x]) == ["copy"]
        assert dropped([op("Neg", y)], [x]) == []


def test_an_identity_that_orders_or_snapshots_stays():
    with graph() as g:
        x, v = feed([]), reference([])
        with g.control_dependencies([op("NoOp")]):
            waits = op("Identity", x, name="waits")
        waited_for = op("Identity", op("Neg", x), name="waited_for")
        with g.control_dependencies([waited_for]):
            after = op("Abs", x)
        snapshot = op("Identity", v, name="snapshot")

        assert dropped([op("Neg", waits)], [x]) == ["waits"]
        assert dropped([after, op("Neg", waited_for)], [x]) == ["waited_for"]
        assert dropped([op("Neg", snapshot)]) == ["snapshot"]
        assert dropped([], [x], [waited_for.op]) == ["waited_for"]


# Nodes with control edges only


def test_what_is_only_waited_for_is_not_computed_and_its_inputs_are_waited_for():
    with graph() as g:
        x, y = feed([2]), feed([2])
        product = op("Mul", op("Neg", x, name="turned"), y, name="product")
        used = op("Abs", y, name="used")
        with g.control_dependencies([product, used]):
            done = op("NoOp", name="done")
        with g.control_dependencies([done]):
            last = op("Identity", used, name="last")
    subgraph = pruned([last], [x, y])

    drop_unused(subgraph, Binder())
    subgraph.check_invariants()

    assert "product" not in names(subgraph)
    assert "turned" not in names(subgraph)
    waited = [(node.name, node.feed is not None) for node in by_name(subgraph)["done"].controls]
    assert waited == [(x.op.name, True), (y.op.name, True), ("used", False)]


def test_what_may_fail_changes_something_or_is_asked_for_stays():
    with graph() as g:
        x, v = feed([], "int32"), resource([])
        fails = op("FloorDiv", x, x, name="fails")
        changes = op("AssignVariableOp", v, constant(1.0), name="changes")
        fetched, target = op("Neg", x, name="fetched"), op("Abs", x, name="target")
        with g.control_dependencies([fails, changes, fetched, target]):
            done = op("NoOp", name="done")
    subgraph = pruned([fetched], [x], [done, target.op])

    drop_unused(subgraph, Binder())

    assert {"fails", "changes", "fetched", "target"} <= set(names(subgraph))


def test_what_a_target_waits_for_and_what_reads_a_reference_stay():
    with graph() as g:
        x, v = feed([2]), reference([2])
        read_now, read_early = op("Identity", v, name="read_now"), op("Identity", v, name="read_early")
        asked, dropped = op("Neg", x, name="asked"), op("Abs", x, name="dropped")
        with g.control_dependencies([read_early, dropped]):
            between = op("NoOp", name="between")
        with g.control_dependencies([asked, read_now, between]):
            target = op("NoOp", name="target")
    subgraph = pruned([], [x], [target])

    drop_unused(subgraph, Binder())

    assert {"asked", "read_now", "read_early"} <= set(names(subgraph))
    assert "dropped" not in names(subgraph)


def test_the_output_of_a_switch_is_not_waited_for_as_the_switch_would_be():
    with graph() as g:
        x, p = feed([]), feed([], "bool")
        dead = op("Neg", op("Switch", x, p)[1], name="dead")
        with g.control_dependencies([dead]):
            after = op("Abs", x, name="after")
    subgraph = pruned([after], [x, p])

    drop_unused(subgraph, Binder())

    assert "dead" in names(subgraph)


# Together


def test_planning_is_linear_enough_for_thousands_of_nodes():
    with graph():
        x = feed([4])
        ends = []
        for k in range(20):
            y = op("Add", x, constant(float(k % 3)))
            for _ in range(50):
                y = op("Identity", op("Mul", y, constant(2.0)))
            ends.append(y)

    made = plan(ends, [x])

    assert len(made.subgraph.nodes) == 1 + 3 + 3 * 51
    assert len(made.items) == 1


def test_a_dump_shows_a_node_a_line():
    with graph() as g:
        x = feed([], name="x")
        c = op("Neg", constant(1.0), name="c")
        with g.control_dependencies([op("NoOp", name="first")]):
            y = op("Add", x, c, name="y")
    subgraph = pruned([y], [x])
    fold_constants(subgraph, Binder())

    lines = subgraph.dump().splitlines()

    assert "x = Feed()" in lines
    assert "first = NoOp()" in lines
    assert any(line.startswith("y = Add(x:0, c:0, ^first)") for line in lines)
