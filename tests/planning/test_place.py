"""Placing: the device each operation gets by request, kernels and neighbours; errors say what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from aioexec.devices.device_set import LOCALHOST, DeviceSet
from aioexec.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from aioexec.graph.device_spec import parse
from aioexec.graph.graph import Graph
from aioexec.graph.kernels.kernel import plain
from aioexec.graph.kernels.kernel_registry import register_kernel, supported_device_types
from aioexec.planning.place import place, stateful_placements
from tests.devices.table import device_table as device_table
from tests.planning.placed import device_set, fake_ops as fake_ops, place_subgraph, placed
from tests.planning.planned import by_name, pruned
from tests.tiers import Ops, constant, graph as new_graph, op


@pytest.fixture
def graph() -> Iterator[Graph]:
    with new_graph() as made:
        yield made


@pytest.fixture
def devices() -> DeviceSet:
    """The client's CPU, a second one, and three GPUs, not in order."""
    return device_set("CPU:0", "CPU:1", "GPU:10", "GPU:2", "GPU:1")


# Without a request


@pytest.mark.behaviour(104)
def test_a_node_goes_to_the_lowest_device_of_the_preferred_type(graph: Graph, devices: DeviceSet):
    op("FakeRelu", op("FakeInput", name="in")[0], name="relu")

    assert placed(graph, devices) == {"in": "GPU:1", "relu": "GPU:1"}
    assert placed(graph, device_set("CPU:1", "CPU:0", "GPU:10", "GPU:2"))["relu"] == "GPU:2"
    assert placed(graph, device_set("CPU:1", "CPU:0"))["relu"] == "CPU:0"


@pytest.mark.behaviour(104)
def test_a_kernel_of_higher_priority_makes_its_device_type_preferred(graph: Graph, devices: DeviceSet):
    op("FakeReluCPU", constant(1.0), name="relu")
    op("FakeRelu", constant(1.0), name="both")
    register_kernel("FakeReluCPU", "GPU", plain(lambda x: x), priority=-1)
    register_kernel("FakeRelu", "CPU", plain(lambda x: x), priority=1)

    found = placed(graph, devices)

    assert (found["relu"], found["both"]) == ("CPU:0", "CPU:0")


def test_devices_of_the_clients_process_come_before_lower_names(graph: Graph):
    op("FakeInput", name="in")
    other = "/job:a/replica:0/task:0/device:CPU:0"

    assert placed(graph, device_set("CPU:3", other)) == {"in": "CPU:3"}
    assert placed(graph, device_set(other, "CPU:3")) == {"in": other}
    others = [
        f"/job:{job}/replica:0/task:0/device:GPU:{index}" for job, index in (("c", 0), ("b", 2), ("b", 1))
    ]
    assert placed(graph, device_set("CPU:3", *others)) == {"in": others[2]}


@pytest.mark.behaviour(105)
def test_a_node_goes_where_it_has_a_kernel(graph: Graph, devices: DeviceSet):
    source = op("FakeInput")[0]
    op("FakeReluCPU", source, name="cpu")
    op("FakeReluGPU", source, name="gpu")

    found = placed(graph, devices)

    assert (found["cpu"], found["gpu"]) == ("CPU:0", "GPU:1")


@pytest.mark.behaviour(106)
def test_an_op_that_looks_at_shapes_stays_with_its_input(graph: Graph, devices: DeviceSet):
    register_kernel("Shape", "GPU", plain(lambda x: x))
    on_cpu, on_gpu = op("FakeVariableCPU"), op("FakeVariableGPU")
    op("Shape", on_cpu, name="shape_cpu")
    op("Shape", on_gpu, name="shape_gpu")
    op("Size", on_gpu, name="size")  # has no kernel there

    found = placed(graph, devices)

    assert (found["shape_cpu"], found["shape_gpu"], found["size"]) == ("CPU:0", "GPU:1", "CPU:0")


