"""Partitions: one pair of nodes for each edge that crosses devices, and everything else unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec.errors import InternalError, InvalidArgumentError
from aioexec.graph.kernels.kernel import Role
from aioexec.planning.partition import check_partitions, partition
from aioexec.planning.subgraph import Node, Subgraph
from tests.planning.partitioned import INCARNATIONS, A, B, C, cut, kinds, new_name, of_role, placed, the
from tests.planning.planned import by_name, names, pruned
from tests.tiers import constant, feed, graph, op, reference, resource

# Unchanged nodes


@pytest.mark.behaviour(93)
def test_on_one_device_the_subgraph_is_its_own_partition():
    with graph():
        x = feed([], name="x")
        y = op("Neg", x, name="y")
    subgraph = placed(pruned([y], [x]), {})
    before = list(subgraph.nodes)

    parts = partition(subgraph, INCARNATIONS, new_name, A)

    assert parts == {A: subgraph}
    assert parts[A] is subgraph
    assert subgraph.nodes == before


def test_targets_on_one_other_device_need_no_other_device():
    with graph():
        y = op("Neg", constant(1.0), name="y")

    parts = cut({"Const": B, "y": B}, targets=[y.op])

    assert list(parts) == [B]
    assert names(parts[B]) == ["Const", "y"]


def test_an_empty_subgraph_is_a_partition_of_the_client():
    subgraph = Subgraph([], [], [], [])

    assert partition(subgraph, INCARNATIONS, new_name, A) == {A: subgraph}


# Data edges


@pytest.mark.behaviour(94)
def test_an_edge_between_devices_becomes_one_send_and_one_recv_for_all_consumers_there():
    with graph():
        x = feed([], name="x")
        a = op("Neg", x, name="a")
        b = op("Exp", a, name="b")
        c = op("Add", a, b, name="c")
        d = op("Mul", a, a, name="d")

    parts = cut({"b": B, "c": B, "d": C}, [c, d], [x])

    assert list(parts) == [A, B, C]
    assert [node.op.attrs["recv_device"] for node in of_role(parts[A], Role.SEND)] == [B, C]
    inside = by_name(parts[B])
    received = the(of_role(parts[B], Role.RECV))
    assert inside["b"].inputs == [(received, 0)]
    assert inside["c"].inputs == [(received, 0), (inside["b"], 0)]
    assert by_name(parts[C])["d"].inputs == [(the(of_role(parts[C], Role.RECV)), 0)] * 2


@pytest.mark.behaviour(94)
def test_each_output_of_a_node_crosses_by_itself():
    with graph():
        x = feed([4], name="x")
        first, second = op("Unpack", op("Reshape", x, [2, 2]), num=2, name="parts")
        y = op("Add", first, second, name="y")

    parts = cut({"y": B}, targets=[y.op], feeds=[x])

    sends = of_role(parts[A], Role.SEND)
    assert [[(producer.name, index) for producer, index in send.inputs] for send in sends] == [
        [("parts", 0)],
        [("parts", 1)],
    ]
    assert len(of_role(parts[B], Role.RECV)) == 2


@pytest.mark.behaviour(101)
def test_both_ends_have_the_key_with_the_incarnation_of_the_sender():
    with graph():
        x = feed([3], "int32", name="x")
        y = op("Neg", op("Abs", x, name="a"), name="y")

    parts = cut({"a": B}, [y], [x])

    sends = [the(of_role(parts[device], Role.SEND)) for device in (A, B)]
    recvs = [the(of_role(parts[device], Role.RECV)) for device in (B, A)]
    for send, recv, source, target, incarnation in zip(
        sends, recvs, (A, B), (B, A), (0x1234, -2), strict=True
    ):
        shared = {
            "tensor_name": send.op.attrs["tensor_name"],
            "send_device": source,
            "send_device_incarnation": incarnation,
            "recv_device": target,
            "client_terminated": False,
        }
        assert send.op.type == "_Send"
        assert send.op.attrs == {"T": recv.op.outputs[0].dtype, **shared}
        assert recv.op.type == "_Recv"
        assert recv.op.attrs == {"tensor_type": recv.op.outputs[0].dtype, **shared}
        assert recv.op.outputs[0].dtype.name == "int32"
        assert recv.op.outputs[0].dims == (3,)


def test_strings_stay_in_host_memory():
    with graph():
        x = feed([], "string", name="x")
        y = op("Identity", x, name="y")

    parts = cut({"y": B}, [y], [x])

    assert kinds(parts[A]) == ["Placeholder", "_HostSend", "_HostRecv"]
    assert kinds(parts[B]) == ["_HostRecv", "Identity", "_HostSend"]


@pytest.mark.behaviour(103)
def test_transfers_of_different_cuts_of_a_session_are_never_confused():
    with graph():
        a = op("Neg", feed([], name="x"), name="a")
        b = op("Exp", a, name="b")
        c = op("Log", a, name="c")

    cuts = [cut({"b": B, "c": B}, targets=[end.op], feeds=[a.op.inputs[0]]) for end in (b, c)]

    for role in (Role.SEND, Role.RECV):
        nodes = [node for parts in cuts for part in parts.values() for node in of_role(part, role)]
        assert len({node.name for node in nodes}) == len(nodes)
        assert len({node.op.attrs["tensor_name"] for node in nodes}) == len(nodes)


def test_a_constant_is_duplicated_and_not_sent():
    with graph():
        x = feed([], name="x")
        two, two_at_once = constant(2.0), np.array(2, np.float32)
        y = op("Add", op("Mul", x, two, name="a"), two, name="y")
    subgraph = placed(pruned([y], [x]), {"a": B, "Const": C})
    by_name(subgraph)["Const"].values = (two_at_once,)

    parts = partition(subgraph, INCARNATIONS, new_name, A)

    assert list(parts) == [A, B]
    for part in parts.values():
        assert [node.values for node in part.nodes if node.name == "Const"] == [(two_at_once,)]
    assert len(of_role(parts[A], Role.SEND)) == 1


def test_a_constant_that_waits_may_be_dead_and_is_sent():
    with graph() as g:
        x = feed([], name="x")
        with g.control_dependencies([op("Neg", x, name="a")]):
            two = constant(2.0)
        y = op("Neg", two, name="y")

    parts = cut({"y": B}, targets=[y.op], feeds=[x])

    assert kinds(parts[B]) == ["_Recv", "Neg"]


# Feeds, fetches, targets


def test_feeds_fetches_and_their_order_belong_to_the_client():
    with graph():
        x, y = feed([], name="x"), feed([], name="y")
        a = op("Neg", y, name="a")
        b = op("Add", a, x, name="b")
        c = op("Neg", b, name="c")
    fetches = [b, x, a, c, b]

    parts = cut({"a": B, "b": C}, fetches, [x, y])

    client = parts[A]
    assert [node.feed for node in client.feeds] == [x, y]
    assert [(node.op.type, node.name in ("x", "c")) for node, _ in client.fetches] == [
        ("_Recv", False),
        ("Placeholder", True),
        ("_Recv", False),
        ("Neg", True),
        ("_Recv", False),
    ]
    assert client.fetches[0] == client.fetches[4]
    assert all(not part.feeds and not part.fetches for device, part in parts.items() if device != A)


def test_a_constant_fetched_from_another_device_is_the_clients():
    with graph():
        one = constant(1.0)
        y = op("Neg", feed([], name="x"), name="y")

    parts = cut({"Const": B}, [one, y], [y.op.inputs[0]])

    assert list(parts) == [A]
    assert [node.name for node, _ in parts[A].fetches] == ["Const", "y"]


def test_targets_go_with_their_nodes_and_sends_are_targets_too():
    with graph():
        x = feed([], name="x")
        a = op("Neg", x, name="a")
        b = op("Neg", a, name="b")

    parts = cut({"b": B}, targets=[a.op, b.op], feeds=[x])

    assert [node.op.type for node in parts[A].targets] == ["Neg", "_Send"]
    assert [node.name for node in parts[B].targets] == ["b"]
    for part in parts.values():
        kept = list(part.nodes)
        part.drop_unneeded()
        assert part.nodes == kept


# Control edges


@pytest.mark.behaviour(95)
def test_a_control_edge_crosses_as_a_constant_and_an_identity_shared_by_those_who_wait():
    with graph() as g:
        x = feed([], name="x")
        a = op("Neg", x, name="a")
        with g.control_dependencies([a]):
            b, c = (op("NoOp", name=name) for name in ("b", "c"))

    parts = cut({"b": B, "c": B}, targets=[b, c], feeds=[x])

    token = the(of_role(parts[A], Role.CONSTANT))
    assert token.controls == [by_name(parts[A])["a"]]
    assert token.op.attrs["value"].shape == (0,)
    assert the(of_role(parts[A], Role.SEND)).inputs == [(token, 0)]
    waited_for = the(of_role(parts[B], Role.IDENTITY))
    assert waited_for.inputs == [(the(of_role(parts[B], Role.RECV)), 0)]
    assert [by_name(parts[B])[name].controls for name in "bc"] == [[waited_for]] * 2


@pytest.mark.behaviour(96)
def test_data_and_control_edges_of_one_node_cross_apart():
    with graph() as g:
        x = feed([], name="x")
        a = op("Neg", x, name="a")
        b = op("Neg", a, name="b")
        with g.control_dependencies([a]):
            c = op("Neg", x, name="c")
            d = op("Neg", b, name="d")

    parts = cut({"b": B, "c": B, "d": B}, targets=[c.op, d.op], feeds=[x])

    assert sorted(send.inputs[0][0].op.type for send in of_role(parts[A], Role.SEND)) == [
        "Const",
        "Neg",
        "Placeholder",
    ]
    inside = by_name(parts[B])
    assert inside["c"].controls == inside["d"].controls == [the(of_role(parts[B], Role.IDENTITY))]


def test_no_node_waits_for_a_constant():
    with graph() as g:
        x = feed([], name="x")
        with g.control_dependencies([constant(1.0)]):
            y = op("Neg", x, name="y")

    parts = cut({"y": B}, targets=[y.op], feeds=[x])

    assert names(parts[B])[-1] == "y"
    assert kinds(parts[A]) == ["Placeholder", "_Send"]


# State


def test_the_value_of_a_reference_may_cross():
    with graph():
        v = reference([2], name="v")
        y = op("Neg", v, name="y")

    parts = cut({"v": B}, [y, v])

    send = the(of_role(parts[B], Role.SEND))
    assert send.dereferences() == (0,)
    assert the(of_role(parts[A], Role.RECV)).output_dtypes()[0].name == "float32"


@pytest.mark.parametrize("kind", ["reference", "resource handle"])
def test_what_means_something_on_its_own_device_only_may_not_cross(kind: str):
    with graph():
        if kind == "reference":
            update = op("Assign", reference([], name="v"), 1.0, name="update")
        else:
            update = op("AssignVariableOp", resource([], name="v"), np.float32(1), name="update")
    target = getattr(update, "op", update)

    with pytest.raises(InvalidArgumentError, match=rf"'update' on {B} cannot use the {kind} 'v:0'"):
        cut({"update": B}, targets=[target])


# Errors


@pytest.mark.behaviour(102)
@pytest.mark.parametrize(
    ("device", "said"), [("", "has no assigned device"), ("/device:CPU:9", "unknown device")]
)
def test_a_node_without_a_device_is_refused(device: str, said: str):
    with graph():
        y = op("Neg", constant(1.0), name="y")

    with pytest.raises(InvalidArgumentError, match=f"Neg 'y' .*{said}"):
        cut({"y": device}, [y])


@pytest.mark.behaviour(99)
@pytest.mark.parametrize("stranger", [False, True])
def test_an_input_that_is_not_connected_is_refused(stranger: bool):
    with graph():
        y = op("Add", constant(1.0), constant(2.0), name="y")
    subgraph = placed(pruned([y]), {"y": B})
    node = by_name(subgraph)["y"]
    if stranger:
        subgraph.nodes.remove(node.inputs[1][0])
    else:
        node.inputs.pop()

    with pytest.raises(
        InvalidArgumentError, match=r"'y' has an unconnected input: expected 2 inputs .* got 1"
    ):
        partition(subgraph, INCARNATIONS, new_name, A)


@pytest.mark.parametrize("damage", ["device", "send", "recv", "order", "twice", "missing"])
def test_partitions_that_do_not_fit_together_are_found(damage: str):
    with graph():
        x = feed([], name="x")
        y = op("Neg", op("Neg", x, name="a"), name="y")
    parts = cut({"a": B}, [y], [x])
    check_partitions(parts)

    if damage == "device":
        by_name(parts[B])["a"].device = A
    elif damage == "missing":
        parts[B].nodes.remove(by_name(parts[B])["a"])
    elif damage == "order":
        by_name(parts[B])["a"].controls.append(the(of_role(parts[B], Role.SEND)))
    else:
        role, device = (Role.RECV, B) if damage == "recv" else (Role.SEND, B)
        node = the(of_role(parts[device], role))
        if damage == "twice":
            parts[device].nodes.append(Node(node.op, inputs=node.inputs, device=device))
        else:
            parts[device].nodes.remove(node)

    with pytest.raises(InternalError):
        check_partitions(parts)
