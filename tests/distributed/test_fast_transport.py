"""Calls over the fast path on real sockets: values, errors, deadlines, cancellation, lost and stopped peers, and who has it."""

import asyncio
import contextlib
import struct

import numpy as np
import pytest

from aioexec.distributed import fast_frames as frames
from aioexec.distributed.grpc_transport import GrpcTransport
from aioexec.distributed.negotiated_transport import NegotiatedTransport, host_of
from aioexec.distributed.security import Security
from aioexec.distributed.settings import Limits
from aioexec.distributed.status import DERIVED, with_payload
from aioexec.distributed.transport import Payload
from aioexec.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)
from aioexec.formats.protos import RecvTensorRequest, RecvTensorResponse, RunStepRequest, RunStepResponse
from tests.distributed.certificates import make_authority
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, Waiting, echo, step

pytestmark = [pytest.mark.network, pytest.mark.both_loops]

RECV = "WorkerService/RecvTensor"
MIB = 1 << 20


class FastPairs(Pairs):
    """Pairs that negotiate. `gone` are the peers that listeners have lost."""

    def __init__(self):
        super().__init__()
        self.gone = []

    def transport(self, security=None, limits=None):
        transport = NegotiatedTransport(security or Security(), limits)
        listener = transport.listener
        transport.listener = lambda address, handlers: listener(address, handlers, self.gone.append)
        return transport


class Peers:
    """A handler that echoes, and remembers who called."""

    def __init__(self):
        self.peers = []

    async def __call__(self, request, call):
        self.peers.append(call.peer)
        return await echo(request, call)

    @property
    def ways(self):
        return [peer.partition(":")[0] for peer in self.peers]


@pytest.fixture
async def pairs():
    async with FastPairs() as pairs:
        yield pairs


def recv_of(array):
    async def recv(request, call):
        return Payload(RecvTensorResponse(), [array])

    return recv


def raising(error):
    async def fail(request, call):
        raise error

    return fail


@contextlib.asynccontextmanager
async def greeted(listener, authorization=None):
    """A bare socket that a listener takes for a peer."""
    fast = listener._fast
    reader, writer = await asyncio.open_connection("127.0.0.1", fast.port)
    writer.write(frames.greeting(frames.VERSION, fast.number, authorization))
    await reader.readexactly(len(frames.welcome()))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_values_go_there_and_back(pairs):
    peers = Peers()
    _, channel = await pairs.pair(peers)
    arrays = [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(7),
        np.array([b"a", b"bc"], np.object_),
        np.random.default_rng(1).integers(0, 255, 3 * MIB + 17, np.uint8),
        np.arange(400_000)[::-2],
        np.array([b"x%d" % k for k in range(5000)], np.object_),
    ]

    for _ in range(2):
        reply = await channel.call(RUN_STEP, step(*arrays))

        assert isinstance(reply.message, RunStepResponse)
        assert [named.name for named in reply.message.tensor] == [f"x{k}:0" for k in range(6)]
        for received, sent in zip(reply.tensors, arrays, strict=True):
            assert received.dtype == sent.dtype
            assert np.array_equal(received, sent)
    assert peers.ways == ["fast", "fast"]
    assert len(set(peers.peers)) == 1


async def test_calls_at_once_share_a_connection_and_get_their_own_replies(pairs):
    peers = Peers()
    _, channel = await pairs.pair(peers)
    sizes = [0, 10, 100_000, 3, 2 * MIB, 700_000, 1, 5 * MIB] * 4

    replies = await asyncio.gather(
        *(channel.call(RUN_STEP, step(np.full(size, k, np.uint8))) for k, size in enumerate(sizes))
    )

    for k, (reply, size) in enumerate(zip(replies, sizes, strict=True)):
        assert reply.tensors[0].shape == (size,)
        assert (reply.tensors[0] == k).all()
    assert len(set(peers.peers)) == 1


async def test_tensors_left_in_the_message_arrive(pairs):
    async def recv(request, call):
        reply = RecvTensorResponse()
        reply.tensor.dtype = 1
        reply.tensor.tensor_shape.SetInParent()
        reply.tensor.float_val.append(2.5)
        return Payload(reply)

    listener = await pairs.listen({RECV: recv})

    reply = await pairs.connect(listener.address).call(RECV, Payload(RecvTensorRequest()))

    assert [float(each) for each in reply.tensors] == [2.5]


