"""The simulated network: faults of messages and hosts."""

import asyncio
from typing import Any

import pytest

from aioexec import errors
from aioexec.distributed.transport.memory.network import AS_USUAL, MemoryNetwork
from aioexec.distributed.transport.memory.transport import MemoryChannel, MemoryTransport
from aioexec.distributed.transport.transport import Call, Payload
from aioexec.formats.protos import (
    RunGraphRequest,
    RunGraphResponse,
)
from aioexec.testing import VirtualClock, all_tasks_blocked
from tests.distributed.scripted_server import ADDRESS, ASK, RUN, STATUS, Server, fate_of

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
        assert server.gone == []  # the host that would be notified is dead

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

    async def test_a_repeated_request_with_an_id_comes_again_and_its_answer_is_dropped(
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


async def test_the_log_records_every_event_in_names_and_counters(
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
