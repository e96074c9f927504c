"""Canned estimators: metrics and predictions as TensorFlow's (recorded from tensorflow-estimator 2.15), and their variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.train.off_loop import off_loop

es, fc = ax.estimator, ax.feature_column

FEATURES = {
    "n": np.arange(8, dtype=np.float32).reshape(4, 2) / 4 - 1,
    "c": np.array(["a", "b", "c", "a"]),
    "w": np.array([[1.0], [2.0], [0.0], [1.0]], np.float32),
}
BINARY, WORDS = np.array([0, 1, 1, 0]), np.array(["no", "yes", "yes", "no"])
CLASSES, NUMBERS = np.array([0, 1, 2, 1]), np.array([0.5, -1.0, 2.0, 0.0], np.float32)


def columns() -> tuple[Any, Any]:
    categories = fc.categorical_column_with_vocabulary_list("c", ["a", "b"], num_oov_buckets=1)
    return fc.numeric_column("n", (2,)), categories


def deep_columns() -> list[Any]:
    number, categories = columns()
    return [number, fc.embedding_column(categories, 2)]


def inputs(labels: Any = None, num_epochs: int | None = 1) -> Any:
    return es.inputs.numpy_input_fn(FEATURES, labels, 4, num_epochs, shuffle=False)


async def results(model: Any, labels: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The metrics after five steps, and the prediction for the second example."""
    await model.train(inputs(labels, None), steps=5)
    metrics = await model.evaluate(inputs(labels))
    predictions = [each async for each in model.predict(inputs())]
    return metrics, predictions[1]


async def test_a_linear_classifier_of_words(directory):
    model = es.LinearClassifier(columns(), directory, label_vocabulary=["no", "yes"])

    metrics, prediction = await results(model, WORDS)

    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
        {
            "accuracy": 1.0,
            "accuracy_baseline": 0.5,
            "auc": 1.0,
            "auc_precision_recall": 1.0,
            "average_loss": 0.448257,
            "global_step": 5,
            "label/mean": 0.5,
            "loss": 1.793028,
            "precision": 1.0,
            "prediction/mean": 0.499314,
            "recall": 1.0,
        },
        abs=1e-5,
    )
    assert prediction["logits"] == pytest.approx(0.56737, abs=1e-5)
    assert prediction["logistic"] == pytest.approx(0.638156, abs=1e-5)
    assert prediction["probabilities"] == pytest.approx([0.361844, 0.638156], abs=1e-5)
    assert prediction["class_ids"].tolist() == [1]
    assert prediction["classes"].tolist() == [b"yes"]
    assert prediction["all_class_ids"].tolist() == [0, 1]
    assert prediction["all_classes"].tolist() == [b"no", b"yes"]
    assert await off_loop(model.get_variable_names) == [
        "global_step",
        "linear/linear_model/bias_weights",
        "linear/linear_model/bias_weights/part_0/Ftrl",
        "linear/linear_model/bias_weights/part_0/Ftrl_1",
        "linear/linear_model/c/weights",
        "linear/linear_model/c/weights/part_0/Ftrl",
        "linear/linear_model/c/weights/part_0/Ftrl_1",
        "linear/linear_model/n/weights",
        "linear/linear_model/n/weights/part_0/Ftrl",
        "linear/linear_model/n/weights/part_0/Ftrl_1",
    ]


async def test_a_linear_classifier_of_three_classes(directory):
    model = es.LinearClassifier(columns(), directory, n_classes=3, loss_reduction=ax.losses.Reduction.MEAN)

    metrics, prediction = await results(model, CLASSES)

    assert metrics["average_loss"] == metrics["loss"] == pytest.approx(0.644267, abs=1e-5)
    assert metrics["accuracy"] == 1
    assert prediction["probabilities"] == pytest.approx([0.27497, 0.515116, 0.209913], abs=1e-5)
    assert prediction["classes"].tolist() == [b"1"]


