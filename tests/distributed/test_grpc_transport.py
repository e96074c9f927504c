"""Calls over gRPC on real sockets: values, errors, deadlines, cancellation, lost and stopped peers."""

import asyncio
import gc
import socket

import numpy as np
import pytest

from aioexec import errors
from aioexec.distributed.transport.status import DERIVED, with_payload
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)
from aioexec.formats.protos import ResetRequest, ResetResponse, RunStepResponse
from tests.distributed.grpc_pairs import RESET, RUN_STEP, Pairs, Waiting, echo, step

pytestmark = pytest.mark.network


@pytest.fixture
async def pairs():
    async with Pairs() as pairs:
        yield pairs


@pytest.fixture
def unused_port():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def failing(error):
    async def fail(request, call):
        raise error

    return fail


@pytest.mark.both_loops
async def test_values_go_there_and_back(pairs):
    _, channel = await pairs.pair(echo)
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.array(7), np.array([b"a", b"bc"], np.object_)]

    reply = await channel.call(RUN_STEP, step(*arrays))

    assert isinstance(reply.message, RunStepResponse)
    assert [named.name for named in reply.message.tensor] == ["x0:0", "x1:0", "x2:0"]
    for received, sent in zip(reply.tensors, arrays, strict=True):
        assert received.dtype == sent.dtype
        assert np.array_equal(received, sent)


@pytest.mark.slow
async def test_a_message_of_more_than_four_mebibytes_arrives(pairs):
    _, channel = await pairs.pair(echo)
    array = np.arange(3 << 20, dtype=np.float32)

    reply = await channel.call(RUN_STEP, step(array))

    assert np.array_equal(reply.tensors[0], array)


@pytest.mark.behaviour(147)
async def test_a_tensor_that_no_message_can_hold_fails_cleanly_on_either_side(pairs):
    huge = np.broadcast_to(np.zeros(1, np.uint8), (3 << 30,))  # takes no memory here

    async def reply_with_it(request, call):
        reply = RunStepResponse()
        reply.tensor.add(name="y:0")
        return Payload(reply, [huge] if request.message.fetch else [np.array(1)])

    _, channel = await pairs.pair(reply_with_it)
    asking = step()
    asking.message.fetch.append("y:0")

    with pytest.raises(ResourceExhaustedError, match="got 3221225472"):
        await channel.call(RUN_STEP, step(huge))
    with pytest.raises(ResourceExhaustedError, match="got 3221225472"):
        await channel.call(RUN_STEP, asking)
    assert (await channel.call(RUN_STEP, step())).tensors == [1]


async def test_many_calls_at_once_get_their_own_replies(pairs):
    _, channel = await pairs.pair(echo)

    replies = await asyncio.gather(*(channel.call(RUN_STEP, step(np.array(n))) for n in range(100)))

    assert [int(reply.tensors[0]) for reply in replies] == list(range(100))


async def test_a_call_names_its_peer_and_two_channels_are_two_peers(pairs):
    peers = []

    async def note(request, call):
        peers.append(call.peer)
        return Payload(RunStepResponse())

    listener, channel = await pairs.pair(note)
    other = pairs.connect(listener.address)
    for each in (channel, channel, other):
        await each.call(RUN_STEP, step())

    assert peers[0] == peers[1]
    assert peers[0] != peers[2]


@pytest.mark.parametrize("code", range(1, 17))
async def test_an_error_of_a_handler_arrives_as_the_error_of_its_code(pairs, code):
    kind = errors.exception_type_from_error_code(code)
    _, channel = await pairs.pair(failing(kind("what went wrong: äöü\n\t[[{{node a/b}}]]")))

    with pytest.raises(kind) as failed:
        await channel.call(RUN_STEP, step())

    assert type(failed.value) is kind
    assert failed.value.message == "what went wrong: äöü\n\t[[{{node a/b}}]]"
    assert failed.value.node == "a/b"


async def test_what_an_error_says_beside_its_message_arrives(pairs):
    _, channel = await pairs.pair(failing(with_payload(AbortedError("derived"), DERIVED, b"\0value")))

    with pytest.raises(AbortedError) as failed:
        await channel.call(RUN_STEP, step())

    assert failed.value.payloads == {DERIVED: b"\0value"}


