"""Estimator: training, evaluation and prediction, and the files in between."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.train.off_loop import off_loop
from tests.estimator.models import X, Y, inputs, linear_model, trained

Estimator, RunConfig = ax.estimator.Estimator, ax.estimator.RunConfig


async def value_of(estimator: Any, name: str) -> Any:
    return await off_loop(estimator.get_variable_value, name)


async def test_training_continues_from_the_last_checkpoint(directory):
    estimator = Estimator(linear_model, directory)

    assert await estimator.train(inputs(), steps=3) is estimator
    first = await value_of(estimator, "weights")
    await estimator.train(inputs(), steps=2)

    np.testing.assert_allclose(first, trained(3), rtol=1e-5)
    np.testing.assert_allclose(await value_of(estimator, "weights"), trained(5), rtol=1e-5)
    assert await value_of(estimator, "global_step") == 5


async def test_training_ends_at_the_largest_step(directory):
    estimator = Estimator(linear_model, directory)

    await estimator.train(inputs(), max_steps=3)
    await estimator.train(inputs(), max_steps=3)
    await estimator.train(inputs(), max_steps=4)

    np.testing.assert_allclose(await value_of(estimator, "weights"), trained(4), rtol=1e-5)


async def test_training_ends_with_its_input(directory):
    estimator = Estimator(linear_model, directory)

    await estimator.train(inputs(num_epochs=3))

    assert await value_of(estimator, "global_step") == 3


async def test_files_are_where_tensorflow_has_them(directory):
    estimator = Estimator(linear_model, directory)

    await estimator.train(inputs(), steps=3)
    await estimator.evaluate(inputs(num_epochs=1))
    await estimator.evaluate(inputs(num_epochs=1), name="other")

    names = {name.partition(".tfevents")[0] for name in await off_loop(os.listdir, directory)}
    assert {
        "checkpoint",
        "graph.pbtxt",
        "model.ckpt-0.index",
        "model.ckpt-3.index",
        "model.ckpt-3.meta",
    } <= names
    assert {"events.out", "eval", "eval_other"} <= names
    assert await off_loop(estimator.latest_checkpoint) == f"{directory}/model.ckpt-3"
    assert await off_loop(estimator.get_variable_names) == ["global_step", "weights"]


async def test_an_evaluation_returns_and_writes_its_metrics(directory):
    estimator = Estimator(linear_model, directory)
    await estimator.train(inputs(), steps=3)

    results = await estimator.evaluate(inputs(batch_size=2, num_epochs=1))

    values = X @ trained(3)
    assert results.keys() == {"error", "loss", "global_step"}
    assert results["global_step"] == 3
    np.testing.assert_allclose(results["error"], np.abs(values - Y).mean(), rtol=1e-5)
    np.testing.assert_allclose(results["loss"], ((values - Y) ** 2).mean(), rtol=1e-5)
    written = await off_loop(summaries, estimator.eval_dir())
    assert written["error"] == (3, pytest.approx(results["error"]))
    assert written.keys() == {"error", "loss", "checkpoint_path"}


def summaries(folder: str) -> dict[str, Any]:
    (path,) = Path(folder).glob("events*")
    return {
        value.tag: (event.step, value.simple_value)
        for event in ax.train.summary_iterator(str(path))
        for value in event.summary.value
    }


async def test_an_evaluation_without_a_checkpoint_uses_initial_values(directory):
    results = await Estimator(linear_model, directory).evaluate(inputs(), steps=1)

    assert results["global_step"] == 0
    np.testing.assert_allclose(results["loss"], (Y**2).mean())


async def test_predictions_come_one_by_one_to_the_end_of_input(directory):
    estimator = Estimator(linear_model, directory)
    await estimator.train(inputs(), steps=3)

    examples = [each async for each in estimator.predict(inputs(batch_size=3, num_epochs=1, labels=False))]
    batches = [
        each
        async for each in estimator.predict(
            inputs(batch_size=3, num_epochs=1), predict_keys=["value"], yield_single_examples=False
        )
    ]

    np.testing.assert_allclose([each["value"] for each in examples], X @ trained(3), rtol=1e-5)
    assert [len(each["value"]) for each in batches] == [3, 1]


async def test_a_closed_prediction_closes_its_session(directory):
    estimator = Estimator(linear_model, directory)

    async with contextlib.aclosing(estimator.predict(inputs(labels=False))) as predictions:  # type: ignore[type-var]
        prediction = await anext(predictions)
        default = ax.get_default_graph()

    assert prediction["value"] == 0
    assert default is ax.get_default_graph()


async def test_an_input_may_be_a_dataset(directory):
    estimator = Estimator(linear_model, directory)

    def input_fn() -> Any:
        return ax.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(3).batch(4)

    await estimator.train(input_fn)
    predictions = [each async for each in estimator.predict(lambda: input_fn().take(1))]

    np.testing.assert_allclose(await value_of(estimator, "weights"), trained(3), rtol=1e-5)
    np.testing.assert_allclose([each["value"] for each in predictions], X @ trained(3), rtol=1e-5)


async def test_two_estimators_train_at_once(directory):
    first, second = (Estimator(linear_model, f"{directory}/{name}") for name in "ab")

    await asyncio.gather(first.train(inputs(), steps=3), second.train(inputs(), steps=4))

    np.testing.assert_allclose(await value_of(first, "weights"), trained(3), rtol=1e-5)
    np.testing.assert_allclose(await value_of(second, "weights"), trained(4), rtol=1e-5)


async def test_functions_get_the_arguments_that_they_take(directory):
    seen: list[Any] = []

    def model_fn(features: Any, labels: Any, mode: str, params: Any, config: Any) -> Any:
        seen.append(("model", mode, params, config.model_dir))
        return linear_model(features, labels, mode)

    def input_fn(fixed: int, params: Any, mode: str) -> Any:
        seen.append(("input", fixed, mode, params))
        return inputs()()

    estimator = Estimator(model_fn, directory, params={"a": 1})
    await estimator.train(functools.partial(input_fn, 7), steps=1)

    assert seen == [("input", 7, "train", {"a": 1}), ("model", "train", {"a": 1}, directory)]


async def test_hooks_and_listeners_are_called(directory):
    calls: list[str] = []

    class Hook(ax.train.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            calls.append("run")

    class Listener(ax.train.CheckpointSaverListener):
        def after_save(self, session: Any, global_step_value: int) -> None:
            calls.append(f"saved {global_step_value}")

    estimator = Estimator(linear_model, directory, RunConfig(save_checkpoints_steps=2))
    await estimator.train(inputs(), [Hook()], steps=3, saving_listeners=[Listener()])

    assert calls == ["saved 0", "run", "run", "saved 2", "run", "saved 3"] or calls == [
        "saved 0",
        "run",
        "saved 2",
        "run",
        "run",
        "saved 3",
    ]


async def test_summaries_and_the_loss_are_written(directory):
    estimator = Estimator(linear_model, directory, RunConfig(save_summary_steps=1, log_step_count_steps=None))

    await estimator.train(inputs(), steps=2)
    await ax.summary.FileWriterCache.clear()

    written = await off_loop(summaries, directory)
    assert written["loss"][0] == 2
    assert written.keys() == {
        "enqueue_input/queue/enqueue_input/fifo_queuefraction_over_0_of_1000_full",
        "loss",
    }


async def test_a_warm_start_takes_the_values_of_another_model(directory):
    source = Estimator(linear_model, f"{directory}/source")
    await source.train(inputs(), steps=3)

    estimator = Estimator(linear_model, f"{directory}/other", warm_start_from=source.model_dir)
    before = await estimator.evaluate(inputs(), steps=1)
    await estimator.train(inputs(), steps=1)

    assert before["loss"] == pytest.approx(((X @ trained(3) - Y) ** 2).mean(), rel=1e-5)
    np.testing.assert_allclose(await value_of(estimator, "weights"), trained(4), rtol=1e-5)
    assert await value_of(estimator, "global_step") == 1


async def test_wrong_arguments_are_refused(directory):
    estimator = Estimator(linear_model, directory)

    with pytest.raises(GraphValueError, match="both steps and max_steps"):
        await estimator.train(inputs(), steps=1, max_steps=1)
    with pytest.raises(GraphValueError, match="Must specify steps > 0"):
        await estimator.train(inputs(), steps=0)
    with pytest.raises(GraphTypeError, match="SessionRunHook"):
        await estimator.train(inputs(), hooks=[object()], steps=1)  # type: ignore[list-item]
    with pytest.raises(GraphTypeError, match="CheckpointSaverListener"):
        await estimator.train(inputs(), steps=1, saving_listeners=[object()])  # type: ignore[list-item]
    with pytest.raises(GraphValueError, match="Could not find trained model"):
        await off_loop(estimator.get_variable_names)


def test_model_functions_are_checked(directory):
    with pytest.raises(GraphValueError, match="must include features"):
        Estimator(lambda labels: None, directory)
    with pytest.raises(GraphValueError, match="does not include params"):
        Estimator(linear_model, directory, params={})
    with pytest.raises(GraphValueError, match=r"not expected args: \['other'\]"):
        Estimator(lambda features, other: None, directory)
    with pytest.raises(GraphValueError, match="must be provided"):
        Estimator(None, directory)  # type: ignore[arg-type]


def test_the_folder_is_that_of_the_settings_or_a_new_one(directory):
    assert Estimator(linear_model, config=RunConfig(directory)).model_dir == directory
    with pytest.raises(GraphValueError, match="different values"):
        Estimator(linear_model, "other", RunConfig(directory))
    new = Path(Estimator(linear_model).model_dir)
    assert list(new.iterdir()) == []
    new.rmdir()


def test_methods_cannot_be_overridden(directory):
    class Other(ax.estimator.Estimator):
        def train(self) -> None:  # type: ignore[override]
            pass

    with pytest.raises(GraphValueError, match=r"does override \['train'\]"):
        Other(linear_model, directory)


async def test_a_model_without_labels_refuses_them(directory):
    def model_fn(features: Any) -> Any:
        raise AssertionError

    with pytest.raises(GraphValueError, match="does not take labels"):
        await Estimator(model_fn, directory).train(inputs(), steps=1)


async def test_the_bound_model_function_builds_with_the_parameters(directory):
    def model_fn(features: Any, params: Any) -> Any:
        return ax.estimator.EstimatorSpec("infer", predictions=features * params["factor"])

    estimator = Estimator(model_fn, directory, params={"factor": 3.0})
    with ax.Graph().as_default() as graph:
        spec = estimator.model_fn(ax.constant([1.0, 2.0]), None, "infer", estimator.config)
    async with ax.Session(graph=graph) as session:
        assert list(await session.run(spec.predictions)) == [3.0, 6.0]
