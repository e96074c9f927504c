"""Calls over the fast path on real sockets: values, errors, deadlines, cancellation, lost and stopped peers."""

import asyncio
import contextlib
import socket
import sys
import threading

import numpy as np
import pytest

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport import negotiated_transport
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.fast import calling, sockets, transport as fast_transport
from aioexec.distributed.transport.fast.events import Parts
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.negotiated_transport import host_of
from aioexec.distributed.transport.status import DERIVED, with_payload
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)
from aioexec.formats.protos import (
    DataType,
    GetStatusRequest,
    GetStatusResponse,
    RecvTensorRequest,
    RecvTensorResponse,
    RunStepResponse,
)
from tests.distributed.fast_pairs import MIB, RECV, FastPairs, Peers, moved
from tests.distributed.grpc_pairs import RUN_STEP, Waiting, echo, step

pytestmark = [pytest.mark.network, pytest.mark.both_loops]

STATUS = "WorkerService/GetStatus"


@pytest.fixture
async def pairs_here():
    async with FastPairs() as pairs:
        yield pairs


@pytest.fixture(params=["here", "elsewhere"])
async def pairs(request, monkeypatch, pairs_here):
    """Peers on one machine, and peers that might be on two."""
    if request.param == "elsewhere":
        monkeypatch.setattr(fast_transport, "local_connection", lambda number: None)
    return pairs_here


def raising(error):
    async def fail(request, call):
        raise error

    return fail


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
        reply.tensor.dtype = DataType.DT_FLOAT
        reply.tensor.tensor_shape.SetInParent()
        reply.tensor.float_val.append(2.5)
        return Payload(reply)

    listener = await pairs.listen({RECV: recv})

    reply = await pairs.connect(listener.address).call(RECV, Payload(RecvTensorRequest()))

    assert [float(each) for each in reply.tensors] == [2.5]


async def test_a_peer_that_has_only_grpc_is_called_by_grpc(pairs):
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


@pytest.mark.skipif(sys.platform != "linux", reason="names without files are Linux's")
async def test_peers_on_the_same_machine_need_no_port(pairs_here):
    peers = Peers()
    listener, channel = await pairs_here.pair(peers)
    listener._fast.port = 1  # a port without a listener

    await channel.call(RUN_STEP, step(np.ones(3 * MIB, np.uint8)))

    assert peers.ways == ["fast"]


async def test_what_listened_on_this_machine_is_found_no_more_once_it_has_stopped(pairs):
    listener, _ = await pairs.pair(echo)
    number = listener._fast.number

    await listener.stop()

    assert sockets.local_connection(number) is None


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


async def test_a_method_without_a_handler_is_unimplemented(pairs):
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
    assert waiting.call is not None
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
    assert not connection._reader.incoming


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
    await channel.call(RUN_STEP, step(), wait_for_ready=True)
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
    assert waiting.call is not None
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


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 5, 8])
async def test_closing_a_channel_while_it_connects_leaves_no_connection(pairs, milliseconds):
    listener, channel = await pairs.pair(echo)
    calls = [asyncio.create_task(channel.call(RUN_STEP, step())) for _ in range(3)]
    await asyncio.sleep(milliseconds / 1000)

    await channel.close()

    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, (Payload, UnavailableError))
    assert channel._connection is None
    await listener.stop()
    assert not listener._fast._connections


async def test_a_deadline_counts_while_the_fast_path_is_being_connected_to(pairs, monkeypatch):
    monkeypatch.setattr(negotiated_transport, "_CONNECTING_SECONDS", 0.12)
    listener, channel = await pairs.pair(echo)
    with socket.socket() as silent:  # takes connections, and says nothing
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        moved(listener, silent.getsockname()[1])

        with pytest.raises(DeadlineExceededError):
            await channel.call(RUN_STEP, step(), timeout=0.1)
        assert (await channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]


async def test_stopping_waits_for_calls_and_not_for_connections(pairs):
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


async def answered(pairs, answer):
    """A listener whose RunStep has this answer, a channel that is connected to it, and what waits until all before it has
    arrived."""

    def handler(request, call):
        return answer

    async def status(request, call):
        return Payload(GetStatusResponse())

    listener = await pairs.listen({RUN_STEP: handler, STATUS: status})
    channel = pairs.connect(listener.address)

    async def arrived():
        await channel.call(STATUS, Payload(GetStatusRequest()))

    await arrived()
    return listener, channel, arrived