async def test_a_linear_regressor_with_weights(directory):
    model = es.LinearRegressor(columns(), directory, weight_column="w")

    metrics, prediction = await results(model, NUMBERS)

    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
        {
            "average_loss": 0.032154,
            "global_step": 5,
            "label/mean": -0.375,
            "loss": 0.128614,
            "prediction/mean": -0.32573,
        },
        abs=1e-5,
    )
    assert prediction["predictions"] == pytest.approx(-0.800436, abs=1e-5)


async def test_baselines_predict_the_average(directory):
    classes, _ = await results(es.BaselineClassifier(f"{directory}/a", n_classes=3), CLASSES)
    numbers, prediction = await results(es.BaselineRegressor(f"{directory}/b"), NUMBERS)

    assert classes["average_loss"] == pytest.approx(1.039721, abs=1e-5)
    assert numbers["loss"] == pytest.approx(4.6875, abs=1e-5)
    assert prediction["predictions"] == pytest.approx(0.374817, abs=1e-5)


async def test_a_deep_classifier_computes_its_layers(directory):
    model = es.DNNClassifier([4, 3], deep_columns(), directory, config=es.RunConfig(tf_random_seed=3))

    metrics, _ = await results(model, BINARY)
    predictions = [each["logits"] async for each in model.predict(inputs())]

    names = await off_loop(model.get_variable_names)
    values = {name: await off_loop(model.get_variable_value, name) for name in names}
    embedding = values["dnn/input_from_feature_columns/input_layer/c_embedding/embedding_weights"]
    net = np.concatenate([embedding[[0, 1, 2, 0]], FEATURES["n"]], 1)
    for layer in ("hiddenlayer_0", "hiddenlayer_1"):
        net = np.maximum(net @ values[f"dnn/{layer}/kernel"] + values[f"dnn/{layer}/bias"], 0)
    logits = net @ values["dnn/logits/kernel"] + values["dnn/logits/bias"]
    np.testing.assert_allclose(predictions, logits, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        metrics["average_loss"], np.log1p(np.exp(-logits[:, 0] * (2 * BINARY - 1))).mean(), rtol=1e-5
    )
    assert "dnn/hiddenlayer_0/bias/t_0/Adagrad" in values  # TensorFlow's name


async def test_a_deep_regressor_learns(directory):
    model = es.DNNRegressor(
        [8],
        deep_columns(),
        directory,
        optimizer=lambda: ax.train.AdamOptimizer(0.05),
        dropout=0.1,
        batch_norm=True,
        config=es.RunConfig(tf_random_seed=3),
    )

    before = await model.evaluate(inputs(NUMBERS))
    await model.train(inputs(NUMBERS, None), steps=60)
    after = await model.evaluate(inputs(NUMBERS))

    assert after["average_loss"] < before["average_loss"] / 2
    names = await off_loop(model.get_variable_names)
    assert "dnn/hiddenlayer_0/batchnorm_0/moving_mean" in names


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
async def test_both_parts_of_a_combined_model_are_trained(directory, kind):
    number, categories = columns()
    parts: dict[str, Any] = {
        "model_dir": directory,
        "linear_feature_columns": [categories],
        "dnn_feature_columns": [number],
        "dnn_hidden_units": [4],
        "config": es.RunConfig(tf_random_seed=3),
    }
    if kind == "classifier":
        model: Any = es.DNNLinearCombinedClassifier(**parts)
    else:
        model = es.DNNLinearCombinedRegressor(**parts)

    metrics, _ = await results(model, BINARY)

    assert metrics["global_step"] == 5
    assert await off_loop(model.get_variable_names) == [
        "dnn/hiddenlayer_0/bias",
        "dnn/hiddenlayer_0/bias/Adagrad",
        "dnn/hiddenlayer_0/kernel",
        "dnn/hiddenlayer_0/kernel/Adagrad",
        "dnn/logits/bias",
        "dnn/logits/bias/Adagrad",
        "dnn/logits/kernel",
        "dnn/logits/kernel/Adagrad",
        "global_step",
        "linear/linear_model/bias_weights",
        "linear/linear_model/bias_weights/Ftrl",
        "linear/linear_model/bias_weights/Ftrl_1",
        "linear/linear_model/c/weights",
        "linear/linear_model/c/weights/Ftrl",
        "linear/linear_model/c/weights/Ftrl_1",
    ]
    assert await off_loop(model.get_variable_value, "linear/linear_model/bias_weights") != 0


