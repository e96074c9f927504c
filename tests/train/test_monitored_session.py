"""Monitored sessions: their lifecycle, their steps, and the requests of hooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aioexec as ax
from aioexec.train.errors import TrainingStateError
from aioexec.train.hooks.session_run_hook import SessionRunArgs, SessionRunHook
from tests.train.monitoring import Does, Wants

train = ax.train


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def counter(graph):
    """An operation that counts; its value is the new count."""
    return ax.assign_add(ax.Variable(0, name="counter"), 1)


# Life


async def test_it_may_be_awaited_and_closed_by_hand(counter):
    session = await train.MonitoredSession()

    assert await session.run(counter) == 1
    assert not session.should_stop()

    await session.close()
    assert session.should_stop()


def test_the_constructor_needs_no_loop(counter):
    session = train.MonitoredTrainingSession()

    async def steps() -> Any:
        async with session:
            return await session.run(counter)

    assert asyncio.run(steps()) == 1


@pytest.mark.parametrize("use", ["run", "run_step_fn", "should_stop", "close"])
async def test_what_is_not_open_says_so(counter, use):
    session = train.MonitoredSession()
    arguments = {"run": (counter,), "run_step_fn": (print,)}.get(use, ())

    with pytest.raises(
        RuntimeError, match=r"MonitoredSession: it is not open: await it, or use `async with`"
    ):
        await getattr(session, use)(*arguments)


async def test_what_was_closed_says_so(counter):
    async with train.MonitoredSession() as session:
        pass

    assert session.should_stop()
    assert session.graph is None
    for use in (session.close(), session.run(counter), session.__aenter__()):
        with pytest.raises(RuntimeError, match=r"Session is already closed|cannot be entered twice"):
            await use


async def test_it_opens_once(counter):
    session = train.MonitoredSession()
    async with session:
        with pytest.raises(TrainingStateError, match="cannot be entered twice"):
            await session.__aenter__()
        with pytest.raises(TrainingStateError, match="it is open already"):
            await session

        assert await session.run(counter) == 1


async def test_one_that_was_awaited_may_be_entered(counter):
    session = await train.MonitoredSession()

    async with session as same:
        assert same is session
        assert await session.run(counter) == 1


async def test_it_is_opened_by_one_task(counter):
    going_on = asyncio.Event()
    session = train.MonitoredSession(hooks=[Does(begin=going_on.wait)])

    async with asyncio.TaskGroup() as tasks:
        opening = tasks.create_task(session.__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(TrainingStateError, match="it is being opened"):
            await session
        going_on.set()
    assert opening.result() is session
    await session.close()


async def test_the_graph_is_final_while_the_session_is_open(graph, counter):
    async with train.MonitoredSession() as session:
        assert (session.graph, graph.finalized) == (graph, True)
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
            ax.constant(1)
    assert not graph.finalized
    graph.finalize()
    async with train.SingularMonitoredSession():
        pass
    assert graph.finalized


@pytest.mark.parametrize("method", ["begin", "after_create_session"])
async def test_a_session_that_cannot_be_opened_is_closed_and_lets_the_graph_be_changed(
    graph, counter, method
):
    def fail(*args: Any) -> None:
        raise ValueError("at once")

    session = train.MonitoredSession(hooks=[Does(**{method: fail})])

    with pytest.raises(ValueError, match="at once"):
        async with session:
            raise AssertionError
    assert session.should_stop()
    assert not graph.finalized
    async with train.MonitoredSession() as another:
        assert await another.run(counter) == 1


async def test_its_graph_is_the_default_one_where_it_is_made(graph, counter):
    session = train.MonitoredSession(hooks=[Does(begin=lambda: graphs.append(ax.get_default_graph()))])
    graphs: list[Any] = []

    with ax.Graph().as_default() as other:
        async with session:
            assert session.graph is graph
            assert ax.get_default_graph() is other
            assert ax.get_default_session() is None
            assert await session.run(counter) == 1
    assert graphs == [graph]


async def test_tasks_have_the_defaults_of_where_they_are_made(graph, counter):
    async def defaults() -> tuple[Any, Any]:
        return ax.get_default_graph(), ax.get_default_session()

    async with train.MonitoredSession(), asyncio.TaskGroup() as tasks:
        inside = tasks.create_task(defaults())
        with ax.Graph().as_default() as other:
            elsewhere = tasks.create_task(defaults())

    assert inside.result() == (graph, None)
    assert elsewhere.result() == (other, None)


async def test_the_session_within_a_singular_one_may_be_used(counter):
    hook = Wants()
    async with train.SingularMonitoredSession(hooks=[hook]) as session:
        assert await session.raw_session().run(counter) == 1
        assert isinstance(session.raw_session(), ax.Session)

    assert session.raw_session() is None
    assert hook.seen == []


# Requests of hooks


async def test_hooks_get_what_they_asked_for_in_its_structure(graph):
    x = ax.placeholder(ax.float32, [])
    one, many, none = Wants(x * 2), Wants({"a": [x, x + 1], "b": (x * 3,)}), Wants()
    async with train.MonitoredSession(hooks=[one, many, none]) as session:
        assert await session.run({"mine": x}, {x: 2}) == {"mine": 2}
        assert await session.run([x], {x: 3}) == [3]

    assert [values.results for values in one.seen] == [4, 6]
    assert [values.results for values in many.seen] == [{"a": [2, 3], "b": (6,)}, {"a": [3, 4], "b": (9,)}]
    assert [values.results for values in none.seen] == [None, None]


async def test_hooks_that_want_the_same_tensor_get_the_same_value(graph, counter):
    hooks = [Wants(counter), Wants([counter]), Wants(counter)]
    async with train.MonitoredSession(hooks=hooks) as session:
        assert await session.run(counter) == 1

    assert [hook.seen[0].results for hook in hooks] == [1, [1], 1]


async def test_hooks_may_want_something_else_each_time(graph):
    wanted = [None, [ax.constant(1)], ax.constant(2), None]
    hook = Wants()
    async with train.MonitoredSession(hooks=[hook]) as session:
        for fetches in wanted:
            hook.request = None if fetches is None else SessionRunArgs(fetches)
            await session.run([])

    assert [values.results for values in hook.seen] == [None, [1], 2, None]


async def test_hooks_that_are_awaited_take_part_like_others(graph):
    x = ax.constant(3)
    next_one = x + 1
    plain = Wants(x)

    class Awaited(SessionRunHook):
        results: Any = None

        async def before_run(self, run_context: Any) -> SessionRunArgs:
            await asyncio.sleep(0)
            return SessionRunArgs(next_one)

        async def after_run(self, run_context: Any, run_values: Any) -> None:
            await asyncio.sleep(0)
            self.results = run_values.results

    awaited = Awaited()
    async with train.MonitoredSession(hooks=[awaited, plain]) as session:
        await session.run(x)

    assert (awaited.results, plain.seen[0].results) == (4, 3)


async def test_a_context_has_what_the_caller_requested(graph):
    x, y = ax.placeholder(ax.int32, []), ax.placeholder(ax.int32, [])
    hook = Wants(y, {y: 7})
    async with train.SingularMonitoredSession(hooks=[hook]) as session:
        await session.run([x], {x: 1})

        context = hook.contexts[0]
        assert context.original_args == SessionRunArgs([x], {x: 1})
        assert context.session is session.raw_session()
        assert not context.stop_requested


async def test_what_hooks_feed_is_fed(graph):
    x, y, z = (ax.placeholder(ax.int32, []) for _ in range(3))
    two, three = x + y, x + y + z
    feeds = {x: 1}
    hooks = [Wants(None, feeds), Wants(None, {y: 10})]
    async with train.MonitoredSession(hooks=hooks) as session:
        assert await session.run(two) == 11
        assert await session.run(three, {z: 100}) == 111
        feeds[x] = 2  # the same request, changed
        assert await session.run(two) == 12


async def test_a_tensor_is_fed_once(graph):
    x = ax.placeholder(ax.int32, [])
    async with train.MonitoredSession(hooks=[Wants(None, {x: 1})]) as session:
        with pytest.raises(RuntimeError, match="Same tensor is fed by a SessionRunHook and user"):
            await session.run(x, {x: 2})
    async with train.MonitoredSession(hooks=[Wants(None, {x: 1}), Wants(None, {x: 1})]) as session:
        with pytest.raises(RuntimeError, match="Same tensor is fed by two hooks"):
            await session.run(x)


async def test_options_of_hooks_and_caller_are_merged(graph):
    traced = ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE, timeout_in_ms=10)
    mine = ax.RunOptions(timeout_in_ms=60_000, report_tensor_allocations_upon_oom=True)
    hook, other = Wants(None, None, traced), Wants()
    async with train.MonitoredSession(hooks=[hook, other]) as session:
        await session.run([], options=mine)

    for values in (*hook.seen, *other.seen):
        assert values.options.trace_level == ax.RunOptions.FULL_TRACE
        assert values.options.timeout_in_ms == 60_000
        assert values.options.report_tensor_allocations_upon_oom
        assert values.run_metadata.HasField("step_stats")
    assert mine.trace_level == ax.RunOptions.NO_TRACE
    assert traced.timeout_in_ms == 10


async def test_without_options_hooks_see_empty_ones(graph):
    hook = Wants()
    async with train.MonitoredSession(hooks=[hook]) as session:
        await session.run([])

    assert hook.seen[0].options == ax.RunOptions()
    assert hook.seen[0].run_metadata == ax.RunMetadata()


async def test_the_metadata_of_the_caller_is_filled(graph):
    metadata = ax.RunMetadata()
    x = ax.constant(1.0)
    async with train.MonitoredSession(hooks=[Wants(x)]) as session:
        await session.run(
            x, options=ax.RunOptions(trace_level=ax.RunOptions.FULL_TRACE), run_metadata=metadata
        )

    assert metadata.HasField("step_stats")


async def test_what_is_no_request_is_refused(graph):
    async with train.MonitoredSession(hooks=[Does(before_run=lambda context: 7)]) as session:
        with pytest.raises(TypeError, match=r"Does.before_run: expected SessionRunArgs or None, got 7"):
            await session.run([])


async def test_hooks_of_one_run_take_part_in_it_alone(graph, counter):
    always, once = Wants(counter), Wants([counter])
    async with train.MonitoredSession(hooks=[always]) as session:
        await session.run(counter)
        await session.run(counter, hooks=[once])
        await session.run(counter)

    assert [values.results for values in always.seen] == [1, 2, 3]
    assert [values.results for values in once.seen] == [[2]]
