"""Hooks that end or delay the loop."""

import asyncio
import logging
import math

import numpy as np
import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import FailedPreconditionError, GraphValueError
from aioexec.testing.tasks import all_tasks_blocked
from aioexec.train.hooks.global_step_read import StepForecast, required_global_step_read
from tests.train.hooked import Model, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")

HOOKS_THAT_COUNT = {
    "StopAtStepHook": lambda: train.StopAtStepHook(num_steps=1),
    "GlobalStepWaiterHook": lambda: train.GlobalStepWaiterHook(1),
    "StepCounterHook": lambda: train.StepCounterHook(),
    "SummarySaverHook": lambda: train.SummarySaverHook(save_steps=1, summary_op="x"),
    "ProgressHook": lambda: train.ProgressHook(),
}


@pytest.mark.parametrize("limits", [{}, {"num_steps": 1, "last_step": 1}])
async def test_stop_at_step_wants_one_limit(limits):
    with pytest.raises(GraphValueError, match="num_steps or last_step"):
        train.StopAtStepHook(**limits)


@pytest.mark.parametrize("name", HOOKS_THAT_COUNT)
async def test_a_hook_that_counts_steps_wants_a_global_step(name):
    with ax.Graph().as_default():
        ax.constant(1.0)

        with pytest.raises(FailedPreconditionError, match=f"Global step should be created to use {name}"):
            async with train.MonitoredSession(hooks=[HOOKS_THAT_COUNT[name]()]):
                pass


async def test_stop_after_a_number_of_steps(model: Model):
    assert await trained(model, [train.StopAtStepHook(num_steps=3)], 10) == 3


async def test_stop_at_a_step(model: Model):
    assert await trained(model, [train.StopAtStepHook(last_step=4)], 10) == 4


async def test_a_number_of_steps_counts_from_where_the_session_begins(model: Model):
    scaffold = train.Scaffold(init_fn=lambda _, session: model.global_step.load(100, session))
    hooks = [train.StopAtStepHook(num_steps=3)]
    done = 0

    async with train.MonitoredSession(train.ChiefSessionCreator(scaffold), hooks) as session:
        while not session.should_stop():
            await session.run(model.train_op)
            done += 1
    assert done == 3


async def test_steps_that_do_not_count_do_not_stop(model: Model):
    async with train.MonitoredSession(hooks=[train.StopAtStepHook(last_step=1)]) as session:
        await session.run(model.weight)
        assert not session.should_stop()

        await session.run(model.train_op)
        assert session.should_stop()


async def test_where_steps_advance_by_several_stop_comes_at_the_latest_one_step_late(model: Model):
    assert await trained(model, [train.StopAtStepHook(last_step=9)], 10, by=[4, 4, 4, 4]) == 3
    assert await trained(model, [train.StopAtStepHook(last_step=10)], 10, by=[4, 4, 4, 4, 4]) == 4


async def test_the_step_is_read_before_it_is_counted(model: Model):
    seen = []

    class Read(train.SessionRunHook):
        def begin(self):
            self.read = required_global_step_read("Read")

        def before_run(self, run_context):
            return train.SessionRunArgs(self.read)

        def after_run(self, run_context, run_values):
            seen.append(int(run_values.results))

    await trained(model, [Read()], 4)
    assert seen == [0, 1, 2, 3]


async def test_a_forecast_expects_the_largest_advance():
    forecast = StepForecast()

    assert forecast.reached(5) >= 1_000_000
    assert [forecast.reached(stale) for stale in (6, 6, 9, 10)] == [7, 7, 12, 13]


# A loss that is not a number


def diverging(model: Model):
    """1, 2, NaN, 4, …"""
    return ax.where(ax.equal(model.weight, 2.0), ax.constant(np.nan), model.weight + 1.0)


async def test_a_loss_that_is_nan_ends_the_loop_with_an_error(model: Model, caplog):
    done = 0
    hook = train.NanTensorHook(diverging(model))

    with pytest.raises(train.NanLossDuringTrainingError, match=r"NaN loss during training\."):
        async with train.MonitoredSession(hooks=[hook]) as session:
            while True:
                await session.run([model.train_op])
                done += 1

    assert done == 2
    assert "Model diverged with loss = NaN." in caplog.text


async def test_a_loss_that_is_nan_may_end_the_loop_without_an_error(model: Model, caplog):
    hook = train.NanTensorHook(diverging(model), fail_on_nan_loss=False)

    with caplog.at_level(logging.WARNING):
        assert await trained(model, [hook], 10) == 3
    assert "Model diverged with loss = NaN." in caplog.text


async def test_one_nan_among_several_losses_is_enough(model: Model):
    hook = train.NanTensorHook(ax.constant([1.0, math.nan]), fail_on_nan_loss=False)

    assert await trained(model, [hook], 10) == 1


# Waiting for others


async def test_the_first_step_waits_until_others_have_trained(model: Model, caplog):
    waiter = train.GlobalStepWaiterHook(3)
    with caplog.at_level(logging.INFO):
        async with train.MonitoredSession(hooks=[waiter]) as session:
            waiting = asyncio.create_task(session.run(model.weight))
            await all_tasks_blocked()
            for _ in range(2):
                await session.run_step_fn(lambda step_context: step_context.session.run(model.train_op))
                await asyncio.sleep(1.0)
            assert not waiting.done()

            await session.run_step_fn(lambda step_context: step_context.session.run(model.train_op))
            await asyncio.sleep(1.0)
            assert await waiting == 3.0

    assert "Waiting for global step 3 before starting training." in caplog.text


async def test_a_step_that_need_not_wait_does_not(model: Model):
    loop = asyncio.get_running_loop()
    started = loop.time()

    await trained(model, [train.GlobalStepWaiterHook(0)], 2)
    assert loop.time() == started


async def test_waiting_for_others_can_be_cancelled(model: Model):
    async with train.MonitoredSession(hooks=[train.GlobalStepWaiterHook(3)]) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await session.run(model.train_op)
