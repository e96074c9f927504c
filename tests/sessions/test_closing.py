"""Steps that are ended from outside: by closing the session, by a deadline, or by the bound on steps in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioexec.errors import (
    CancelledError,
    DeadlineExceededError,
    ResourceExhaustedError,
    SessionClosedError,
)
from aioexec.formats.protos import CallableOptions, ConfigProto, RunOptions
from aioexec.graph.graph import Graph
from aioexec.sessions.session import Session
from aioexec.testing.tasks import all_tasks_blocked
from tests.sessions.direct_sessions import new_direct
from tests.sessions.waiting import Waiting
from tests.tiers import Ops, constant, feed, graph, op


def waiting_graph() -> tuple[Graph, Any, Any]:
    with graph() as g:
        x = feed([], name="x")
        y = op("TestWaits", x, name="y")
    return g, x, y


def session_with(g: Graph, **ours: Any) -> Session:
    config = ConfigProto()
    config.aioexec.jit = "off"
    for name, value in ours.items():
        setattr(config if name in ConfigProto.DESCRIPTOR.fields_by_name else config.aioexec, name, value)
    return Session(graph=g, config=config)


# The end of the session


async def test_close_drains_and_cancels_what_is_left_after_its_grace(ops: Ops, virtual_clock: Any):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    session = session_with(g)
    running = [asyncio.create_task(session.run(y, {x: k})) for k in range(3)]
    await waiting.until_entered(3)
    loop = asyncio.get_running_loop()
    began = loop.time()

    await session.close(grace=5)

    assert loop.time() - began == pytest.approx(5)
    assert waiting.cancelled == 3
    for task in running:
        with pytest.raises(SessionClosedError, match="Session has been closed"):
            await task
        assert not task.cancelled()


async def test_close_without_grace_cancels_at_once_and_waits_until_all_is_quiet(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    session = session_with(g)
    running = asyncio.create_task(session.run(y, {x: 1}))
    await waiting.until_entered(1)

    await session.close(0)

    assert waiting.cancelled == 1
    with pytest.raises(CancelledError):
        await running


async def test_close_needs_no_grace_when_steps_end_by_themselves(ops: Ops, virtual_clock: Any):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    session = session_with(g)
    running = asyncio.create_task(session.run(y, {x: 1}))
    await waiting.until_entered(1)
    closing = asyncio.create_task(session.close(100))
    await all_tasks_blocked()
    began = asyncio.get_running_loop().time()

    waiting.opened.set()
    await closing

    assert asyncio.get_running_loop().time() == began
    assert await running == 1


async def test_a_second_close_may_have_a_shorter_grace(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    session = session_with(g)
    running = asyncio.create_task(session.run(y, {x: 1}))
    await waiting.until_entered(1)
    closing = asyncio.create_task(session.close(grace=None))
    await all_tasks_blocked()
    assert not closing.done()

    await session.close(0)
    await closing

    with pytest.raises(SessionClosedError):
        await running


async def test_a_caller_who_cancels_a_step_that_is_cancelled_by_the_close_is_cancelled(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    session = session_with(g)
    running = asyncio.create_task(session.run(y, {x: 1}))
    await waiting.until_entered(1)

    running.cancel()
    await session.close(0)

    with pytest.raises(asyncio.CancelledError):
        await running
    assert running.cancelled()


# Deadlines

Start = Callable[[Session, Any, Any], Awaitable[Any]]


def with_options(session: Session, x: Any, y: Any) -> Awaitable[Any]:
    return session.run(y, {x: 1}, RunOptions(timeout_in_ms=30))


def with_config(session: Session, x: Any, y: Any) -> Awaitable[Any]:
    return session.run(y, {x: 1})


def with_negative_options(session: Session, x: Any, y: Any) -> Awaitable[Any]:
    return session.run(y, {x: 1}, RunOptions(timeout_in_ms=-1))


async def with_callable(session: Session, x: Any, y: Any) -> Any:
    options = CallableOptions(feed=["x:0"], fetch=["y:0"], run_options=RunOptions(timeout_in_ms=30))
    return await (await session._make_callable_from_options(options))(1.0)


async def with_partial_run(session: Session, x: Any, y: Any) -> Any:
    handle = await session.partial_run_setup(y, [x])
    return await session.partial_run(handle, y, {x: 1})


async def planned(waiting: Waiting, clock: Any, step: Awaitable[Any]) -> None:
    """Run a step once without waiting, while time stands still: the planner's thread needs some."""
    waiting.opened.set()
    with clock.hold():
        assert await step in (1, [1])
    waiting.opened.clear()


