"""Items: nodes with equal wait sets, in an order in which they can run; nothing waits for what it does not depend on."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from aioexec.planning.items import cut_items, wait_sets
from tests.planning.planned import names, plan, pruned
from tests.tiers import Ops, constant, feed, graph, op, read, reference, resource


def add_where(ops: Ops) -> None:
    ops.add(
        "TestPositive(x:T) -> (y:T) [T:type]",
        lambda x: x[x > 0],
        shape=lambda context: [(None,)],
        dynamic_shape=True,
    )


def test_a_graph_without_sources_is_one_item():
    with graph():
        x = feed([])
        y = op("Neg", op("Add", x, constant(1.0)))

    assert len(cut_items(pruned([y], [x]))) == 1


def test_feeds_constants_and_variables_belong_to_no_item():
    with graph():
        x, v = feed([]), resource([])
        y = op("AssignVariableOp", v, x)
    subgraph = pruned(feeds=[x], targets=[y])

    (item,) = cut_items(subgraph)

    assert [node.name for node in item.nodes] == [y.name]


def test_what_depends_on_a_source_waits_for_it_and_nothing_else_does(ops: Ops):
    add_where(ops)
    with graph():
        x = feed([None])
        found = op("TestPositive", x, name="found")
        after = op("Neg", found, name="after")
        beside = op("Neg", x, name="beside")
        both = op("Neg", op("TestPositive", op("Abs", after, name="abs"), name="again"), name="both")

    items = cut_items(pruned([after, beside, both], [x]))

    assert [[node.name for node in item.nodes] for item in items] == [
        ["found", "beside"],
        ["after", "abs", "again"],
        ["both"],
    ]


def test_constants_may_determine_the_shape_of_an_op_whose_shape_otherwise_depends_on_data():
    with graph():
        x, places = feed([None, 3]), feed([2], "int32")
        known, size = constant([0, 1], "int32"), op("Shape", x)
        ones = constant([1, 1], "int32")
        same = op("Reshape", x, op("DynamicStitch", [known, known], [size, ones], N=2))
        other = op("Reshape", x, op("DynamicStitch", [places, known], [size, ones], N=2))

    assert len(plan([same], [x]).items) == 1
    assert len(plan([other], [x, places]).items) == 2


def test_a_control_edge_makes_a_node_wait_too(ops: Ops):
    add_where(ops)
    with graph() as g:
        x = feed([None])
        with g.control_dependencies([op("TestPositive", x)]):
            y = op("Neg", x, name="y")

    items = cut_items(pruned([y], [x]))

    assert [node.name for node in items[1].nodes] == ["y"]


def test_a_fed_source_is_none(ops: Ops):
    add_where(ops)
    with graph():
        found = op("TestPositive", feed([None]))
        y = op("Neg", found)
    subgraph = pruned([y], [found])

    assert set(wait_sets(subgraph).values()) == {0}
    assert len(cut_items(subgraph)) == 1


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    nodes=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 30), min_size=1, max_size=3)),
        min_size=1,
        max_size=20,
    )
)
def test_items_partition_the_nodes_and_never_wait_for_later_ones(ops: Ops, nodes: list[Any]):
    if not ops._names:
        add_where(ops)
    with graph() as g:
        x = feed([None])
        made = [x]
        for is_dynamic, producers in nodes:
            inputs = [made[k % len(made)] for k in producers]
            with g.control_dependencies([tensor for tensor in inputs[1:] if tensor is not x]):
                made.append(op("TestPositive" if is_dynamic else "Neg", inputs[0]))
    subgraph = pruned(made[1:], [x])

    items = cut_items(subgraph)

    where = {id(node): place for place, item in enumerate(items) for node in item.nodes}
    assert sorted(where) == sorted(id(node) for node in subgraph.nodes if node.feed is None)
    sets = wait_sets(subgraph)
    for place, item in enumerate(items):
        assert {sets[id(node)] for node in item.nodes} == {item.wait_set}
        for node in item.nodes:
            assert all(where[id(producer)] <= place for producer in node.producers() if producer.feed is None)


# Plans


def test_an_items_inputs_outputs_and_writes(ops: Ops):
    add_where(ops)
    with graph():
        x, v, w = feed([None], name="x"), resource([]), reference([])
        found = op("TestPositive", op("Neg", x), name="found")
        total = op("Sum", found, constant([0], "int32"))
        add = op("AssignAddVariableOp", v, total)
        chain = op("AssignAdd", op("Assign", w, constant(1.0)), total)
    made = plan([total, op("Neg", x)], [x], [add, chain.op])

    first, second = made.items

    assert [variable.name for variable in first.writes] == [w.op.name]
    assert [variable.name for variable in second.writes] == [v.op.name, w.op.name]
    assert first.inputs == made.feeds
    assert made.fetches[1] in first.outputs
    assert made.fetches[0] in second.outputs
    assert set(second.inputs) <= set(first.outputs)


def test_outputs_come_in_the_order_of_the_fetches():
    with graph():
        x = feed([])
        a = op("Neg", x)
        b = op("Abs", a)

    made = plan([b, a], [x])

    assert made.items[0].outputs == made.fetches


def test_shape_inputs_are_those_whose_content_decides_a_shape():
    with graph():
        x, shape, unused, scale = feed(None), feed([None], "int32"), feed([None], "int32"), feed([], "int32")
        y = op("Reshape", x, op("Mul", shape, scale))
        z = op("Neg", unused)
        s = op("Fill", op("Shape", x), constant(1.0))

    made = plan([y, z, s], [x, shape, unused, scale])

    assert made.items[0].shape_inputs == (made.feeds[1], made.feeds[3])


def test_a_plan_of_nothing_has_no_items():
    with graph():
        c = constant(1.0)

    made = plan([c])

    assert made.items == ()
    assert names(made.subgraph) == [c.op.name]


def test_a_variable_read_and_written_is_known_when_the_plan_is_made():
    with graph():
        v = resource([])
        value = read(v)

    made = plan([value])

    (variable,) = [value for value in made.values if value is not None]
    assert variable.name == v.op.name