async def test_what_a_handler_has_at_once_is_the_reply(pairs):
    _, channel, _ = await answered(pairs, Answer(reply=Payload(RunStepResponse(), [np.arange(3)])))

    for _ in range(2):
        reply = await channel.call(RUN_STEP, step())
        np.testing.assert_array_equal(reply.tensors[0], np.arange(3))


async def test_an_answer_that_comes_later_is_sent_when_it_comes(pairs):
    answer, came = Answer(lambda error: None), asyncio.get_running_loop().create_future()
    _, channel, arrived = await answered(pairs, answer)
    assert channel.post(RUN_STEP, step(), came.set_result) is not None
    await arrived()
    assert not came.done()

    answer.set_reply(Payload(RunStepResponse()))

    assert isinstance(await came, Payload)


async def test_a_lost_connection_stops_answers_and_fails_posted_calls(pairs):
    stopped, came = asyncio.Event(), asyncio.get_running_loop().create_future()
    answer = Answer(lambda error: stopped.set())
    _, channel, arrived = await answered(pairs, answer)
    channel.post(RUN_STEP, step(), came.set_result)
    await arrived()

    channel._connection.abort()

    assert isinstance(await came, UnavailableError)
    await stopped.wait()
    answer.set_reply(CancelledError("the call was cancelled"))


async def test_a_caller_that_waits_no_longer_has_the_answer_stopped(pairs):
    stopped = asyncio.Event()
    came: list[object] = []
    answer = Answer(lambda error: stopped.set())
    _, channel, arrived = await answered(pairs, answer)
    posted = channel.post(RUN_STEP, step(), came.append)

    posted.cancel()

    await stopped.wait()
    answer.set_reply(CancelledError("the call was cancelled"))
    await arrived()
    assert not came


async def test_a_listener_that_stops_waits_for_answers(pairs):
    stopped = asyncio.Event()
    answer = Answer(lambda error: stopped.set())
    listener, channel, arrived = await answered(pairs, answer)
    channel.post(RUN_STEP, step(), lambda came: None)
    await arrived()
    stopping = asyncio.create_task(listener.stop())

    await stopped.wait()
    assert not stopping.done()
    answer.set_reply(CancelledError("the call was cancelled"))

    await stopping


@pytest.mark.parametrize("count", [3, 5000], ids=["at once", "off the loop"])
async def test_a_posted_call_passes_unreadable_replies_to_the_callback_as_errors(pairs, monkeypatch, count):
    def damaged(values, *others):
        raise RuntimeError("an unforeseen error")

    texts = np.array([b"text" * 20] * count, object)
    _, channel, arrived = await answered(pairs, Answer(reply=Payload(RunStepResponse(), [texts])))
    came, failed = [asyncio.get_running_loop().create_future() for _ in range(2)]
    channel.post(RUN_STEP, step(), came.set_result)
    np.testing.assert_array_equal((await came).tensors[0], texts)

    with monkeypatch.context() as patch:
        patch.setattr(calling, "payload_of", damaged)
        channel.post(RUN_STEP, step(), failed.set_result)
        error = await failed

    assert isinstance(error, UnknownError)
    assert "an unforeseen error" in error.message
    await arrived()


async def test_a_cancelled_posted_call_drops_the_reply_that_is_being_read(pairs, monkeypatch):
    loop, reading, may_read = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    read = Parts.values

    def slowly(parts):
        if parts.takes_long:
            loop.call_soon_threadsafe(reading.set)
            may_read.wait()
        return read(parts)

    monkeypatch.setattr(Parts, "values", slowly)
    texts = np.array([b"text" * 20] * 5000, object)
    _, channel, arrived = await answered(pairs, Answer(reply=Payload(RunStepResponse(), [texts])))
    came: list[object] = []
    last = loop.create_future()
    posted = channel.post(RUN_STEP, step(), came.append)
    await reading.wait()

    posted.cancel()
    may_read.set()
    channel.post(RUN_STEP, step(), last.set_result)

    assert isinstance(await last, Payload)
    await arrived()
    assert not came
