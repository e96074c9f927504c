"""Misbehaving peers of a fast-path connection: they are disconnected, without effect on others."""

import asyncio
import contextlib
import struct
from typing import Any

import numpy as np
import pytest

from aioexec.distributed.security.proofs import CLIENT, prove
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import (
    DeadlineExceededError,
    InternalError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
)
from aioexec.formats.protos import RecvTensorRequest, RunCallableRequest, RunCallableResponse, RunStepRequest
from tests.distributed.certificates import make_authority
from tests.distributed.fast_pairs import MIB, RECV, FastPairs, Peers, greeted, moved, recv_of
from tests.distributed.grpc_pairs import RUN_STEP, echo, step

RUN_CALLABLE = "MasterService/RunCallable"

pytestmark = [pytest.mark.network, pytest.mark.both_loops]


@pytest.fixture
async def pairs():
    async with FastPairs() as pairs:
        yield pairs


async def test_a_tensor_over_the_limit_fails_its_call_alone(pairs):
    peers = Peers()
    listener = await pairs.listen({RUN_STEP: peers}, limits=Limits(tensor_bytes=MIB))
    channel = pairs.connect(listener.address)
    careful = pairs.connect(listener.address, limits=Limits(tensor_bytes=100_000))
    await channel.call(RUN_STEP, step())
    beside = asyncio.create_task(channel.call(RUN_STEP, step(np.zeros(MIB, np.uint8))))

    with pytest.raises(ResourceExhaustedError, match="expected at most 1048576 bytes"):
        await channel.call(RUN_STEP, step(np.zeros(30 * MIB, np.uint8)))
    with pytest.raises(ResourceExhaustedError, match="expected at most 100000 bytes"):
        await careful.call(RUN_STEP, step(np.zeros(MIB, np.uint8)))

    assert (await beside).tensors[0].size == MIB
    assert (await careful.call(RUN_STEP, step(np.zeros(3)))).tensors[0].size == 3
    assert len(set(peers.peers)) == 2