async def test_who_knows_only_grpc_is_called_by_grpc(pairs):
    peers = Peers()
    listener = GrpcTransport(Security()).listener("127.0.0.1:0", {RUN_STEP: peers})
    await listener.start()
    pairs.push_async_callback(listener.stop)
    channel = pairs.connect(listener.address)

    for _ in range(2):
        assert (await channel.call(RUN_STEP, step(np.array(3)))).tensors == [3]
    assert peers.ways == ["ipv4", "ipv4"]


async def test_a_session_that_knows_only_grpc_is_answered(pairs):
    listener = await pairs.listen({RUN_STEP: echo})
    channel = GrpcTransport(Security()).channel(listener.address)
    pairs.push_async_callback(channel.close)

    assert (await channel.call(RUN_STEP, step(np.array(3)))).tensors == [3]


async def test_where_the_fast_port_cannot_be_reached_grpc_remains(pairs):
    peers = Peers()
    listener, channel = await pairs.pair(peers)
    await listener._fast.stop()

    for _ in range(2):
        assert (await channel.call(RUN_STEP, step(np.array(3)))).tensors == [3]
    assert peers.ways == ["ipv4", "ipv4"]


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("localhost:1", "localhost"),
        ("unix:/tmp/x", None),
        ("dns:///host:80", None),
        ("ipv4:1.2.3.4:80", None),
        ("host", None),
    ],
)
def test_hosts(address, host):
    assert host_of(address) == host


@pytest.mark.parametrize("error", [AbortedError("try again"), UnavailableError("no")])
async def test_errors_arrive_with_what_they_say(pairs, error):
    _, channel = await pairs.pair(raising(with_payload(error, DERIVED, b"\1")))

    with pytest.raises(type(error), match=error.message) as raised:
        await channel.call(RUN_STEP, step())
    assert raised.value.payloads == {DERIVED: b"\1"}


async def test_an_error_that_is_none_of_ours_is_unknown(pairs):
    _, channel = await pairs.pair(raising(KeyError("what")))

    with pytest.raises(UnknownError, match="what"):
        await channel.call(RUN_STEP, step())


async def test_a_handler_that_was_cancelled_is_an_error_of_its_call(pairs):
    _, channel = await pairs.pair(raising(asyncio.CancelledError()))

    with pytest.raises(CancelledError, match="was cancelled"):
        await channel.call(RUN_STEP, step())


async def test_what_nobody_serves_is_unimplemented(pairs):
    _, channel = await pairs.pair(echo)
    await channel.call(RUN_STEP, step())

    with pytest.raises(UnimplementedError, match="RecvTensor"):
        await channel.call(RECV, Payload(RecvTensorRequest()))


async def test_a_deadline_ends_the_call_and_its_handler(pairs):
    waiting = Waiting()
    _, channel = await pairs.pair(waiting)

    with pytest.raises(DeadlineExceededError):
        await channel.call(RUN_STEP, step(), timeout=0.2)
    await waiting.cancelled.wait()
    assert waiting.call.deadline is not None


@pytest.mark.parametrize("size", [1, 40 * MIB])
async def test_cancelling_a_call_cancels_its_handler(pairs, size):
    waiting = Waiting()
    _, channel = await pairs.pair(waiting)
    call = asyncio.create_task(channel.call(RUN_STEP, step(np.zeros(size, np.uint8))))
    await waiting.started.wait()

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
    await waiting.cancelled.wait()


@pytest.mark.parametrize("turns", [0, 1, 2, 5, 20, 50])
async def test_cancelled_anywhere_a_call_leaves_nothing_behind(pairs, turns):
    listener, channel = await pairs.pair(echo)
    await channel.call(RUN_STEP, step(np.zeros(3)))
    big = np.zeros(20 * MIB, np.uint8)

    for _ in range(3):
        call = asyncio.create_task(channel.call(RUN_STEP, step(big)))
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        big[:] = 1  # it is the caller's again
    reply = await channel.call(RUN_STEP, step(np.arange(10)))

    assert np.array_equal(reply.tensors[0], np.arange(10))
    assert channel._connection._pending == {}
    (connection,) = listener._fast._connections
    assert connection._running == {}
    assert not connection._outbox
    assert connection._reader.incoming == 0


async def test_a_listener_that_is_gone_fails_calls_at_once_and_is_found_again(pairs):
    waiting, peers = Waiting(), Peers()
    listener, channel = await pairs.pair(waiting)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await waiting.started.wait()

    await listener.stop()
    with pytest.raises(UnavailableError):
        await call
    with pytest.raises(UnavailableError):
        await channel.call(RUN_STEP, step())

    await pairs.listen({RUN_STEP: peers}, address=listener.address)
    await channel.call(RUN_STEP, step(), timeout=10, wait_for_ready=True)
    assert peers.ways == ["fast"]


