"""Calls whose handlers send notifications: the guarantees of every transport that supports them."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import numpy as np
import pytest

from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.tensors import Written, write
from aioexec.distributed.transport.liveness import watch_channel
from aioexec.distributed.transport.local import local_channel, serve_locally
from aioexec.distributed.transport.memory.network import AS_USUAL, Fate, MemoryNetwork, Message
from aioexec.distributed.transport.memory.transport import MemoryChannel, MemoryTransport
from aioexec.distributed.transport.settings import Liveness
from aioexec.distributed.transport.transport import (
    NOTIFICATION_BYTES,
    Call,
    Channel,
    Handler,
    Listener,
    Notify,
    Payload,
)
from aioexec.errors import (
    DataLossError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)
from aioexec.formats.protos import PushRequest, PushResponse, RunStepResponse
from aioexec.testing import all_tasks_blocked
from tests.distributed.fast_pairs import FastPairs, Noting, moved
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, echo, step

PUSH = "Peer/Push"
REQUEST = Payload(PushRequest(task="me"))
HANDLERS = {RUN_STEP: echo}


class Way(AsyncExitStack, abc.ABC):
    """A transport, as these tests use it: one listener, and one channel to it."""

    listener: Listener
    channel: Channel

    @abc.abstractmethod
    async def serve(self, handler: Handler) -> Channel:
        """Serve a handler of Push and echoes, and connect to it."""

    @abc.abstractmethod
    def cut(self) -> None:
        """Lose the connection."""


class FastWay(Way):
    channel: Any  # a NegotiatedChannel

    async def serve(self, handler: Handler) -> Channel:
        pairs = await self.enter_async_context(FastPairs())
        self.listener = await pairs.listen({**HANDLERS, PUSH: handler})
        self.channel = pairs.connect(self.listener.address)
        return self.channel

    def cut(self) -> None:
        self.channel._connection.abort()


class MemoryWay(Way):
    channel: MemoryChannel

    async def serve(self, handler: Handler) -> Channel:
        self.network = MemoryNetwork()
        server = MemoryTransport(self.network, "server")
        self.listener = server.listener("server:1", {**HANDLERS, PUSH: handler})
        self.push_async_callback(self.listener.stop)
        await self.listener.start()
        self.channel = MemoryTransport(self.network, "client").channel("server:1")
        self.push_async_callback(self.channel.close)
        return self.channel

    def cut(self) -> None:
        assert self.channel._connection is not None
        self.channel._connection.break_off("cut")


@pytest.fixture(params=[FastWay, MemoryWay], ids=["fast", "memory"])
async def way(request: pytest.FixtureRequest) -> AsyncIterator[Way]:
    async with request.param() as way:
        yield way


pytestmark = [pytest.mark.network, pytest.mark.both_loops]


def payload(number: int, *arrays: Any) -> Payload:
    return Payload(PushResponse(step_id=number), arrays)


def never(payload: Payload) -> None:
    pytest.fail(f"received {payload}")


class Sender:
    """A handler whose notifications and reply a test sends, and which records what happens to its call."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.end: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self.call: Call | None = None

    async def __call__(self, request: Payload, call: Call) -> Payload:
        self.call = call
        self.started.set()
        try:
            return await self.end
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @property
    def notify(self) -> Notify:
        assert self.call is not None
        assert self.call.notify is not None
        return self.call.notify


class Follower:
    """Follows, and records the notifications; `reached` waits for a number of them."""

    def __init__(self, channel: Channel, callback: Callable[[Payload], None] | None = None) -> None:
        self.received: list[Payload] = []
        self._and_then = callback
        self.following = asyncio.create_task(channel.follow(PUSH, REQUEST, self._take))
        self._awaited: tuple[int, asyncio.Future[None]] | None = None

    @property
    def numbers(self) -> list[int]:
        return [each.message.step_id for each in self.received]

    def _take(self, payload: Payload) -> None:
        self.received.append(payload)
        if self._awaited is not None and len(self.received) == self._awaited[0]:
            self._awaited[1].set_result(None)
        if self._and_then is not None:
            self._and_then(payload)

    async def reached(self, count: int) -> None:
        if len(self.received) < count:
            self._awaited = count, asyncio.get_running_loop().create_future()
            await self._awaited[1]


async def followed(way: Way, then: Callable[[Payload], None] | None = None) -> tuple[Sender, Follower]:
    sender = Sender()
    follower = Follower(await way.serve(sender), then)
    await sender.started.wait()
    return sender, follower


async def test_notifications_arrive_once_and_in_order_beside_other_calls(way: Way):
    async def notify_often(request: Payload, call: Call) -> Payload:
        assert call.notify is not None
        for number in range(300):
            call.notify(payload(number, np.full(number, number, np.int16)))
            if number % 7 == 0:
                await asyncio.sleep(0)
        return payload(300)

    channel = await way.serve(notify_often)
    follower = Follower(channel)

    calls = [channel.call(RUN_STEP, step(np.full(size, size))) for size in (1, 100_000, 3) * 5]
    replies = await asyncio.gather(*calls)
    await follower.following

    assert [reply.tensors[0].size for reply in replies] == [1, 100_000, 3] * 5
    assert follower.numbers == list(range(300))
    for number, each in enumerate(follower.received):
        np.testing.assert_array_equal(each.tensors[0], np.full(number, number, np.int16), strict=True)