@pytest.mark.behaviour(146)
@pytest.mark.parametrize("letter", ["x", "ä", "\n", "\N{SNOWMAN}"])
async def test_a_very_long_message_is_cut_and_its_code_arrives(pairs, letter):
    error = with_payload(InvalidArgumentError(letter * 100_000), DERIVED)
    _, channel = await pairs.pair(failing(error))

    with pytest.raises(InvalidArgumentError) as failed:
        await channel.call(RUN_STEP, step())

    assert failed.value.message.endswith(letter + " ... [truncated]")
    assert len(failed.value.message) <= 3072 + len(" ... [truncated]")
    assert len(failed.value.message) == 3072 + len(" ... [truncated]") or letter != "x"
    assert DERIVED in failed.value.payloads


async def test_payloads_that_do_not_fit_are_left_behind_and_the_error_arrives(pairs):
    _, channel = await pairs.pair(failing(with_payload(AbortedError("too much"), DERIVED, b"x" * 100_000)))

    with pytest.raises(AbortedError, match="too much"):
        await channel.call(RUN_STEP, step())


async def test_an_exception_of_another_kind_becomes_an_error_and_is_logged(pairs, caplog):
    _, channel = await pairs.pair(failing(KeyError("oops")))

    with pytest.raises(UnknownError, match="KeyError: 'oops'"):
        await channel.call(RUN_STEP, step())

    assert "MasterService/RunStep" in caplog.text


async def test_a_method_without_a_handler_is_unimplemented(pairs):
    _, channel = await pairs.pair(echo)

    with pytest.raises(UnimplementedError):
        await channel.call(RESET, Payload(ResetRequest()))


@pytest.mark.slow
async def test_no_reply_within_the_timeout_ends_the_call_and_its_handler(pairs):
    handler = Waiting()
    _, channel = await pairs.pair(handler)

    with pytest.raises(DeadlineExceededError):
        await channel.call(RUN_STEP, step(), timeout=0.5)

    await handler.cancelled.wait()
    assert handler.call is not None
    assert handler.call.deadline is not None


async def test_a_handler_knows_the_deadline_on_its_own_clock(pairs):
    deadlines = []

    async def note(request, call):
        deadlines.append(call.deadline)
        return await echo(request, call)

    _, channel = await pairs.pair(note)

    await channel.call(RUN_STEP, step(), timeout=30)
    await channel.call(RUN_STEP, step())

    assert deadlines[0] - asyncio.get_running_loop().time() == pytest.approx(30, abs=5)
    assert deadlines[1] is None


async def test_a_timeout_in_the_past_fails_without_a_call(pairs):
    handler = Waiting()
    _, channel = await pairs.pair(handler)

    with pytest.raises(DeadlineExceededError):
        await channel.call(RUN_STEP, step(), timeout=-1)


@pytest.mark.both_loops
async def test_cancelling_a_call_cancels_its_handler(pairs):
    handler = Waiting()
    _, channel = await pairs.pair(handler)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await handler.cancelled.wait()


@pytest.mark.parametrize("passes", range(6))
async def test_a_call_cancelled_at_any_time_is_cancelled_and_the_channel_stays_usable(pairs, passes):
    _, channel = await pairs.pair(echo)
    call = asyncio.create_task(channel.call(RUN_STEP, step(np.array(1))))
    for _ in range(passes):
        await asyncio.sleep(0)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert (await channel.call(RUN_STEP, step(np.array(2)))).tensors == [2]


async def test_a_handler_that_is_cancelled_from_within_answers_all_the_same(pairs):
    _, channel = await pairs.pair(failing(asyncio.CancelledError()))

    with pytest.raises(CancelledError):
        await channel.call(RUN_STEP, step())


async def test_a_peer_that_is_not_there_is_unavailable_at_once(pairs, unused_port):
    channel = pairs.connect(f"127.0.0.1:{unused_port}")

    with pytest.raises(UnavailableError, match=f":{unused_port}"):
        await channel.call(RUN_STEP, step())


@pytest.mark.slow
async def test_waiting_for_a_peer_ends_when_it_is_there(pairs, unused_port):
    channel = pairs.connect(f"127.0.0.1:{unused_port}")
    call = asyncio.create_task(channel.call(RUN_STEP, step(np.array(5)), wait_for_ready=True))
    await asyncio.sleep(0.3)

    await pairs.listen({RUN_STEP: echo}, f"127.0.0.1:{unused_port}")

    assert (await call).tensors == [5]


@pytest.mark.slow
async def test_calls_succeed_again_after_the_peer_is_back(pairs):
    listener, channel = await pairs.pair(echo)
    await channel.call(RUN_STEP, step())
    await listener.stop()
    for _ in range(20):  # gRPC hesitates more each time
        with pytest.raises(UnavailableError):
            await channel.call(RUN_STEP, step())
        await asyncio.sleep(0.05)

    await pairs.listen({RUN_STEP: echo}, listener.address)

    await until_answered(channel)