async def test_a_lost_connection_cancels_its_calls_and_its_peer_is_gone(pairs):
    waiting = Waiting()
    _, channel = await pairs.pair(waiting)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await waiting.started.wait()

    channel._connection.abort()

    with pytest.raises(UnavailableError, match="lost"):
        await call
    await waiting.cancelled.wait()
    assert pairs.gone == [waiting.call.peer]


async def test_closing_a_channel_cancels_what_is_under_way(pairs):
    waiting = Waiting()
    _, channel = await pairs.pair(waiting)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await waiting.started.wait()

    await channel.close()
    await channel.close()

    with pytest.raises(UnavailableError, match="closed"):
        await call
    with pytest.raises(UnavailableError, match="closed"):
        await channel.call(RUN_STEP, step())
    await waiting.cancelled.wait()


async def test_stopping_waits_for_calls_and_then_for_nobody(pairs):
    waiting = Waiting()
    listener, channel = await pairs.pair(waiting)
    call = asyncio.create_task(channel.call(RUN_STEP, step(np.zeros(5 * MIB, np.uint8))))
    await waiting.started.wait()

    stopping = asyncio.create_task(listener.stop(10))
    await asyncio.sleep(0.02)
    waiting.go_on.set()
    await stopping

    assert (await call).tensors[0].size == 5 * MIB
    await listener.stop()


async def test_stopping_cancels_what_takes_longer(pairs):
    waiting = Waiting()
    listener, channel = await pairs.pair(waiting)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await waiting.started.wait()

    await listener.stop(0.05)

    assert waiting.cancelled.is_set()
    with pytest.raises(UnavailableError, match="shutting down"):
        await call


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


async def test_who_speaks_nonsense_is_shown_out_and_told_why(pairs):
    listener, channel = await pairs.pair(echo)
    await channel.call(RUN_STEP, step())

    async with greeted(listener) as (reader, writer):
        writer.write(struct.pack("<IBQ", 1 << 31, frames.REQUEST, 1))
        told = await reader.read()
    assert b"malformed" in told
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 500, frames.greeting(9, 1, None)):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener._fast.port)
        writer.write(nonsense)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

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
        async with asyncio.timeout(10):
            while not connection._is_paused:
                await asyncio.sleep(0.001)
        for call in range(100, 5000):
            writer.write(frames.request(call, 9.0, RUN_STEP, text, [])[0])
        await asyncio.sleep(0.05)
        assert connection._transport.get_write_buffer_size() < 4 * MIB


async def test_a_peer_that_takes_no_requests_costs_no_memory_and_calls_can_be_given_up(pairs):
    accepted = asyncio.Queue()

    async def silent(reader, writer):
        accepted.put_nowait(writer)
        await reader.readexactly(20)
        writer.write(frames.welcome())
        writer.transport.pause_reading()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    listener, channel = await pairs.pair(echo)
    listener._fast.port = server.sockets[0].getsockname()[1]
    array = np.ones(30 * MIB, np.uint8)

    calls = [asyncio.create_task(channel.call(RUN_STEP, step(array), timeout=9)) for _ in range(5)]
    writer = await accepted.get()
    async with asyncio.timeout(10):
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


async def test_small_calls_pass_beside_a_large_one(pairs):
    array = np.ones(100 * MIB, np.uint8)
    listener = await pairs.listen({RECV: recv_of(array), RUN_STEP: echo})
    channel = pairs.connect(listener.address)
    await channel.call(RUN_STEP, step(np.array(1)))
    large = asyncio.create_task(channel.call(RECV, Payload(RecvTensorRequest())))

    passed = 0
    while not large.done():
        await channel.call(RUN_STEP, step(np.array(1)))
        passed += 1

    assert (await large).tensors[0].size == 100 * MIB
    assert passed > 10


async def test_a_wrong_token_is_turned_away(pairs):
    peers = Peers()
    listener = await pairs.listen({RUN_STEP: peers}, security=Security(token="secret"))
    right = pairs.connect(listener.address, security=Security(token="secret"))

    await right.call(RUN_STEP, step())
    with pytest.raises(UnauthenticatedError):
        await pairs.connect(listener.address, security=Security(token="other")).call(RUN_STEP, step())
    fast = listener._fast
    for number, token in (
        (fast.number, None),
        (fast.number, "Bearer other"),
        (fast.number ^ 1, "Bearer secret"),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", fast.port)
        writer.write(frames.greeting(frames.VERSION, number, token) + frames.cancel(1))
        with contextlib.suppress(ConnectionError):
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
