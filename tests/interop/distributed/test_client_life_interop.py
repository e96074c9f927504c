"""The lifecycle of our sessions on servers of both kinds: extension, timeouts, cancellation, reset, several of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import aioexec as ax
from aioexec import errors
from aioexec.distributed.client.grpc_factory import address_of
from aioexec.distributed.client.master_client import MasterClient
from aioexec.distributed.transport.channels import channel_to
from aioexec.formats.protos import (
    CloseSessionRequest,
    CreateSessionRequest,
    ExtendSessionRequest,
    GraphDef,
    ListDevicesRequest,
    RunStepRequest,
)

pytestmark = pytest.mark.interop


@asynccontextmanager
async def master_at(target: str) -> AsyncIterator[MasterClient]:
    """The master of a server, to be asked without a session."""
    channel = channel_to(address_of(target))
    try:
        yield MasterClient(channel)
    finally:
        await channel.close()


def constants(*names: str) -> GraphDef:
    with ax.Graph().as_default() as graph:
        for name in names:
            ax.constant(1.0, name=name)
    return graph.as_graph_def()


async def created(master: MasterClient, graph_def: GraphDef | None = None) -> str:
    reply = await master.call_when_ready("CreateSession", CreateSessionRequest(graph_def=graph_def))
    return reply.session_handle


def extension(handle: str, name: str, version: int) -> ExtendSessionRequest:
    return ExtendSessionRequest(
        session_handle=handle, graph_def=constants(name), current_graph_version=version
    )


def fetch(handle: str, name: str) -> RunStepRequest:
    return RunStepRequest(session_handle=handle, fetch=[name], store_errors_in_response_body=True)


# Guarantees of masters


@pytest.mark.behaviour(151)
async def test_of_many_extensions_of_one_version_one_succeeds(target):
    async with master_at(target) as master:
        handle = await created(master, constants("a"))

        async def extend(number: int) -> str:
            try:
                reply = await master.call("ExtendSession", extension(handle, f"n{number}", 0))
            except errors.AbortedError as error:
                return error.message
            return f"version {reply.message.new_graph_version}"

        said = await asyncio.gather(*map(extend, range(100)))
        await master.call("CloseSession", CloseSessionRequest(session_handle=handle))

    assert said.count("version 1") == 1
    assert sum("Current version is 1 but caller expected 0" in each for each in said) == 99


@pytest.mark.behaviour(151)
async def test_a_handle_that_is_not_known_is_aborted(target):
    async with master_at(target) as master:
        for name, message, kind in (
            ("RunStep", RunStepRequest(session_handle="unknown", fetch=["a:0"]), errors.AbortedError),
            ("ExtendSession", extension("unknown", "a", 0), errors.AbortedError),
            ("CloseSession", CloseSessionRequest(session_handle="unknown"), errors.AbortedError),
            ("ListDevices", ListDevicesRequest(session_handle="unknown"), errors.InvalidArgumentError),
        ):
            with pytest.raises(kind, match="Session unknown is not found"):
                await master.call(name, message)


@pytest.mark.behaviour(150)
async def test_a_failed_extension_leaves_the_graph_as_it_was(target):
    async with master_at(target) as master:
        handle = await created(master, constants("a"))
        with pytest.raises(errors.InvalidArgumentError, match="which was created by a previous call"):
            await master.call("ExtendSession", extension(handle, "a", 0))
        twice = constants("b", "c")
        twice.node[1].name = "b"
        with pytest.raises(errors.InvalidArgumentError):
            await master.call("ExtendSession", ExtendSessionRequest(session_handle=handle, graph_def=twice))
        lacks = await master.call("RunStep", fetch(handle, "b:0"))
        reply = await master.call("ExtendSession", extension(handle, "b", 0))
        has = await master.call("RunStep", fetch(handle, "b:0"))
        await master.call("CloseSession", CloseSessionRequest(session_handle=handle))

    assert lacks.message.status_code == errors.NOT_FOUND
    assert reply.message.new_graph_version == 1
    assert list(has.tensors) == [1.0]


@pytest.mark.behaviour(149)
@pytest.mark.parametrize("name", ["_a", "a b", "-a", "/a", "a\\b", "a:b", ""])
async def test_illegal_names_are_refused(target, name):
    graph_def = constants("a")
    graph_def.node[0].name = name
    async with master_at(target) as master:
        with pytest.raises(errors.InvalidArgumentError, match="Illegal op name"):
            await created(master, graph_def)


@pytest.mark.behaviour(149)
@pytest.mark.parametrize("name", ["_a", "a b", "-a", "^^a"])
async def test_illegal_names_of_inputs_are_refused(target, name):
    with ax.Graph().as_default() as graph:
        ax.identity(ax.constant(1.0, name="a"), name="b")
    graph_def = graph.as_graph_def()
    graph_def.node[1].input[0] = name
    async with master_at(target) as master:
        with pytest.raises(errors.InvalidArgumentError, match="Illegal op input name"):
            await created(master, graph_def)


@pytest.mark.behaviour(152)
async def test_a_run_beside_an_extension_sees_the_old_graph_or_the_new(target):
    async with master_at(target) as master:
        handle = await created(master, constants("a"))
        codes = []
        for version in range(10):
            extending = master.call("ExtendSession", extension(handle, f"n{version}", version))
            ran, _ = await asyncio.gather(master.call("RunStep", fetch(handle, f"n{version}:0")), extending)
            codes.append(ran.message.status_code)
            assert list((await master.call("RunStep", fetch(handle, f"n{version}:0"))).tensors) == [1.0]
        await master.call("CloseSession", CloseSessionRequest(session_handle=handle))

    assert set(codes) <= {errors.OK, errors.NOT_FOUND}


async def test_a_request_id_is_used_once(target):
    async with master_at(target) as master:
        handle = await created(master, constants("a"))
        message = fetch(handle, "a:0")
        message.request_id = master.new_request_id()
        first = await master.call("RunStep", message)
        with pytest.raises(errors.AbortedError, match="was received twice"):
            second = await master.call("RunStep", message)
            if second.message.status_code == errors.ABORTED:  # TensorFlow says it in the other way
                raise errors.AbortedError(second.message.status_error_message)
        await master.call("CloseSession", CloseSessionRequest(session_handle=handle))

    assert list(first.tensors) == [1.0]


# Time


def waiting(name: str) -> tuple[ax.Graph, ax.Tensor, ax.Operation, ax.Tensor]:
    """A graph with a queue: taking from it, putting into it, and something else."""
    with ax.Graph().as_default() as graph:
        queue = ax.FIFOQueue(1, [ax.float32], shapes=[[]], shared_name=name)
        return graph, queue.dequeue(), queue.enqueue(7.0), ax.constant(3.0)


@pytest.mark.behaviour(153)
@pytest.mark.parametrize("where", ["run", "session"])
async def test_a_step_that_waits_too_long_fails_and_the_session_lives(target, where):
    graph, taken, put, other = waiting(f"timed by {where}")
    milliseconds = 300
    config = ax.ConfigProto(operation_timeout_in_ms=milliseconds if where == "session" else 0)
    options = ax.RunOptions(timeout_in_ms=milliseconds) if where == "run" else None
    async with ax.Session(target, graph=graph, config=config) as session:
        assert await session.run(other) == 3.0
        with pytest.raises(errors.DeadlineExceededError):
            await session.run(taken, options=options)
        await session.run(put)

        assert await session.run(taken) == 7.0  # the cancelled call has taken nothing


@pytest.mark.behaviour(153)
async def test_a_server_that_is_not_there_is_awaited_until_the_deadline(unused_tcp_port):
    config = ax.ConfigProto(operation_timeout_in_ms=300)
    with ax.Graph().as_default() as graph:
        value = ax.constant(1.0)
    async with ax.Session(f"grpc://localhost:{unused_tcp_port}", graph=graph, config=config) as session:
        with pytest.raises(errors.DeadlineExceededError):
            await session.run(value)


async def test_a_cancelled_run_takes_nothing(target):
    graph, taken, put, other = waiting("cancelled")
    async with ax.Session(target, graph=graph) as session:
        for _ in range(3):
            await session.run(other)
            running = asyncio.create_task(session.run(taken))
            await session.run(other)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        await session.run(put)

        assert await session.run(taken) == 7.0


async def test_a_session_that_closes_ends_its_steps(target):
    graph, taken, put, _ = waiting("closed")
    session = ax.Session(target, graph=graph)
    await session.run(put)
    await session.run(taken)
    running = asyncio.create_task(session.run(taken))
    await asyncio.sleep(0)

    await session.close(grace=0)

    with pytest.raises(errors.SessionClosedError):
        await running
    async with ax.Session(target, graph=graph) as other:
        await other.run(put)
        assert await other.run(taken) == 7.0


# Several sessions


@pytest.mark.behaviour(148)
@pytest.mark.parametrize("is_resource", [False, True])
async def test_sessions_of_a_server_share_variables(target, is_resource):
    with ax.Graph().as_default() as graph:
        v = ax.Variable(1.0, use_resource=is_resource, name=f"shared_{is_resource}")
        more, init, value = v.assign_add(1.0), v.initializer, v.read_value()

    async with ax.Session(target, graph=graph) as first, ax.Session(target, graph=graph) as second:
        await first.run(init)
        await second.run(more)
        assert await first.run(value) == 2.0
        await second.run(init)
        assert await first.run(value) == 1.0
    alone = ax.ConfigProto(isolate_session_state=True)
    async with ax.Session(target, graph=graph, config=alone) as third:
        with pytest.raises(errors.FailedPreconditionError):
            await third.run(value)


@pytest.mark.behaviour(154)
async def test_reset_ends_all_sessions_and_drops_variables(target):
    with ax.Graph().as_default() as graph:
        v = ax.Variable(1.0, name="dropped")
    sessions = [ax.Session(target, graph=graph) for _ in range(3)]
    for session in sessions:
        await session.run(v.initializer)

    await ax.Session.reset(target)

    for session in sessions:
        for _ in range(2):
            with pytest.raises(errors.AbortedError, match="is not found"):
                await session.run(v)
        with pytest.raises(errors.AbortedError, match="Possibly, this master has restarted"):
            await session.close()
        await session.close()
    async with ax.Session(target, graph=graph) as another:
        with pytest.raises(errors.FailedPreconditionError):
            await another.run(v)


@pytest.mark.behaviour(155)
async def test_the_devices_of_the_server_are_listed(target):
    async with ax.Session(target, graph=ax.Graph()) as session:
        devices = await session.list_devices()
        again = await session.list_devices()

    assert [each.name for each in devices] == ["/job:localhost/replica:0/task:0/device:CPU:0"]
    assert devices[0].device_type == "CPU"
    assert devices[0].memory_limit_bytes > 0
    assert devices[0].incarnation != 0
    assert [each.incarnation for each in again] == [devices[0].incarnation]


async def test_a_graph_that_grows_grows_there_with_its_functions(target):
    def grown(value: ax.Tensor, number: float) -> ax.Tensor:
        return ax.cond(value > 0.0, lambda: value + number, lambda: -1.0)

    with ax.Graph().as_default() as graph:
        result = x = ax.placeholder(ax.float32, [])
    async with ax.Session(target, graph=graph) as session:
        for number in range(1, 4):
            with graph.as_default():
                result = grown(result, float(number))
            assert await session.run(result, {x: 1.0}) == sum(range(number + 1)) + 1.0
            assert await session.run(result, {x: -1.0}) == -1.0
