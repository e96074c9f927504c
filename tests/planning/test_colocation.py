"""Colocation: groups, reference edges and resource edges are placed as one, or refused together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec.devices.device_set import LOCALHOST, DeviceSet
from aioexec.errors import InvalidArgumentError
from aioexec.graph.device_spec import DeviceName
from aioexec.graph.graph import Graph
from aioexec.planning.colocation import Incompatible, merge_constraints
from tests.devices.table import device_table as device_table
from tests.planning.placed import device_set, fake_ops as fake_ops, placed
from tests.tiers import graph as new_graph, op


@pytest.fixture
def graph() -> Iterator[Graph]:
    with new_graph() as made:
        yield made


@pytest.fixture
def devices() -> DeviceSet:
    return device_set("CPU:0", "CPU:1", "GPU:0", "GPU:1")


def source() -> Any:
    return op("FakeInput", name="in")[0]


def colocate(tensor: Any, *groups: str) -> None:
    tensor.op.set_attr("_class", tuple(f"loc:@{group}" for group in groups))


def on(device: str, graph: Graph, *args: Any, **options: Any) -> Any:
    with graph.device(device):
        return op(*args, **options)


# Reference and resource edges

_TYPES = [
    ("", "", "GPU:0"),
    ("", "CPU", "CPU:0"),
    ("", "GPU", "GPU:0"),
    ("CPU", "", "CPU:0"),
    ("CPU", "CPU", "CPU:0"),
    ("CPU", "GPU", None),
    ("GPU", "", "GPU:0"),
    ("GPU", "CPU", None),
    ("GPU", "GPU", "GPU:0"),
]


@pytest.mark.parametrize(
    ("holder", "user"),
    [
        pytest.param("FakeVariable", "FakeAssign", marks=pytest.mark.behaviour(110)),
        pytest.param("FakeHandle", "FakeUpdate", marks=pytest.mark.behaviour(111)),
    ],
)
@pytest.mark.parametrize(("first", "second", "expected"), _TYPES)
def test_state_and_who_changes_it_are_together_where_both_can_run(
    graph: Graph, devices: DeviceSet, holder: str, user: str, first: str, second: str, expected: str | None
):
    op(f"{user}{second}", op(f"{holder}{first}", name="state"), source(), name="user")

    if expected is None:
        with pytest.raises(
            InvalidArgumentError,
            match="Cannot colocate nodes 'user' and 'state' because no device type supports both of those nodes",
        ):
            placed(graph, devices)
    else:
        found = placed(graph, devices)
        assert (found["state"], found["user"]) == (expected, expected)


@pytest.mark.behaviour(110)
def test_who_reads_a_reference_as_a_value_may_be_elsewhere(graph: Graph, devices: DeviceSet):
    op("FakeReluGPU", op("FakeVariableCPU", name="v"), name="relu")

    assert placed(graph, devices) == {"v": "CPU:0", "relu": "GPU:0"}


@pytest.mark.behaviour(110, 111)
@pytest.mark.parametrize(
    ("state", "user", "expected"),
    [
        ("/cpu:1", "/gpu:0", "CPU:1"),  # contradicts: the state decides
        ("/gpu:*", "/gpu:1", "GPU:1"),  # more exact
        ("/gpu:1", "/gpu:*", "GPU:1"),
        ("", "/cpu:1", "CPU:1"),
        ("/cpu:1", "", "CPU:1"),
        ("/job:localhost", "/gpu:1", "GPU:1"),  # one adds to the other
        ("/job:localhost", "/gpu:7", "GPU:0"),  # cannot be had
    ],
)
@pytest.mark.parametrize(
    ("holder", "changer"), [("FakeVariable", "FakeAssign"), ("FakeHandle", "FakeUpdate")]
)
def test_what_a_user_of_state_asks_for_counts_only_where_the_state_can_be(
    graph: Graph, devices: DeviceSet, holder: str, changer: str, state: str, user: str, expected: str
):
    variable = on(state, graph, holder, name="state")
    on(user, graph, changer, variable, source(), name="user")

    found = placed(graph, devices)

    assert (found["state"], found["user"]) == (expected, expected)


@pytest.mark.behaviour(109, 110)
def test_state_that_is_assigned_draws_its_users_and_is_not_drawn(graph: Graph, devices: DeviceSet):
    variable = on("/gpu:0", graph, "FakeVariable", name="v")
    first = on("/gpu:1", graph, "FakeAssign", variable, source(), name="first")
    on("/cpu:0", graph, "FakeAssign", first, source(), name="second")

    by_source = placed(graph, devices, assigned={"v": f"{LOCALHOST}/device:CPU:1"})
    by_user = placed(graph, devices, assigned={"second": f"{LOCALHOST}/device:CPU:1"})

    for found in (by_source, by_user):
        assert (found["v"], found["first"], found["second"]) == ("CPU:1", "CPU:1", "CPU:1")


@pytest.mark.behaviour(110)
def test_ends_of_a_reference_edge_that_are_assigned_apart_are_refused(graph: Graph, devices: DeviceSet):
    op("FakeAssign", op("FakeVariable", name="v"), source(), name="assign")
    apart = {"v": f"{LOCALHOST}/device:CPU:0", "assign": f"{LOCALHOST}/device:CPU:1"}

    with pytest.raises(
        InvalidArgumentError,
        match=r"connected by a reference connection.*'v' on '.*CPU:0' and 'assign' on '.*CPU:1'",
    ):
        placed(graph, devices, assigned=apart)


# Colocation groups


@pytest.mark.behaviour(112)
def test_the_members_of_a_group_share_a_device(graph: Graph, devices: DeviceSet):
    a = op("FakeRelu", source(), name="a")
    b, c = op("FakeReluCPU", a, name="b"), op("FakeRelu", a, name="c")
    colocate(b, "a")
    colocate(c, "a")

    found = placed(graph, devices)

    assert (found["a"], found["b"], found["c"]) == ("CPU:0", "CPU:0", "CPU:0")


@pytest.mark.behaviour(112)
def test_groups_are_joined_through_chains_and_members_of_several(graph: Graph, devices: DeviceSet):
    x = source()
    chain = [op("FakeRelu", x, name=f"n{i}") for i in range(6)]
    colocate(chain[1], "n0")
    colocate(chain[2], "n1")
    colocate(chain[4], "n3")
    colocate(chain[5], "n2", "n4")
    chain[3].op.set_device("/device:CPU:1")

    found = placed(graph, devices)

    assert {found[f"n{i}"] for i in range(6)} == {"CPU:1"}


@pytest.mark.behaviour(112)
def test_a_group_may_have_the_name_of_no_node_and_other_classes_join_nothing(
    graph: Graph, devices: DeviceSet
):
    x = source()
    a, b = op("FakeRelu", x, name="a"), op("FakeReluCPU", x, name="b")
    colocate(a, "gone")
    colocate(b, "gone")
    for name, kind in (("c", "FakeRelu"), ("d", "FakeReluCPU")):
        op(kind, x, name=name).op.set_attr("_class", ("trainable",))

    found = placed(graph, devices)

    assert (found["a"], found["b"], found["c"], found["d"]) == ("CPU:0", "CPU:0", "GPU:0", "CPU:0")


@pytest.mark.behaviour(112)
def test_a_group_that_no_device_type_serves_is_refused(graph: Graph, devices: DeviceSet):
    x = source()
    for i, kind in enumerate(["FakeRelu", "FakeReluCPU", "FakeReluGPU"]):
        colocate(op(kind, x, name=f"n{i}"), "n0")

    with pytest.raises(
        InvalidArgumentError,
        match="Cannot colocate nodes 'n2' and 'n0' because no device type supports both of those nodes and the other "
        "nodes colocated with them",
    ) as error:
        placed(graph, devices)

    for line in ("FakeRelu: GPU CPU", "FakeReluCPU: CPU", "FakeReluGPU: GPU", "n1 (FakeReluCPU)"):
        assert f"\n  {line}" in error.value.message


@pytest.mark.behaviour(112)
@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ("/job:a", "/job:b", "jobs: '/job:b' and '/job:a'"),
        ("/replica:0", "/replica:1", "replicas: '/replica:1' and '/replica:0'"),
        ("/task:0", "/task:1", "tasks: '/task:1' and '/task:0'"),
        ("/cpu:0", "/gpu:0", "types: '/device:GPU:0' and '/device:CPU:0'"),
        ("/gpu:0", "/gpu:1", "ids: '/device:GPU:1' and '/device:GPU:0'"),
    ],
)
def test_members_that_ask_for_different_devices_are_refused(
    graph: Graph, devices: DeviceSet, first: str, second: str, why: str
):
    a = on(first, graph, "FakeRelu", source(), name="a")
    colocate(on(second, graph, "FakeRelu", a, name="b"), "a")

    with pytest.raises(
        InvalidArgumentError,
        match=f"Cannot colocate nodes 'b' and 'a': Cannot merge devices with incompatible {why}",
    ):
        placed(graph, devices)


@pytest.mark.behaviour(112)
def test_members_assigned_apart_are_refused(graph: Graph, devices: DeviceSet):
    a = op("FakeRelu", source(), name="a")
    colocate(op("FakeRelu", a, name="b"), "a")
    apart = {"a": f"{LOCALHOST}/device:GPU:0", "b": f"{LOCALHOST}/device:GPU:1"}

    for soft in (False, True):
        with pytest.raises(InvalidArgumentError, match="Cannot colocate nodes 'b' and 'a'"):
            placed(graph, devices, assigned=apart, allow_soft_placement=soft)


@pytest.mark.behaviour(112, 120)
def test_a_member_whose_group_asks_for_what_it_cannot_have_says_so(graph: Graph, devices: DeviceSet):
    a = op("FakeReluCPU", source(), name="a")
    b = on("/gpu:0", graph, "FakeRelu", a, name="b")
    colocate(b, "a")

    with pytest.raises(
        InvalidArgumentError,
        match=r"operation 'a'.*because the node was colocated with a group of nodes that required incompatible device "
        "'/device:GPU:0'",
    ):
        placed(graph, devices)


def test_a_large_group_is_described_in_part(graph: Graph, devices: DeviceSet):
    x = source()
    for i in range(30):
        colocate(op("FakeRelu", x, name=f"n{i}"), "n0")
    colocate(on("/gpu:9", graph, "FakeRelu", x, name="last"), "n0")

    with pytest.raises(InvalidArgumentError, match="operation 'n0'") as error:
        placed(graph, devices)

    assert error.value.message.endswith("  n19 (FakeRelu)\n  and 11 more")


# Soft placement


@pytest.mark.behaviour(119)
def test_soft_placement_gives_up_a_type_or_index_but_not_colocation(graph: Graph, devices: DeviceSet):
    x = source()
    for name, first, second in (("types", "/cpu:1", "/gpu:1"), ("ids", "/cpu:0", "/cpu:1")):
        on(first, graph, "FakeRelu", x, name=f"{name}/a")
        colocate(on(second, graph, "FakeRelu", x, name=f"{name}/b"), f"{name}/a")

    found = placed(graph, devices, allow_soft_placement=True)

    assert (found["types/a"], found["types/b"]) == ("GPU:0", "GPU:0")
    assert (found["ids/a"], found["ids/b"]) == ("CPU:0", "CPU:0")


@pytest.mark.behaviour(119)
@pytest.mark.parametrize("edge", ["group", "reference", "resource"])
def test_soft_placement_moves_what_belongs_together_as_one(graph: Graph, devices: DeviceSet, edge: str):
    if edge == "group":
        a = on("/gpu:0", graph, "FakeRelu", source(), name="a")
        colocate(op("FakeReluCPU", a, name="b"), "a")
    elif edge == "reference":
        op("FakeAssignCPU", on("/gpu:0", graph, "FakeVariable", name="a"), source(), name="b")
    else:
        op("FakeUpdateCPU", on("/gpu:0", graph, "FakeHandle", name="a"), source(), name="b")

    found = placed(graph, devices, allow_soft_placement=True)

    assert (found["a"], found["b"]) == ("CPU:0", "CPU:0")
    with pytest.raises(InvalidArgumentError, match="Cannot assign a device for operation 'a'"):
        placed(graph, devices)


@pytest.mark.behaviour(119)
def test_soft_placement_separates_nothing_that_no_device_serves_together(graph: Graph, devices: DeviceSet):
    op("FakeAssignGPU", op("FakeVariableCPU", name="v"), source(), name="assign")

    with pytest.raises(InvalidArgumentError, match="Cannot colocate nodes 'assign' and 'v'"):
        placed(graph, devices, allow_soft_placement=True)


@pytest.mark.behaviour(119)
def test_soft_placement_keeps_jobs_apart(graph: Graph, devices: DeviceSet):
    a = on("/job:localhost", graph, "FakeRelu", source(), name="a")
    colocate(on("/job:b", graph, "FakeRelu", a, name="b"), "a")

    with pytest.raises(InvalidArgumentError, match="incompatible jobs"):
        placed(graph, devices, allow_soft_placement=True)


# Names taken together

_names = st.builds(
    DeviceName,
    *(
        st.sampled_from([None, value, other])
        for value, other in (("a", "b"), (0, 1), (0, 1), ("CPU", "GPU"), (0, 1))
    ),
)


@given(_names, _names)
def test_names_taken_together_ask_for_what_both_ask_for(name: DeviceName, other: DeviceName):
    if name.is_compatible(other):
        both = merge_constraints(name, other, soft=False)
        assert both == merge_constraints(other, name, soft=False) == merge_constraints(name, other, soft=True)
        assert name.matches(both)
        assert other.matches(both)
    else:
        with pytest.raises(Incompatible):
            merge_constraints(name, other, soft=False)


@given(_names, _names)
def test_softly_taken_together_names_keep_their_process(name: DeviceName, other: DeviceName):
    if not name.without_device().is_compatible(other.without_device()):
        with pytest.raises(Incompatible):
            merge_constraints(name, other, soft=True)
        return

    both = merge_constraints(name, other, soft=True)

    assert both.without_device() == merge_constraints(
        name.without_device(), other.without_device(), soft=False
    )
    assert name.matches(both) or both.device_index is None


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=12))
def test_only_connected_operations_must_share_a_device(pairs: list[tuple[int, int]]):
    with new_graph() as made:
        nodes = [op("FakeRelu", source(), name=f"n{i}") for i in range(12)]
    for first, second in pairs:
        groups = nodes[first].op.attrs.get("_class", ())
        nodes[first].op.set_attr("_class", (*groups, f"loc:@n{second}"))
    moved = {0}
    while True:  # by hand: everything that is connected with node 0
        more = moved | {b for a, b in pairs if a in moved} | {a for a, b in pairs if b in moved}
        if more == moved:
            break
        moved = more
    nodes[0].op.set_device("/device:CPU:1")

    found = placed(made, device_set("CPU:0", "CPU:1", "GPU:0"))

    assert {i for i in range(12) if found[f"n{i}"] == "CPU:1"} == moved
