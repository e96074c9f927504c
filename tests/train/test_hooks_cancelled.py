"""A training that is cancelled at any wait: it ends, leaks nothing, and continues from its checkpoint."""

import asyncio
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

import aioexec as ax
from aioexec import train
from aioexec.train.hooks.file_writer_cache import FileWriterCache
from tests.train.hooked import Model, model as model
from tests.train.test_progress_hook import Terminal, assert_cursor_is_shown

STEPS = 5


class CancelledAt:
    """Awaits a coroutine; the task that does is cancelled when it waits for the `nth` time."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], nth: int) -> None:
        self._coroutine = coroutine
        self._left = nth

    def __await__(self) -> Generator[Any, Any, Any]:
        awaiting = self._coroutine.__await__()
        resume, argument = awaiting.send, None
        while True:
            try:
                future = resume(argument)
            except StopIteration as ended:
                return ended.value
            self._left -= 1
            if not self._left:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                resume, argument = awaiting.send, (yield future)
            except BaseException as error:
                resume, argument = awaiting.throw, error

    @property
    def was_reached(self) -> bool:
        return self._left <= 0


async def train_some(model: Model, folder: str, terminal: Any) -> None:
    hooks = [
        train.CheckpointSaverHook(folder, save_steps=2, saver=train.Saver(), listeners=[Slow()]),
        train.SummarySaverHook(2, output_dir=folder, summary_op=ax.summary.scalar("w", model.weight.value())),
        train.StepCounterHook(2, output_dir=folder),
        train.ProfilerHook(3, output_dir=folder),
        train.ProgressHook(["weight"], every_secs=0.0, file=terminal),
        train.FinalOpsHook(model.weight),
        train.StopAtStepHook(num_steps=STEPS),
    ]
    creator = train.ChiefSessionCreator(checkpoint_dir=folder)
    async with train.MonitoredSession(creator, hooks) as session:
        while not session.should_stop():
            await session.run(model.train_op)


class Slow(train.CheckpointSaverListener):
    async def before_save(self, session, global_step_value):
        await asyncio.sleep(0)

    async def after_save(self, session, global_step_value):
        await asyncio.sleep(0)


async def state_in(model: Model, folder: str) -> tuple[float, int]:
    """The weight and the global step that training would go on from."""
    async with train.MonitoredSession(train.ChiefSessionCreator(checkpoint_dir=folder)) as session:
        weight, step = await session.run([model.weight, model.global_step])
    return float(weight), int(step)


@pytest.mark.slow
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.sweep)])
async def test_a_training_may_be_cancelled_wherever_it_waits(model: Model, tmp_path: Path, stride: int):
    train.Saver()
    for nth in range(1, 1000, stride):
        folder, terminal = str(tmp_path / str(nth)), Terminal()
        training = CancelledAt(train_some(model, folder, terminal), nth)
        try:
            await training
        except asyncio.CancelledError:
            pass
        finally:
            await FileWriterCache.clear()

        assert_cursor_is_shown(terminal)
        weight, step = await state_in(model, folder)
        assert (weight, step <= STEPS) == (float(step), True)
        if not training.was_reached:
            break
    assert (nth > 20, step) == (True, STEPS)