@pytest.mark.behaviour(107)
def test_a_source_follows_its_consumer(graph: Graph, devices: DeviceSet):
    source = op("FakeSource", name="source")
    op("FakeReluCPU", source, name="relu")

    assert placed(graph, devices)["source"] == "CPU:0"


@pytest.mark.behaviour(107)
def test_a_source_follows_all_its_consumers_only_if_they_agree(graph: Graph, devices: DeviceSet):
    agreed, disputed = op("FakeSource", name="agreed"), op("FakeSource", name="disputed")
    for consumer in ("FakeReluCPU", "FakeReluCPU"):
        op(consumer, agreed)
    for consumer in ("FakeReluCPU", "FakeReluGPU"):
        op(consumer, disputed)

    found = placed(graph, devices)

    assert (found["agreed"], found["disputed"]) == ("CPU:0", "GPU:1")


@pytest.mark.behaviour(107)
def test_a_source_does_not_follow_where_it_cannot_run_or_was_not_asked_to_be(
    graph: Graph, devices: DeviceSet
):
    without_kernel = op("FakeSourceGPU", name="without_kernel")
    with graph.device("/gpu:*"):
        elsewhere = op("FakeSource", name="elsewhere")
    for source in (without_kernel, elsewhere):
        op("FakeReluCPU", source)

    found = placed(graph, devices)

    assert (found["without_kernel"], found["elsewhere"]) == ("GPU:1", "GPU:1")


def test_a_source_stays_in_main_memory_if_its_consumers_want_it_there(
    graph: Graph, devices: DeviceSet, ops: Ops
):
    ops.add("FakeReshape(x:float, shape:float) -> (y:float)", lambda x, shape: x, kernel=None)
    register_kernel("FakeReshape", "GPU", plain(lambda x, shape: x), host_memory=["shape"])
    op("FakeReshape", op("FakeSource", name="x"), op("FakeSource", name="shape"), name="reshape")

    found = placed(graph, devices)

    assert found == {"x": "GPU:1", "shape": "CPU:0", "reshape": "GPU:1"}


def test_a_source_that_one_consumer_wants_in_main_memory_follows_the_others(
    graph: Graph, devices: DeviceSet, ops: Ops
):
    ops.add("FakeReshape(x:float, shape:float) -> (y:float)", lambda x, shape: x, kernel=None)
    register_kernel("FakeReshape", "GPU", plain(lambda x, shape: x), host_memory=["shape"])
    shape = op("FakeSource", name="shape")
    op("FakeReshape", op("FakeSource"), shape)
    op("FakeReluGPU", shape)

    assert placed(graph, devices)["shape"] == "GPU:1"


# By request


@pytest.mark.behaviour(108)
@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("/device:gpu:*", "GPU:1"),
        ("/gpu:2", "GPU:2"),
        ("/cpu:1", "CPU:1"),
        ("/job:localhost", "GPU:1"),
        ("/task:0/cpu", "CPU:0"),
        ("/job:a", "/job:a/replica:0/task:0/device:GPU:0"),
        ("/job:a/cpu:*", "/job:a/replica:0/task:0/device:CPU:4"),
    ],
)
def test_a_partial_name_is_completed(graph: Graph, devices: DeviceSet, asked: str, given: str):
    for device in device_set("CPU:4", "GPU:0", process="/job:a/replica:0/task:0").devices:
        devices.add_device(device)
    with graph.device(asked):
        op("FakeInput", name="in")

    assert placed(graph, devices) == {"in": given}


@pytest.mark.behaviour(114)
@pytest.mark.parametrize(
    "unknown", ["/job:foo", "/job:localhost/replica:0/task:7", "/replica:5/device:CPU:0"]
)
@pytest.mark.parametrize("soft", [False, True])
def test_an_unknown_job_or_task_is_refused_by_name(
    graph: Graph, devices: DeviceSet, unknown: str, soft: bool
):
    with graph.device(unknown):
        op("FakeInput", name="in")

    with pytest.raises(InvalidArgumentError, match=f"'in'.*explicitly assigned to {unknown}"):
        placed(graph, devices, allow_soft_placement=soft)


