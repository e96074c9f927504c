"""The methods of PredictionService, called as a listener calls them."""

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.transport.transport import Call
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnavailableError
from aioexec.formats.protos import Example, Feature, FloatList
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor
from aioexec.serving.limits import Limits
from aioexec.serving.prediction_service.prediction_service import SERVICE, services
from aioexec.serving.protos import prediction_pb2 as pb
from tests.serving.echo_models import Echo, Served

CALL = Call("peer")


def example(**features):
    proto = Example()
    for name, value in features.items():
        proto.features.feature[name].CopyFrom(Feature(float_list=FloatList(value=[value])))
    return proto


class Scoring(Echo):
    """A signature over Examples with the feature "x": returns given outputs, computed from it."""

    def __init__(self, name, method_name, **outputs):
        super().__init__(name, inputs=(ax.string, [None]))
        self.method_name = method_name
        self.outputs = dict.fromkeys(outputs, self.inputs["inputs"])
        self.functions = outputs
        self.parsed = []

    async def run(self, inputs, outputs=None):
        self.parsed = [Example.FromString(each) for each in inputs["inputs"]]
        x = np.array([each.features.feature["x"].float_list.value[0] for each in self.parsed], np.float32)
        return {name: self.functions[name](x) for name in outputs}


def classes(x):
    return np.array([[b"low", b"high"]] * len(x), object)


CLASSIFY, REGRESS = "tensorflow/serving/classify", "tensorflow/serving/regress"


@pytest.fixture
async def served():
    served = Served()
    model = {
        "classify": Scoring(
            "classify", CLASSIFY, classes=classes, scores=lambda x: np.stack([1 - x, x], axis=1)
        ),
        "labels": Scoring("labels", CLASSIFY, classes=classes),
        "scores": Scoring("scores", CLASSIFY, scores=lambda x: x),
        "regress": Scoring("regress", REGRESS, outputs=lambda x: 2 * x),
        "column": Scoring("column", REGRESS, outputs=lambda x: 3 * x[:, None]),
        "wide": Scoring("wide", REGRESS, outputs=lambda x: np.stack([x, x], axis=1)),
        "short": Scoring("short", REGRESS, outputs=lambda x: x[1:]),
        "ragged": Scoring("ragged", CLASSIFY, classes=classes, scores=lambda x: x),
        "numbers": Scoring("numbers", CLASSIFY, classes=lambda x: x),
    }
    served.add("scorer", model)
    return served


async def ask(served, method, request, kind):
    answer = services(served.repository, served.admission, Limits()).unary[f"/{SERVICE}/{method}"]
    return kind.FromString(await answer(request.SerializeToString(), CALL))


def predict(name="echo", outputs=(), **spec):
    request = pb.PredictRequest(model_spec=pb.ModelSpec(name=name, **spec), output_filter=outputs)
    request.inputs["x"].CopyFrom(encode_tensor(np.array([[1, 2]], np.float32)))
    request.inputs["y"].CopyFrom(encode_tensor(np.array([3], np.int64)))
    return request


async def test_predict_returns_every_output_or_the_wanted_ones(served):
    every = await ask(served, "Predict", predict(), pb.PredictResponse)
    one = await ask(served, "Predict", predict(outputs=["y"], version={"value": 1}), pb.PredictResponse)

    assert (every.model_spec.name, every.model_spec.version.value) == ("echo", 1)
    assert every.model_spec.signature_name == "serving_default"
    assert decode_tensor(every.outputs["x"]).tolist() == [[1, 2]]
    assert list(one.outputs) == ["y"]
    assert decode_tensor(one.outputs["y"]).tolist() == [3]


@pytest.mark.parametrize(
    ("request_", "kind", "message"),
    [
        (predict(""), InvalidArgumentError, "model_spec: expected the name of a model, got none"),
        (predict("none"), NotFoundError, "no model 'none'"),
        (predict(version={"value": 2}), NotFoundError, "2"),
        (predict(version_label="best"), NotFoundError, "no label 'best'"),
        (predict(signature_name="train"), InvalidArgumentError, "no signature 'train'"),
        (predict(outputs=["z"]), InvalidArgumentError, "no tensors .'z'"),
    ],
)
async def test_what_is_not_there_is_an_error(served, request_, kind, message):
    with pytest.raises(kind, match=message):
        await ask(served, "Predict", request_, pb.PredictResponse)


def given(*examples, context=None):
    if context is None:
        return pb.Input(example_list=pb.ExampleList(examples=examples))
    return pb.Input(example_list_with_context=pb.ExampleListWithContext(examples=examples, context=context))


def spec(signature, name="scorer"):
    return pb.ModelSpec(name=name, signature_name=signature)


async def classified(served, signature):
    request = pb.ClassificationRequest(
        model_spec=spec(signature), input=given(example(x=0.25), example(x=1.0))
    )
    response = await ask(served, "Classify", request, pb.ClassificationResponse)
    return [[(each.label, each.score) for each in row.classes] for row in response.result.classifications]


async def test_classify_returns_classes_with_scores(served):
    assert await classified(served, "classify") == [
        [("low", 0.75), ("high", 0.25)],
        [("low", 0), ("high", 1)],
    ]
    assert await classified(served, "labels") == [[("low", 0), ("high", 0)]] * 2
    assert await classified(served, "scores") == [[("", 0.25)], [("", 1)]]