@pytest.mark.behaviour(40, 41)
@pytest.mark.parametrize(
    ("start", "timeout"),
    [
        (with_options, 0),
        (with_options, 70),
        (with_config, 30),
        (with_negative_options, 30),
        (with_callable, 0),
        (with_partial_run, 30),
    ],
)
async def test_a_step_that_is_not_done_in_time_is_cancelled(
    ops: Ops, virtual_clock: Any, start: Start, timeout: int
):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    loop = asyncio.get_running_loop()

    async with session_with(g, operation_timeout_in_ms=timeout) as session:
        await planned(waiting, virtual_clock, start(session, x, y))
        began = loop.time()
        with pytest.raises(DeadlineExceededError, match="Timed out"):
            await start(session, x, y)

        assert loop.time() - began == pytest.approx(0.03)
        assert (waiting.entered, waiting.cancelled) == (2, 1)
        await planned(waiting, virtual_clock, start(session, x, y))


async def test_kernels_know_the_deadline_of_their_step(ops: Ops, virtual_clock: Any):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g) as session:
        await planned(waiting, virtual_clock, session.run(y, {x: 1}))
        waiting.opened.set()
        began = asyncio.get_running_loop().time()
        await session.run(y, {x: 1}, RunOptions(timeout_in_ms=2000))

    assert waiting.deadlines == [None, pytest.approx(began + 2)]


async def test_whichever_limit_expires_first_says_so(ops: Ops, virtual_clock: Any):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g) as session:
        await planned(waiting, virtual_clock, session.run(y, {x: 1}))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await session.run(y, {x: 1}, RunOptions(timeout_in_ms=2000))
        with pytest.raises(DeadlineExceededError):
            async with asyncio.timeout(2):
                await session.run(y, {x: 1}, RunOptions(timeout_in_ms=1000))


async def test_a_deadline_that_did_not_pass_leaves_no_trace(ops: Ops, virtual_clock: Any):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g, operation_timeout_in_ms=1000) as session:
        await planned(waiting, virtual_clock, session.run(y, {x: 1}))
        waiting.opened.set()
        for _ in range(3):
            assert await session.run(y, {x: 1}) == 1
        await asyncio.sleep(5)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


# Bounds


@pytest.mark.parametrize("bound", [1, 2, 3])
async def test_steps_beyond_the_bound_wait_their_turn_in_order(ops: Ops, bound: int):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    done: list[int] = []

    async with session_with(g, max_steps_in_flight=bound) as session:

        async def one(number: int) -> None:
            assert await session.run(y, {x: number}) == number
            done.append(number)

        tasks = [asyncio.create_task(one(number)) for number in range(8)]
        await waiting.until_entered(bound)
        await all_tasks_blocked()
        assert waiting.entered == bound
        waiting.opened.set()
        await asyncio.gather(*tasks)

    assert done == list(range(8))


async def test_a_step_cancelled_while_waiting_does_not_cost_a_place(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g, max_steps_in_flight=1) as session:
        tasks = [asyncio.create_task(session.run(y, {x: number})) for number in range(6)]
        await waiting.until_entered(1)
        await all_tasks_blocked()
        for task in (tasks[1], tasks[3], tasks[0], tasks[2]):
            task.cancel()  # the one in flight, one that is next, and others
        waiting.opened.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(result) for result in results[:4]] == [asyncio.CancelledError] * 4
    assert results[4:] == [4, 5]


