"""Estimators write SavedModels, which are loaded again; exporters choose when, and keep the latest versions."""

import os
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, NotFoundError, UnimplementedError
from aioexec.train.off_loop import off_loop
from tests.estimator.models import X, inputs, linear_model, trained

export = ax.estimator.export
RAW = {"x": np.zeros((1, 2), np.float32)}


def receiver() -> Any:
    x = ax.placeholder(ax.float32, [None, 2], name="x")
    other = ax.placeholder(ax.float32, [2, None], name="transposed")
    return export.ServingInputReceiver({"x": x}, {"x": x}, {"transposed": {"columns": other}})


async def trained_estimator(directory: str) -> Any:
    return await ax.estimator.Estimator(linear_model, f"{directory}/model").train(inputs(), steps=2)


async def test_an_exported_model_predicts_as_the_estimator(directory):
    estimator = await trained_estimator(directory)
    extra = f"{directory}/note.txt"
    await off_loop(_write, extra, "ours")

    path = os.fsdecode(
        await estimator.export_saved_model(f"{directory}/exports", receiver, {"notes/a.txt": extra})
    )

    async with await ax.load(path) as model:
        found = await model(x=X)
        assert sorted(model.signatures) == ["serving_default", "transposed:serving_default"]
    np.testing.assert_allclose(found["value"], X @ trained(2), rtol=1e-6)
    assert os.path.basename(path).isdigit()
    assert await off_loop(os.listdir, f"{directory}/exports") == [os.path.basename(path)]
    assert await off_loop(_read, f"{path}/assets.extra/notes/a.txt") == "ours"


async def test_a_parsing_function_takes_examples(directory):
    estimator = await trained_estimator(directory)
    spec = {"x": ax.FixedLenFeature([2], ax.float32)}
    features = ax.train.Features(feature={"x": ax.train.Feature(float_list=ax.train.FloatList(value=[1, 2]))})
    example = ax.train.Example(features=features)

    path = await estimator.export_savedmodel(
        directory, export.build_parsing_serving_input_receiver_fn(spec), as_text=True
    )

    async with await ax.load(os.fsdecode(path)) as model:
        found = await model(examples=[example.SerializeToString()])
    np.testing.assert_allclose(found["value"], [[1, 2]] @ trained(2), rtol=1e-6)


def test_outputs_become_signatures():
    with ax.Graph().as_default():
        examples, value = ax.placeholder(ax.string, [None]), ax.placeholder(ax.float32, [None])
        names = ax.placeholder(ax.string, [None, 2])
        given = {"examples": examples}

        regression = export.RegressionOutput(value).as_signature_def(given)
        classes = export.ClassificationOutput(value, names).as_signature_def(given)

        assert regression.method_name == "tensorflow/serving/regress"
        assert list(regression.inputs) == ["inputs"]
        assert sorted(classes.outputs) == ["classes", "scores"]
        with pytest.raises(ValueError, match="Regression input must be a single string Tensor"):
            export.RegressionOutput(value).as_signature_def({"x": value})
        with pytest.raises(ValueError, match="Classification input must be a single string Tensor"):
            export.ClassificationOutput(value).as_signature_def({**given, "other": examples})


async def test_a_failed_export_leaves_no_folder(directory):
    estimator = await trained_estimator(directory)

    with pytest.raises(NotFoundError):
        await estimator.export_saved_model(f"{directory}/exports", receiver, {"a": f"{directory}/none"})
    assert await off_loop(os.listdir, f"{directory}/exports") == []


async def test_what_cannot_be_exported_is_an_error(directory):
    estimator = ax.estimator.Estimator(linear_model, directory)

    with pytest.raises(GraphValueError, match="Couldn't find trained model"):
        await estimator.export_savedmodel(directory, receiver)
    with pytest.raises(UnimplementedError, match="expected mode 'infer', got 'train'"):
        await estimator.export_saved_model(directory, receiver, experimental_mode="train")


class Exporting:
    """An estimator that counts versions."""

    def __init__(self, directory: str) -> None:
        self.model_dir = directory
        self.count = 0

    async def export_saved_model(self, base: str, *arguments: Any, **named: Any) -> bytes:
        self.count += 1
        path = f"{base}/{self.count}"
        await off_loop(os.makedirs, path)
        return os.fsencode(path)


def exporting(exporter: Any, directory: str, *losses: float, steps: int = 1) -> Any:
    """A coroutine that calls an exporter after evaluations of these losses; returns whether it has exported."""
    estimator: Any = Exporting(directory)

    async def run() -> list[bool]:
        return [
            await exporter.export(estimator, f"{directory}/out", "", {"loss": loss, "global_step": k}, False)
            is not None
            for k, loss in enumerate(losses)
        ]

    return run()


async def test_the_latest_exporter_keeps_the_latest_versions(tmp_path):
    exporter = ax.estimator.LatestExporter("latest", receiver, exports_to_keep=2)

    assert await exporting(exporter, str(tmp_path), 1, 2, 3) == [True, True, True]
    assert sorted(await off_loop(os.listdir, tmp_path / "out")) == ["2", "3"]
    with pytest.raises(ValueError, match="must be positive"):
        ax.estimator.LatestExporter("latest", receiver, exports_to_keep=0)


async def test_the_best_exporter_exports_what_is_better(tmp_path):
    exporter = ax.estimator.BestExporter(serving_input_receiver_fn=receiver)
    assert exporter.name == "best_exporter"
    assert await exporting(exporter, str(tmp_path), 3, 4, 2) == [True, False, True]


async def test_the_best_exporter_knows_earlier_evaluations(directory):
    writer = ax.summary.FileWriter(f"{directory}/eval")
    value = ax.Summary.Value(tag="loss", simple_value=2.5)
    writer.add_summary(ax.Summary(value=[value]), 17)
    await writer.close()
    exporter = ax.estimator.BestExporter(serving_input_receiver_fn=receiver)

    assert await exporting(exporter, directory, 3, 2) == [False, True]


@pytest.mark.parametrize(
    ("compare_fn", "message"),
    [
        (None, "must not be None"),
        (lambda best_eval_result: True, "must include current_eval_result"),
        (lambda best_eval_result, current_eval_result, a: True, r"not expected args: \['a'\]"),
    ],
)
def test_a_comparison_takes_two_results(compare_fn, message):
    with pytest.raises(ValueError, match=message):
        ax.estimator.BestExporter(compare_fn=compare_fn)


async def test_results_without_a_loss_cannot_be_compared(tmp_path):
    exporter = ax.estimator.BestExporter(serving_input_receiver_fn=receiver)
    estimator: Any = Exporting(str(tmp_path))
    await exporter.export(estimator, f"{tmp_path}/out", "", {"other": 1}, False)

    with pytest.raises(ValueError, match="best_eval_result cannot be empty or no loss"):
        await exporter.export(estimator, f"{tmp_path}/out", "", {"loss": 1}, False)


async def test_the_final_exporter_exports_at_the_end_of_a_training(directory):
    estimator = ax.estimator.Estimator(linear_model, f"{directory}/model")
    final = ax.estimator.FinalExporter("final", receiver)
    train = ax.estimator.TrainSpec(inputs(), max_steps=2)
    evaluation = ax.estimator.EvalSpec(inputs(num_epochs=1), exporters=final, start_delay_secs=0)

    _, exports = await ax.estimator.train_and_evaluate(estimator, train, evaluation)

    async with await ax.load(os.fsdecode(exports[0])) as model:
        found = await model(x=X)
    np.testing.assert_allclose(found["value"], X @ trained(2), rtol=1e-6)


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