@pytest.mark.behaviour(116)
@pytest.mark.parametrize("malformed", ["/foo:bar", "/job:", "/device:CPU:x", "/cpu:0/gpu:0"])
def test_a_malformed_request_is_refused(graph: Graph, devices: DeviceSet, malformed: str):
    op("FakeInput", name="in")[0].op.set_device(malformed)

    for there in (devices, device_set("CPU:0")):
        with pytest.raises(InvalidArgumentError, match=f"'in'.*Malformed device specification '{malformed}'"):
            placed(graph, there)


@pytest.mark.behaviour(118)
def test_a_device_that_is_not_there_is_replaced_under_soft_placement_alone(graph: Graph, devices: DeviceSet):
    with graph.device("/device:GPU:11"):
        op("FakeInput", name="in")

    assert placed(graph, device_set("CPU:0"), allow_soft_placement=True) == {"in": "CPU:0"}
    assert placed(graph, devices, allow_soft_placement=True) == {"in": "GPU:1"}
    op("FakeInput", name="free")
    for there in (devices, device_set("CPU:0")):
        with pytest.raises(InvalidArgumentError, match="/device:GPU:11"):
            placed(graph, there)


@pytest.mark.behaviour(118)
def test_a_device_without_a_kernel_is_replaced_under_soft_placement_alone(graph: Graph, devices: DeviceSet):
    with graph.device("/device:GPU:2"):
        op("FakeInputCPU", name="in")

    assert placed(graph, devices, allow_soft_placement=True) == {"in": "CPU:0"}
    with pytest.raises(
        InvalidArgumentError,
        match=r"Cannot assign a device for operation 'in'.*Could not satisfy explicit device specification "
        "'/device:GPU:2' because no supported kernel for GPU devices is available",
    ):
        placed(graph, devices)


@pytest.mark.behaviour(120)
def test_a_process_without_a_fitting_device_is_refused(graph: Graph):
    with graph.device("/job:a"):
        op("FakeInputCPU", name="in")

    with pytest.raises(
        InvalidArgumentError, match="'/job:a' because no supported kernel for its devices is available"
    ):
        placed(graph, device_set("CPU:0", "/job:a/replica:0/task:0/device:GPU:0"))


@pytest.mark.behaviour(120)
def test_a_refusal_says_which_op_which_request_and_which_devices_and_kernels_there_are(graph: Graph):
    devices = device_set("CPU:0", "GPU:0")
    with graph.device("/gpu:0"):
        tensor = op("FakeInputCPU", name="in")[0]

    with pytest.raises(InvalidArgumentError) as error:
        placed(graph, devices)

    assert error.value.op is tensor.op
    for part in (
        "'in' (FakeInputCPU, created at",
        "test_place.py",
        "'/device:GPU:0'",
        f"All available devices [{LOCALHOST}/device:CPU:0, {LOCALHOST}/device:GPU:0]",
        "Registered kernels:\n  device='CPU'\n",
        "in (FakeInputCPU) /device:GPU:0",
    ):
        assert part in error.value.message


# Assigned already


@pytest.mark.behaviour(109)
def test_an_assigned_device_is_kept_whatever_is_requested(graph: Graph, devices: DeviceSet):
    with graph.device("/cpu:1"):
        op("FakeInput", name="in")
    op("FakeInput", name="free")

    found = placed(graph, devices, assigned={"in": f"{LOCALHOST}/device:GPU:10"})

    assert found == {"in": "GPU:10", "free": "GPU:1"}


@pytest.mark.behaviour(109)
def test_an_assigned_device_without_a_kernel_is_an_internal_error(graph: Graph, devices: DeviceSet):
    op("FakeInputCPU", name="in")

    with pytest.raises(InternalError, match="does not have registered OpKernel support for FakeInputCPU"):
        placed(graph, devices, assigned={"in": f"{LOCALHOST}/device:GPU:1"})


