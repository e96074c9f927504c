"""Rendezvous: either side may come first, and receivers are served in FIFO order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aioexec import dtypes
from aioexec.errors import AbortedError, CancelledError, InternalError, InvalidArgumentError, OpError
from aioexec.execution.rendezvous import (
    IntraProcessRendezvous,
    ParsedKey,
    Table,
    check_received,
    create_key,
    parse_key,
)
from aioexec.testing.tasks import all_tasks_blocked

CPU0, CPU1 = (f"/job:worker/replica:0/task:{k}/device:CPU:0" for k in range(2))
KEY = create_key(CPU1, 0x4787CCE0A8731B0B, CPU0, "edge_8_v1/Assign")


# Keys


@pytest.mark.behaviour(84)
def test_a_key_is_spelt_as_in_tensorflow():
    assert KEY == (
        "/job:worker/replica:0/task:1/device:CPU:0;4787cce0a8731b0b;"
        "/job:worker/replica:0/task:0/device:CPU:0;edge_8_v1/Assign;0:0"
    )
    assert create_key(CPU0, 0x1234, CPU1, "e", (5189404682685958103, 2)) == (
        f"{CPU0};0000000000001234;{CPU1};e;5189404682685958103:2"
    )


@pytest.mark.slow
@pytest.mark.behaviour(84)
@given(
    st.integers(0, 2**64 - 1),
    st.text(st.characters(exclude_characters=";", categories=("L", "N", "P")), min_size=1),
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**31)),
)
def test_a_key_is_read_as_it_was_written(incarnation: int, edge: str, frame_iteration: tuple[int, int]):
    key = create_key(CPU0, incarnation, CPU1, edge, frame_iteration)

    assert parse_key(key) == ParsedKey(CPU0, incarnation, CPU1, edge, frame_iteration)


@given(st.integers(-(2**63), 2**63 - 1))
def test_an_incarnation_may_come_as_the_signed_number_of_an_attribute(incarnation: int):
    assert parse_key(create_key(CPU0, incarnation, CPU1, "e")).src_incarnation == incarnation % 2**64


@pytest.mark.behaviour(84)
@pytest.mark.parametrize(
    "key",
    [
        "",
        ";".join(KEY.split(";")[:4]),
        KEY + ";more",
        KEY.replace("4787cce0a8731b0b", "4787cce0"),
        KEY.replace("4787cce0a8731b0b", "4787CCE0A8731B0B"),
        KEY.replace("4787cce0a8731b0b", "4787cce0a8731b0x"),
        KEY.replace("0:0", "0"),
        KEY.replace("edge_8_v1/Assign", ""),
        KEY.replace("/task:1", ""),
        KEY.replace("/device:CPU:0", "/device:CPU:*"),
        KEY.removesuffix("0:0") + "0:x",
    ],
)
def test_a_malformed_key_is_refused(key: str):
    with pytest.raises(InvalidArgumentError, match="Invalid rendezvous key"):
        parse_key(key)


# One pair


@pytest.mark.behaviour(85)
@pytest.mark.parametrize("is_dead", [False, True])
async def test_what_was_sent_is_there_at_once(is_dead: bool):
    rendezvous = IntraProcessRendezvous()

    rendezvous.send(KEY, "hello", is_dead)

    assert rendezvous.recv(KEY).result() == ("hello", is_dead)
    assert rendezvous.close() == []


@pytest.mark.behaviour(85)
@pytest.mark.parametrize("is_dead", [False, True])
async def test_a_receiver_that_came_first_is_woken_by_the_send(is_dead: bool):
    rendezvous = IntraProcessRendezvous()
    waiting = rendezvous.recv(KEY)
    assert not waiting.done()

    rendezvous.send(KEY, "hello", is_dead)

    assert await waiting == ("hello", is_dead)
    assert rendezvous.close() == []


def test_the_fast_path_takes_what_is_there_without_a_future():
    rendezvous = IntraProcessRendezvous()
    assert rendezvous.try_recv(KEY) is None

    rendezvous.send(KEY, None)

    assert rendezvous.try_recv(KEY) == (None, False)
    assert rendezvous.try_recv(KEY) is None


async def test_keys_do_not_mix():
    rendezvous = IntraProcessRendezvous()
    keys = [create_key(CPU0, 1, CPU1, "e", (7, k)) for k in range(3)]
    waiting = [rendezvous.recv(key) for key in keys]

    for k in (1, 2, 0):
        rendezvous.send(keys[k], k)

    assert [(await future)[0] for future in waiting] == [0, 1, 2]


# Many on one key


@pytest.mark.behaviour(86)
@pytest.mark.parametrize("receivers_first", [False, True])
async def test_many_sends_and_receives_of_one_key_pair_up_in_order(receivers_first: bool):
    rendezvous = IntraProcessRendezvous()
    waiting = [rendezvous.recv(KEY) for _ in range(100)] if receivers_first else []

    for k in range(100):
        rendezvous.send(KEY, k)
        rendezvous.check_invariants()
    waiting = waiting or [rendezvous.recv(KEY) for _ in range(100)]

    assert [(await future)[0] for future in waiting] == list(range(100))
    assert rendezvous.close() == []


@pytest.mark.behaviour(88)
async def test_a_receiver_that_is_cancelled_before_it_receives_leaves_the_value_to_others():
    rendezvous = IntraProcessRendezvous()
    rendezvous.send(KEY, 1)

    async def receive() -> Any:
        return await rendezvous.recv(KEY)

    task = asyncio.create_task(receive())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert rendezvous.try_recv(KEY) == (1, False)


@pytest.mark.behaviour(88)
async def test_a_receiver_that_is_cancelled_while_it_waits_gets_nothing():
    rendezvous = IntraProcessRendezvous()

    async def receive() -> Any:
        return await rendezvous.recv(KEY)

    task = asyncio.create_task(receive())
    await all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    rendezvous.send(KEY, 1)

    assert rendezvous.close() == [KEY]


@pytest.mark.behaviour(88)
async def test_cancelling_after_the_delivery_changes_nothing():
    rendezvous = IntraProcessRendezvous()
    waiting = rendezvous.recv(KEY)
    rendezvous.send(KEY, 1)

    assert not waiting.cancel()

    assert await waiting == (1, False)


@pytest.mark.behaviour(89)
@pytest.mark.parametrize("with_a_pause", [False, True])
async def test_of_four_receivers_two_are_cancelled_and_the_others_keep_their_order(with_a_pause: bool):
    rendezvous = IntraProcessRendezvous()
    first, second, third, fourth = (rendezvous.recv(KEY) for _ in range(4))

    first.cancel()
    third.cancel()
    if with_a_pause:
        await asyncio.sleep(0)
    rendezvous.send(KEY, 1)
    rendezvous.send(KEY, 2)

    assert (await second)[0] == 1
    assert (await fourth)[0] == 2
    await asyncio.sleep(0)
    assert rendezvous.close() == []


@pytest.mark.behaviour(90)
async def test_cancelling_the_only_receiver_leaves_an_empty_rendezvous():
    rendezvous = IntraProcessRendezvous()
    rendezvous.recv(KEY).cancel()
    await asyncio.sleep(0)

    rendezvous.check_invariants()
    assert rendezvous.close() == []


# The end


@pytest.mark.behaviour(74, 87)
async def test_an_abort_fails_those_who_wait_and_those_who_come_later():
    rendezvous = IntraProcessRendezvous()
    waiting = [rendezvous.recv(create_key(CPU0, 1, CPU1, f"edge_{k}")) for k in range(4)]

    rendezvous.start_abort(AbortedError("the step is given up"))
    rendezvous.start_abort(CancelledError("too late"))

    for future in waiting:
        with pytest.raises(AbortedError, match="the step is given up"):
            await future
    for late in (
        lambda: rendezvous.recv(KEY),
        lambda: rendezvous.try_recv(KEY),
        lambda: rendezvous.send(KEY, 1),
    ):
        with pytest.raises(AbortedError, match="the step is given up"):
            late()
    assert isinstance(rendezvous.error, AbortedError)


async def test_values_that_were_not_received_are_dropped_by_an_abort():
    rendezvous = IntraProcessRendezvous()
    rendezvous.send(KEY, 1)

    rendezvous.start_abort(AbortedError("no"))

    with pytest.raises(AbortedError):
        rendezvous.try_recv(KEY)
    assert rendezvous.close() == []


async def test_an_abort_that_is_not_awaited_logs_nothing(caplog):
    rendezvous = IntraProcessRendezvous()
    rendezvous.recv(KEY)
    cancelled = rendezvous.recv(KEY)
    cancelled.cancel()

    rendezvous.start_abort(AbortedError("no"))
    del cancelled
    await asyncio.sleep(0)

    assert caplog.records == []


async def test_the_end_of_a_step_tells_what_was_left_and_fails_who_still_waits():
    rendezvous = IntraProcessRendezvous()
    other = create_key(CPU0, 1, CPU1, "other")
    rendezvous.send(KEY, 1)
    waiting = rendezvous.recv(other)

    assert rendezvous.close() == [KEY, other]

    with pytest.raises(AbortedError, match="has ended"):
        await waiting
    assert rendezvous.close() == []


@pytest.mark.behaviour(76)
def test_what_comes_must_be_of_the_declared_dtype():
    check_received(np.float32(1), dtypes.float32, "Recv 'a' on CPU:0")
    check_received(np.array([b"x"], object), dtypes.string, "Recv 'a' on CPU:0")

    with pytest.raises(InternalError, match="float64 does not match declared output type float32"):
        check_received(np.zeros(2), dtypes.float32, "Recv 'a' on CPU:0")
    with pytest.raises(InternalError, match="declared output type float32_ref"):
        check_received(np.zeros(2, np.float32), dtypes.float32.as_ref, "Recv 'a' on CPU:0")


# Any order

KEYS = st.sampled_from("abc")


class AnyOrder(RuleBasedStateMachine):
    """The table compared with a minimal model: all values and all receivers of a key in order of arrival."""

    @initialize()
    def start(self) -> None:
        self.table: Table[int] = Table()
        self.values: dict[str, deque[int]] = {key: deque() for key in "abc"}
        self.receivers: dict[str, deque[int]] = {key: deque() for key in "abc"}
        self.numbers = iter(range(10**6))

    def failing(self) -> bool:
        return self.table.error is not None

    @rule(key=KEYS)
    def send(self, key: str) -> None:
        number = next(self.numbers)
        if self.failing():
            with pytest.raises(AbortedError):
                self.table.send(key, (number, False))
            return
        receiver = self.table.send(key, (number, False))
        assert receiver == (self.receivers[key].popleft() if self.receivers[key] else None)
        if receiver is None:
            self.values[key].append(number)

    @rule(key=KEYS)
    def receive(self, key: str) -> None:
        if self.failing():
            with pytest.raises(AbortedError):
                self.table.take(key)
            return
        received = self.table.take(key)
        assert received == ((self.values[key].popleft(), False) if self.values[key] else None)
        if received is None:
            number = next(self.numbers)
            self.table.wait(key, number)
            self.receivers[key].append(number)

    @precondition(lambda self: any(self.receivers.values()))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        waiting = [(key, each) for key, line in self.receivers.items() for each in line]
        key, receiver = data.draw(st.sampled_from(waiting))
        self.table.withdraw(key, receiver)
        self.table.withdraw(key, receiver)
        self.receivers[key].remove(receiver)

    @precondition(lambda self: not self.failing())
    @rule(really=st.sampled_from([False] * 9 + [True]))
    def abort(self, really: bool) -> None:
        if really:
            failed = self.table.abort(AbortedError("first"))
            assert sorted(failed) == sorted(each for line in self.receivers.values() for each in line)
            assert self.table.abort(AbortedError("second")) == []
            for line in (*self.values.values(), *self.receivers.values()):
                line.clear()

    @invariant()
    def the_model_agrees(self) -> None:
        if hasattr(self, "table"):
            self.table.check_invariants()
            left = [key for side in (self.values, self.receivers) for key, line in side.items() if line]
            assert sorted(self.table.unmatched()) == sorted(left)
            assert self.table.error is None or str(self.table.error) == "first"


TestAnyOrder = pytest.mark.slow(AnyOrder.TestCase)


@given(st.lists(st.sampled_from(["send", "receive", "cancel", "pause", "abort"]), max_size=30), st.randoms())
async def test_futures_see_what_the_table_decides(events: list[str], random: Any):
    """Whatever happens: what is sent goes, in order, to receivers in their order, and the cancelled get nothing."""
    rendezvous = IntraProcessRendezvous()
    futures: list[asyncio.Future[Any]] = []
    sent = 0
    for event in events:
        try:
            if event == "send":
                rendezvous.send(KEY, sent)
                sent += 1
            elif event == "receive":
                futures.append(rendezvous.recv(KEY))
            elif event == "cancel" and futures:
                random.choice(futures).cancel()
            elif event == "pause":
                await asyncio.sleep(0)
            elif event == "abort" and random.random() < 0.2:
                rendezvous.start_abort(AbortedError("no"))
        except OpError:
            assert rendezvous.error is not None
        rendezvous.check_invariants()
    delivered = [f.result()[0] for f in futures if f.done() and not f.cancelled() and f.exception() is None]
    assert delivered == list(range(len(delivered)))
    assert len(delivered) <= sent
    waiting = [future for future in futures if not future.done()]
    assert not waiting or len(delivered) == sent
    rendezvous.close()
    await asyncio.sleep(0)
    assert all(future.done() for future in futures)
