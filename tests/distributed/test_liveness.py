"""Frozen peers are detected while calls are under way; responsive ones are not affected, however slow either side is."""

import asyncio
from typing import Any

import pytest

from aioexec import errors
from aioexec.distributed.transport.liveness import watch_channel
from aioexec.distributed.transport.memory.network import AS_USUAL, Fate, MemoryNetwork, Message
from aioexec.distributed.transport.memory.transport import MemoryTransport
from aioexec.distributed.transport.settings import Liveness
from aioexec.distributed.transport.transport import Call, Channel, Payload
from aioexec.formats.protos import GetStatusRequest, GetStatusResponse, RunGraphRequest, RunGraphResponse
from aioexec.testing import VirtualClock, all_tasks_blocked

pytestmark = pytest.mark.usefixtures("virtual_clock")

STATUS = "WorkerService/GetStatus"
RUN = "WorkerService/RunGraph"
ADDRESS = "server:2222"
STEP = Payload(RunGraphRequest())


class Peer:
    """A server whose steps take a while, its network, and the number of requests for its status."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.seconds = 0.0
        self.pings = 0
        self.cancelled = 0
        transport = MemoryTransport(self.network, "server")
        self.listener = transport.listener(ADDRESS, {RUN: self._run, STATUS: self._status})

    async def _run(self, request: Payload, call: Call) -> Payload:
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Payload(RunGraphResponse())

    async def _status(self, request: Payload, call: Call) -> Payload:
        self.pings += 1
        return Payload(GetStatusResponse())

    def channel(self, liveness: Liveness | None = None) -> Channel:
        return watch_channel(MemoryTransport(self.network, "client").channel(ADDRESS), liveness or Liveness())


@pytest.fixture
async def peer() -> Any:
    peer = Peer()
    await peer.listener.start()
    yield peer
    await peer.listener.stop()


@pytest.fixture
async def channel(peer: Peer) -> Any:
    channel = peer.channel()
    yield channel
    await channel.close()


async def test_a_step_of_an_hour_is_fine_while_pings_are_answered(
    peer: Peer, virtual_clock: VirtualClock
) -> None:
    channel = peer.channel(Liveness(interval=20.0))
    peer.seconds = 3600

    await channel.call(RUN, STEP)

    assert virtual_clock.time() == pytest.approx(3600, abs=1)
    assert peer.pings > 100
    await channel.close()


@pytest.mark.parametrize("others", [0, 2])
async def test_a_frozen_peer_fails_every_call_within_3_seconds(
    peer: Peer, channel: Channel, virtual_clock: VirtualClock, others: int
) -> None:
    peer.seconds = 3600
    calls = [asyncio.create_task(channel.call(RUN, STEP)) for _ in range(1 + others)]
    await asyncio.sleep(60)
    peer.network.freeze("server")

    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert virtual_clock.time() <= 63
    for outcome in outcomes:
        assert isinstance(outcome, errors.UnavailableError)
        assert "server:2222 has not answered for 2.0 s" in outcome.message
    peer.network.thaw("server")
    await asyncio.sleep(1)
    assert peer.cancelled == len(calls)


async def test_the_next_call_tries_the_peer_again(peer: Peer, channel: Channel) -> None:
    peer.network.freeze("server")
    for _ in range(2):
        with pytest.raises(errors.UnavailableError):
            await channel.call(RUN, STEP)

    peer.network.thaw("server")
    await channel.call(RUN, STEP)


async def test_the_timeout_is_settable(peer: Peer, virtual_clock: VirtualClock) -> None:
    channel = peer.channel(Liveness(interval=10, timeout=50))
    peer.network.freeze("server")

    with pytest.raises(errors.UnavailableError, match=r"for 50 s"):
        await channel.call(RUN, STEP)

    assert virtual_clock.time() == pytest.approx(60)
    await channel.close()


async def test_short_calls_and_idle_channels_cost_no_ping(peer: Peer, channel: Channel) -> None:
    for _ in range(100):
        await channel.call(RUN, STEP)
    await asyncio.sleep(3600)

    assert peer.pings == 0


async def test_pings_end_with_the_calls(peer: Peer, channel: Channel) -> None:
    peer.seconds = 10
    await channel.call(RUN, STEP)
    pings = peer.pings

    await asyncio.sleep(600)

    assert 15 <= pings <= peer.pings <= pings + 1


async def test_a_late_loop_does_not_kill_a_healthy_peer(peer: Peer, channel: Channel) -> None:
    """The loop is held for a minute whenever a ping is on its way: nothing can have been heard meanwhile."""
    loop: Any = asyncio.get_running_loop()

    def held(message: Message) -> Fate:
        if message.method == STATUS:
            loop.call_later(0.00005, loop.clock.advance, 60.0)
        return AS_USUAL

    peer.network.fate = held
    peer.seconds = 1000

    await channel.call(RUN, STEP)

    assert peer.pings > 5


async def test_a_lost_ping_is_silence(peer: Peer, channel: Channel, virtual_clock: VirtualClock) -> None:
    peer.seconds = 3600
    peer.network.give_up = 1000.0
    peer.network.fate = lambda message: () if message.method == STATUS else AS_USUAL

    with pytest.raises(errors.UnavailableError, match="has not answered"):
        await channel.call(RUN, STEP)

    assert virtual_clock.time() <= 3


async def test_an_error_is_an_answer(peer: Peer) -> None:
    bare = MemoryTransport(peer.network, "bare").listener("bare:1", {RUN: peer._run})
    await bare.start()
    channel = watch_channel(MemoryTransport(peer.network, "client").channel("bare:1"), Liveness())
    peer.seconds = 60

    await channel.call(RUN, STEP)

    await channel.close()
    await bare.stop()


async def test_a_lost_connection_is_reported_as_such(peer: Peer, channel: Channel) -> None:
    peer.seconds = 3600
    calling = asyncio.create_task(channel.call(RUN, STEP))
    await asyncio.sleep(10)

    peer.network.kill("server")

    with pytest.raises(errors.UnavailableError, match="server was lost"):
        await calling


async def test_timeouts_are_the_callers(peer: Peer, channel: Channel) -> None:
    peer.seconds = 3600

    with pytest.raises(errors.DeadlineExceededError):
        await channel.call(RUN, STEP, timeout=5.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5.0):
            await channel.call(RUN, STEP)


async def test_cancelling_a_call_cancels_the_handler_and_the_pings(peer: Peer, channel: Channel) -> None:
    peer.seconds = 3600
    calling = asyncio.create_task(channel.call(RUN, STEP))
    await asyncio.sleep(10)

    calling.cancel()
    await asyncio.sleep(10)

    pings = peer.pings
    await asyncio.sleep(100)
    assert (peer.cancelled, peer.pings) == (1, pings)


@pytest.mark.parametrize("seconds", [0.1, 10.0])
async def test_closing_ends_calls_and_pings(peer: Peer, seconds: float) -> None:
    channel = peer.channel()
    peer.seconds = 3600
    peer.network.freeze("server")
    calling = asyncio.create_task(channel.call(RUN, STEP))
    await asyncio.sleep(seconds)

    await channel.close()
    await channel.close()

    with pytest.raises(errors.UnavailableError):
        await calling
    await all_tasks_blocked()


async def test_a_status_call_of_ones_own_is_a_call_like_others(peer: Peer, channel: Channel) -> None:
    await channel.call(STATUS, Payload(GetStatusRequest()))

    assert peer.pings == 1


async def test_a_posted_call_fails_when_the_peer_is_silent(peer: Peer, channel: Channel) -> None:
    peer.seconds = 3600
    came: list[Any] = []
    assert channel.post(RUN, STEP, came.append) is not None
    await all_tasks_blocked()

    peer.network.freeze("server")
    await asyncio.sleep(60)

    (error,) = came
    assert isinstance(error, errors.UnavailableError)
    assert "has not answered" in error.message


async def test_a_posted_call_that_is_cancelled_calls_no_callback_and_ends_its_handler(
    peer: Peer, channel: Channel
) -> None:
    peer.seconds = 3600
    came: list[Any] = []
    posted = channel.post(RUN, STEP, came.append)
    assert posted is not None
    await asyncio.sleep(1)

    posted.cancel()
    await asyncio.sleep(7200)

    assert not came
    assert peer.cancelled == 1


async def test_a_posted_call_passes_its_reply_to_the_callback(peer: Peer, channel: Channel) -> None:
    came: list[Any] = []
    channel.post(RUN, STEP, came.append)

    await asyncio.sleep(1)

    assert [type(each.message) for each in came] == [RunGraphResponse]
