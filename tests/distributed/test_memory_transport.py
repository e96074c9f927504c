"""The in-memory transport: the guarantees of every transport."""

import asyncio
from typing import Any

import numpy as np
import pytest

from aioexec import errors
from aioexec.distributed.transport.memory.network import MemoryNetwork
from aioexec.distributed.transport.memory.transport import MemoryChannel, MemoryTransport
from aioexec.distributed.transport.status import DERIVED, is_derived, with_payload
from aioexec.distributed.transport.transport import Call, Payload
from aioexec.formats.protos import (
    GetStatusRequest,
    NamedTensorProto,
    RecvTensorRequest,
    RecvTensorResponse,
    RunGraphRequest,
    RunGraphResponse,
    TensorProto,
)
from aioexec.testing import VirtualClock, all_tasks_blocked
from tests.distributed.scripted_server import ADDRESS, ASK, RECEIVE, RUN, STATUS, Server

pytestmark = pytest.mark.usefixtures("virtual_clock")


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
async def server(network: MemoryNetwork) -> Any:
    server = Server(network)
    await server.listener.start()
    yield server
    await server.listener.stop()


@pytest.fixture
async def channel(network: MemoryNetwork) -> Any:
    channel = MemoryTransport(network, "client").channel(ADDRESS)
    yield channel
    await channel.close()


async def test_a_call_takes_a_message_there_and_one_back(
    server: Server, channel: MemoryChannel, virtual_clock: VirtualClock
) -> None:
    await channel.call(STATUS, ASK)

    assert server.started == 1
    assert virtual_clock.time() == pytest.approx(0.0002)


async def test_what_arrives_shares_nothing_with_what_was_sent(server: Server, channel: MemoryChannel) -> None:
    kept = np.arange(4.0)
    came: list[np.ndarray[Any, Any]] = []

    async def handle(request: Payload, call: Call) -> Payload:
        came.extend(request.tensors)
        if isinstance(request.message, RunGraphRequest):
            request.message.session_handle = "changed"
            return Payload(RunGraphResponse())
        return Payload(RecvTensorResponse(), [kept])

    server.handle = handle
    sent = np.ones(2)
    request = RunGraphRequest(session_handle="mine", send=[NamedTensorProto(name="x")])

    await channel.call(RUN, Payload(request, [sent]))
    sent[:] = 5.0
    reply = await channel.call(RECEIVE, Payload(RecvTensorRequest()))
    kept[:] = 0.0

    assert request.session_handle == "mine"
    np.testing.assert_array_equal(came[0], [1.0, 1.0])
    np.testing.assert_array_equal(reply.tensors[0], [0.0, 1.0, 2.0, 3.0])


async def test_tensors_inside_a_message_are_taken_out_as_a_wire_does(
    server: Server, channel: MemoryChannel
) -> None:
    inside = TensorProto(dtype="DT_FLOAT", tensor_shape={"dim": [{"size": 2}]}, float_val=[1.0, 2.0])

    async def handle(request: Payload, call: Call) -> Payload:
        return Payload(RecvTensorResponse(tensor=inside))

    server.handle = handle

    reply = await channel.call(RECEIVE, Payload(RecvTensorRequest()))

    np.testing.assert_array_equal(reply.tensors[0], np.array([1.0, 2.0], np.float32))


async def test_an_error_arrives_as_its_class_with_its_payloads(
    server: Server, channel: MemoryChannel
) -> None:
    async def handle(request: Payload, call: Call) -> Payload:
        raise with_payload(errors.NotFoundError("no such handle"), DERIVED)

    server.handle = handle

    with pytest.raises(errors.NotFoundError, match="no such handle") as caught:
        await channel.call(STATUS, ASK)
    assert is_derived(caught.value)


async def test_what_is_not_served_is_unimplemented(server: Server, channel: MemoryChannel) -> None:
    with pytest.raises(errors.UnimplementedError):
        await channel.call("WorkerService/Tracing", Payload(GetStatusRequest()))


async def test_a_handler_that_gives_up_itself_is_an_answer(server: Server, channel: MemoryChannel) -> None:
    async def handle(request: Payload, call: Call) -> Payload:
        raise asyncio.CancelledError

    server.handle = handle

    with pytest.raises(errors.CancelledError):
        await channel.call(STATUS, ASK)


