"""Monitored sessions that lose their session, or whose caller is cancelled, at any moment."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import aioexec as ax
from aioexec import errors
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.sessions import wrapped_sessions
from aioexec.train.sessions.monitored_session import _MonitoredSession

train = ax.train


class FakeSession:
    """Runs steps of one creator, and suspends in each of its calls."""

    def __init__(self, creator: FakeCreator) -> None:
        self.creator = creator
        self.number = creator.created
        self.is_closed = False

    async def run(self, fetches: Any, *_: Any) -> Any:
        await asyncio.sleep(0)
        await self.creator.step(self)
        return [self.number] * len(fetches)

    async def close(self) -> None:
        await asyncio.sleep(0)
        assert not self.is_closed
        self.is_closed = True


class FakeCreator:
    """Creates sessions, after `outages` failures.

    `step` is awaited in each run.
    """

    def __init__(self, outages: int = 0) -> None:
        self.outages = outages
        self.created = 0
        self.sessions: list[FakeSession] = []
        self.when: list[float] = []

    async def step(self, session: FakeSession) -> None:
        pass

    async def create_session(self) -> FakeSession:
        self.when.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        if self.outages:
            self.outages -= 1
            raise errors.UnavailableError("no peer")
        self.created += 1
        self.sessions.append(FakeSession(self))
        return self.sessions[-1]


class Recording(SessionRunHook):
    def __init__(self) -> None:
        self.recoveries: list[tuple[str, int]] = []

    async def on_recovery(self, error: BaseException, attempt: int) -> None:
        self.recoveries.append((str(error), attempt))


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def test_each_recovery_waits_longer_and_is_reported(virtual_clock, caplog):
    creator, hook = FakeCreator(outages=5), Recording()
    caplog.set_level(logging.WARNING)

    async with train.MonitoredSession(creator, [hook]) as session:
        assert await session.run("fetch") == 1

    waits = [later - sooner for sooner, later in zip(creator.when, creator.when[1:], strict=False)]
    assert waits == pytest.approx([0, 0.1, 0.2, 0.4, 0.8])
    assert hook.recoveries == [("no peer", attempt) for attempt in range(1, 6)]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 5
    assert "A session was lost" in caplog.text


async def test_recoveries_are_counted_anew_after_a_good_step(virtual_clock, monkeypatch):
    creator, hook = FakeCreator(), Recording()

    async def fail_first(session: FakeSession) -> None:
        if session.number < 4:
            raise errors.AbortedError(f"step of {session.number}")

    monkeypatch.setattr(creator, "step", fail_first)
    async with train.MonitoredSession(creator, [hook]) as session:
        assert await session.run("fetch") == 4
        creator.sessions[3].creator = failing_once = FakeCreator()
        monkeypatch.setattr(failing_once, "step", fail_last)
        assert await session.run("fetch") == 5

    assert [attempt for _, attempt in hook.recoveries] == [1, 2, 3, 1]


async def fail_last(session: FakeSession) -> None:
    raise errors.UnavailableError("again")


async def test_after_too_many_recoveries_the_error_is_raised(virtual_clock):
    creator = FakeCreator(outages=1000)

    with pytest.raises(errors.UnavailableError, match="no peer") as caught:
        await train.MonitoredSession(creator)

    assert len(creator.when) == wrapped_sessions.MOST_RECOVERIES + 1
    assert caught.value.__notes__ == ["given up after 100 recoveries without a good step"]
    assert virtual_clock.time() == pytest.approx(2749, abs=50)


async def test_steps_that_are_lost_together_recover_once(virtual_clock, monkeypatch):
    creator, hook = FakeCreator(), Recording()
    lost = asyncio.Event()

    async def lose_together(session: FakeSession) -> None:
        if session.number == 1:
            await lost.wait()
            raise errors.AbortedError("lost")

    monkeypatch.setattr(creator, "step", lose_together)
    async with train.MonitoredSession(creator, [hook]) as session, asyncio.TaskGroup() as tasks:
        steps = [tasks.create_task(session.run("fetch")) for _ in range(5)]
        await asyncio.sleep(1)
        lost.set()

    assert [step.result() for step in steps] == [2] * 5
    assert len(hook.recoveries) == 1
    assert [session.is_closed for session in creator.sessions] == [True, True]


@pytest.mark.parametrize("waits_in_a_hook", [False, True])
async def test_steps_under_way_in_a_session_that_another_step_loses_are_run_again(waits_in_a_hook):
    failures = [errors.AbortedError("lost")]
    going_on = asyncio.Event()

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    class Waits(SessionRunHook):
        async def before_run(self, run_context: Any) -> None:
            await going_on.wait()

    broken = ax.py_func(fail_once, [], [], stateful=True)
    queue = ax.FIFOQueue(1, [ax.int32], shapes=[[]])
    put, taken = queue.enqueue(7), queue.dequeue()
    async with train.MonitoredSession() as session, asyncio.TaskGroup() as tasks:
        step = tasks.create_task(session.run(taken, hooks=[Waits()] if waits_in_a_hook else []))
        for _ in range(5):
            await asyncio.sleep(0)

        await session.run(broken)
        going_on.set()
        await session.run(put)
        assert await step == 7
    assert failures == []


async def test_a_step_function_gets_the_new_session(virtual_clock):
    creator = FakeCreator()
    seen = []

    async def step(step_context: Any) -> Any:
        seen.append(step_context.session)
        if len(seen) == 1:
            raise errors.AbortedError("lost")
        return await step_context.run_with_hooks("fetch")

    async with train.MonitoredSession(creator) as session:
        assert await session.run_step_fn(step) == 2

    assert seen == creator.sessions


async def test_should_stop_leaves_the_recovery_to_the_next_step(virtual_clock, monkeypatch):
    creator, coords = FakeCreator(), []
    hook = SessionRunHook()
    monkeypatch.setattr(hook, "after_create_session", lambda session, coord: coords.append(coord))
    async with train.MonitoredSession(creator, [hook]) as session:
        coords[0].request_stop(errors.AbortedError("a task was lost"))

        assert not session.should_stop()
        assert not session.should_stop()
        assert creator.created == 1
        assert await session.run("fetch") == 2
        assert not session.should_stop()


async def test_closing_ends_a_recovery_under_way(virtual_clock, monkeypatch):
    creator = FakeCreator()
    monkeypatch.setattr(creator, "step", fail_last)
    session = await train.MonitoredSession(creator)

    async with asyncio.TaskGroup() as tasks:
        step = tasks.create_task(outcome(session.run("fetch")))
        await asyncio.sleep(3)
        await session.close()

    assert isinstance(step.result(), errors.SessionClosedError)
    assert session.should_stop()
    assert all(each.is_closed for each in creator.sessions)


@pytest.mark.parametrize("use", ["run", "close"])
async def test_a_hook_that_uses_the_session_while_it_is_made_anew_does_not_hang(
    virtual_clock, use, monkeypatch
):
    creator, hook = FakeCreator(), SessionRunHook()
    monkeypatch.setattr(creator, "step", fail_last)
    session = await train.MonitoredSession(creator, [hook])
    monkeypatch.setattr(hook, "on_recovery", lambda *_: getattr(session, use)(*["fetch"][: use == "run"]))

    with pytest.raises(
        RuntimeError, match=r"a hook cannot run a step while|Attempted to use a closed Session"
    ):
        await session.run("fetch")

    if use == "run":
        await session.close()
    assert session.should_stop()
    assert all(each.is_closed for each in creator.sessions)


async def outcome(step: Any) -> Any:
    try:
        return await step
    except Exception as error:
        return error


# Cancellation


async def cancelled_after(ticks: int, work: Any) -> bool:
    """Run work in a task, cancel it after so many ticks of the loop; whether it was cancelled."""
    task = asyncio.ensure_future(work)
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


class Awaited(SessionRunHook):
    """Suspends in each of its methods."""

    def __init__(self) -> None:
        async def suspend(*_: Any) -> None:
            await asyncio.sleep(0)

        for name in (
            "begin",
            "after_create_session",
            "before_run",
            "after_run",
            "end",
            "on_error",
            "on_recovery",
        ):
            setattr(self, name, suspend)


@pytest.mark.parametrize("ticks", range(1, 12))
async def test_a_session_whose_opening_is_cancelled_is_closed(graph, virtual_clock, ticks):
    creator = FakeCreator(outages=1)
    session = train.MonitoredSession(creator, [Awaited(), Awaited()])

    was_cancelled = await cancelled_after(ticks, session.__aenter__())

    if not was_cancelled:
        assert not session.should_stop()
        await session.close()
    assert session.should_stop()
    assert not graph.finalized
    assert all(each.is_closed for each in creator.sessions)


@pytest.mark.parametrize("ticks", range(16))
async def test_cancelling_a_step_leaves_the_session_usable(virtual_clock, ticks, monkeypatch):
    creator = FakeCreator()

    async def lose_first(session: FakeSession) -> None:
        if session.number == 1:
            raise errors.AbortedError("lost")

    monkeypatch.setattr(creator, "step", lose_first)
    async with train.MonitoredSession(creator, [Awaited(), Awaited()]) as session:
        await cancelled_after(ticks, session.run("fetch"))

        assert not session.should_stop()
        assert await session.run("fetch") >= 2
    assert all(each.is_closed for each in creator.sessions)


@pytest.mark.parametrize("ticks", range(1, 10))
@pytest.mark.parametrize("should_recover", [True, False])
async def test_a_session_whose_closing_is_cancelled_is_closed(
    graph, virtual_clock, ticks, should_recover, monkeypatch
):
    creator = FakeCreator()
    stopped = []

    async def member(coord: Any) -> None:
        await coord.wait_for_stop()
        await asyncio.sleep(0)
        stopped.append(coord)

    hook = Awaited()
    monkeypatch.setattr(
        hook,
        "after_create_session",
        lambda _, coord: coord.register_thread(asyncio.create_task(member(coord))),
    )
    session = await _MonitoredSession(creator, [hook, Awaited()], should_recover)

    await cancelled_after(ticks, session.close())

    assert session.should_stop()
    assert all(each.is_closed for each in creator.sessions)
    await asyncio.sleep(1)
    assert stopped


async def test_tasks_have_their_grace_when_a_session_is_closed(virtual_clock, monkeypatch):
    ended = []

    async def slow(coord: Any) -> None:
        try:
            await coord.wait_for_stop()
            await asyncio.sleep(1000)
        finally:
            ended.append(virtual_clock.time())

    hook = SessionRunHook()
    monkeypatch.setattr(
        hook, "after_create_session", lambda _, coord: coord.register_thread(asyncio.create_task(slow(coord)))
    )
    creator = FakeCreator()
    async with train.MonitoredSession(creator, [hook], stop_grace_period_secs=7):
        pass

    assert ended == [7]
    assert creator.sessions[0].is_closed


async def test_cancelling_a_real_step_cancels_it_alone():
    queue = ax.FIFOQueue(1, [ax.int32], shapes=[[]])
    value = ax.placeholder(ax.int32, [])
    put, taken = queue.enqueue(value), queue.dequeue()
    async with train.MonitoredSession() as session:
        assert await cancelled_after(5, session.run(taken))

        await session.run(put, {value: 7})
        assert await session.run(taken) == 7


async def test_closing_cancels_steps_under_way(virtual_clock):
    taken = ax.FIFOQueue(1, [ax.int32], shapes=[[]]).dequeue()
    session = await train.MonitoredSession()

    async with asyncio.TaskGroup() as tasks:
        step = tasks.create_task(outcome(session.run(taken)))
        await asyncio.sleep(1)
        await session.close()

    assert isinstance(step.result(), errors.CancelledError)


async def test_a_body_that_is_cancelled_closes_the_session(virtual_clock, monkeypatch):
    creator, errors_seen = FakeCreator(), []
    hook = SessionRunHook()
    monkeypatch.setattr(hook, "on_error", lambda session, error: errors_seen.append(error))

    async def loop() -> None:
        async with train.MonitoredSession(creator, [hook]) as session:
            while not session.should_stop():
                await session.run("fetch")

    assert await cancelled_after(20, loop())
    assert creator.sessions[0].is_closed
    assert [type(error) for error in errors_seen] == [asyncio.CancelledError]


async def test_a_cancellation_is_raised_whatever_failed_before(virtual_clock, caplog, monkeypatch):
    coords: list[Any] = []
    hook = SessionRunHook()
    monkeypatch.setattr(hook, "after_create_session", lambda session, coord: coords.append(coord))

    async def loop() -> None:
        async with train.MonitoredSession(FakeCreator(), [hook]):
            coords[0].request_stop(ValueError("of a task"))
            await asyncio.sleep(1000)

    assert await cancelled_after(20, loop())
    assert "of a task" in caplog.text


async def test_a_hook_that_never_returns_may_be_given_up(virtual_clock, monkeypatch):
    creator = FakeCreator()
    hook = SessionRunHook()
    monkeypatch.setattr(hook, "before_run", lambda context: asyncio.Event().wait())
    async with train.MonitoredSession(creator) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await session.run("fetch", hooks=[hook])

        assert await session.run("fetch") == 1
