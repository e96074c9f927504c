"""EstimatorSpec and the outputs and inputs of exported models."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from tests.ops.io.example_bytes import example

EstimatorSpec, export = ax.estimator.EstimatorSpec, ax.estimator.export


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def test_each_mode_requires_its_nodes():
    value = ax.constant(1.0)

    assert EstimatorSpec("train", loss=value, train_op=value.op).predictions == {}
    with pytest.raises(GraphValueError, match=r"Missing train_op\."):
        EstimatorSpec("train", loss=value)
    with pytest.raises(GraphValueError, match=r"Missing loss\."):
        EstimatorSpec("eval")
    with pytest.raises(GraphValueError, match=r"Missing predictions\."):
        EstimatorSpec("infer")


def test_the_loss_is_a_scalar():
    spec = EstimatorSpec("eval", loss=ax.constant([1.0]))

    assert spec.loss.shape.as_list() == []
    with pytest.raises(GraphValueError, match="Loss must be scalar"):
        EstimatorSpec("eval", loss=ax.constant([1.0, 2.0]))


def test_nodes_of_other_types_or_graphs_are_refused():
    with ax.Graph().as_default():
        other = ax.constant(1.0)
    value = ax.constant(1.0)

    with pytest.raises(GraphValueError, match='loss with "Const:0" must be from the default graph'):
        EstimatorSpec("eval", loss=other)
    with pytest.raises(GraphTypeError, match="predictions must be Tensor"):
        EstimatorSpec("infer", predictions=1.0)
    with pytest.raises(GraphTypeError, match="train_op must be Operation or Tensor"):
        EstimatorSpec("train", loss=value, train_op="x")
    with pytest.raises(GraphTypeError, match="must be SessionRunHook"):
        EstimatorSpec("eval", loss=value, evaluation_hooks=[object()])  # type: ignore[list-item]
    with pytest.raises(GraphTypeError, match="metric_value, update_op"):
        EstimatorSpec("eval", loss=value, eval_metric_ops={"m": value})
    with pytest.raises(GraphTypeError, match="scaffold must be"):
        EstimatorSpec("eval", loss=value, scaffold=object())  # type: ignore[arg-type]


def test_a_copy_is_checked_too():
    value = ax.constant(1.0)
    spec = EstimatorSpec("eval", loss=value)

    assert spec._replace(predictions={"a": value}).predictions == {"a": value}
    with pytest.raises(GraphValueError, match="cannot be changed"):
        spec._replace(mode="train")


def test_predictions_are_the_output_that_is_served():
    value = ax.constant(1.0)

    default = EstimatorSpec("infer", predictions=value).export_outputs
    named = EstimatorSpec(
        "infer", predictions=value, export_outputs={"score": export.RegressionOutput(value)}
    ).export_outputs

    assert default["serving_default"].outputs == {"output": value}
    assert named["serving_default"] is named["score"]
    two = {"a": export.PredictOutput(value), "b": export.PredictOutput(value)}
    with pytest.raises(GraphValueError, match="none of them are specified as the default"):
        EstimatorSpec("infer", predictions=value, export_outputs=two)
    with pytest.raises(GraphTypeError, match="must be dict"):
        EstimatorSpec("infer", predictions=value, export_outputs=[])  # type: ignore[arg-type]
    with pytest.raises(GraphTypeError, match="must be ExportOutput"):
        EstimatorSpec("infer", predictions=value, export_outputs={"a": value})


def test_outputs_are_checked():
    number, text = ax.constant(1.0), ax.constant("a")

    assert export.ClassificationOutput(number, text).classes is text
    assert export.ClassificationOutput(number).scores is number
    assert export.PredictOutput({("a", "b"): number}).outputs == {"a/b": number}
    with pytest.raises(GraphValueError, match="scores must be a float32"):
        export.ClassificationOutput(text)
    with pytest.raises(GraphValueError, match="classes must be a string"):
        export.ClassificationOutput(classes=number)
    with pytest.raises(GraphValueError, match="empty arguments"):
        export.ClassificationOutput()
    with pytest.raises(GraphValueError, match="float32 Tensor"):
        export.RegressionOutput(text)
    with pytest.raises(GraphValueError, match="key must be a string"):
        export.PredictOutput({1: number})
    with pytest.raises(GraphValueError, match="value must be a Tensor"):
        export.PredictOutput({"a": 1})


def test_receivers_name_single_tensors():
    value = ax.constant(1.0)

    receiver = export.ServingInputReceiver(value, value, {"other": value})
    single = export.TensorServingInputReceiver(value, value)

    assert receiver == ({"feature": value}, {"input": value}, {"other": {"input": value}})
    assert single == (value, {"input": value}, None)
    with pytest.raises(GraphValueError, match="must be strings or ints"):
        export.ServingInputReceiver({1.5: value}, value)
    with pytest.raises(GraphValueError, match="must be strings"):
        export.ServingInputReceiver(value, {1: value})
    with pytest.raises(GraphValueError, match="must be a Tensor"):
        export.ServingInputReceiver({"a": 1.0}, value)
    with pytest.raises(GraphValueError, match="receiver_tensors must be defined"):
        export.ServingInputReceiver(value, None)
    with pytest.raises(GraphValueError, match="features must be defined"):
        export.TensorServingInputReceiver(None, value)


def test_raw_features_become_placeholders():
    features = {"x": ax.placeholder(ax.float32, [4, 3], name="x")}

    with ax.Graph().as_default():
        receiver = export.build_raw_serving_input_receiver_fn(features)()

    assert receiver.features["x"].shape.as_list() == [None, 3]
    assert receiver.features["x"].name == "x:0"
    assert receiver.receiver_tensors == receiver.features


async def test_examples_are_parsed(graph):
    spec = {"x": ax.FixedLenFeature([2], ax.float32)}

    receiver = export.build_parsing_serving_input_receiver_fn(spec)()

    assert receiver.receiver_tensors["examples"].name == "input_example_tensor:0"
    async with ax.Session(graph=graph) as session:
        values = await session.run(
            receiver.features["x"], {receiver.receiver_tensors["examples"]: [example(x=[1.0, 2.0])]}
        )
    np.testing.assert_array_equal(values, [[1.0, 2.0]])
