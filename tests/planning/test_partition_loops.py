"""Partitions of loops: every device iterates in step with the one that has the condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.partitioned import A, B, C, cut, of_role, the
from tests.planning.planned import by_name, names
from tests.tiers import constant, feed, graph, op


def counting_loop(nested: bool = False) -> Any:
    """x is negated while a counter is below a limit; with `nested`, by a loop of its own. Returns the Exit of x."""

    def variable(g: Graph, frame: str, start: Any, name: str) -> tuple[Any, Any]:
        enter = op("Enter", start, frame_name=frame, name=f"{frame}/enter_{name}")
        merge = g.create_op("Merge", [enter, enter], name=f"{frame}/merge_{name}")
        return merge, merge.outputs[0]

    def loop(g: Graph, frame: str, start: Any, inner: bool) -> Any:
        with g.control_dependencies([start]):
            zero, three, unit = constant(0.0), constant(3.0), constant(1.0)
        merge_i, i = variable(g, frame, zero, "i")
        merge_x, x = variable(g, frame, start, "x")
        limit = op("Enter", three, frame_name=frame, is_constant=True, name=f"{frame}/limit")
        cond = op("LoopCond", op("Less", i, limit, name=f"{frame}/less"), name=f"{frame}/cond")
        _, again_i = g.create_op("Switch", [i, cond], name=f"{frame}/switch_i").outputs
        out, again_x = g.create_op("Switch", [x, cond], name=f"{frame}/switch_x").outputs
        one = op("Enter", unit, frame_name=frame, is_constant=True, name=f"{frame}/one")
        next_i = op("Add", again_i, one, name=f"{frame}/add")
        next_x = loop(g, "inner", again_x, False) if inner else op("Neg", again_x, name=f"{frame}/neg")
        merge_i.set_input(1, op("NextIteration", next_i, name=f"{frame}/next_i"))
        merge_x.set_input(1, op("NextIteration", next_x, name=f"{frame}/next_x"))
        return op("Exit", out, name=f"{frame}/exit")

    with graph() as g:
        return loop(g, "outer", feed([], name="x"), nested)


def cut_loop(where: Mapping[str, str], nested: bool = False) -> dict[str, Subgraph]:
    out = counting_loop(nested)
    return cut(where, [out], [next(t for t in out.graph.get_operations() if t.name == "x").outputs[0]])


def is_clocked(recv: Node) -> bool:
    """Whether a Recv waits for a Merge that a NextIteration leads back to."""
    return any(producer.op.type == "NextIteration" for clock in recv.controls for producer, _ in clock.inputs)


@pytest.mark.behaviour(97)
def test_a_partition_without_the_condition_gets_a_control_loop_driven_by_it():
    parts = cut_loop({"outer/neg": B})

    part = parts[B]
    start, enter = the(of_role(part, Role.CONSTANT)), the(of_role(part, Role.ENTER))
    merge, switch = the(of_role(part, Role.MERGE)), the(of_role(part, Role.SWITCH))
    following = the(of_role(part, Role.NEXT_ITERATION))
    assert enter.inputs == [(start, 0)]
    assert enter.op.attrs["frame_name"] == "outer"
    assert enter.op.attrs["parallel_iterations"] == 10
    assert merge.inputs == [(enter, 0), (following, 0)]
    assert following.inputs == [(switch, 1)]
    assert switch.inputs[0] == (merge, 0)
    condition = switch.inputs[1][0]
    sent = {send.op.attrs["tensor_name"]: send for send in of_role(parts[A], Role.SEND)}
    assert sent[condition.op.attrs["tensor_name"]].inputs[0][0].name == "outer/cond"
    assert len(of_role(part, Role.RECV)) == 2
    assert all(recv.controls == [merge] for recv in of_role(part, Role.RECV))


@pytest.mark.behaviour(97)
def test_every_recv_inside_a_loop_waits_for_an_iteration_and_no_other_does():
    parts = cut_loop({"outer/neg": B, "outer/less": C, "outer/cond": B, "outer/add": C, "outer/exit": C})

    frame_of_tensor = {}
    for part in parts.values():
        for send in of_role(part, Role.SEND):
            frame_of_tensor[send.op.attrs["tensor_name"]] = send.inputs[0][0].op.type not in (
                "Exit",
                "Placeholder",
            )
    for part in parts.values():
        for recv in of_role(part, Role.RECV):
            assert is_clocked(recv) is frame_of_tensor[recv.op.attrs["tensor_name"]], recv.name


@pytest.mark.behaviour(97)
def test_a_loop_inside_a_loop_is_entered_in_each_iteration_of_the_outer_one():
    parts = cut_loop({"inner/neg": B}, nested=True)

    enters = {node.op.attrs["frame_name"]: node for node in of_role(parts[B], Role.ENTER)}
    merges = {node.inputs[0][0].op.attrs["frame_name"]: node for node in of_role(parts[B], Role.MERGE)}
    assert enters["outer"].inputs[0][0].controls == []
    assert enters["inner"].inputs[0][0].controls == [merges["outer"]]
    assert merges["inner"] is not merges["outer"]


def test_a_device_with_a_merge_of_the_loop_needs_no_other_clock():
    parts = cut_loop(dict.fromkeys(("outer/merge_x", "outer/switch_x", "outer/neg", "outer/next_x"), B))

    merge = the(of_role(parts[B], Role.MERGE))
    assert merge.name == "outer/merge_x"
    assert [recv.controls for recv in of_role(parts[B], Role.RECV) if is_clocked(recv)] == [[merge]]


def test_what_a_loop_takes_from_outside_crosses_outside():
    parts = cut_loop({"outer/less": B, "outer/neg": B})

    limit = next(node for node in parts[B].nodes if node.name == "outer/limit")
    assert limit.op.attrs["is_constant"]
    assert limit.inputs[0][0].op.type == "Const"
    assert "outer/limit" not in names(parts[A])


def test_what_leads_into_round_and_out_of_a_loop_stays_with_its_merge():
    parts = cut_loop({f"outer/{name}_x": B for name in ("enter", "switch", "next")} | {"outer/exit": C})

    assert {f"outer/{name}_x" for name in ("enter", "merge", "switch", "next")} | {"outer/exit"} <= set(
        names(parts[A])
    )
    assert list(parts) == [A]


@pytest.mark.behaviour(98)
def test_a_merge_keeps_the_order_of_its_inputs():
    parts = cut_loop({"outer/enter_x": B, "outer/next_x": B, "outer/neg": C})

    merge = by_name(parts[A])["outer/merge_x"]
    assert [producer.name for producer, _ in merge.inputs] == ["outer/enter_x", "outer/next_x"]


@pytest.mark.behaviour(98)
def test_a_merge_of_branches_on_other_devices_keeps_the_order_of_its_inputs():
    with graph() as g:
        x, p = feed([], name="x"), feed([], "bool", name="p")
        below, above = g.create_op("Switch", [x, p], name="switch").outputs
        branches = [op("Neg", above, name="then"), op("Exp", below, name="else")]
        y = g.create_op("Merge", branches, name="y").outputs[0]

    parts = cut({"then": B, "else": C}, [y], [x, p])

    received = [producer.op.attrs["send_device"] for producer, _ in by_name(parts[A])["y"].inputs]
    assert received == [B, C]


def test_a_loop_without_a_condition_cannot_span_devices():
    with graph() as g:
        enter = op("Enter", feed([], name="x"), frame_name="endless", name="enter")
        merge = g.create_op("Merge", [enter, enter], name="merge")
        y = op("Neg", merge.outputs[0], name="y")
        merge.set_input(1, op("NextIteration", y, name="next"))
        out = op("Exit", y, name="exit")

    with pytest.raises(InvalidArgumentError, match=r"'endless' .* no LoopCond"):
        cut({"y": B}, [out], [enter.op.inputs[0]])
