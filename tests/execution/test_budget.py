"""The budget of a tick: inline work ends a tick after half a millisecond, whatever other callbacks run in between."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import itertools
import weakref

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import InvalidArgumentError
from aioexec.execution import budget as budget_module, item_runner
from aioexec.execution.budget import TICK_NS, TickBudget, budget_of
from tests.tiers import constant, feed, graph, op, session_on


async def test_time_between_two_runs_counts_as_well():
    budget = TickBudget()

    budget.charge(1_000, 2_000)
    budget.charge(400_000, 401_000)

    assert budget.spent == 400_000


async def test_the_next_tick_begins_with_nothing_spent():
    budget = TickBudget()
    budget.charge(0, 2 * TICK_NS)

    await asyncio.sleep(0)
    assert budget.spent == 0
    budget.charge(10**9, 10**9 + 5)
    assert budget.spent == 5


async def test_who_comes_late_waits_for_the_next_tick():
    budget = TickBudget()
    order: list[str] = []
    asyncio.get_running_loop().call_soon(order.append, "tick")
    budget.charge(0, TICK_NS + 1)

    await budget.wait_for_turn()
    order.append("turn")

    assert order == ["tick", "turn"]


async def test_what_arrives_after_a_tick_has_begun_does_not_overtake_who_waits():
    """As requests of a client do that sends the next one when it has the answer."""
    budget, loop = TickBudget(), asyncio.get_running_loop()
    overtaking: list[int] = []

    def arrive() -> None:
        if budget.spent <= TICK_NS:
            overtaking.append(1)
            budget.charge(0, TICK_NS + 1)
        if len(overtaking) < 100 and not waiting.done():
            loop.call_soon(arrive)

    loop.call_soon(budget.charge, 0, TICK_NS + 1)
    waiting = asyncio.ensure_future(budget.wait_for_turn())
    loop.call_soon(arrive)
    await waiting

    assert len(overtaking) <= 1


async def test_who_comes_early_does_not_wait():
    budget = TickBudget()
    ticks: list[int] = []
    asyncio.get_running_loop().call_soon(ticks.append, 1)
    budget.charge(0, TICK_NS)

    await budget.wait_for_turn()

    assert ticks == []


async def test_those_who_wait_share_the_next_ticks():
    """Each tick lets runs begin until it is spent."""
    budget = TickBudget()
    clock = 0
    begun: list[int] = []
    tick = 0

    def count() -> None:
        nonlocal tick
        tick += 1
        if tick < 20:
            asyncio.get_running_loop().call_soon(count)

    async def run() -> None:
        nonlocal clock
        await budget.wait_for_turn()
        budget.charge(clock, clock + TICK_NS // 2)
        clock += TICK_NS // 2
        begun.append(tick)

    count()
    await asyncio.gather(*(run() for _ in range(12)))

    assert (
        max(begun.count(each) for each in begun) == 3
    )  # two halves are the budget, the third goes beyond it


async def test_as_many_are_woken_as_had_room_in_the_tick_before(monkeypatch):
    budget = TickBudget()
    clock = woken = 0
    wake = budget_module._wake

    def counted(waiter) -> None:
        nonlocal woken
        woken += 1
        wake(waiter)

    monkeypatch.setattr(budget_module, "_wake", counted)

    async def run() -> None:
        nonlocal clock
        await budget.wait_for_turn()
        budget.charge(clock, clock + TICK_NS // 2)
        clock += TICK_NS // 2

    await asyncio.gather(*(run() for _ in range(60)))

    assert 57 <= woken <= 65, "only some of those woken first came too late"


async def test_those_who_wait_come_in_the_order_they_came():
    """Each uses a whole tick, so those after it are postponed, and keep their order."""
    budget = TickBudget()
    clock = 0
    begun: list[int] = []

    def spend_tick() -> None:
        nonlocal clock
        budget.charge(clock, clock + TICK_NS + 1)
        clock += TICK_NS + 1

    async def run(number: int) -> None:
        await budget.wait_for_turn()
        spend_tick()
        begun.append(number)

    spend_tick()
    await asyncio.gather(*(run(number) for number in range(100)))

    assert begun == list(range(100))


async def test_a_thousand_who_wait_are_not_asked_in_every_tick():
    budget = TickBudget()
    asked = clock = 0

    def run() -> None:
        nonlocal asked, clock
        asked += 1
        budget.charge(clock, clock + TICK_NS // 10)
        clock += TICK_NS // 10

    budget.charge(0, TICK_NS + 1)
    for _ in range(1000):
        budget.call_in_turn(run)
    done = asyncio.get_running_loop().create_future()
    budget.call_in_turn(lambda: done.set_result(None))
    await done

    assert asked == 1000


async def test_a_call_is_made_in_the_context_of_who_asked_for_it():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen: list[str] = []
    budget = TickBudget()

    async def ask(value: str) -> None:
        variable.set(value)
        budget.charge(0, TICK_NS + 1)
        budget.call_in_turn(lambda: seen.append(variable.get()))

    await asyncio.gather(ask("one"), ask("other"))
    await asyncio.sleep(0)

    assert seen == ["one", "other"]


async def test_a_call_that_fails_does_not_keep_those_behind_it_waiting():
    loop = asyncio.get_running_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    budget = TickBudget()
    budget.charge(0, TICK_NS + 1)
    error = ValueError("no")

    def fail() -> None:
        raise error

    budget.call_in_turn(fail)
    await budget.wait_for_turn()

    assert reported == [error]


async def test_a_waiter_that_is_cancelled_delays_no_other():
    budget = TickBudget()
    order: list[str] = []

    async def wait_in_vain() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)  # before the next tick begins
        budget.charge(0, TICK_NS + 1)
        budget.call_in_turn(lambda: order.append("before"))
        await budget.wait_for_turn()

    waiting = asyncio.create_task(wait_in_vain())
    await asyncio.sleep(0)
    budget.call_in_turn(lambda: order.append("behind"))

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert order == ["before", "behind"]


def test_a_loop_has_one_budget_and_two_loops_have_two():
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        assert budget_of(first) is budget_of(first)
        assert budget_of(first) is not budget_of(second)
    finally:
        first.close()
        second.close()


def test_a_loop_that_is_gone_leaves_no_budget():
    async def charge() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.get_running_loop()
        budget_of(loop).charge(0, 1)
        return weakref.ref(loop)

    gone = asyncio.run(charge())
    gc.collect()

    assert gone() is None


@pytest.mark.both_loops
async def test_awaited_runs_in_a_row_let_the_loop_turn():
    """Counted, not timed: with a clock that advances 5 us a look, a tick is over after so many runs."""
    with graph() as g:
        x = feed([4])
        y = op("Add", x, constant(1.0))
    feeds = {x: np.zeros(4, np.float32)}
    turns = runs = longest = since = 0
    running = True

    def turn() -> None:
        nonlocal turns, longest, since
        turns += 1
        longest, since = max(longest, runs - since), runs
        if running:
            asyncio.get_running_loop().call_soon(turn)

    async with session_on(g, "eager") as session:
        await session.run(y, feeds)
        await asyncio.sleep(0)  # the real clock's tick is over
        clock = 0

        def fake() -> int:
            nonlocal clock
            clock += 5_000
            return clock

        real, item_runner.perf_counter_ns = item_runner.perf_counter_ns, fake  # type: ignore[attr-defined]
        try:
            turn()
            for _ in range(2000):
                runs += 1
                await session.run(y, feeds)
        finally:
            running = False
            item_runner.perf_counter_ns = real  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    assert turns > 30
    assert longest <= TICK_NS // 10_000 + 2


@pytest.mark.both_loops
async def test_awaited_runs_in_a_row_let_the_loop_turn_when_the_tick_is_spent(
    monkeypatch: pytest.MonkeyPatch,
):
    """On a clock that moves with each look at it: a run looks when it begins and when it ends."""
    with graph() as g:
        x = feed([64])
        y = op("Add", x, constant(1.0))
    feeds = {x: np.zeros(64, np.float32)}
    look = 2_500
    now = itertools.count(0, look)
    runs, between_turns = 0, []
    running = True

    def beat() -> None:
        nonlocal runs
        between_turns.append(runs)
        runs = 0
        if running:
            asyncio.get_running_loop().call_soon(beat)

    async with session_on(g, "eager") as session:
        for _ in range(10):
            await session.run(y, feeds)
        await asyncio.sleep(0)
        monkeypatch.setattr(item_runner, "perf_counter_ns", lambda: next(now))
        beat()
        for _ in range(2000):
            await session.run(y, feeds)
            runs += 1
        running = False
        await asyncio.sleep(0)

    assert max(between_turns) <= TICK_NS // (2 * look) + 1
    assert sum(between_turns) == 2000


async def test_many_items_that_only_decide_spend_a_tick(monkeypatch: pytest.MonkeyPatch):
    budget = TickBudget()
    now = itertools.count(0, TICK_NS // 2)
    monkeypatch.setattr(budget_module, "perf_counter_ns", lambda: next(now))

    for _ in range(3 * 16):
        assert budget.spent <= TICK_NS
        budget.count_decision()
    assert budget.spent == TICK_NS

    for _ in range(16):
        budget.count_decision()
    assert budget.spent > TICK_NS
    await asyncio.sleep(0)
    assert budget.spent == 0


async def test_a_prompt_kernel_that_fails_is_charged_too():
    with graph() as g:
        x = feed([2])
        handle = op("FIFOQueueV2", component_types=(dtypes.as_dtype("float32"),), shapes=((),), capacity=9)
        put = op("QueueEnqueueV2", handle, [x])
    array = np.zeros(2, np.float32)

    async with session_on(g, "off") as session:
        for _ in range(2):
            with pytest.raises(InvalidArgumentError, match="Shape mismatch"):
                await session.run(put, {x: array})
        await asyncio.sleep(0)
        budget = budget_of(asyncio.get_running_loop())
        assert budget.spent == 0
        with pytest.raises(InvalidArgumentError, match="Shape mismatch"):
            await session.run(put, {x: array})
        assert budget.spent > 0