async def until_answered(channel):
    while True:
        try:
            await channel.call(RUN_STEP, step())
        except UnavailableError:
            await asyncio.sleep(0.02)
        else:
            return


async def test_stopping_a_listener_fails_its_calls_cancels_their_handlers_and_frees_the_port(pairs):
    handler = Waiting()
    listener, channel = await pairs.pair(handler)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    await listener.stop()

    assert handler.cancelled.is_set()
    with pytest.raises(UnavailableError, match="shutting down"):
        await call
    again = await pairs.listen({RUN_STEP: echo}, listener.address)
    assert again.address == listener.address


async def test_a_listener_that_stops_with_grace_finishes_what_is_under_way_and_takes_no_more(pairs):
    handler = Waiting()
    listener, channel = await pairs.pair(handler)
    call = asyncio.create_task(channel.call(RUN_STEP, step(np.array(3))))
    await handler.started.wait()

    stop = asyncio.create_task(listener.stop(30))
    await asyncio.sleep(0)
    with pytest.raises(UnavailableError, match="shutting down"):
        await channel.call(RUN_STEP, step())
    handler.go_on.set()

    assert (await call).tensors == [3]
    await stop


async def test_grace_ends(pairs):
    handler = Waiting()
    listener, channel = await pairs.pair(handler)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    await listener.stop(0.05)

    with pytest.raises(UnavailableError):
        await call


async def test_stopping_waits_for_what_handlers_do_when_they_are_cancelled(pairs):
    started, finished = asyncio.Event(), asyncio.Event()

    async def tidy(request, call):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            finished.set()

    listener, channel = await pairs.pair(tidy)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await started.wait()

    await listener.stop()

    assert finished.is_set()
    with pytest.raises(UnavailableError):
        await call


async def test_stopping_twice_and_before_starting_is_fine(pairs):
    listener, _ = await pairs.pair(echo)
    await asyncio.gather(listener.stop(), listener.stop(1))
    await listener.stop()

    never_started = pairs.transport().listener("127.0.0.1:0", {})
    await never_started.stop()
    await pairs.listen({}, never_started.address)


@pytest.mark.slow
async def test_stopped_listeners_leave_no_callback_of_grpc(pairs):
    await (await pairs.listen({})).stop()
    before = _callbacks()

    for _ in range(20):
        await (await pairs.listen({})).stop()

    assert _callbacks() - before < 20, "the last one's may be on their way"


def _callbacks():
    """How many callbacks of gRPC's core are alive: what it waits for, it keeps."""
    gc.collect()
    return sum(type(each).__name__ == "CallbackWrapper" for each in gc.get_objects())


async def test_two_listeners_cannot_have_one_address(pairs):
    listener, _ = await pairs.pair(echo)

    with pytest.raises(UnavailableError, match=listener.address):
        pairs.transport().listener(listener.address, {})


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:port", "nowhere.invalid:1", "127.0.0.1:99999"])
async def test_an_address_that_is_none_is_unavailable(pairs, address):
    with pytest.raises((UnavailableError, errors.FailedPreconditionError)):
        pairs.transport().listener(address, {})


async def test_closing_a_channel_fails_its_calls_and_cancels_their_handlers(pairs):
    handler = Waiting()
    _, channel = await pairs.pair(handler)
    call = asyncio.create_task(channel.call(RUN_STEP, step()))
    await handler.started.wait()

    await channel.close()

    with pytest.raises(UnavailableError, match="closed"):
        await call
    await handler.cancelled.wait()
    await channel.close()
    with pytest.raises(UnavailableError, match="closed"):
        await channel.call(RUN_STEP, step())


async def test_a_handler_runs_once_for_a_call_that_fails_as_unavailable(pairs):
    calls = []

    async def fail(request, call):
        calls.append(call)
        raise UnavailableError("no")

    _, channel = await pairs.pair(fail)
    with pytest.raises(UnavailableError, match="no"):
        await channel.call(RUN_STEP, step())

    assert len(calls) == 1


async def test_two_services_do_not_disturb_each_other(pairs):
    async def reset(request, call):
        return Payload(ResetResponse())

    listener = await pairs.listen({RUN_STEP: echo, RESET: reset})
    channel = pairs.connect(listener.address)

    assert isinstance((await channel.call(RESET, Payload(ResetRequest()))).message, ResetResponse)
    assert (await channel.call(RUN_STEP, step(np.array(1)))).tensors == [1]