@pytest.mark.parametrize(("signature", "factor"), [("regress", 2), ("column", 3)])
async def test_regress_returns_a_number_for_each_example(served, signature, factor):
    request = pb.RegressionRequest(
        model_spec=spec(signature), input=given(example(x=0.5), example(), context=example(x=4.0, y=1.0))
    )

    response = await ask(served, "Regress", request, pb.RegressionResponse)

    assert [each.value for each in response.result.regressions] == [factor * 0.5, factor * 4]
    assert response.model_spec.signature_name == signature


async def test_the_features_of_the_context_are_added_to_each_example(served):
    request = pb.RegressionRequest(
        model_spec=spec("regress"), input=given(example(x=0.5), context=example(x=4.0, y=1.0))
    )

    await ask(served, "Regress", request, pb.RegressionResponse)

    with served.repository.lease("scorer") as version:
        assert version.signature("regress").parsed == [example(x=0.5, y=1.0)]


@pytest.mark.parametrize(
    ("signature", "kind", "message"),
    [
        (
            "classify",
            InvalidArgumentError,
            "signature 'classify': expected the method 'tensorflow/serving/regress'",
        ),
        ("wide", FailedPreconditionError, "output 'outputs': expected one number for each Example, got 2"),
        ("short", FailedPreconditionError, r"output 'outputs': expected 1 rows, got shape \(0,\)"),
    ],
)
async def test_a_signature_that_is_not_for_regress_is_refused(served, signature, kind, message):
    request = pb.RegressionRequest(model_spec=spec(signature), input=given(example(x=1.0)))

    with pytest.raises(kind, match=message):
        await ask(served, "Regress", request, pb.RegressionResponse)


@pytest.mark.parametrize(
    ("signature", "message"),
    [("ragged", "expected equal shapes"), ("numbers", "output 'classes': expected strings")],
)
async def test_outputs_that_are_no_classes_are_refused(served, signature, message):
    with pytest.raises(FailedPreconditionError, match=message):
        await classified(served, signature)


async def test_an_input_without_examples_is_refused(served):
    with pytest.raises(InvalidArgumentError, match="input: expected at least one Example"):
        await ask(
            served,
            "Classify",
            pb.ClassificationRequest(model_spec=spec("classify")),
            pb.ClassificationResponse,
        )


def task(signature, method, name="scorer"):
    return pb.InferenceTask(model_spec=spec(signature, name), method_name=method)


async def test_multi_inference_runs_several_signatures(served):
    request = pb.MultiInferenceRequest(
        tasks=[task("regress", REGRESS), task("scores", CLASSIFY)], input=given(example(x=0.5))
    )

    response = await ask(served, "MultiInference", request, pb.MultiInferenceResponse)

    first, second = response.results
    assert first.model_spec.signature_name == "regress"
    assert first.regression_result.regressions[0].value == 1
    assert second.classification_result.classifications[0].classes[0].score == 0.5


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "tasks: expected at least one"),
        ([task("regress", "predict")], "task 0: expected the method .*, got 'predict'"),
        ([task("regress", REGRESS)] * 2, "task 1: expected each signature once, got 'regress' again"),
        (
            [task("regress", REGRESS), task("column", REGRESS, "echo")],
            "task 1: expected the model and version of the first task, 'scorer', got 'echo'",
        ),
    ],
)
async def test_tasks_that_do_not_go_together_are_refused(served, tasks, message):
    request = pb.MultiInferenceRequest(tasks=tasks, input=given(example(x=0.5)))

    with pytest.raises(InvalidArgumentError, match=message):
        await ask(served, "MultiInference", request, pb.MultiInferenceResponse)


async def test_the_metadata_are_the_signatures(served):
    request = pb.GetModelMetadataRequest(model_spec={"name": "echo"}, metadata_field=["signature_def"])

    response = await ask(served, "GetModelMetadata", request, pb.GetModelMetadataResponse)

    packed = response.metadata["signature_def"]
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signatures = pb.SignatureDefMap.FromString(packed.value).signature_def
    assert sorted(signatures) == ["other", "serving_default"]
    described = signatures["serving_default"]
    assert described.method_name == "tensorflow/serving/predict"
    assert (described.inputs["x"].name, described.inputs["x"].dtype) == ("x:0", 1)
    assert [dim.size for dim in described.inputs["x"].tensor_shape.dim] == [-1, 2]
    assert signatures["other"].inputs["z"].tensor_shape.unknown_rank
    with pytest.raises(InvalidArgumentError, match=r"metadata_field: expected \['signature_def'\], got \[\]"):
        await ask(
            served,
            "GetModelMetadata",
            pb.GetModelMetadataRequest(model_spec={"name": "echo"}),
            pb.GetModelMetadataResponse,
        )


async def test_malformed_requests_are_invalid(served):
    for answer in services(served.repository, served.admission, Limits()).unary.values():
        with pytest.raises(InvalidArgumentError, match=r"expected a \w+Request, got malformed bytes"):
            await answer(b"\x0a\x7f", CALL)


async def test_a_server_that_drains_takes_no_inference(served):
    served.admission.is_draining = True

    with pytest.raises(UnavailableError, match="about to end"):
        await ask(served, "Predict", predict(), pb.PredictResponse)
