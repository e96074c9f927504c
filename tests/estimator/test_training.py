"""train_and_evaluate: evaluations of checkpoints during a training, and the tasks of a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.estimator.models import inputs, linear_model

estimator = ax.estimator
RunConfig, TrainSpec, EvalSpec = estimator.RunConfig, estimator.TrainSpec, estimator.EvalSpec


class Recorder(estimator.Exporter):
    """Records its calls."""

    def __init__(self, name: str = "recorder") -> None:
        self.calls: list[Any] = []
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> Any:
        self.calls.append((export_path, checkpoint_path, eval_result["global_step"], is_the_final_export))
        return len(self.calls)


async def run(directory: str, throttle_secs: float = 0, **kwargs: Any) -> tuple[Any, list[Any]]:
    """The results of a training of 5 steps with a checkpoint after each second one, and the calls of an exporter."""
    model = estimator.Estimator(linear_model, directory, RunConfig(save_checkpoints_steps=2))
    recorder = Recorder()
    spec = EvalSpec(inputs(num_epochs=1), exporters=recorder, throttle_secs=throttle_secs, **kwargs)
    results = await estimator.train_and_evaluate(model, TrainSpec(inputs(), max_steps=5), spec)
    return results, recorder.calls


async def test_each_checkpoint_but_the_first_is_evaluated(directory):
    (metrics, exports), calls = await run(directory)

    steps = [step for _, _, step, _ in calls]
    assert steps[-1] == metrics["global_step"] == 5
    assert calls[-1] == (f"{directory}/export/recorder", f"{directory}/model.ckpt-5", 5, True)
    assert len(steps) == 3
    assert [final for *_, final in calls] == [False, False, True]
    assert exports == [3]


async def test_evaluations_are_throttled_but_for_the_last(directory):
    _, calls = await run(directory, throttle_secs=1000, name="x")

    assert len(calls) == 2
    assert calls[-1][2] == 5


async def test_the_evaluator_waits_for_the_last_step(directory, monkeypatch):
    model = estimator.Estimator(linear_model, directory)
    await model.train(inputs(), max_steps=5)
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})
    )
    recorder = Recorder()
    spec = EvalSpec(inputs(num_epochs=1), exporters=[recorder], start_delay_secs=0, throttle_secs=0)

    evaluator = estimator.Estimator(linear_model, directory)
    assert await estimator.train_and_evaluate(evaluator, TrainSpec(inputs(), max_steps=5), spec) is None

    assert [step for _, _, step, _ in recorder.calls] == [5]


async def test_the_only_task_of_a_cluster_trains_without_a_server(directory, monkeypatch):
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}})
    )
    model = estimator.Estimator(linear_model, directory)

    await estimator.train_and_evaluate(
        model, TrainSpec(inputs(), max_steps=2), EvalSpec(inputs(num_epochs=1))
    )

    assert (await model.evaluate(inputs(num_epochs=1)))["global_step"] == 2


async def test_other_arguments_are_refused(directory):
    model = estimator.Estimator(linear_model, directory)
    train, evaluate = TrainSpec(inputs()), EvalSpec(inputs())

    with pytest.raises(GraphTypeError, match=r"`estimator` must have type `tf\.estimator\.Estimator`"):
        await estimator.train_and_evaluate(None, train, evaluate)  # type: ignore[arg-type]
    with pytest.raises(GraphTypeError, match="`train_spec` must have type"):
        await estimator.train_and_evaluate(model, evaluate, evaluate)  # type: ignore[arg-type]
    with pytest.raises(GraphTypeError, match="`eval_spec` must have type"):
        await estimator.train_and_evaluate(model, train, train)  # type: ignore[arg-type]


def test_specs_are_checked():
    first, second = Recorder(), Recorder()

    assert TrainSpec(inputs).hooks == ()
    assert (EvalSpec(inputs).steps, EvalSpec(inputs).throttle_secs, EvalSpec(inputs).start_delay_secs) == (
        100,
        600,
        120,
    )
    with pytest.raises(GraphTypeError, match="`input_fn` must be callable"):
        TrainSpec(1)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="max_steps > 0"):
        TrainSpec(inputs, max_steps=0)
    with pytest.raises(GraphTypeError, match="SessionRunHook instances"):
        TrainSpec(inputs, hooks=[object()])  # type: ignore[list-item]
    with pytest.raises(GraphTypeError, match="CheckpointSaverListener instances"):
        TrainSpec(inputs, saving_listeners=[object()])  # type: ignore[list-item]
    with pytest.raises(GraphValueError, match="steps > 0"):
        EvalSpec(inputs, steps=0)
    with pytest.raises(GraphTypeError, match="`name` must be string"):
        EvalSpec(inputs, name=1)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="start_delay_secs >= 0"):
        EvalSpec(inputs, start_delay_secs=-1)
    with pytest.raises(GraphValueError, match="throttle_secs >= 0"):
        EvalSpec(inputs, throttle_secs=-1)
    with pytest.raises(GraphTypeError, match="must be an Exporter"):
        EvalSpec(inputs, exporters=[1])
    with pytest.raises(GraphValueError, match="unique names"):
        EvalSpec(inputs, exporters=[first, second])
    with pytest.raises(GraphValueError, match="`None` or empty"):
        EvalSpec(inputs, exporters=Recorder(""))


async def test_an_exporter_must_define_its_members():
    with pytest.raises(NotImplementedError, match="does not define name"):
        _ = estimator.Exporter().name
    with pytest.raises(NotImplementedError, match="does not define export"):
        estimator.Exporter().export(None, "", "", {}, False)  # type: ignore[arg-type]


async def test_settings_of_a_warm_start_are_checked(directory):
    settings = estimator.WarmStartSettings("path", vars_to_warm_start=None)

    assert settings == ("path", None, {}, {})
    with pytest.raises(GraphValueError, match="MUST be set"):
        estimator.WarmStartSettings("")
    with pytest.raises(GraphTypeError, match="must be a string or a WarmStartSettings"):
        estimator.Estimator(linear_model, directory, warm_start_from=1)