@pytest.mark.parametrize("count", [1, 3])
async def test_the_first_notification_of_a_call_is_sent_at_once(count: int):
    """It waits neither for other notifications nor for the reply, so that the caller can use it; those are sent together."""
    async with FastWay() as way:
        sender, follower = await followed(way)
        (connection,) = way.listener._fast._connections  # type: ignore[attr-defined]

        def notifies(request: Payload, call: Call) -> Answer:
            for number in range(count):
                sender.notify(payload(number))
            return Answer(reply=Payload(RunStepResponse()))

        connection._handlers = {RUN_STEP: notifies}
        written = connection._transport = Noting(connection._transport)

        await way.channel.call(RUN_STEP, step())
        await follower.reached(count)

        assert written.kinds == [[frames.NOTIFICATION], [frames.NOTIFICATION] * (count - 1) + [frames.REPLY]]
        assert follower.numbers == list(range(count))
        sender.end.set_result(payload(0))
        await follower.following


async def test_several_may_be_followed_at_once_and_hear_their_own(way: Way):
    async def notify_thrice(request: Payload, call: Call) -> Payload:
        assert call.notify is not None
        for number in range(3):
            await asyncio.sleep(0)
            call.notify(payload(int(request.message.task) * 10 + number))
        return payload(0)

    channel = await way.serve(notify_thrice)

    def note(numbers: list[int], payload: Payload) -> None:
        numbers.append(payload.message.step_id)

    heard: dict[int, list[int]] = {number: [] for number in range(5)}

    await asyncio.gather(
        *(
            channel.follow(
                PUSH,
                Payload(PushRequest(task=str(number))),
                partial(note, numbers),
            )
            for number, numbers in heard.items()
        )
    )

    assert heard == {number: [number * 10 + k for k in range(3)] for number in range(5)}


async def test_a_notification_shares_no_memory_with_what_was_given(way: Way):
    sender, follower = await followed(way)
    given = np.arange(3.0)

    sender.notify(payload(1, given))
    given[:] = 7.0
    await follower.reached(1)

    np.testing.assert_array_equal(follower.received[0].tensors[0], [0.0, 1.0, 2.0])
    sender.end.set_result(payload(0))
    await follower.following


async def test_cancelling_the_follower_cancels_the_handler(way: Way):
    sender, follower = await followed(way)

    follower.following.cancel()
    with pytest.raises(asyncio.CancelledError):
        await follower.following

    await sender.cancelled.wait()
    sender.notify(payload(1))
    assert (await way.channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]
    assert follower.received == []


async def test_the_error_of_the_handler_reaches_the_follower_after_the_notifications(way: Way):
    sender, follower = await followed(way)

    sender.notify(payload(1))
    sender.end.set_exception(NotFoundError("no such thing"))

    with pytest.raises(NotFoundError, match="no such thing"):
        await follower.following
    assert follower.numbers == [1]


async def test_after_the_end_no_notification_arrives(way: Way):
    sender, follower = await followed(way)
    notify = sender.notify
    sender.end.set_result(payload(0))
    await follower.following

    notify(payload(1))

    assert (await way.channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]
    assert follower.received == []


@pytest.mark.parametrize("end", ["cut", "stop", "close"])
async def test_a_lost_connection_is_an_error_of_the_follower_and_cancels_the_handler(way: Way, end: str):
    sender, follower = await followed(way)

    if end == "cut":
        way.cut()
    else:
        await (way.listener.stop() if end == "stop" else way.channel.close())

    with pytest.raises(UnavailableError):
        await follower.following
    await sender.cancelled.wait()
    sender.notify(payload(1))
    await all_tasks_blocked()
    assert follower.received == []


async def test_an_error_in_the_follower_ends_the_call_and_the_notifications(way: Way):
    def refuse(payload: Payload) -> None:
        raise InvalidArgumentError("not that")

    sender, follower = await followed(way, refuse)

    for number in range(3):
        sender.notify(payload(number))

    with pytest.raises(InvalidArgumentError, match="not that"):
        await follower.following
    await sender.cancelled.wait()
    assert follower.numbers == [0]
    assert (await way.channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]


async def test_a_notification_that_is_too_large_is_refused_in_the_handler(way: Way):
    sender, follower = await followed(way)

    with pytest.raises(InternalError):
        sender.notify(payload(1, np.zeros(NOTIFICATION_BYTES + 1, np.uint8)))
    sender.notify(payload(2, np.zeros(NOTIFICATION_BYTES, np.uint8)))
    await follower.reached(1)
    sender.end.set_result(payload(0))
    await follower.following

    assert follower.numbers == [2]
    assert follower.received[0].tensors[0].nbytes == NOTIFICATION_BYTES