async def test_cancelling_a_call_cancels_its_handler(server: Server, channel: MemoryChannel) -> None:
    server.handle = server.wait
    calling = asyncio.create_task(channel.call(STATUS, ASK))
    await asyncio.sleep(1)

    calling.cancel()
    await asyncio.sleep(1)

    assert (server.started, server.cancelled) == (1, 1)


async def test_a_timeout_ends_both_sides(
    server: Server, channel: MemoryChannel, virtual_clock: VirtualClock
) -> None:
    server.handle = server.wait

    with pytest.raises(errors.DeadlineExceededError):
        await channel.call(STATUS, ASK, timeout=3.0)

    await all_tasks_blocked()
    assert virtual_clock.time() == pytest.approx(3.0)
    assert server.cancelled == 1


async def test_an_address_without_a_listener_is_unavailable_at_once(channel: MemoryChannel) -> None:
    with pytest.raises(errors.UnavailableError, match="no listener at server:2222"):
        await channel.call(STATUS, ASK)


async def test_a_caller_may_wait_for_the_peer(network: MemoryNetwork, channel: MemoryChannel) -> None:
    calling = asyncio.create_task(channel.call(STATUS, ASK, wait_for_ready=True))
    await asyncio.sleep(5)
    assert not calling.done()

    server = Server(network)
    await server.listener.start()
    await calling
    await server.listener.stop()

    assert server.started == 1


async def test_waiting_for_the_peer_has_an_end_too(channel: MemoryChannel) -> None:
    with pytest.raises(errors.DeadlineExceededError):
        await channel.call(STATUS, ASK, timeout=1.0, wait_for_ready=True)


async def test_calls_over_one_connection_have_one_peer(server: Server, network: MemoryNetwork) -> None:
    one, other = (MemoryTransport(network, "client").channel(ADDRESS) for _ in range(2))
    for channel in (one, one, other):
        await channel.call(STATUS, ASK)

    first, second, third = server.peers
    assert first == second != third

    await one.close()
    await asyncio.sleep(1)
    assert server.gone == [first]
    await other.close()


async def test_a_closed_channel_fails_its_calls_and_later_ones(
    server: Server, channel: MemoryChannel
) -> None:
    server.handle = server.wait
    calling = asyncio.create_task(channel.call(STATUS, ASK))
    await asyncio.sleep(1)

    await channel.close()
    await channel.close()

    with pytest.raises(errors.UnavailableError, match="was closed"):
        await calling
    with pytest.raises(errors.UnavailableError, match="was closed"):
        await channel.call(STATUS, ASK)
    await asyncio.sleep(1)
    assert server.cancelled == 1


async def test_a_stopping_listener_lets_calls_end_within_its_grace(
    server: Server, channel: MemoryChannel
) -> None:
    server.handle = server.wait
    calling = asyncio.create_task(channel.call(STATUS, ASK))
    await asyncio.sleep(1)

    stopping = asyncio.create_task(server.listener.stop(grace=10.0))
    await asyncio.sleep(1)
    with pytest.raises(errors.UnavailableError):
        await channel.call(STATUS, ASK)
    server.go_on.set()
    await stopping

    await calling
    assert server.cancelled == 0


async def test_a_stopping_listener_cancels_what_is_left(server: Server, channel: MemoryChannel) -> None:
    server.handle = server.wait
    calling = asyncio.create_task(channel.call(STATUS, ASK))
    await asyncio.sleep(1)

    await server.listener.stop()
    await server.listener.stop()

    with pytest.raises(errors.UnavailableError, match="was closed"):
        await calling
    assert server.cancelled == 1


async def test_port_0_is_one_that_is_free(network: MemoryNetwork) -> None:
    transport = MemoryTransport(network, "server")

    addresses = {transport.listener("server:0", {}).address for _ in range(3)}

    assert len(addresses) == 3
    assert "server:0" not in addresses


async def test_an_address_has_one_listener(server: Server, network: MemoryNetwork) -> None:
    with pytest.raises(errors.UnavailableError, match="the address is in use"):
        await Server(network).listener.start()
    with pytest.raises(errors.InvalidArgumentError, match="of the host 'client'"):
        MemoryTransport(network, "client").listener(ADDRESS, {})