@pytest.mark.behaviour(114)
@pytest.mark.parametrize("there", [("CPU:0",), ("CPU:0", "GPU:0")])
def test_an_assigned_device_that_is_not_there_is_an_internal_error(graph: Graph, there: tuple[str, ...]):
    op("FakeInput", name="in")

    with pytest.raises(
        InternalError, match=r"'/job:foo/replica:0/task:0/device:CPU:0'.*does not match any device"
    ):
        placed(graph, device_set(*there), assigned={"in": "/job:foo/replica:0/task:0/device:CPU:0"})


@pytest.mark.behaviour(117)
@pytest.mark.parametrize("several", ["/job:localhost", "/device:CPU:0", "/device:CPU:*"])
def test_an_assigned_name_that_is_not_complete_is_an_internal_error(
    graph: Graph, devices: DeviceSet, several: str
):
    op("FakeInput", name="in")

    with pytest.raises(InternalError, match=re.escape(f"{several!r} of 'in' does not match any device")):
        placed(graph, devices, assigned={"in": several})


@pytest.mark.behaviour(116)
def test_a_malformed_assigned_name_is_an_internal_error(graph: Graph, devices: DeviceSet):
    op("FakeInput", name="in")

    with pytest.raises(InternalError, match="Malformed assigned device '/foo:bar' of 'in'"):
        placed(graph, devices, assigned={"in": "/foo:bar"})


def test_state_is_what_may_not_move(graph: Graph, devices: DeviceSet):
    op("FakeRelu", op("FakeVariable", name="v"), name="relu")
    placement = place(graph.get_operations(), devices)

    kept = stateful_placements(graph.get_operations(), placement)

    assert kept == {"v": f"{LOCALHOST}/device:GPU:1"}
    moved = DeviceSet([*device_set("GPU:0").devices, *devices.devices])
    assert placed(graph, moved, assigned=kept) == {"v": "GPU:1", "relu": "GPU:0"}


# No device, no kernel


@pytest.mark.behaviour(113)
def test_without_a_device_nothing_is_placed(graph: Graph):
    op("FakeInput", name="in")

    with pytest.raises(FailedPreconditionError, match="No devices are registered"):
        placed(graph, DeviceSet())


@pytest.mark.behaviour(115)
@pytest.mark.parametrize("there", [("CPU:0",), ("CPU:0", "CPU:1")])
def test_an_op_without_any_kernel_is_refused(graph: Graph, ops: Ops, there: tuple[str, ...]):
    ops.add("FakeBare() -> (x:float)", lambda: 1, kernel=None)
    op("FakeBare", name="in")

    with pytest.raises(
        InvalidArgumentError, match="No OpKernel was registered to support Op 'FakeBare'"
    ) as error:
        placed(graph, device_set(*there))

    assert "<no registered kernels>" in error.value.message


@pytest.mark.behaviour(115)
def test_a_kernel_for_a_device_type_that_is_not_there_is_listed(graph: Graph):
    op("FakeInputGPU", name="in")

    with pytest.raises(InvalidArgumentError, match="No OpKernel was registered to support Op") as error:
        placed(graph, device_set("CPU:0"))

    assert "device='GPU'" in error.value.message


def test_a_label_that_is_not_registered_is_refused_also_where_there_is_one_device(graph: Graph):
    op("FakeInput", name="in")[0].op.set_attr("_kernel", "special")

    with pytest.raises(InvalidArgumentError, match="No OpKernel was registered to support Op 'FakeInput'"):
        placed(graph, device_set("CPU:0"))


# A whole graph, or what a signature needs


