"""The in-memory transport: what every transport promises, and what its network can do to messages and hosts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from aioexec import errors
from aioexec.distributed.memory_network import AS_USUAL, Fate, MemoryNetwork, Message
from aioexec.distributed.memory_transport import MemoryChannel, MemoryListener, MemoryTransport
from aioexec.distributed.status import DERIVED, is_derived, with_payload
from aioexec.distributed.transport import Call, Payload
from aioexec.formats.protos import (
    GetStatusRequest,
    GetStatusResponse,
    NamedTensorProto,
    RecvTensorRequest,
    RecvTensorResponse,
    RunGraphRequest,
    RunGraphResponse,
    TensorProto,
)
from aioexec.testing import VirtualClock, all_tasks_blocked

pytestmark = pytest.mark.usefixtures("virtual_clock")

STATUS = "WorkerService/GetStatus"
RECEIVE = "WorkerService/RecvTensor"
RUN = "WorkerService/RunGraph"
ADDRESS = "server:2222"

ASK = Payload(GetStatusRequest())
Handle = Callable[[Payload, Call], Awaitable[Payload]]


class Server:
    """A listener whose handlers are told what to do, and what it has seen."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.started = 0
        self.cancelled = 0
        self.peers: list[str] = []
        self.gone: list[str] = []
        self.go_on = asyncio.Event()
        self.handle: Handle = self.answer
        handlers = dict.fromkeys((STATUS, RECEIVE, RUN), self._count)
        transport = MemoryTransport(network, "server")
        self.listener: MemoryListener = transport.listener(ADDRESS, handlers, self.gone.append)

    async def _count(self, request: Payload, call: Call) -> Payload:
        self.started += 1
        self.peers.append(call.peer)
        try:
            return await self.handle(request, call)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def answer(self, request: Payload, call: Call) -> Payload:
        return Payload(GetStatusResponse())

    async def wait(self, request: Payload, call: Call) -> Payload:
        await self.go_on.wait()
        return Payload(GetStatusResponse())


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


def fate_of(kind: str, fate: Fate) -> Callable[[Message], Fate]:
    return lambda message: fate if message.kind == kind else AS_USUAL


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
    inside = TensorProto(dtype=1, tensor_shape={"dim": [{"size": 2}]}, float_val=[1.0, 2.0])

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


async def test_nobody_there_is_unavailable_at_once(channel: MemoryChannel) -> None:
    with pytest.raises(errors.UnavailableError, match="nobody listens at server:2222"):
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
    with pytest.raises(errors.UnavailableError, match="somebody does"):
        await Server(network).listener.start()
    with pytest.raises(errors.InvalidArgumentError, match="of the host 'client'"):
        MemoryTransport(network, "client").listener(ADDRESS, {})