async def test_steps_beyond_the_bound_are_refused_if_the_session_does_not_wait(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g, max_steps_in_flight=1, refuse_when_busy=True) as session:
        running = asyncio.create_task(session.run(y, {x: 1}))
        await waiting.until_entered(1)
        with pytest.raises(ResourceExhaustedError, match="max_steps_in_flight"):
            await session.run(y, {x: 2})
        waiting.opened.set()
        assert await running == 1
        assert await session.run(y, {x: 3}) == 3


async def test_a_turn_that_does_not_come_in_time_is_a_deadline_exceeded(ops: Ops, virtual_clock: Any):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g, max_steps_in_flight=1) as session:
        running = asyncio.create_task(session.run(y, {x: 1}))
        await waiting.until_entered(1)
        with pytest.raises(DeadlineExceededError):
            await session.run(y, {x: 2}, RunOptions(timeout_in_ms=10))
        waiting.opened.set()
        assert await running == 1


async def test_the_bound_holds_for_steps_that_never_suspend(ops: Ops):
    waiting = Waiting(ops)
    with graph() as g:
        x = feed([], name="x")
        y, z = op("TestWaits", x), op("Neg", x)

    async with session_with(g, jit="eager", max_steps_in_flight=1) as session:
        assert await session.run(z, {x: 1.0}) == -1
        running = asyncio.create_task(session.run(y, {x: 1}))
        await waiting.until_entered(1)
        other = asyncio.create_task(session.run(z, {x: 1.0}))
        await all_tasks_blocked()
        assert not other.done()
        waiting.opened.set()
        assert [await running, await other] == [1, -1]


# Partial runs


async def test_a_partial_run_that_is_cancelled_is_over_and_quiet(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()

    async with session_with(g) as session:
        handle = await session.partial_run_setup(y, [x])
        running = asyncio.create_task(session.partial_run(handle, y, {x: 1}))
        await waiting.until_entered(1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert waiting.cancelled == 1


async def test_two_who_wait_for_one_partial_run_end_with_it(ops: Ops):
    waiting = Waiting(ops)
    with graph() as g:
        x = feed([], name="x")
        y = op("TestWaits", x)
        a, b = op("Neg", y), op("Add", y, constant(1.0))

    async with session_with(g) as session:
        handle = await session.partial_run_setup([a, b], [x])
        tasks = [asyncio.create_task(session.partial_run(handle, a, {x: 1}))]
        await waiting.until_entered(1)
        tasks.append(asyncio.create_task(session.partial_run(handle, b)))
        await all_tasks_blocked()
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(results[0], asyncio.CancelledError)
    assert isinstance(results[1], CancelledError)


async def test_close_without_a_limit_waits_for_a_call_of_a_partial_run_and_abandons_the_run(ops: Ops):
    waiting = Waiting(ops)
    g, x, y = waiting_graph()
    session = session_with(g)
    handle = await session.partial_run_setup([y, op_named(g, x)], [x])
    running = asyncio.create_task(session.partial_run(handle, y, {x: 1}))
    await waiting.until_entered(1)
    closing = asyncio.create_task(session.close(grace=None))
    await all_tasks_blocked()
    assert not closing.done()

    waiting.opened.set()
    await closing

    assert await running == 1


def op_named(g: Graph, x: Any) -> Any:
    with g.as_default():
        return op("Neg", x)


async def test_a_direct_session_is_closed_like_its_front(ops: Ops):
    waiting = Waiting(ops)
    g, _, _ = waiting_graph()
    session = new_direct(graph=g)
    running = asyncio.create_task(session.run(None, [("x", 1.0)], ["y"], []))
    await waiting.until_entered(1)

    await session.close(0)

    with pytest.raises(SessionClosedError):
        await running
