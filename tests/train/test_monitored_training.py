"""MonitoredTrainingSession: the hooks it adds, the files they write, and the continuation of training."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aioexec as ax
from aioexec import errors
from aioexec.train.off_loop import off_loop

train = ax.train

SAVER, SUMMARIES, COUNTER = train.CheckpointSaverHook, train.SummarySaverHook, train.StepCounterHook


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def directory(tmp_path):
    """A directory whose event file, which the cache keeps open for later writes, is closed."""
    yield tmp_path
    await ax.summary.FileWriterCache.clear()


def step() -> Any:
    """A step that trains one variable, and what it has become."""
    v = ax.get_variable("v", [], initializer=ax.zeros_initializer())
    ax.summary.scalar("value", v)
    global_step = train.get_or_create_global_step()
    return ax.assign_add(global_step, 1), ax.assign_add(v, 2)


def hooks_of(**arguments: Any) -> list[type]:
    return [type(hook) for hook in train.MonitoredTrainingSession(**arguments)._hooks]


@pytest.mark.parametrize(
    ("arguments", "hooks"),
    [
        ({}, []),
        ({"checkpoint_dir": "d"}, [COUNTER, SUMMARIES, SAVER]),
        ({"summary_dir": "d"}, [COUNTER, SUMMARIES]),
        ({"checkpoint_dir": "d", "log_step_count_steps": None}, [SUMMARIES, SAVER]),
        ({"checkpoint_dir": "d", "log_step_count_steps": 0}, [SUMMARIES, SAVER]),
        ({"checkpoint_dir": "d", "save_checkpoint_secs": None}, [COUNTER, SUMMARIES]),
        ({"checkpoint_dir": "d", "save_checkpoint_secs": 0}, [COUNTER, SUMMARIES]),
        ({"checkpoint_dir": "d", "save_checkpoint_steps": 5}, [COUNTER, SUMMARIES, SAVER]),
        ({"checkpoint_dir": "d", "save_summaries_steps": None}, [COUNTER, SAVER]),
        ({"checkpoint_dir": "d", "save_summaries_steps": 0, "save_summaries_secs": None}, [COUNTER, SAVER]),
        ({"checkpoint_dir": "d", "save_summaries_secs": 5}, [COUNTER, SUMMARIES, SAVER]),
        ({"checkpoint_dir": "d", "is_chief": False}, []),
    ],
)
def test_hooks_are_added_for_what_is_wanted(arguments, hooks):
    assert hooks_of(**arguments) == hooks


def test_hooks_of_the_chief_come_first_and_the_callers_last():
    first, last = train.SessionRunHook(), train.SessionRunHook()
    arguments: dict[str, Any] = {"chief_only_hooks": [first], "hooks": [last], "checkpoint_dir": "d"}

    hooks = train.MonitoredTrainingSession(**arguments)._hooks
    assert (hooks[0], hooks[-1], len(hooks)) == (first, last, 5)

    assert train.MonitoredTrainingSession(is_chief=False, **arguments)._hooks == [last]


async def trained(steps: int, **arguments: Any) -> list[float]:
    """The values of the variable after each of so many steps, in a graph of its own."""
    with ax.Graph().as_default():
        fetches = step()
        hooks = [train.StopAtStepHook(num_steps=steps)]
        values = []
        async with train.MonitoredTrainingSession(hooks=hooks, **arguments) as session:
            while not session.should_stop():
                values.append(float((await session.run(fetches))[1]))
    return values


@pytest.mark.slow
async def test_training_goes_on_where_it_was_left(directory):
    assert await trained(3, checkpoint_dir=str(directory)) == [2, 4, 6]
    assert await off_loop(train.latest_checkpoint, str(directory)) == str(directory / "model.ckpt-3")

    assert await trained(2, checkpoint_dir=str(directory)) == [8, 10]
    assert await off_loop(train.latest_checkpoint, str(directory)) == str(directory / "model.ckpt-5")


class Second(train.SessionRunHook):
    """Steps take a second: those within a millisecond, which is a tick of uvloop's clock, have no rate."""

    async def after_run(self, run_context, run_values):
        await asyncio.sleep(1.0)


@pytest.mark.slow
async def test_what_a_run_leaves_behind(directory, virtual_clock):
    often = {"save_summaries_steps": 1, "log_step_count_steps": 1}
    await trained(3, checkpoint_dir=str(directory), chief_only_hooks=[Second()], **often)

    names = [path.name for path in directory.iterdir()]
    assert {"checkpoint", "graph.pbtxt", "model.ckpt-3.index", "model.ckpt-3.meta"} <= {*names}
    events = [name for name in names if name.startswith("events.out.tfevents.")]
    assert len(events) == 1
    written = await off_loop(list, train.summary_iterator(str(directory / events[0])))
    tags = {value.tag for event in written for value in event.summary.value}
    assert {"value", "global_step/sec"} <= tags


async def test_graph_definitions_need_not_be_written(directory):
    await trained(1, checkpoint_dir=str(directory), save_graph_def=False)

    names = [path.name for path in directory.iterdir()]
    assert "model.ckpt-1.index" in names
    assert not [name for name in names if name.endswith((".meta", ".pbtxt"))]


async def test_summaries_may_go_elsewhere(directory):
    checkpoints, summaries = directory / "checkpoints", directory / "summaries"

    await trained(1, checkpoint_dir=str(checkpoints), summary_dir=str(summaries), save_checkpoint_secs=None)

    assert [path.name for path in summaries.iterdir() if path.name.startswith("events.")]
    assert not checkpoints.exists()


async def test_a_worker_waits_for_its_chief(graph, virtual_clock):
    step()
    session = train.MonitoredTrainingSession(is_chief=False, max_wait_secs=10)

    with pytest.raises(errors.DeadlineExceededError, match="Session was not ready after waiting 10 secs"):
        await session

    assert virtual_clock.time() == pytest.approx(9, abs=1)


async def test_a_run_that_fails_keeps_its_last_checkpoint(directory):
    fetches = step()

    with pytest.raises(ZeroDivisionError):
        async with train.MonitoredTrainingSession(checkpoint_dir=str(directory)) as session:
            await session.run(fetches)
            raise ZeroDivisionError

    assert await off_loop(train.latest_checkpoint, str(directory)) == str(directory / "model.ckpt-0")


@pytest.mark.slow
async def test_a_run_that_is_cancelled_can_be_gone_on_with(directory):
    async def train_forever() -> None:
        with ax.Graph().as_default():
            fetches = step()
            async with train.MonitoredTrainingSession(
                checkpoint_dir=str(directory), save_checkpoint_steps=10
            ) as session:
                while not session.should_stop():
                    await session.run(fetches)
                    if int((await session.run(fetches))[0]) >= 30:
                        task.cancel()

    task = asyncio.create_task(train_forever())
    with pytest.raises(asyncio.CancelledError):
        await task

    latest = await off_loop(train.latest_checkpoint, str(directory))
    assert latest is not None
    reached = int(latest.rpartition("-")[2])
    assert reached >= 20
    assert await trained(1, checkpoint_dir=str(directory)) == [2 * reached + 2]
