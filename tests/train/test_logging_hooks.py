"""Logged tensors, and the step rate in the log and an event file."""

import asyncio
import logging

import numpy as np
import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError, OpError, UnknownNameError
from tests.train.hooked import (
    Model,
    RememberingWriter,
    events_in,
    folder as folder,
    model as model,
    trained,
)

pytestmark = pytest.mark.usefixtures("virtual_clock")


@pytest.fixture
def lines(caplog):
    """The lines logged by hooks."""

    def logged() -> list[str]:
        return [
            each.getMessage() for each in caplog.records if each.name == "aioexec.train.hooks.logging_hooks"
        ]

    with caplog.at_level(logging.INFO):
        yield logged


# Tensors


@pytest.mark.parametrize(
    "intervals",
    [{}, {"every_n_iter": 1, "every_n_secs": 1.0}, {"every_n_iter": 1, "every_n_secs": 1.0, "at_end": True}],
)
async def test_logging_wants_one_interval_or_the_end(intervals):
    with pytest.raises(GraphValueError, match="exactly one of every_n_iter and every_n_secs"):
        train.LoggingTensorHook(["x"], **intervals)


@pytest.mark.parametrize("every", [0, -1])
async def test_logging_wants_a_positive_number_of_steps(every):
    with pytest.raises(GraphValueError, match=f"invalid every_n_iter={every}"):
        train.LoggingTensorHook(["x"], every_n_iter=every)


async def test_tensors_are_logged_at_the_first_step_and_each_so_many(model: Model, lines):
    await trained(model, [train.LoggingTensorHook({"w": model.weight.value()}, every_n_iter=3)], 7, 0.5)

    assert lines() == ["w = 0.0", "w = 3.0 (1.500 sec)", "w = 6.0 (1.500 sec)"]


async def test_tensors_are_logged_each_so_many_seconds(model: Model, lines):
    await trained(model, [train.LoggingTensorHook({"w": model.weight.value()}, every_n_secs=2.0)], 5, 1.0)

    assert lines() == ["w = 0.0", "w = 2.0 (2.000 sec)", "w = 4.0 (2.000 sec)"]


async def test_tags_are_sorted_and_a_list_keeps_its_order(model: Model, lines):
    ax.constant(1.5, name="first")
    ax.constant([2, 3], name="second")

    await trained(model, [train.LoggingTensorHook({"b": "first", "a": "second:0"}, every_n_iter=1)], 1)
    await trained(model, [train.LoggingTensorHook(["second", "first:0"], every_n_iter=1)], 1)

    assert lines() == ["a = [2 3], b = 1.5", "second = [2 3], first:0 = 1.5"]


async def test_small_numbers_are_not_written_with_an_exponent(model: Model, lines):
    ax.constant(np.array([1e-6, 1.0], np.float32), name="small")

    await trained(model, [train.LoggingTensorHook(["small"], every_n_iter=1)], 1)

    assert lines() == ["small = [0.000001 1.      ]"]
    assert not np.get_printoptions()["suppress"]


async def test_tensors_may_be_logged_at_the_end_alone(model: Model, lines):
    await trained(model, [train.LoggingTensorHook({"w": model.weight.value()}, at_end=True)], 3, 0.5)

    assert lines() == ["w = 3.0"]


async def test_tensors_may_be_logged_at_the_end_too(model: Model, lines):
    hook = train.LoggingTensorHook({"w": model.weight.value()}, every_n_iter=10, at_end=True)

    await trained(model, [hook], 3, 0.5)

    assert lines() == ["w = 0.0", "w = 3.0 (1.500 sec)"]


async def test_a_formatter_writes_the_line(model: Model, lines):
    def plain(values):
        return f"weight {values['w']:.1f}"

    async def awaited(values):
        await asyncio.sleep(1.0)
        return f"awaited {values['w']:.1f}"

    for formatter in (plain, awaited):
        hook = train.LoggingTensorHook({"w": model.weight.value()}, every_n_iter=2, formatter=formatter)
        await trained(model, [hook], 3)

    assert lines() == ["weight 0.0", "weight 2.0", "awaited 0.0", "awaited 2.0"]


async def test_a_tensor_of_another_graph_is_refused(model: Model):
    with ax.Graph().as_default():
        stranger = ax.constant(1.0)

    with pytest.raises(GraphValueError, match="equal to current graph"):
        await trained(model, [train.LoggingTensorHook({"x": stranger}, every_n_iter=1)], 1)


async def test_a_name_must_mean_one_tensor(model: Model):
    ax.unique(ax.constant([1, 1]), name="two")

    with pytest.raises(GraphValueError, match="two is ambiguous"):
        await trained(model, [train.LoggingTensorHook(["two"], every_n_iter=1)], 1)
    with pytest.raises(UnknownNameError, match="nowhere"):
        await trained(model, [train.LoggingTensorHook(["nowhere"], every_n_iter=1)], 1)


# Steps a second


@pytest.mark.parametrize("intervals", [{"every_n_steps": None}, {"every_n_steps": 1, "every_n_secs": 1.0}])
async def test_counting_wants_one_interval(intervals):
    with pytest.raises(GraphValueError, match="exactly one of every_n_steps and every_n_secs"):
        train.StepCounterHook(**intervals)


async def test_steps_a_second_are_logged_and_recorded(model: Model, lines):
    writer = RememberingWriter()

    await trained(model, [train.StepCounterHook(every_n_steps=2, summary_writer=writer)], 6, 0.25)

    assert lines() == ["global_step/sec: 4", "global_step/sec: 4"]
    assert writer.steps("summary") == [3, 5]
    assert [(each.tag, each.simple_value) for each in writer.events[0][1].value] == [("global_step/sec", 4.0)]


async def test_steps_a_second_are_those_of_the_global_step(model: Model, lines):
    writer = RememberingWriter()

    await trained(
        model,
        [train.StepCounterHook(every_n_secs=1.0, summary_writer=writer, every_n_steps=None)],
        3,
        1.0,
        [4] * 3,
    )

    assert lines() == ["global_step/sec: 4"] * 2


async def test_no_rate_is_logged_where_no_time_has_passed(model: Model, lines):
    await trained(model, [train.StepCounterHook(every_n_steps=1)], 5)

    assert lines() == []


async def test_steps_a_second_go_into_an_event_file(model: Model, folder):
    await trained(model, [train.StepCounterHook(every_n_steps=1, output_dir=folder)], 3, 0.5)

    events = await events_in(folder)
    rates = [(event.step, value.simple_value) for event in events for value in event.summary.value]
    assert rates == [(2, 2.0), (3, 2.0)]


async def test_a_subclass_may_say_something_else(model: Model):
    said = []

    class Examples(train.StepCounterHook):
        def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
            said.append((elapsed_steps, elapsed_time, global_step))

    await trained(model, [Examples(every_n_steps=2)], 5, 0.5)

    assert said == [(2, 1.0, 3), (2, 1.0, 5)]


async def test_a_global_step_that_does_not_move_is_warned_of_a_few_times(model: Model, lines):
    async with train.MonitoredSession(hooks=[train.StepCounterHook()]) as session:
        for _ in range(10):
            await session.run(model.weight)

    assert len(lines()) == 5
    assert all("global step (tf.train.get_global_step) has not been increased" in line for line in lines())


async def test_an_error_of_a_formatter_is_the_loops(model: Model):
    def fail(values):
        raise OpError("no words")

    with pytest.raises(OpError, match="no words"):
        await trained(
            model, [train.LoggingTensorHook([model.weight.value()], every_n_iter=1, formatter=fail)], 1
        )
