"""The members of a direct session and their lifetimes: handle, kernels, containers, placements, numbers of steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioexec.devices import registry
from aioexec.devices.device import Device, DeviceAttributes
from aioexec.devices.options import DeviceOptions
from aioexec.devices.registry import DeviceFactory
from aioexec.devices.threads.pools import acquire_pool
from aioexec.errors import FailedPreconditionError, NotFoundError
from aioexec.formats.protos import ConfigProto
from aioexec.observability import device_log
from aioexec.planning.subgraph import Subgraph
from tests.sessions.direct_sessions import direct, new_direct
from tests.tiers import Ops, constant, feed, graph, op, read, resource


class LaggingDevice(Device):
    """A device that accepts work and reports its end later; it records the subgraphs it ran."""

    runs_cpu_kernels = True

    def __init__(self, name: str) -> None:
        attributes = DeviceAttributes(name, "LAGGING", physical_device_desc="a lagging one")
        super().__init__(attributes, acquire_pool("lagging", 1))
        self.has_caught_up = asyncio.Event()
        self.rewritten: list[list[str]] = []

    def rewrite(self, subgraph: Subgraph) -> None:
        self.rewritten.append([node.name for node in subgraph.nodes])

    async def sync(self) -> None:
        await self.has_caught_up.wait()


class LaggingDeviceFactory(DeviceFactory):
    def list_physical_devices(self) -> list[str]:
        return ["/physical_device:LAGGING:0"]

    def create_devices(self, options: DeviceOptions, name_prefix: str) -> list[Device]:
        return [LaggingDevice(f"{name_prefix}/device:LAGGING:0")]


@pytest.fixture
def lagging_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions made in the block have a device that reports late."""
    monkeypatch.setattr(registry, "_factories", dict(registry._factories))
    DeviceFactory.register("LAGGING", LaggingDeviceFactory(), 10)


async def test_every_session_has_a_handle_of_its_own():
    sessions = [new_direct() for _ in range(10)]

    assert len({session.session_handle for session in sessions}) == 10
    assert all(session.session_handle.startswith("direct") for session in sessions)

    for session in sessions:
        await session.close()


async def test_devices_hold_the_kernels_of_a_session_until_it_closes(ops: Ops):
    ops.broken("TestStateful", lambda x: x)
    with graph() as g:
        y = op("TestStateful", constant(1.0), name="y")

    async with direct(graph=g) as session:
        await session.run(None, [], ["y:0"], [])
        segment = session.client_device.op_segment
        kernel = session.bind(y.op, session.client_device.name)
        assert (
            segment.find_or_create(session.session_handle, "y", lambda: pytest.fail("made twice")) is kernel
        )

    with pytest.raises(NotFoundError):
        segment.find_or_create(session.session_handle, "y", lambda: kernel)


async def test_step_numbers_are_unique_over_all_sessions(ops: Ops):
    seen: list[int] = []

    def number(step: Any, x: Any) -> Any:
        seen.append(step.step_id)
        return x

    ops.add("TestNumber(x:T) -> (y:T) [T:type]", number, asynchronous=True)
    with graph() as g:
        op("TestNumber", constant(1.0), name="y")

    async with direct(graph=g) as first, direct(graph=g) as second:
        for session in (first, second, first, second):
            await session.run(None, [], ["y:0"], [])

    assert len(set(seen)) == 4


async def test_state_stays_where_it_was_placed():
    with graph() as g, g.device("/device:CPU:1"):
        v = resource([], name="v")
        op("AssignVariableOp", v, constant(3.0), name="init")
        op("Identity", read(v), name="value")

    async with direct(ConfigProto(device_count={"CPU": 2}), g) as session:
        await session.run(None, [], [], ["init"])
        placed = dict(session.stateful_placements)
        with g.as_default():
            op("Neg", read(v), name="negated")

        assert await session.run(None, [], ["negated:0"], []) == [-3]
        assert placed["v"] == "/job:localhost/replica:0/task:0/device:CPU:1"
        assert session.stateful_placements["v"] == placed["v"]


