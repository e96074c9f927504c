"""Loops of monitored sessions: how they end, step functions, and queues that feed them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import errors
from aioexec.train.errors import EndOfLoopError
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


# The end of a loop


async def test_a_hook_ends_the_loop(counter, monkeypatch):
    def stop_at_three(context: Any, values: Any) -> None:
        if values.results == 3:
            context.request_stop()

    hook = Wants(counter)
    monkeypatch.setattr(hook, "after_run", stop_at_three)
    values = []
    async with train.MonitoredSession(hooks=[hook]) as session:
        while not session.should_stop():
            values.append(await session.run(counter))
        with pytest.raises(RuntimeError, match=r"Run called even after should_stop requested\."):
            await session.run(counter)

    assert values == [1, 2, 3]


async def stop_iteration() -> None:
    raise StopIteration


async def helper() -> None:
    await stop_iteration()


async def exhausted() -> None:
    async def batches() -> Any:
        for _ in range(0):
            yield None

    await anext(batches())


@pytest.mark.parametrize("end", [stop_iteration, helper, exhausted])
async def test_the_end_of_input_ends_the_loop_from_wherever_it_comes(counter, end):
    async with train.MonitoredSession() as session:
        while not session.should_stop():
            await session.run(counter)
            await end()

    assert session.should_stop()


async def test_an_iterator_at_its_end_ends_the_loop(counter):
    batches = iter([1, 2])
    seen = []
    async with train.MonitoredSession() as session:
        while True:
            seen.append(next(batches))
            await session.run(counter)

    assert seen == [1, 2]


async def test_a_stop_iteration_of_a_hook_comes_out_as_an_end_of_input(counter):
    hook = Does(after_run=lambda context, values: next(iter(())))
    async with train.MonitoredSession(hooks=[hook]) as session:
        with pytest.raises(errors.OutOfRangeError) as caught:
            await session.run(counter)

    assert type(caught.value) is EndOfLoopError
    assert isinstance(caught.value.__cause__, StopIteration)


@pytest.mark.parametrize(
    "error", [RuntimeError("generator raised StopIteration"), errors.AbortedError("again")]
)
async def test_other_errors_go_on(counter, error):
    with pytest.raises(type(error), match=str(error)):
        async with train.MonitoredSession():
            raise error


async def test_hooks_get_the_error_instead_of_the_end(counter):
    calls: list[Any] = []
    hook = Does(on_error=lambda session, error: calls.append(error), end=lambda session: calls.append("end"))

    with pytest.raises(ZeroDivisionError):
        async with train.MonitoredSession(hooks=[hook]):
            1 // 0
    async with train.MonitoredSession(hooks=[hook]):
        pass

    assert [type(each) for each in calls] == [ZeroDivisionError, str]


async def test_a_late_error_is_logged_and_the_first_one_raised(counter, caplog):
    def fail(session: Any, error: Any) -> None:
        raise ValueError("later")

    with pytest.raises(ZeroDivisionError):
        async with train.MonitoredSession(hooks=[Does(on_error=fail)]):
            1 // 0

    assert "later" in caplog.text


# Step functions


async def test_a_step_function_runs_steps_with_hooks_and_without(counter):
    hook = Wants()

    async def step(step_context: Any) -> Any:
        without = await step_context.session.run(counter)
        return without, await step_context.run_with_hooks(fetches=counter, feed_dict={})

    def plain(step_context: Any) -> str:
        return "plain"

    async with train.MonitoredSession(hooks=[hook]) as session:
        assert await session.run_step_fn(step) == (1, 2)
        assert await session.run_step_fn(step) == (3, 4)
        assert await session.run_step_fn(plain) == "plain"

    assert len(hook.seen) == 2


async def test_a_method_is_a_step_function(counter):
    class Model:
        async def step(self, step_context: Any) -> Any:
            return await step_context.run_with_hooks(counter)

    async with train.MonitoredSession() as session:
        assert await session.run_step_fn(Model().step) == 1


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_step_function_that_asks_for_a_stop_leaves_the_loop(counter, is_async):
    def plain(step_context: Any) -> None:
        step_context.request_stop()

    async def awaited(step_context: Any) -> None:
        await step_context.run_with_hooks(counter)
        step_context.request_stop()

    steps = 0
    async with train.MonitoredSession() as session:
        while not session.should_stop():
            steps += 1
            await session.run_step_fn(awaited if is_async else plain)

    assert steps == 1


@pytest.mark.parametrize("function", [lambda: None, lambda context: None, lambda step_context, other: None])
async def test_a_function_of_other_arguments_is_no_step_function(counter, function):
    async with train.MonitoredSession() as session:
        with pytest.raises(ValueError, match="`step_fn` may either have one `step_context` argument"):
            await session.run_step_fn(function)


# Queues


async def test_queue_runners_feed_the_loop_until_their_input_ends(graph):
    queue = ax.FIFOQueue(2, [ax.int32], shapes=[[]])
    source = ax.FIFOQueue(10, [ax.int32], shapes=[[]])
    filled = ax.group(source.enqueue_many([np.arange(5, dtype=np.int32)]))
    train.add_queue_runner(train.QueueRunner(queue, [queue.enqueue(source.dequeue())]))
    taken = queue.dequeue()

    async def fill(scaffold: Any, session: Any) -> None:
        await session.run(filled)
        await session.run(closed)

    closed = source.close()
    seen = []
    async with train.MonitoredSession(train.ChiefSessionCreator(train.Scaffold(init_fn=fill))) as session:
        while not session.should_stop():
            seen.append(int(await session.run(taken)))

    assert seen == [0, 1, 2, 3, 4]


async def test_a_runner_that_fails_ends_the_loop_with_its_error(graph):
    queue = ax.FIFOQueue(2, [ax.int32], shapes=[[]])
    broken = ax.py_func(lambda: 1 // 0, [], ax.int32, stateful=True)
    broken.set_shape([])
    train.add_queue_runner(train.QueueRunner(queue, [queue.enqueue(broken)]))
    taken = queue.dequeue()

    with pytest.raises(errors.OpError, match="division"):
        async with train.MonitoredSession() as session:
            while not session.should_stop():
                await session.run(taken)
