"""The factory of sessions in this process: the sessions it makes and keeps, and how it resets them."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import Any

import pytest

from aioexec.devices.registry import DeviceFactory
from aioexec.errors import CancelledError, InvalidArgumentError, NotFoundError, SessionClosedError
from aioexec.formats.protos import ConfigProto
from aioexec.observability import device_log
from aioexec.sessions import factory
from aioexec.sessions.direct_factory import DirectSessionFactory, register_direct_sessions
from aioexec.sessions.options import SessionOptions
from aioexec.sessions.session import Session
from tests.sessions.direct_sessions import direct, new_direct
from tests.sessions.waiting import Waiting
from tests.tiers import Ops, constant, feed, graph, op, read, resource, session_on


def the_factory() -> DirectSessionFactory:
    found = factory.get_factory(SessionOptions())
    assert isinstance(found, DirectSessionFactory)
    return found


@pytest.mark.behaviour(1, 3)
def test_no_target_means_this_process_and_any_other_belongs_to_another_factory():
    register_direct_sessions()

    assert the_factory().accepts_options(SessionOptions(""))
    with pytest.raises(NotFoundError, match="No session factory registered for the given session options"):
        Session("nowhere://")


@pytest.mark.behaviour(7, 8)
async def test_a_session_owns_the_devices_its_options_count():
    config = ConfigProto(device_count={"CPU": 3})

    async with direct() as session:
        assert [device.name[-5:] for device in session.local_device_manager().list_devices()] == ["CPU:0"]
    async with direct(config) as session:
        names = [attributes.name for attributes in await session.list_devices()]
        assert names == [f"/job:localhost/replica:0/task:0/device:CPU:{k}" for k in range(3)]
        assert session.client_device.name == names[0]
        assert session.session_handle.startswith("direct")


async def test_the_front_lists_devices_under_tensorflows_names():
    with graph() as g:
        constant(1.0)
    async with session_on(g, "off") as session:
        (device,) = await session.list_devices()

    assert device.name == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert (device.device_type, device.memory_limit_bytes) == ("CPU", 256 << 20)
    assert device.incarnation != 0
    assert "CPU:0" in repr(device)


def named(name: str, version: int) -> ConfigProto:
    config = ConfigProto()
    config.experimental.session_metadata.name = name
    config.experimental.session_metadata.version = version
    return config


@pytest.mark.behaviour(9)
async def test_a_name_and_version_belong_to_one_live_session():
    first = new_direct(named("model", 1))
    others = [new_direct(named("model", 2)), new_direct(named("other", 1)), new_direct(), new_direct()]

    with pytest.raises(InvalidArgumentError, match="same name and version has already been created"):
        new_direct(named("model", 1))
    await first.close()
    again = new_direct(named("model", 1))

    for session in (again, *others):
        await session.close()
    with pytest.raises(InvalidArgumentError, match="shouldn't be negative"):
        new_direct(named("model", -1))


async def test_a_session_that_failed_to_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch):
    def no_devices(options: Any, prefix: str) -> Any:
        raise NotFoundError("No CPU devices are available in this process")

    with monkeypatch.context() as patch:
        patch.setattr(DeviceFactory, "add_devices", no_devices)
        with graph() as g:
            a = constant(1.0)
        session = Session(graph=g, config=named("model", 1))
        for _ in range(2):
            with pytest.raises(NotFoundError, match="No CPU devices"):
                await session.run(a)

    assert await session.run(a) == 1
    await session.close()


async def test_the_factory_knows_live_sessions_and_forgets_them_when_they_close():
    known = len(the_factory().sessions())

    first, second = new_direct(), new_direct()
    assert len(the_factory().sessions()) == known + 2
    await first.close()
    assert first not in the_factory().sessions()
    await second.close()

    gc.collect()
    assert len(the_factory().sessions()) <= known


@pytest.mark.behaviour(60)
async def test_reset_aborts_live_sessions_without_waiting_for_their_steps(ops: Ops):
    waiting = Waiting(ops)
    with graph() as g:
        x, v = feed([], name="x"), resource([])
        y = op("TestWaits", x)
        init, value = op("AssignVariableOp", v, x), read(v)
    session, idle = session_on(g, "off"), session_on(g, "eager")
    await idle.run(init, {x: 1})
    running = asyncio.create_task(session.run(y, {x: 1}))
    await waiting.until_entered(1)

    await Session.reset("")

    assert not running.done()
    with pytest.raises(SessionClosedError):
        await running
    for each in (session, idle):
        with pytest.raises(CancelledError, match=r"Session has been closed\."):
            await each.run(value)
        await each.close()
    async with session_on(g, "off") as fresh:
        await fresh.run(init, {x: 2})
        assert await fresh.run(value) == 2


@pytest.mark.behaviour(61)
async def test_reset_of_a_container_leaves_the_others():
    with graph() as g:
        w = resource([], name="w")
        v = op("VarHandleOp", dtype=w.op.attrs["dtype"], shape=(), container="mine")
        value = feed([], name="x")
        init = [op("AssignVariableOp", each, value) for each in (v, w)]

    async with direct(graph=g) as session:
        await session.run(None, [("x", 5.0)], [], [each.name for each in init])
        resources = session.client_device.resources
        before = {container: len(held) for container, held in resources._containers.items()}
        await session.reset(["mine"])
        assert before == {"mine": 1, "localhost": 1}
        assert list(resources._containers) == ["localhost"]
        await session.reset([])
        assert not resources._containers


async def test_reset_reaches_sessions_of_other_loops(ops: Ops):
    with graph() as g:
        a = constant(1.0)
    opened = asyncio.Event()
    here = asyncio.get_running_loop()
    outcome: list[Any] = []

    async def elsewhere() -> None:
        session = session_on(g, "off")
        await session.run(a)
        here.call_soon_threadsafe(opened.set)
        while session._loop is not None:
            await asyncio.sleep(0)
        try:
            await session.run(a)
        except SessionClosedError as error:
            outcome.append(error)
        await session.close()

    thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
    thread.start()
    await opened.wait()
    await Session.reset("")
    await asyncio.to_thread(thread.join)

    assert len(outcome) == 1


async def test_placements_and_devices_are_told_if_asked_for(caplog: pytest.LogCaptureFixture):
    logged: list[str] = []
    with graph() as g:
        a = constant(1.0)
        op("Neg", a, name="negated")
    config = ConfigProto(log_device_placement=True)
    device_log.add_listener(logged.append)
    try:
        async with direct(config, g) as session:
            await session.run(None, [], ["negated:0"], [])
    finally:
        device_log.remove_listener(logged.append)
    with caplog.at_level(logging.INFO):
        async with direct(config, g):
            pass

    assert logged[0].startswith("Device mapping: no known devices.")
    assert "negated: (Neg): /job:localhost/replica:0/task:0/device:CPU:0" in logged
    assert "Device mapping" in caplog.text
