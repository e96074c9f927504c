"""Calls to a server of the same loop: the guarantees of every transport, without a task or a loop iteration of their own."""

import asyncio

import numpy as np
import pytest

from aioexec import errors
from aioexec.distributed.transport.local import (
    LocalChannel,
    LocalListener,
    local_channel,
    serve_locally,
    stop_locally,
)
from aioexec.distributed.transport.transport import Call, Payload
from aioexec.formats.protos import GetStatusRequest
from aioexec.testing import all_tasks_blocked

pytestmark = pytest.mark.usefixtures("virtual_clock")

ADDRESS = "localhost:1"
STATUS = "WorkerService/GetStatus"
ASK = Payload(GetStatusRequest(), [np.arange(3)])


def connected() -> LocalChannel:
    found = local_channel(ADDRESS)
    assert found is not None
    return found


class Served:
    """A handler that waits until it may go on, and what became of its calls."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.calls: list[Call] = []
        self.cancelled = 0
        self.gone: list[str] = []
        self.listener = serve_locally(ADDRESS, {STATUS: self.answer}, self.gone.append)

    async def answer(self, request, call):
        self.calls.append(call)
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return request


@pytest.fixture
async def served():
    made = Served()
    yield made
    await made.listener.stop()


@pytest.fixture
async def channel(served):
    found = connected()
    yield found
    await found.close()


async def test_the_handler_gets_the_callers_own_objects_in_the_callers_task(served, channel):
    served.go_on.set()

    coroutine = channel.call(STATUS, ASK)
    with pytest.raises(StopIteration) as over:
        coroutine.send(None)  # to its end: nothing is waited for

    assert over.value.value is ASK


async def test_an_address_without_a_listener_is_unavailable(served):
    assert local_channel("localhost:2") is None


async def test_all_calls_of_a_channel_have_one_peer_and_no_other_channels(served, channel):
    served.go_on.set()
    other = connected()

    for each in (channel, channel, other):
        await each.call(STATUS, ASK)
    await other.close()

    first, second, third = (call.peer for call in served.calls)
    assert first == second != third
    assert served.gone == [third]


async def test_a_channel_that_is_forgotten_is_gone(served):
    served.go_on.set()
    channel = connected()
    await channel.call(STATUS, ASK)

    del channel
    await all_tasks_blocked()

    assert served.gone == [served.calls[0].peer]


async def test_cancelling_the_caller_cancels_the_handler(served, channel):
    caller = asyncio.create_task(channel.call(STATUS, ASK))
    await all_tasks_blocked()

    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert served.cancelled == 1


async def test_a_timeout_cancels_the_handler_which_knew_of_it(served, channel):
    now = asyncio.get_running_loop().time()

    with pytest.raises(errors.DeadlineExceededError, match="no reply within 3 s"):
        await channel.call(STATUS, ASK, 3.0)

    assert (served.cancelled, served.calls[0].deadline) == (1, now + 3.0)


async def test_an_error_arrives_as_the_same_error_with_its_node():
    async def fail(request, call):
        raise errors.FailedPreconditionError(None, None, "not initialised [[{{node v}}]]")

    serve_locally(ADDRESS, {STATUS: fail})
    channel = connected()

    with pytest.raises(errors.FailedPreconditionError, match="not initialised") as failed:
        await channel.call(STATUS, ASK)
    await stop_locally(ADDRESS)

    assert failed.value.node == "v"


async def test_a_method_that_is_not_served_is_unimplemented(channel):
    with pytest.raises(errors.UnimplementedError, match="GetNothing"):
        await channel.call("WorkerService/GetNothing", ASK)


async def test_stopping_waits_for_calls_then_ends_them_as_lost(served, channel):
    caller = asyncio.create_task(channel.call(STATUS, ASK))
    await all_tasks_blocked()
    start = asyncio.get_running_loop().time()

    await stop_locally(ADDRESS, 2.0)

    assert asyncio.get_running_loop().time() == start + 2.0
    with pytest.raises(errors.UnavailableError, match="was lost"):
        await caller
    assert caller.cancelling() == 0
    with pytest.raises(errors.UnavailableError, match="no listener at"):
        await channel.call(STATUS, ASK)


async def test_stopping_ends_as_soon_as_the_last_call_is_over(served, channel):
    caller = asyncio.create_task(channel.call(STATUS, ASK))
    await all_tasks_blocked()
    start = asyncio.get_running_loop().time()

    stopping = asyncio.create_task(served.listener.stop(5.0))
    await all_tasks_blocked()
    served.go_on.set()
    await stopping

    assert await caller is ASK
    assert asyncio.get_running_loop().time() == start


async def test_a_call_can_wait_for_a_server_that_is_away(served, channel):
    served.go_on.set()
    await served.listener.stop()
    caller = asyncio.create_task(channel.call(STATUS, ASK, wait_for_ready=True))
    await all_tasks_blocked()
    assert not caller.done()

    again = Served()
    again.go_on.set()

    assert await caller is ASK
    assert len(again.calls) == 1
    await again.listener.stop()


async def test_closing_a_channel_ends_its_calls(served, channel):
    caller = asyncio.create_task(channel.call(STATUS, ASK))
    await all_tasks_blocked()

    await channel.close()

    with pytest.raises(errors.UnavailableError):
        await caller
    with pytest.raises(errors.UnavailableError, match="was closed"):
        await channel.call(STATUS, ASK)


async def test_an_address_is_served_once(served):
    with pytest.raises(errors.UnavailableError, match="a server of this process does"):
        await LocalListener(ADDRESS, {}).start()
