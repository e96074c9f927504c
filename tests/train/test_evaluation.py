"""evaluate_once and evaluate_repeatedly: restored checkpoints, runs, counts, results; their end."""

import asyncio
import itertools
import logging

import pytest

import aioexec as ax
from aioexec import train
from aioexec.errors import GraphValueError
from aioexec.testing.tasks import all_tasks_blocked
from tests.train.hooked import Model, RememberingWriter, folder as folder, model as model

pytestmark = pytest.mark.usefixtures("virtual_clock")


class Trainer:
    """Saves checkpoints of the model, one a step."""

    def __init__(self, model, folder):
        self._model = model
        self._path = f"{folder}/model.ckpt"
        self._saver = train.Saver()

    async def save(self, step):
        with self._model.graph.as_default():
            async with ax.Session() as session:
                await self._model.weight.load(float(step), session)
                await self._model.global_step.load(step, session)
                return await self._saver.save(session, self._path, global_step=step, write_meta_graph=False)


@pytest.fixture
def trainer(model, folder):
    trainer = Trainer(model, folder)
    ax.add_to_collection(ax.GraphKeys.SAVERS, trainer._saver)
    return trainer


@pytest.fixture
def counted(model):
    """A local variable that counts, and the op that does."""
    counter = ax.Variable(0, name="counter", collections=[ax.GraphKeys.LOCAL_VARIABLES], trainable=False)
    return counter, ax.assign_add(counter, 1)


async def test_the_final_ops_see_the_restored_variables(model: Model, trainer):
    path = await trainer.save(7)

    assert await train.evaluate_once(path, final_ops={"weight": model.weight}) == {"weight": 7.0}


async def test_without_final_ops_nothing_is_returned(model: Model, trainer):
    assert await train.evaluate_once(await trainer.save(7)) is None


@pytest.mark.parametrize("shape", ["one", "list", "tuple", "dict"])
async def test_the_ops_are_run_so_many_times(model: Model, trainer, counted, shape):
    counter, count = counted
    ops = {"one": count, "list": [count], "tuple": (count,), "dict": {"count": count}}[shape]
    given = dict(ops) if shape == "dict" else ops
    path = await trainer.save(1)

    evaluated = await train.evaluate_once(
        path, eval_ops=ops, hooks=[train.StopAfterNEvalsHook(3)], final_ops=counter
    )

    assert evaluated == 3
    assert ops == given


async def test_without_a_number_the_ops_are_run_until_the_input_ends(model: Model, trainer, counted):
    queue = ax.FIFOQueue(5, [ax.int32])
    filled, closed = queue.enqueue_many([[1, 2, 3]]), queue.close()
    path = await trainer.save(1)

    class Fill(train.SessionRunHook):
        async def after_create_session(self, session, coord):
            await session.run(filled)
            await session.run(closed)

    evaluated = await train.evaluate_once(
        path,
        eval_ops=ax.assign_add(counted[0], queue.dequeue()),
        hooks=[train.StopAfterNEvalsHook(None), Fill()],
        final_ops=counted[0],
    )

    assert evaluated == 1 + 2 + 3


async def test_the_ops_are_fed(model: Model, trainer):
    fed = ax.placeholder(ax.float32, [])
    total = ax.Variable(0.0, name="total", collections=[ax.GraphKeys.LOCAL_VARIABLES], trainable=False)
    path = await trainer.save(1)

    evaluated = await train.evaluate_once(
        path,
        eval_ops=ax.assign_add(total, fed),
        feed_dict={fed: 2.0},
        hooks=[train.StopAfterNEvalsHook(4)],
        final_ops=total + fed,
        final_ops_feed_dict={fed: 0.5},
    )

    assert evaluated == 8.5