@pytest.mark.behaviour(26)
def test_what_a_signature_does_not_need_matters_to_a_whole_graph_only(graph: Graph, devices: DeviceSet):
    wanted = op("FakeRelu", op("FakeInput", name="in")[0], name="relu")
    with graph.device("/job:foo"):
        op("FakeRelu", wanted, name="elsewhere")

    subgraph = pruned([wanted])
    place_subgraph(subgraph, devices)

    assert {node.device for node in subgraph.nodes} == {f"{LOCALHOST}/device:GPU:1"}
    with pytest.raises(InvalidArgumentError, match="'elsewhere'"):
        placed(graph, devices)


@pytest.mark.behaviour(27)
def test_feeds_are_the_clients_even_if_another_type_is_preferred(graph: Graph, devices: DeviceSet):
    x = op("FakeSource", name="x")
    y = op("FakeRelu", x, name="y")

    subgraph = pruned([y], [x])
    place_subgraph(subgraph, devices)

    found = {name: node.device for name, node in by_name(subgraph).items()}
    assert found == {"x": f"{LOCALHOST}/device:CPU:0", "y": f"{LOCALHOST}/device:GPU:1"}


def test_what_stands_behind_a_feed_holds_nothing_together(graph: Graph, devices: DeviceSet):
    with graph.device("/gpu:1"):
        handle, source = op("FakeHandle", name="h"), op("FakeInput", name="in")[0]
    updated = op("FakeUpdateCPU", handle, source, name="update")

    with pytest.raises(InvalidArgumentError, match="because no supported kernel"):
        placed(graph, devices)
    subgraph = pruned([], [handle], [updated, handle.op])
    place_subgraph(subgraph, devices)

    by_kind = {(node.name, node.feed is not None): node.device for node in subgraph.nodes}
    assert by_kind["h", False] == f"{LOCALHOST}/device:GPU:1"
    assert by_kind["update", False] == by_kind["h", True] == f"{LOCALHOST}/device:CPU:0"


@pytest.mark.parametrize("there", [("CPU:0",), ("CPU:0", "GPU:0")])
def test_every_decision_is_told(graph: Graph, there: tuple[str, ...]):
    op("FakeReluCPU", op("FakeSource", name="x"), name="y")
    logged = []

    placed(graph, device_set(*there), log=lambda *decision: logged.append(decision))

    device = f"{LOCALHOST}/device:CPU:0"
    assert logged == [("x", "FakeSource", device), ("y", "FakeReluCPU", device)]


# In general

_KINDS = [f"{name}{suffix}" for name in ("Relu", "Add") for suffix in ("", "CPU", "GPU")]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes in a row, each with inputs among earlier ones; some request a device."""
    with new_graph() as made:
        tensors = [op("FakeSource"), op("FakeInput")[0]]
        for kind in draw(st.lists(st.sampled_from(_KINDS), max_size=12)):
            inputs = [draw(st.sampled_from(tensors)) for _ in range(2 if kind.startswith("Add") else 1)]
            with made.device(draw(st.sampled_from(["", "", "/cpu:1", "/gpu:*", "/gpu:1"]))):
                tensors.append(op(f"Fake{kind}", *inputs))
    return made


@pytest.mark.slow
@given(graphs(), st.booleans())
@settings(max_examples=100)
def test_every_node_gets_a_device_that_can_run_it_and_that_it_asked_for(made: Graph, soft: bool):
    devices = device_set("CPU:0", "CPU:1", "GPU:0", "GPU:1")
    full = {device.name: device for device in devices.devices}
    unfit = [
        each
        for each in made.get_operations()
        if (each.type.endswith("CPU") and "GPU" in each.device)
        or (each.type.endswith("GPU") and "CPU" in each.device)
    ]
    if unfit and not soft:
        with pytest.raises(InvalidArgumentError, match=f"'{unfit[0].name}'"):
            place(made.get_operations(), devices)
        return

    found = place(made.get_operations(), devices, allow_soft_placement=soft)

    for each in made.get_operations():
        device = full[found[each.name]]
        assert device.device_type in supported_device_types(each, {"CPU": True, "GPU": False})
        if each not in unfit:
            assert parse(each.device).matches(parse(device.name))