def build(model: Any, mode: str, labels: Any = None, **features: Any) -> Any:
    with ax.Graph().as_default():
        ax.train.create_global_step()
        made = {name: ax.constant(value) for name, value in {**FEATURES, **features}.items()}
        return model.model_fn(made, None if labels is None else ax.constant(labels), mode, model.config)


def test_exported_models_return_classes_or_numbers(directory):
    classifier = es.LinearClassifier(columns(), directory)
    regressor = es.LinearRegressor(columns(), directory)

    assert build(classifier, "infer").export_outputs.keys() == {
        "serving_default",
        "classification",
        "regression",
        "predict",
    }
    assert build(regressor, "infer").export_outputs.keys() == {"serving_default", "regression", "predict"}


async def test_labels_are_checked_when_they_are_used(directory):
    model = es.LinearClassifier(columns(), directory, n_classes=3)

    with pytest.raises(ax.errors.InvalidArgumentError, match="Labels must <= n_classes - 1"):
        await model.train(inputs(CLASSES + 1), steps=1)


def test_labels_are_checked(directory):
    binary, several = es.LinearClassifier(columns(), directory), es.LinearClassifier(columns(), directory, 3)
    words = es.LinearClassifier(columns(), directory, label_vocabulary=["no", "yes"])

    with pytest.raises(GraphValueError, match="You must provide a labels Tensor"):
        build(binary, "eval")
    with pytest.raises(GraphValueError, match="Mismatched label shape"):
        build(binary, "eval", np.zeros((4, 2)))
    with pytest.raises(GraphValueError, match="should be integer"):
        build(several, "eval", NUMBERS)
    with pytest.raises(GraphValueError, match="should be string"):
        build(words, "eval", BINARY)
    with pytest.raises(GraphValueError, match="Feature missing is not in features"):
        build(es.LinearClassifier(columns(), directory, weight_column="missing"), "eval", BINARY)
    with pytest.raises(GraphTypeError, match="Weight column must be"):
        build(es.LinearClassifier(columns(), directory, weight_column=1), "eval", BINARY)


def test_arguments_are_checked(directory):
    with pytest.raises(GraphValueError, match="n_classes must be > 2: 1"):
        es.LinearClassifier(columns(), directory, n_classes=1)
    with pytest.raises(GraphTypeError, match="should be a list or a tuple"):
        es.LinearClassifier(columns(), directory, label_vocabulary="no")
    with pytest.raises(GraphValueError, match="Invalid loss_reduction: none"):
        es.LinearClassifier(columns(), directory, loss_reduction="none")
    with pytest.raises(GraphValueError, match="Invalid label_dimension 0"):
        es.LinearRegressor(columns(), directory, label_dimension=0)
    with pytest.raises(GraphValueError, match="must be defined"):
        es.DNNLinearCombinedClassifier(directory)
    with pytest.raises(GraphValueError, match="dnn_hidden_units must be defined"):
        es.DNNLinearCombinedClassifier(directory, dnn_feature_columns=columns()[:1])
    with pytest.raises(GraphValueError, match="Unsupported optimizer name: x"):
        build(es.LinearClassifier(columns(), directory, optimizer="x"), "infer")
    with pytest.raises(GraphValueError, match="not an Optimizer instance"):
        build(es.LinearClassifier(columns(), directory, optimizer=1), "infer")
    with pytest.raises(GraphValueError, match="should be a dictionary"):
        model = es.LinearClassifier(columns(), directory)
        model.model_fn(None, None, "infer", model.config)