async def test_each_evaluation_is_logged_and_of_many_a_tenth(model: Model, trainer, counted, caplog):
    path = await trainer.save(1)

    def lines():
        logged = [each.getMessage() for each in caplog.records if each.getMessage().startswith("Evaluation")]
        caplog.clear()
        return logged

    with caplog.at_level(logging.INFO):
        await train.evaluate_once(path, eval_ops=counted[1], hooks=[train.StopAfterNEvalsHook(2)])
        assert lines() == ["Evaluation [1/2]", "Evaluation [2/2]"]
        await train.evaluate_once(path, eval_ops=counted[1], hooks=[train.StopAfterNEvalsHook(25)])
        assert lines() == [f"Evaluation [{done}/25]" for done in [*range(2, 25, 2), 25]]
        quiet = train.StopAfterNEvalsHook(2, log_progress=False)
        await train.evaluate_once(path, eval_ops=counted[1], hooks=[quiet])
        assert lines() == []


async def test_summaries_at_the_end_are_those_of_the_checkpoint(model: Model, trainer):
    writer = RememberingWriter()
    ax.summary.scalar("weight", model.weight.value())
    path = await trainer.save(7)

    await train.evaluate_once(path, hooks=[train.SummaryAtEndHook(summary_writer=writer)])

    assert writer.steps("summary") == [7]


async def test_a_checkpoint_that_is_missing_is_an_error(model: Model, trainer, folder):
    with pytest.raises(GraphValueError, match=r"not a valid checkpoint.*nothing-7"):
        await train.evaluate_once(f"{folder}/nothing-7", final_ops=model.weight)


async def test_there_is_one_eval_step(model: Model):
    step = train.get_or_create_eval_step()

    assert train.get_or_create_eval_step() is step
    assert step.op.name == "eval_step"
    assert step in ax.get_collection(ax.GraphKeys.LOCAL_VARIABLES)
    assert step not in ax.trainable_variables()


async def test_several_eval_steps_are_refused(model: Model):
    train.get_or_create_eval_step()
    ax.add_to_collection(ax.GraphKeys.EVAL_STEP, model.weight)

    with pytest.raises(GraphValueError, match="Multiple tensors added"):
        train.get_or_create_eval_step()


# Again and again


async def test_each_new_checkpoint_is_evaluated_until_there_are_enough(
    model: Model, trainer, counted, folder
):
    seen = []

    class Look(train.SessionRunHook):
        async def end(self, session):
            seen.append(await session.run([model.weight, counted[0]]))

    evaluating = asyncio.create_task(
        train.evaluate_repeatedly(
            folder,
            eval_ops=counted[1],
            final_ops=model.weight,
            hooks=[train.StopAfterNEvalsHook(2), Look()],
            max_number_of_evaluations=2,
        )
    )
    await all_tasks_blocked()
    await trainer.save(1)
    await asyncio.sleep(100)
    await trainer.save(2)

    assert await evaluating == 2.0
    assert seen == [[1.0, 2], [2.0, 2]]


async def test_evaluations_begin_no_more_often_than_asked(model: Model, trainer, folder):
    began = []

    class Look(train.SessionRunHook):
        async def after_create_session(self, session, coord):
            began.append(asyncio.get_running_loop().time())
            await trainer.save(int(await session.run(model.global_step)) + 1)

    await trainer.save(1)
    await train.evaluate_repeatedly(
        folder, hooks=[Look()], eval_interval_secs=30, max_number_of_evaluations=3
    )

    assert [later - first for first, later in itertools.pairwise(began)] == [30.0, 30.0]


async def test_waiting_for_checkpoints_ends_with_the_time(model: Model, trainer, folder):
    await trainer.save(5)

    assert await train.evaluate_repeatedly(folder, final_ops=model.weight, timeout=120) == 5.0


async def test_when_the_time_is_over_the_caller_may_go_on_waiting(model: Model, trainer, folder):
    asked = []

    async def is_done():
        asked.append(asyncio.get_running_loop().time())
        return len(asked) == 3

    assert await train.evaluate_repeatedly(folder, timeout=10, timeout_fn=is_done) is None
    assert len(asked) == 3


async def test_evaluations_can_be_cancelled(model: Model, trainer, folder):
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(300):
            await train.evaluate_repeatedly(folder, final_ops=model.weight)
