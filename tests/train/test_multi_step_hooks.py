"""Runs of several steps: at most the remaining ones, at most the configured number."""

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError
from aioexec.train.errors import TrainingStateError
from aioexec.train.hooks.multi_step_hooks import (
    _MultiStepStopAfterNEvalsHook,
    _MultiStepStopAtStepHook,
    get_or_create_steps_per_run_variable,
)
from tests.train.hooked import Model, folder as folder, model as model

pytestmark = pytest.mark.usefixtures("virtual_clock")


@pytest.mark.parametrize(
    ("num_steps", "last_step", "steps_per_run"), [(None, None, 1), (1, 1, 1), (1, None, 0)]
)
async def test_wrong_numbers_are_refused(num_steps, last_step, steps_per_run):
    with pytest.raises(GraphValueError, match=r"num_steps|steps_per_run"):
        _MultiStepStopAtStepHook(num_steps, last_step, steps_per_run)


async def test_runs_take_as_many_steps_as_are_left(model: Model):
    advance = ax.cast(get_or_create_steps_per_run_variable(), ax.int64)
    train_op = ax.assign_add(model.global_step, advance)
    steps = []

    async with train.MonitoredSession(hooks=[_MultiStepStopAtStepHook(10, None, 4)]) as session:
        while not session.should_stop():
            steps.append(int(await session.run(train_op)))

    assert steps == [4, 8, 10]


async def test_there_is_one_variable_for_the_number(model: Model):
    variable = get_or_create_steps_per_run_variable()

    assert get_or_create_steps_per_run_variable() is variable
    assert variable.op.name == "hooks/steps_per_run"
    ax.add_to_collection("hooks_steps_per_run", model.weight)
    with pytest.raises(TrainingStateError, match="Multiple steps_per_run_var"):
        get_or_create_steps_per_run_variable()


@pytest.mark.parametrize(("evals", "expected"), [(7, [3, 3, 1]), (6, [3, 3])])
async def test_an_evaluation_makes_as_many_as_are_left(model: Model, folder, evals, expected):
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        path = await train.Saver().save(session, f"{folder}/model")
    assert path is not None
    seen = []

    class Look(train.SessionRunHook):
        def before_run(self, run_context):
            return train.SessionRunArgs(get_or_create_steps_per_run_variable())

        def after_run(self, run_context, run_values):
            seen.append(int(run_values.results))

    hooks = [Look(), _MultiStepStopAfterNEvalsHook(evals, 3)]
    done = await train.evaluate_once(
        path, eval_ops=model.weight.value(), hooks=hooks, final_ops=train.get_or_create_eval_step()
    )

    assert (seen, done) == (expected, evals)