class TestHosts:
    async def test_a_killed_host_fails_calls_at_once_and_cancels_handlers(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork, virtual_clock: VirtualClock
    ) -> None:
        server.handle = server.wait
        calling = asyncio.create_task(channel.call(STATUS, ASK))
        await asyncio.sleep(1)

        network.kill("server")

        with pytest.raises(errors.UnavailableError, match="server was lost"):
            await calling
        await all_tasks_blocked()
        assert (virtual_clock.time(), server.cancelled) == (1.0, 1)
        assert server.gone == []  # nobody is left there to be told

    async def test_a_killed_caller_is_gone_for_its_peers(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        server.handle = server.wait
        calling = asyncio.create_task(channel.call(STATUS, ASK))
        await asyncio.sleep(1)

        network.kill("client")

        with pytest.raises(errors.UnavailableError, match="client was lost"):
            await calling
        await all_tasks_blocked()
        assert server.cancelled == 1
        assert server.gone == server.peers
        with pytest.raises(errors.UnavailableError, match="client was killed"):
            await channel.call(STATUS, ASK)

    async def test_a_host_comes_back_under_its_address(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        await channel.call(STATUS, ASK)
        network.kill("server")
        with pytest.raises(errors.UnavailableError):
            await channel.call(STATUS, ASK)

        again = Server(network)
        await again.listener.start()
        await channel.call(STATUS, ASK)

        assert (server.started, again.started) == (1, 1)
        with pytest.raises(errors.UnavailableError, match="was killed"):
            await server.listener.start()
        await again.listener.stop()

    async def test_a_frozen_host_is_silent_until_it_thaws(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        network.freeze("server")
        calling = asyncio.create_task(channel.call(STATUS, ASK))
        await asyncio.sleep(3600)
        assert server.started == 0

        network.thaw("server")
        await calling

        assert server.started == 1

    async def test_what_a_frozen_host_says_waits_too(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        server.handle = server.wait
        calling = asyncio.create_task(channel.call(STATUS, ASK))
        await asyncio.sleep(1)

        network.freeze("server")
        server.go_on.set()
        await asyncio.sleep(60)
        assert not calling.done()

        network.thaw("server")
        await calling

    async def test_what_waits_for_a_host_that_is_killed_fails(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        network.freeze("server")
        calling = asyncio.create_task(channel.call(STATUS, ASK))
        await asyncio.sleep(1)

        network.kill("server")

        with pytest.raises(errors.UnavailableError):
            await calling
        assert server.started == 0


class TestFates:
    @pytest.mark.parametrize("lost", ["request", "reply"])
    async def test_a_lost_message_breaks_the_connection_after_a_while(
        self,
        server: Server,
        channel: MemoryChannel,
        network: MemoryNetwork,
        virtual_clock: VirtualClock,
        lost: str,
    ) -> None:
        network.fate = fate_of(lost, ())

        with pytest.raises(errors.UnavailableError, match="was lost"):
            await channel.call(STATUS, ASK)

        assert virtual_clock.time() == pytest.approx(network.give_up, abs=0.001)
        network.fate = None
        await channel.call(STATUS, ASK)

    async def test_a_deadline_may_end_first(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        network.fate = fate_of("reply", ())

        with pytest.raises(errors.DeadlineExceededError):
            await channel.call(STATUS, ASK, timeout=0.5)

    async def test_a_delayed_message_is_overtaken(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        order: list[str] = []

        async def handle(request: Payload, call: Call) -> Payload:
            order.append(request.message.session_handle)
            return Payload(RunGraphResponse())

        server.handle = handle
        network.fate = lambda message: (1.0,) if message.call == 1 and message.kind == "request" else AS_USUAL

        await asyncio.gather(
            *(channel.call(RUN, Payload(RunGraphRequest(session_handle=name))) for name in ("a", "b"))
        )

        assert order == ["b", "a"]

    async def test_a_cancellation_may_overtake_its_request(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        network.fate = fate_of("request", (1.0,))
        calling = asyncio.create_task(channel.call(STATUS, ASK))
        await asyncio.sleep(0.5)

        calling.cancel()
        await asyncio.sleep(5)

        assert server.started == 0

    async def test_a_repeated_request_is_handled_once(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        network.fate = fate_of("request", (0.0, 0.5))

        await channel.call(STATUS, ASK)
        await asyncio.sleep(5)

        assert server.started == 1

    async def test_a_repeated_request_with_an_id_comes_again_and_its_answer_is_nobodys(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        ids: list[int] = []

        async def handle(request: Payload, call: Call) -> Payload:
            ids.append(request.message.request_id)
            if len(ids) > 1:
                raise errors.AbortedError("again")
            await asyncio.sleep(1)
            return Payload(RunGraphResponse())

        server.handle = handle
        network.fate = fate_of("request", (0.0, 0.5))

        await channel.call(RUN, Payload(RunGraphRequest(request_id=7)))

        assert ids == [7, 7]

    async def test_a_repeated_reply_is_taken_once(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        network.fate = fate_of("reply", (0.0, 0.5))

        await channel.call(STATUS, ASK)
        await asyncio.sleep(5)
        await channel.call(STATUS, ASK)

        assert server.started == 2

    async def test_a_repeated_handler_ends_with_its_connection(
        self, server: Server, channel: MemoryChannel, network: MemoryNetwork
    ) -> None:
        server.handle = server.wait
        network.fate = fate_of("request", (0.0, 0.5))
        calling = asyncio.create_task(channel.call(RUN, Payload(RunGraphRequest(request_id=7))))
        await asyncio.sleep(1)

        network.kill("client")

        with pytest.raises(errors.UnavailableError):
            await calling
        await all_tasks_blocked()
        assert (server.started, server.cancelled) == (2, 2)


async def test_the_log_tells_of_everything_in_names_and_counters(
    server: Server, channel: MemoryChannel, network: MemoryNetwork
) -> None:
    events: list[str] = []
    network.log = events.append
    network.fate = lambda message: () if message.call == 2 else AS_USUAL

    await channel.call(STATUS, ASK)
    with pytest.raises(errors.UnavailableError):
        await channel.call(STATUS, ASK)
    network.kill("server")

    assert events == [
        "client > server request WorkerService/GetStatus client/1#1",
        "server > client reply WorkerService/GetStatus client/1#1",
        "client > server request WorkerService/GetStatus client/1#2 lost",
        "break client/1",
        "kill server",
    ]
