"""A rendezvous that receives and sends pushed values: none is lost, none is taken twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aioexec.errors import AbortedError, OpError, UnavailableError
from aioexec.execution.remote_rendezvous import RemoteRendezvous
from aioexec.execution.rendezvous import Received, create_key
from aioexec.testing import DeterministicLoop, all_tasks_blocked
from tests.execution.test_remote_rendezvous import Receiver, Wire

HERE, THERE, ELSEWHERE = (f"/job:worker/replica:0/task:{task}" for task in range(3))
LARGE = 1000
"""Values from here on are too large to be sent unasked."""

GONE = UnavailableError("the connection was lost")


def key(source: str, destination: str, edge: object = "e") -> str:
    return create_key(f"{source}/device:CPU:0", 1, f"{destination}/device:CPU:1", str(edge))


class ToyExchange:
    """Records followers and followed tasks; a pushed value is passed to `deliver`, and whether it is only announced."""

    def __init__(self, deliver: Callable[[str, Any, bool, bool], None] | None = None) -> None:
        self.notified: set[str] = set()
        self.followers: set[str] = set()
        self.sources: set[str] = set()
        self.pushed: list[tuple[str, Any, bool, bool]] = []
        self._deliver = deliver or (lambda *said: self.pushed.append(said))

    def push(self, key: str, value: Any, is_dead: bool) -> bool:
        follower = key.split(";")[2].partition("/device:")[0]
        if follower not in self.followers:
            return False
        self.notified.add(follower)
        is_kept = not is_dead and value >= LARGE
        self._deliver(key, value, is_dead, is_kept)
        return not is_kept

    def expect_push(self, key: str) -> bool:
        return key.partition("/device:")[0] in self.sources


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def exchange() -> ToyExchange:
    return ToyExchange()


@pytest.fixture
def rendezvous(wire: Wire, exchange: ToyExchange) -> RemoteRendezvous:
    return RemoteRendezvous(HERE, wire.fetch, exchange)


# Receiving


@pytest.mark.parametrize("first", ["value", "receiver"])
@pytest.mark.parametrize("how", ["recv", "expect"])
async def test_what_comes_from_a_source_is_waited_for_here(
    wire: Wire, exchange: ToyExchange, rendezvous: RemoteRendezvous, first: str, how: str
):
    exchange.sources.add(THERE)
    receiver = Receiver()
    if first == "value":
        rendezvous.on_value_pushed(key(THERE, HERE), 1, False)

    if how == "recv":
        future = rendezvous.recv(key(THERE, HERE))
        future.add_done_callback(lambda done: receiver.set_result(done.result()))
    elif (found := rendezvous.try_recv(key(THERE, HERE))) is not None:
        receiver.set_result(found)
    else:
        rendezvous.expect(key(THERE, HERE), receiver)
    if first == "receiver":
        rendezvous.on_value_pushed(key(THERE, HERE), 1, False)
    await all_tasks_blocked()

    assert receiver.result == (1, False)
    assert wire.asked == []
    assert rendezvous.is_empty


async def test_a_value_that_was_asked_for_before_it_came_is_taken_once(
    wire: Wire, exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    rendezvous.expect(key(THERE, HERE), receiver := Receiver())
    future = rendezvous.recv(key(THERE, HERE, "other"))
    exchange.sources.add(THERE)

    rendezvous.on_value_pushed(key(THERE, HERE), None, True)
    rendezvous.on_value_pushed(key(THERE, HERE, "other"), 2, False)
    await all_tasks_blocked()

    assert receiver.result == (None, True)
    assert await future == (2, False)
    assert [call.cancelled() for call in wire.calls] == [True, True]
    assert rendezvous.is_empty


async def test_what_came_before_it_is_known_to_come_unasked_is_not_asked_for(
    wire: Wire, rendezvous: RemoteRendezvous
):
    for edge in ("tried", "received"):
        rendezvous.on_value_pushed(key(THERE, HERE, edge), 1, False)

    assert rendezvous.try_recv(key(THERE, HERE, "tried")) == (1, False)
    assert await rendezvous.recv(key(THERE, HERE, "received")) == (1, False)
    assert wire.asked == []


@pytest.mark.parametrize("waits", [True, False])
async def test_what_is_announced_is_asked_for(
    wire: Wire, exchange: ToyExchange, rendezvous: RemoteRendezvous, waits: bool
):
    exchange.sources.add(THERE)
    receiver, given_up = Receiver(), Receiver()
    given_up.result = "it has ended"
    if waits:
        rendezvous.expect(key(THERE, HERE), given_up)
        rendezvous.expect(key(THERE, HERE), receiver)

    rendezvous.on_value_announced(key(THERE, HERE))
    if not waits:
        rendezvous.expect(key(THERE, HERE), receiver)
    wire.other_side.send(key(THERE, HERE), LARGE)
    await all_tasks_blocked()

    assert receiver.result == (LARGE, False)
    assert wire.asked == [key(THERE, HERE)]


async def test_what_is_announced_while_it_is_asked_for_is_asked_for_once(
    wire: Wire, exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    future = rendezvous.recv(key(THERE, HERE))
    exchange.sources.add(THERE)

    rendezvous.on_value_announced(key(THERE, HERE))
    wire.other_side.send(key(THERE, HERE), LARGE)

    assert await future == (LARGE, False)
    assert wire.asked == [key(THERE, HERE)]


async def test_who_gives_up_waiting_for_what_comes_leaves_the_value_to_the_next(
    exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    exchange.sources.add(THERE)
    given_up, kept = rendezvous.recv(key(THERE, HERE)), rendezvous.recv(key(THERE, HERE))

    given_up.cancel()
    rendezvous.on_value_pushed(key(THERE, HERE), 1, False)

    assert await kept == (1, False)


async def test_a_lost_source_fails_exactly_those_who_wait_for_it(
    wire: Wire, exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    exchange.sources |= {THERE, ELSEWHERE}
    rendezvous.expect(key(THERE, HERE), lost := Receiver())
    rendezvous.expect(key(ELSEWHERE, HERE), other := Receiver())
    rendezvous.expect(key(HERE, HERE), own := Receiver())
    rendezvous.on_value_announced(key(THERE, HERE, "large"))
    rendezvous.expect(key(THERE, HERE, "large"), asked := Receiver())
    rendezvous.on_value_pushed(key(THERE, HERE, "came"), 1, False)

    exchange.sources.discard(THERE)
    rendezvous.on_task_lost(THERE, GONE)

    assert lost.result is GONE
    assert (other.result, own.result, asked.result) == (None, None, None)
    assert rendezvous.error is None
    assert rendezvous.try_recv(key(THERE, HERE, "came")) == (1, False)
    rendezvous.expect(key(THERE, HERE, "later"), Receiver())
    assert wire.asked == [key(THERE, HERE, "large"), key(THERE, HERE, "later")]
    rendezvous.close()


async def test_tasks_whose_names_begin_alike_are_not_taken_for_each_other(
    exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    twelve = f"{THERE}2"
    exchange.sources |= {THERE, twelve}
    rendezvous.expect(key(twelve, HERE), receiver := Receiver())

    rendezvous.on_task_lost(THERE, GONE)

    assert receiver.result is None
    assert rendezvous.awaited() == [key(twelve, HERE)]
    assert not rendezvous.is_all_from(THERE)
    rendezvous.close()


async def test_it_knows_whether_all_it_holds_is_from_one_task(rendezvous: RemoteRendezvous):
    assert rendezvous.is_all_from(THERE)
    rendezvous.on_value_pushed(key(THERE, HERE), 1, False)
    assert rendezvous.is_all_from(THERE)
    assert not rendezvous.is_all_from(ELSEWHERE)

    rendezvous.on_value_announced(key(ELSEWHERE, HERE))

    assert not rendezvous.is_all_from(THERE)


async def test_what_comes_after_an_abort_passes(exchange: ToyExchange, rendezvous: RemoteRendezvous):
    exchange.sources.add(THERE)
    rendezvous.start_abort(AbortedError("the step failed"))

    rendezvous.on_value_pushed(key(THERE, HERE), 1, False)
    rendezvous.on_value_announced(key(THERE, HERE, "large"))
    rendezvous.on_task_lost(THERE, GONE)

    rendezvous.check_invariants()
    assert rendezvous.is_empty


async def test_a_step_that_joins_a_cluster_of_its_own_asks_for_everything(
    wire: Wire, exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    exchange.sources.add(THERE)
    exchange.followers.add(THERE)

    rendezvous.join(HERE, wire.fetch)
    rendezvous.expect(key(THERE, HERE), Receiver())
    rendezvous.send(key(HERE, THERE), 1)

    assert wire.asked == [key(THERE, HERE)]
    assert exchange.pushed == []
    assert await rendezvous.recv_here(key(HERE, THERE)) == (1, False)
    rendezvous.close()


# Sending


async def test_a_value_goes_to_a_follower_and_is_not_kept(
    exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    exchange.followers.add(THERE)

    rendezvous.send(key(HERE, THERE), 1)
    rendezvous.send(key(HERE, THERE, "dead"), None, True)

    assert exchange.pushed == [
        (key(HERE, THERE), 1, False, False),
        (key(HERE, THERE, "dead"), None, True, False),
    ]
    assert rendezvous.is_empty


async def test_a_large_value_is_kept_for_who_asks(exchange: ToyExchange, rendezvous: RemoteRendezvous):
    exchange.followers.add(THERE)

    rendezvous.send(key(HERE, THERE), LARGE)

    assert exchange.pushed == [(key(HERE, THERE), LARGE, False, True)]
    assert await rendezvous.recv_here(key(HERE, THERE)) == (LARGE, False)


async def test_who_has_asked_gets_the_value_by_his_answer_unless_he_has_given_up(
    exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    exchange.followers.add(THERE)
    given_up, asked = (rendezvous.recv_here(key(HERE, THERE, edge)) for edge in ("given up", "asked"))
    given_up.cancel()

    for edge in ("given up", "asked"):
        rendezvous.send(key(HERE, THERE, edge), 1)

    assert await asked == (1, False)
    assert exchange.pushed == [(key(HERE, THERE, "given up"), 1, False, False)]
    assert rendezvous.is_empty


async def test_what_was_kept_goes_to_who_begins_to_follow(
    exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    for edge, value in enumerate((1, LARGE, 2)):
        rendezvous.send(key(HERE, THERE, edge), value)
    rendezvous.send(key(HERE, ELSEWHERE), 3)
    rendezvous.send(key(HERE, HERE), 4)
    exchange.followers.add(THERE)

    rendezvous.push_kept()

    assert [value for _, value, _, _ in exchange.pushed] == [1, LARGE, 2]
    for left, value in ((key(HERE, THERE, 1), LARGE), (key(HERE, ELSEWHERE), 3), (key(HERE, HERE), 4)):
        assert rendezvous.try_recv(left) == (value, False)
    assert rendezvous.is_empty


async def test_only_a_step_that_has_told_a_task_something_ends_with_it(
    exchange: ToyExchange, rendezvous: RemoteRendezvous
):
    exchange.followers |= {THERE}
    rendezvous.send(key(HERE, THERE), 1)

    rendezvous.on_task_cut_off(ELSEWHERE, GONE)
    assert (rendezvous.error, set(rendezvous.notified)) == (None, {THERE})
    rendezvous.on_task_cut_off(THERE, GONE)

    for use in (rendezvous.recv, rendezvous.try_recv):
        with pytest.raises(UnavailableError, match="the connection was lost"):
            use(key(HERE, HERE))
    with pytest.raises(UnavailableError):
        rendezvous.send(key(HERE, THERE, "more"), 1)
    assert exchange.pushed == [(key(HERE, THERE), 1, False, False)]


# Both sides, and a wire on which everything may overtake everything


class TwoSides:
    """A sender and a receiver; `on_wire` is what travels, each as what happens when it arrives. A method is an event."""

    def __init__(self) -> None:
        self.sender = RemoteRendezvous(THERE, self._never, pushes := ToyExchange(self._push))
        self.receiver = RemoteRendezvous(HERE, self._ask, follows := ToyExchange())
        self.pushes, self.follows = pushes, follows
        self.on_wire: list[Callable[[], None]] = []
        self.sent: dict[int, int] = {}
        self.waiting: dict[int, asyncio.Future[Received]] = {}
        self.was_lost = False

    def _never(self, key: str) -> asyncio.Future[Received]:
        raise AssertionError(f"{key} is asked for elsewhere")

    # Events

    def send(self, edge: int) -> None:
        if edge not in self.sent and self.sender.error is None:
            self.sent[edge] = edge + (LARGE if edge % 3 == 0 else 0)
            self.sender.send(key(THERE, HERE, edge), self.sent[edge])

    def receive(self, edge: int) -> None:
        if edge not in self.waiting:
            self.waiting[edge] = self.receiver.recv(key(THERE, HERE, edge))

    def follow(self, _: int) -> None:
        if HERE in self.pushes.followers:
            return
        self.pushes.followers.add(HERE)
        self.on_wire.append(lambda: self.follows.sources.add(THERE))
        self.sender.push_kept()

    def arrive(self, which: int) -> None:
        if self.on_wire:
            self.on_wire.pop(which % len(self.on_wire))()

    def look(self, _: int) -> None:
        """A value that is missing for long is requested."""
        for awaited in self.receiver.awaited():
            self.receiver.on_value_announced(awaited)

    def lose(self, edge: int) -> None:
        """The connection: what is on its way never comes, and both sides know."""
        if edge or HERE not in self.pushes.followers:
            return
        self.was_lost = True
        self.on_wire.clear()
        self.follows.sources.discard(THERE)
        self.pushes.followers.discard(HERE)
        self.receiver.on_task_lost(THERE, GONE)
        self.sender.on_task_cut_off(HERE, GONE)
        for call in list(self.receiver._calls):
            call.set_exception(GONE)

    # The wire

    def _push(self, key: str, value: Any, is_dead: bool, is_kept: bool) -> None:
        if is_kept:
            self.on_wire.append(lambda: self.receiver.on_value_announced(key))
        else:
            self.on_wire.append(lambda: self.receiver.on_value_pushed(key, value, is_dead))

    def _ask(self, key: str) -> asyncio.Future[Received]:
        call: asyncio.Future[Received] = asyncio.get_running_loop().create_future()
        self.on_wire.append(lambda: self._asked(key, call))
        return call

    def _asked(self, key: str, call: asyncio.Future[Received]) -> None:
        if call.done():
            return
        try:
            answer = self.sender.recv_here(key)
        except OpError as error:
            answer = asyncio.get_running_loop().create_future()
            answer.set_exception(error)
        call.add_done_callback(lambda done: self.on_wire.append(lambda: _give_up(answer)))
        answer.add_done_callback(lambda done: self.on_wire.append(lambda: self._answered(call, done)))

    def _answered(self, call: asyncio.Future[Received], answer: asyncio.Future[Received]) -> None:
        if call.done() or answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            call.set_result(answer.result())
        else:
            call.set_exception(error)

    async def settle(self) -> None:
        """Everything that can has arrived."""
        self.look(0)
        for _ in range(2):
            await all_tasks_blocked()
            while self.on_wire:
                self.arrive(0)
                await all_tasks_blocked()
            self.look(0)

    def check(self) -> None:
        for edge, waiting in self.waiting.items():
            if waiting.done() and waiting.exception() is not None:
                assert self.was_lost, f"{edge} failed, and nothing was lost"
            elif waiting.done():
                assert waiting.result() == (self.sent[edge], False)
            else:
                assert edge not in self.sent, f"{edge} was sent, and is waited for still"
        for each in (self.sender, self.receiver):
            each.check_invariants()
        taken = self.waiting.keys() & self.sent.keys()
        if not self.was_lost:
            held = [*self.sender._table._values, *self.receiver._table._values]
            assert sorted(held) == sorted(key(THERE, HERE, edge) for edge in self.sent.keys() - taken)


def _give_up(answer: asyncio.Future[Received]) -> None:
    answer.cancel()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["send", "receive", "arrive", "send", "receive", "arrive", "follow", "look", "lose", "turn"]
        ),
        st.integers(0, 7),
    ),
    max_size=60,
)


@given(EVENTS)
def test_none_is_lost_and_none_comes_twice(events: list[tuple[str, int]]):
    async def happen() -> None:
        sides = TwoSides()
        for name, number in events:
            if name == "turn":
                await asyncio.sleep(0)
            else:
                getattr(sides, name)(number)
        await sides.settle()
        sides.check()
        sides.receiver.start_abort(AbortedError("over"))
        sides.sender.start_abort(AbortedError("over"))
        await asyncio.gather(*sides.waiting.values(), return_exceptions=True)
        await sides.settle()

    with asyncio.Runner(loop_factory=DeterministicLoop) as runner:
        runner.run(happen())
