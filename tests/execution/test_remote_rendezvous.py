"""A rendezvous over several processes: local values stay here, all others are requested."""

from __future__ import annotations

import asyncio
import random

import pytest

from aioexec.errors import AbortedError, CancelledError, UnavailableError, UnknownError
from aioexec.execution.remote_rendezvous import RemoteRendezvous
from aioexec.execution.rendezvous import IntraProcessRendezvous, Received, create_key
from aioexec.testing.tasks import all_tasks_blocked

HERE, THERE = (f"/job:worker/replica:0/task:{task}" for task in range(2))


class Wire:
    """The transport between two processes in one: asks the other side's table, and knows what was asked and given up."""

    def __init__(self) -> None:
        self.other_side = IntraProcessRendezvous()
        self.asked: list[str] = []
        self.calls: list[asyncio.Future[Received]] = []

    def fetch(self, key: str) -> asyncio.Future[Received]:
        self.asked.append(key)
        self.calls.append(self.other_side.recv(key))
        return self.calls[-1]


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def rendezvous(wire: Wire) -> RemoteRendezvous:
    return RemoteRendezvous(HERE, wire.fetch)


def key(source: str, edge: str = "e") -> str:
    return create_key(f"{source}/device:CPU:0", 1, f"{HERE}/device:CPU:1", edge)


class Receiver:
    """Has the interface of a future, as the executor's receivers have."""

    def __init__(self) -> None:
        self.result: object = None

    def done(self) -> bool:
        return self.result is not None

    def set_result(self, result: Received, /) -> None:
        self.result = result

    def set_exception(self, exception: Exception, /) -> None:
        self.result = exception


@pytest.mark.behaviour(92)
async def test_what_is_sent_and_received_in_one_process_does_not_touch_the_wire(
    wire: Wire, rendezvous: RemoteRendezvous
):
    first = rendezvous.recv(key(HERE))
    rendezvous.send(key(HERE), 1)
    rendezvous.send(key(HERE), 2)
    rendezvous.expect(key(HERE, "other"), receiver := Receiver())
    rendezvous.send(key(HERE, "other"), 3, True)

    assert await first == (1, False)
    assert rendezvous.try_recv(key(HERE)) == (2, False)
    assert receiver.result == (3, True)
    assert wire.asked == []


@pytest.mark.behaviour(92)
async def test_what_is_sent_elsewhere_is_asked_for_there(wire: Wire, rendezvous: RemoteRendezvous):
    wire.other_side.send(key(THERE), 1)

    assert rendezvous.try_recv(key(THERE)) is None
    assert await rendezvous.recv(key(THERE)) == (1, False)
    rendezvous.expect(key(THERE, "dead"), receiver := Receiver())
    wire.other_side.send(key(THERE, "dead"), None, True)
    await all_tasks_blocked()

    assert receiver.result == (None, True)
    assert rendezvous.close() == []


@pytest.mark.behaviour(92)
async def test_many_are_in_flight_at_once_and_come_in_any_order(wire: Wire, rendezvous: RemoteRendezvous):
    edges = [str(edge) for edge in range(1000)]
    waiting = [rendezvous.recv(key(THERE, edge)) for edge in edges]

    for edge in random.sample(edges, len(edges)):
        wire.other_side.send(key(THERE, edge), int(edge))

    assert await asyncio.gather(*waiting) == [(edge, False) for edge in range(1000)]


@pytest.mark.behaviour(92)
async def test_an_abort_reaches_who_waits_for_another_process_and_ends_the_call(
    wire: Wire, rendezvous: RemoteRendezvous
):
    waiting = rendezvous.recv(key(THERE))
    rendezvous.expect(key(THERE), receiver := Receiver())
    error = AbortedError("the step failed")

    rendezvous.start_abort(error)
    rendezvous.start_abort(AbortedError("too late"))

    with pytest.raises(AbortedError, match="the step failed"):
        await waiting
    assert receiver.result is error
    assert all(call.cancelled() for call in wire.calls)
    for use in (rendezvous.try_recv, rendezvous.recv):
        with pytest.raises(AbortedError, match="the step failed"):
            use(key(THERE))
    rendezvous.check_invariants()


@pytest.mark.behaviour(92)
async def test_cancelling_who_waits_for_another_process_ends_the_call_and_no_other(
    wire: Wire, rendezvous: RemoteRendezvous
):
    given_up, kept = rendezvous.recv(key(THERE)), rendezvous.recv(key(THERE))

    given_up.cancel()
    await all_tasks_blocked()
    wire.other_side.send(key(THERE), 1)

    assert await kept == (1, False)
    assert [call.cancelled() for call in wire.calls] == [True, False]


async def test_an_error_of_the_other_process_is_the_receivers(wire: Wire, rendezvous: RemoteRendezvous):
    waiting = rendezvous.recv(key(THERE))
    wire.other_side.start_abort(UnavailableError("the other worker is gone"))

    with pytest.raises(UnavailableError, match="the other worker is gone"):
        await waiting


async def test_what_the_transport_raises_or_gives_up_is_an_error_of_ours(
    wire: Wire, rendezvous: RemoteRendezvous
):
    broken, given_up = rendezvous.recv(key(THERE)), rendezvous.recv(key(THERE))
    wire.calls[0].set_exception(OSError("no route"))
    wire.calls[1].cancel()

    with pytest.raises(UnknownError, match="no route"):
        await broken
    with pytest.raises(CancelledError, match="the transfer was cancelled"):
        await given_up


async def test_the_end_of_a_step_ends_the_calls_that_are_not_needed(wire: Wire, rendezvous: RemoteRendezvous):
    rendezvous.expect(key(THERE), receiver := Receiver())

    assert rendezvous.close() == [key(THERE)]

    assert isinstance(receiver.result, AbortedError)
    assert wire.calls[0].cancelled()
    rendezvous.check_invariants()
