"""Feeds for each step, and runs after the last step."""

import asyncio
import logging

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import OutOfRangeError
from tests.train.hooked import Model, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")


async def test_each_step_is_fed_what_the_function_returns(model: Model):
    numbers = iter([3, 4])

    async with train.MonitoredSession(hooks=[train.FeedFnHook(lambda: {model.by: next(numbers)})]) as session:
        for _ in range(2):
            await session.run(model.train_op)
        assert (
            await session.run_step_fn(lambda step_context: step_context.session.run(model.global_step)) == 7
        )


async def test_the_function_may_be_awaited(model: Model):
    async def feed():
        await asyncio.sleep(1.0)
        return {model.by: 5}

    async with train.MonitoredSession(hooks=[train.FeedFnHook(feed)]) as session:
        assert await session.run(model.by) == 5


async def test_an_iterator_that_has_ended_ends_the_loop(model: Model):
    numbers = iter([1, 1, 1])
    done = 0

    async with train.MonitoredSession(hooks=[train.FeedFnHook(lambda: {model.by: next(numbers)})]) as session:
        while not session.should_stop():
            await session.run(model.train_op)
            done += 1

    assert done == 3


async def test_final_ops_are_run_at_the_end(model: Model):
    hook = train.FinalOpsHook({"weight": model.weight, "by": [model.by]}, {model.by: 9})

    assert hook.final_ops_values is None
    await trained(model, [hook], 3)

    assert hook.final_ops_values == {"weight": 3.0, "by": [9]}


async def test_there_may_be_no_final_ops(model: Model):
    hook = train.FinalOpsHook(None)

    await trained(model, [hook], 1)

    assert hook.final_ops_values is None


async def test_final_ops_are_not_run_after_an_error(model: Model):
    hook = train.FinalOpsHook(model.weight)

    with pytest.raises(ZeroDivisionError):
        async with train.MonitoredSession(hooks=[hook]):
            raise ZeroDivisionError
    assert hook.final_ops_values is None


async def test_final_ops_that_read_from_an_exhausted_input_are_warned_of(model: Model, caplog):
    queue = ax.FIFOQueue(1, [ax.int32])
    closed = queue.close()
    hook = train.FinalOpsHook(queue.dequeue())

    with caplog.at_level(logging.WARNING), pytest.raises(OutOfRangeError):
        async with train.MonitoredSession(hooks=[hook]) as session:
            await session.run(closed)
    assert "the final ops read from an input that has ended" in caplog.text