async def test_a_caller_that_does_not_follow_gets_the_reply_alone(way: Way):
    async def notify(request: Payload, call: Call) -> Payload:
        assert call.notify is not None
        call.notify(payload(1, np.zeros(3)))
        await asyncio.sleep(0)
        call.notify(payload(2))
        return payload(3)

    channel = await way.serve(notify)

    assert (await channel.call(PUSH, REQUEST)).message.step_id == 3


async def test_following_what_is_not_served_is_unimplemented(way: Way):
    channel = await way.serve(Sender())

    with pytest.raises(UnimplementedError):
        await channel.follow("WorkerService/Tracing", REQUEST, never)


async def test_a_watched_channel_follows_too_without_pings(way: Way):
    sender = Sender()
    channel = watch_channel(await way.serve(sender), Liveness(interval=0.01, timeout=0.01))
    follower = Follower(channel)
    await sender.started.wait()

    sender.notify(payload(1))
    await follower.reached(1)
    sender.end.set_result(payload(0))
    await follower.following

    assert channel._timer is None  # type: ignore[attr-defined]
    await channel.close()


# Transports without notifications


async def test_grpc_has_only_requests_and_replies():
    async with Pairs() as pairs, FastPairs() as fast:
        listener = await pairs.listen({PUSH: Sender()})
        for channel in (pairs.connect(listener.address), fast.connect(listener.address)):
            with pytest.raises(UnimplementedError):
                await channel.follow(PUSH, REQUEST, never)


async def test_over_grpc_a_handler_cannot_notify():
    async def how(request: Payload, call: Call) -> Payload:
        return payload(1 if call.notify is None else 0)

    async with Pairs() as pairs:
        listener = await pairs.listen({PUSH: how})
        reply = await pairs.connect(listener.address).call(PUSH, REQUEST)

    assert reply.message.step_id == 1


async def test_a_server_of_the_same_loop_is_not_followed():
    listener = serve_locally("localhost:1", {PUSH: Sender()}, lambda peer: None)
    channel = local_channel("localhost:1")
    assert channel is not None

    with pytest.raises(UnimplementedError):
        await channel.follow(PUSH, REQUEST, never)
    await channel.close()
    await listener.stop()


# Misbehaving peers of a follower


async def test_a_malformed_notification_ends_the_connection():
    async def liar(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(frames.greeting(1, 1, bytes(32))))
        writer.write(frames.welcome())
        await reader.readexactly(1)
        frame = frames.notification(1, b"", [])
        writer.write(frame[:-1] + b"\x09")  # tensors that are not there
        await reader.read()
        writer.close()

    server = await asyncio.start_server(liar, "127.0.0.1", 0)
    async with FastPairs() as pairs:
        listener = await pairs.listen({PUSH: Sender()})
        moved(listener, server.sockets[0].getsockname()[1])
        with pytest.raises(UnavailableError, match="malformed data"):
            await pairs.connect(listener.address).follow(PUSH, REQUEST, never)
    server.close()
    await server.wait_closed()


STRINGS = write(np.array([b"abc"], np.object_))


@pytest.mark.parametrize(
    ("message", "tensors"),
    [(b"\xff\xff", []), (b"", [(STRINGS[0], b"\x09abc")])],
    ids=["message", "strings"],
)
async def test_what_cannot_be_read_is_an_error_of_its_call_alone(message: bytes, tensors: list[Written]):
    async with FastWay() as way:
        sender, follower = await followed(way)
        (connection,) = way.listener._fast._connections  # type: ignore[attr-defined]
        (call,) = connection._running

        connection._write(frames.notification(call, message, tensors))

        with pytest.raises((DataLossError, UnknownError)):
            await follower.following
        await sender.cancelled.wait()
        assert (await way.channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]
        assert follower.received == []


# Faults of the network


def to_notifications(*fates: Fate) -> Callable[[Message], Fate]:
    left = iter(fates)
    return lambda message: next(left, AS_USUAL) if message.kind == "notification" else AS_USUAL


@pytest.mark.parametrize(
    ("fates", "numbers"),
    [([(0.0, 0.1), (0.0, 0.0)], [1, 2, 3]), ([(0.5,), (0.2,), (0.1,)], [3, 2, 1])],
    ids=["repeated", "overtaken"],
)
@pytest.mark.usefixtures("virtual_clock")
async def test_in_memory_each_arrives_once_in_whatever_order(fates: list[Fate], numbers: list[int]):
    async with MemoryWay() as way:
        sender, follower = await followed(way)
        way.network.fate = to_notifications(*fates)

        for number in (1, 2, 3):
            sender.notify(payload(number, np.zeros(2)))
        await asyncio.sleep(1.0)

        assert follower.numbers == numbers
        sender.end.set_result(payload(0))
        await follower.following


@pytest.mark.usefixtures("virtual_clock")
async def test_in_memory_what_is_lost_breaks_the_connection():
    async with MemoryWay() as way:
        sender, follower = await followed(way)
        way.network.fate = to_notifications(())

        sender.notify(payload(1))

        with pytest.raises(UnavailableError, match="lost"):
            await follower.following
        await sender.cancelled.wait()