@pytest.mark.behaviour(61)
async def test_a_session_drops_the_containers_named_or_the_default_one():
    with graph() as g:
        values = {}
        for container in ("", "kept", "dropped"):
            with g.container(container):
                v = op("VarHandleOp", dtype="float32", shape=[], container=container, shared_name="v")
            values[container or "default"] = read(v)
            op("AssignVariableOp", v, constant(1.0), name=f"init_{container}")
    names = {container: value.name for container, value in values.items()}

    async with direct(graph=g) as session:
        await session.run(None, [], [], ["init_", "init_kept", "init_dropped"])
        await session.reset(["dropped"])
        assert await session.run(None, [], [names["default"], names["kept"]], []) == [1, 1]
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            await session.run(None, [], [names["dropped"]], [])

        await session.reset([])
        with pytest.raises(FailedPreconditionError, match="uninitialized"):
            await session.run(None, [], [names["default"]], [])
        assert await session.run(None, [], [names["kept"]], []) == [1]


@pytest.mark.parametrize("environment", ["true", "false"])
async def test_a_step_waits_for_devices_that_lag_behind_unless_told_not_to(
    environment: str, lagging_devices: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TF_SYNC_ON_FINISH", environment)
    with graph() as g:
        op("Neg", feed([], name="x"), name="y")

    async with direct(graph=g) as session:
        lagging = session.device_mgr.lookup_device("/device:LAGGING:0")
        assert isinstance(lagging, LaggingDevice)
        if environment == "true":
            asyncio.get_running_loop().call_soon(lagging.has_caught_up.set)

        assert await session.run(None, [("x:0", 1)], ["y:0"], []) == [-1]
        assert lagging.has_caught_up.is_set() == session.sync_on_finish == (environment == "true")


async def test_a_device_has_the_last_word_on_its_own_subgraph(lagging_devices: None):
    with graph() as g:
        x = feed([], name="x")
        with g.device("/device:LAGGING:0"):
            y = op("Neg", x, name="y")
        op("Abs", y, name="z")

    async with direct(graph=g) as session:
        lagging = session.device_mgr.lookup_device("/device:LAGGING:0")
        assert isinstance(lagging, LaggingDevice)
        lagging.has_caught_up.set()

        assert await session.run(None, [("x:0", 2)], ["z:0"], []) == [2]

    (subgraph,) = lagging.rewritten
    assert "y" in subgraph
    assert "z" not in subgraph


@pytest.mark.parametrize("lags", [True, False])
async def test_the_mapping_of_devices_is_told_to_listeners(lags: bool, request: pytest.FixtureRequest):
    if lags:
        request.getfixturevalue("lagging_devices")
    heard: list[str] = []
    device_log.add_listener(heard.append)

    async with direct(ConfigProto(log_device_placement=True)):
        device_log.remove_listener(heard.append)

    mapping = "/device:LAGGING:0 -> a lagging one" if lags else "no known devices"
    assert [
        message for message in heard if message.startswith("Device mapping") and mapping in message
    ] == heard
    assert len(heard) == 1


@pytest.mark.behaviour(26)
async def test_what_cannot_be_placed_matters_unless_only_what_is_needed_is_placed():
    with graph() as g:
        op("Neg", feed([], name="x"), name="y")
        with g.device("/device:LAGGING:0"):
            op("Neg", constant(1.0), name="nowhere")
    pruned = ConfigProto()
    pruned.graph_options.place_pruned_graph = True

    async with direct(pruned, g) as session:
        assert await session.run(None, [("x:0", 1)], ["y:0"], []) == [-1]
    async with direct(graph=g) as session:
        with pytest.raises(Exception, match="nowhere"):
            await session.run(None, [("x:0", 1)], ["y:0"], [])
