"""Frames: the loop that contains each node, and malformed loops."""

from __future__ import annotations

from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.ops.control_flow import primitives
from aioexec.planning.control_flow.frames import MOST_NESTED, frames
from aioexec.planning.prune import prune
from aioexec.planning.subgraph import Signature, Subgraph
from tests.planning.planned import by_name, pruned


@pytest.fixture
def graph():
    with Graph().as_default() as graph:
        yield graph


def names_of_frames(subgraph: Subgraph) -> dict[str, str]:
    found = frames(subgraph)
    return {node.name: found[id(node)].name for node in subgraph.nodes}


def loop(name: str, first: Any, limit: Any) -> Any:
    """`first`, and one more until it is `limit`; made of its nodes."""
    start = primitives.enter(first, name)
    merged, _ = primitives.merge([start, start], name=f"{name}/Merge")
    again = primitives.loop_cond(merged < primitives.enter(limit, name, is_constant=True))
    if_false, if_true = primitives.switch(merged, again)
    with ax.control_dependencies([if_true]):
        one = ax.constant(1)
    merged.op.set_input(1, primitives.next_iteration(if_true + one))
    return primitives.exit(if_false, name=f"{name}/Exit")


def refused(*fetches: Any) -> str:
    with pytest.raises(InvalidArgumentError) as caught:
        frames(prune(Signature((), fetches, ())))
    return caught.value.message


def test_without_loops_everything_is_in_the_outermost_frame(graph):
    subgraph = pruned([ax.constant(1) + ax.constant(2)])

    (root,) = set(frames(subgraph).values())
    assert (root.name, root.parent) == ("", None)


def test_a_node_in_a_loop_is_in_its_frame_an_enter_outside_and_an_exit_inside(graph):
    result = ax.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=4)

    subgraph = pruned([ax.negative(result, name="after")])

    found = names_of_frames(subgraph)
    outside = {name for name, frame in found.items() if frame == ""}
    assert outside == {"while/Const", "while/Enter", "after"}
    assert found["while/Exit"] == found["while/add/y"] == "while/while_context"
    of, node = frames(subgraph), by_name(subgraph)
    frame = of[id(node["while/Exit"])]
    assert frame.parallel_iterations == 4
    assert frame.parent is of[id(node["after"])]


def test_frames_nest(graph):
    def body(i: Any) -> Any:
        return ax.while_loop(lambda j: j < 5, lambda j: j + 1, [i + 1], name="inner")

    subgraph = pruned([ax.while_loop(lambda i: i < 3, body, [0])])

    found, node = frames(subgraph), by_name(subgraph)
    inner, outer = (found[id(node[name])] for name in ("while/inner/Exit", "while/Exit"))
    assert inner.name == "while/inner/while_context"
    assert inner.parent is outer
    assert found[id(node["while/inner/Enter"])] is outer
    assert outer.parent is found[id(node["while/Enter"])]


def test_branches_are_in_the_frame_of_their_conditional(graph):
    pred = ax.placeholder(ax.bool, ())

    subgraph = pruned([ax.cond(pred, lambda: 1, lambda: 2)], [pred])

    assert set(names_of_frames(subgraph).values()) == {""}


@pytest.mark.behaviour(79)
def test_inputs_from_different_frames_are_refused(graph):
    inside = primitives.enter(ax.constant(1, name="one"), "f", name="in_f")
    mixed = ax.add(inside, ax.constant(2, name="outside"), name="mixed")

    message = refused(primitives.exit(mixed))

    assert "'mixed' has inputs from different frames" in message
    assert "'in_f' is in frame 'f'" in message
    assert "'outside' is in frame ''" in message


@pytest.mark.behaviour(79)
def test_control_inputs_come_from_the_frame_of_the_node_as_well(graph):
    inside = primitives.enter(ax.constant(1), "f", name="in_f")
    with ax.control_dependencies([ax.no_op("outside")]):
        mixed = ax.negative(inside, name="mixed")

    assert "'mixed' has inputs from different frames" in refused(primitives.exit(mixed))


@pytest.mark.behaviour(79)
def test_a_back_edge_does_not_come_from_another_frame(graph):
    first, other = (primitives.enter(ax.constant(1), name) for name in ("f", "g"))
    merged, _ = primitives.merge([first, primitives.next_iteration(other, name="of_g")], name="of_f")

    message = refused(primitives.exit(merged))

    assert "Merge 'of_f' has inputs from different frames" in message
    assert "'of_g' is in frame 'g'" in message


@pytest.mark.behaviour(79)
def test_a_fed_tensor_is_outside_of_all_loops(graph):
    result = ax.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    inside = graph.get_tensor_by_name("while/Identity:0")

    with pytest.raises(InvalidArgumentError, match="inputs from different frames"):
        frames(prune(Signature((inside,), (result,), ())))


@pytest.mark.behaviour(80)
def test_one_frame_is_entered_from_one_frame_only(graph):
    from_outside = primitives.enter(ax.constant(1), "inner")
    from_frame = primitives.enter(primitives.enter(ax.constant(1), "outer"), "inner", name="late")

    message = refused(primitives.exit(from_outside), primitives.exit(primitives.exit(from_frame)))

    assert "Mismatched parent frames for 'inner'" in message
    assert "late" in message


@pytest.mark.behaviour(81)
def test_a_loop_has_one_condition(graph):
    inside = primitives.enter(ax.constant(True), "f")
    conditions = [primitives.loop_cond(inside, name=name) for name in ("first", "second")]

    message = refused(*(primitives.exit(condition) for condition in conditions))

    assert "Loop 'f' has more than one LoopCond node: 'first' and 'second'" in message


@pytest.mark.behaviour(82)
def test_a_cycle_leads_through_a_merge_and_a_next_iteration(graph):
    assert set(names_of_frames(pruned([loop("f", ax.constant(0), ax.constant(3))])).values()) == {"", "f"}


@pytest.mark.behaviour(82)
@pytest.mark.parametrize("back", [ax.identity, primitives.next_iteration])
def test_any_other_cycle_is_refused(graph, back):
    first = primitives.enter(ax.constant(1), "f")
    node = primitives.merge([first, first])[0] if back is ax.identity else ax.add(first, first)
    node.op.set_input(1, back(node))

    with pytest.raises(InvalidArgumentError, match="cycle"):
        frames(prune(Signature((), (primitives.exit(node),), ())))


@pytest.mark.behaviour(82)
def test_a_cycle_is_found_in_whatever_order_the_nodes_are(graph):
    one = ax.constant(1)
    subgraph = pruned([ax.negative(one, name="a")])
    subgraph.nodes.reverse()

    with pytest.raises(InvalidArgumentError, match="'a' is in a cycle with its input"):
        frames(subgraph)


@pytest.mark.parametrize("way_out", [primitives.exit, primitives.next_iteration])
def test_outside_of_all_loops_there_is_no_way_out(graph, way_out):
    assert "is in no loop" in refused(way_out(ax.constant(1)))


def test_loops_that_are_nested_too_deeply_are_refused(graph):
    result: Any = ax.constant(0)
    for depth in range(MOST_NESTED + 1):
        result = primitives.enter(result, f"loop_{depth}")

    assert "nested in one another at most 64 deep" in refused(result)
