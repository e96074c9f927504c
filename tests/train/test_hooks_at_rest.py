"""Stock hooks between two actions: the same request each step, nothing to await, no run of their own."""

import io

import numpy as np
import pytest

import aioexec as ax
from aioexec import train
from tests.train.hooked import Model, RememberingWriter, folder as folder, model as model, trained

pytestmark = pytest.mark.usefixtures("virtual_clock")

NEVER = 10**9

HOOKS = {
    "CheckpointSaverHook by steps": lambda model, folder: train.CheckpointSaverHook(
        folder, save_steps=NEVER, saver=train.Saver()
    ),
    "CheckpointSaverHook by seconds": lambda model, folder: train.CheckpointSaverHook(
        folder, save_secs=NEVER, saver=train.Saver()
    ),
    "StepCounterHook": lambda model, folder: train.StepCounterHook(NEVER, summary_writer=RememberingWriter()),
    "SummarySaverHook": lambda model, folder: train.SummarySaverHook(
        save_steps=NEVER, summary_writer=RememberingWriter(), summary_op=ax.summary.scalar("w", model.weight)
    ),
    "LoggingTensorHook": lambda model, folder: train.LoggingTensorHook(["weight"], every_n_iter=NEVER),
    "StopAtStepHook": lambda model, folder: train.StopAtStepHook(last_step=NEVER),
    "NanTensorHook": lambda model, folder: train.NanTensorHook(model.weight),
    "GlobalStepWaiterHook": lambda model, folder: train.GlobalStepWaiterHook(1),
    "ProfilerHook": lambda model, folder: train.ProfilerHook(NEVER, output_dir=folder),
    "ProgressHook": lambda model, folder: train.ProgressHook(["weight"], file=io.StringIO()),
    "SummaryAtEndHook": lambda model, folder: train.SummaryAtEndHook(summary_writer=RememberingWriter()),
    "FinalOpsHook": lambda model, folder: train.FinalOpsHook(model.weight),
}


@pytest.mark.parametrize("name", HOOKS)
async def test_a_hook_at_rest_costs_next_to_nothing(model: Model, folder, name):
    hook = HOOKS[name](model, folder)
    async with train.MonitoredSession(hooks=[hook]) as session:
        if name == "GlobalStepWaiterHook":
            await session.run_step_fn(lambda step_context: step_context.session.run(model.train_op))
        for _ in range(3):
            await session.run(model.train_op)

        context = train.SessionRunContext(train.SessionRunArgs(model.train_op), ax.Session())
        first = hook.before_run(context)
        returned = hook.after_run(context, train.SessionRunValues(np.int64(3), None, None))
        again = hook.before_run(context)

        assert again is first
        assert first is None or type(first) is train.SessionRunArgs
        assert returned is None


async def test_the_saver_hook_looks_at_the_step_only_when_it_may_be_due(model: Model, folder):
    looks: list[int] = []

    class Counting(train.CheckpointSaverHook):
        async def _save_if_due(self, run_context):
            looks.append(len(looks))
            await super()._save_if_due(run_context)

    await trained(model, [Counting(folder, save_steps=5, saver=train.Saver())], 20)

    assert len(looks) == 1 + 20 // 5  # at the first step the number of steps is unknown