async def send_until_closed(listener: Any, data: bytes) -> None:
    """Send bytes over a connection of their own, and wait until the listener has closed it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener._fast.port)
    writer.write(data)
    with contextlib.suppress(ConnectionError):
        await reader.read()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_a_malformed_frame_closes_the_connection_with_a_reason(pairs):
    listener, channel = await pairs.pair(echo)
    await channel.call(RUN_STEP, step())

    async with greeted(listener) as (reader, writer):
        writer.write(struct.pack("<IBQ", 1 << 31, frames.REQUEST, 1))
        received = await reader.read()
    assert b"malformed" in received
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 500, frames.greeting(9, 1, bytes(32))):
        await send_until_closed(listener, nonsense)

    assert (await channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]


async def test_a_message_that_is_none_fails_its_call(pairs):
    listener, _ = await pairs.pair(echo)

    async with greeted(listener) as (reader, writer):
        writer.write(frames.request(1, 9.0, RUN_STEP, b"\xff\xff", [])[0])
        head = await reader.readexactly(13)
        body = await reader.readexactly(struct.unpack("<IBQ", head)[0])
    assert head[4] == frames.FAILURE
    assert body[0] == InternalError.code
    assert b"Unable to parse RunStepRequest" in body


@pytest.mark.slow
async def test_a_peer_that_takes_no_replies_costs_no_memory(pairs):
    array = np.ones(64 * MIB, np.uint8)
    listener = await pairs.listen({RECV: recv_of(array), RUN_STEP: echo})
    message = RecvTensorRequest().SerializeToString()
    text = RunStepRequest(session_handle="x" * 60_000).SerializeToString()

    async with greeted(listener) as (_, writer):
        for call in range(50):
            writer.write(frames.request(call, 9.0, RECV, message, [])[0])
        await writer.drain()
        (connection,) = listener._fast._connections
        while not connection._is_paused:
            await asyncio.sleep(0.001)
        for call in range(100, 5000):
            writer.write(frames.request(call, 9.0, RUN_STEP, text, [])[0])
        await asyncio.sleep(0.05)
        assert connection._transport.get_write_buffer_size() < 4 * MIB


async def test_a_peer_that_takes_no_requests_costs_no_memory_and_calls_can_be_given_up(pairs):
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def silent(reader, writer):
        accepted.put_nowait(writer)
        await reader.readexactly(len(frames.greeting(1, 1, bytes(32))))
        writer.write(frames.welcome())
        writer.transport.pause_reading()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    listener, channel = await pairs.pair(echo)
    moved(listener, server.sockets[0].getsockname()[1])
    array = np.ones(30 * MIB, np.uint8)

    calls = [asyncio.create_task(channel.call(RUN_STEP, step(array), timeout=9)) for _ in range(5)]
    writer = await accepted.get()
    while channel._connection is None or not channel._connection._is_paused:
        await asyncio.sleep(0.001)
    with pytest.raises(DeadlineExceededError):
        await channel.call(RUN_STEP, step(), timeout=0.05)
    assert channel._connection._transport.get_write_buffer_size() < 2 * MIB
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    assert not channel._connection._outbox

    await channel.close()
    writer.transport.abort()
    server.close()
    await server.wait_closed()


@pytest.mark.slow
@pytest.mark.parametrize("comes", [True, False], ids=["that comes", "that goes"])
async def test_small_calls_pass_beside_a_large_one(pairs, comes):
    array = np.ones(100 * MIB, np.uint8)

    async def store(request, call):
        return Payload(RunCallableResponse())

    listener = await pairs.listen({RECV: recv_of(array), RUN_STEP: echo, RUN_CALLABLE: store})
    channel = pairs.connect(listener.address)
    await channel.call(RUN_STEP, step(np.array(1)))
    big = (
        (RECV, Payload(RecvTensorRequest()))
        if comes
        else (RUN_CALLABLE, Payload(RunCallableRequest(), [array]))
    )
    large = asyncio.create_task(channel.call(*big))

    passed = 0
    while not large.done():
        await channel.call(RUN_STEP, step(np.array(1)))
        passed += 1

    await large
    assert passed > 10


async def test_a_wrong_token_is_turned_away(pairs):
    peers = Peers()
    listener = await pairs.listen({RUN_STEP: peers}, security=Security(token="secret"))
    right = pairs.connect(listener.address, security=Security(token="secret"))

    await right.call(RUN_STEP, step())
    with pytest.raises(UnauthenticatedError):
        await pairs.connect(listener.address, security=Security(token="other")).call(RUN_STEP, step())
    fast = listener._fast
    nonce = bytes(32)
    for number, token in (
        (fast.number, None),
        (fast.number, "other"),
        (fast.number ^ 1, "secret"),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", fast.port)
        writer.write(frames.greeting(frames.VERSION, number, nonce))
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            challenge = await reader.readexactly(len(frames.challenge(nonce, nonce)))
            theirs = challenge[13:45]
            writer.write(
                frames.cancel(1) if token is None else frames.proof(prove(token, CLIENT, nonce, theirs))
            )
            assert frames.welcome() not in await reader.read()
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert peers.ways == ["fast"]


def mutual_tls(directory):
    authority = make_authority(directory)
    return Security.from_files(*authority.signed("peer"), authority.certificate)


@pytest.fixture
def two_authorities(tmp_path):
    return mutual_tls(tmp_path / "ours"), mutual_tls(tmp_path / "others")


async def test_tls_on_both_ways(pairs, two_authorities):
    peers = Peers()
    security, other = two_authorities
    listener = await pairs.listen({RUN_STEP: peers}, security=security)
    channel = pairs.connect(listener.address, security=security)
    array = np.arange(MIB)

    reply = await channel.call(RUN_STEP, step(array, np.array(1)))

    assert np.array_equal(reply.tensors[0], array)
    assert peers.ways == ["fast"]
    with pytest.raises(UnavailableError):
        await pairs.connect(listener.address, security=other).call(RUN_STEP, step(), timeout=10)


async def test_a_client_without_tls_is_forgotten_and_does_not_delay_the_end(pairs, two_authorities):
    security, _ = two_authorities
    listener = await pairs.listen({RUN_STEP: echo}, security=security)
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", bytes(5)):
        await send_until_closed(listener, nonsense)

    async with asyncio.timeout(20):
        await listener.stop()
    assert not listener._fast._connections
