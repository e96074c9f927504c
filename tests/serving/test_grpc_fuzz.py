"""Damaged requests to every gRPC method: each is answered, or fails with an error of its caller's."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from aioexec.distributed.transport.transport import Call
from aioexec.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError, UnimplementedError
from aioexec.formats.protos import Example
from aioexec.formats.tensor_codec import encode_tensor
from aioexec.serving.kserve import grpc_service
from aioexec.serving.limits import Limits
from aioexec.serving.prediction_service import model_service, prediction_service
from aioexec.serving.protos import inference_pb2, prediction_pb2
from tests.serving.echo_models import Served

CALL = Call("peer")
OF_THE_CALLER = (InvalidArgumentError, NotFoundError, FailedPreconditionError, UnimplementedError)


def requests() -> dict[str, bytes]:
    """A valid request of each kind."""
    x, y = np.zeros((1, 2), np.float32), np.zeros(1, np.int64)
    predict = prediction_pb2.PredictRequest(model_spec={"name": "echo", "version": {"value": 1}})
    predict.inputs["x"].CopyFrom(encode_tensor(x))
    predict.inputs["y"].CopyFrom(encode_tensor(y))
    infer = inference_pb2.ModelInferRequest(
        model_name="echo",
        inputs=[
            {"name": "x", "datatype": "FP32", "shape": x.shape},
            {"name": "y", "datatype": "INT64", "shape": y.shape},
        ],
        raw_input_contents=[x.tobytes(), y.tobytes()],
    )
    spec = {"name": "strings", "signature_name": "only"}
    given_examples = prediction_pb2.Input(example_list={"examples": [Example()]})
    tasks = [prediction_pb2.InferenceTask(model_spec=spec, method_name="tensorflow/serving/regress")]
    models = [prediction_pb2.ModelConfig(name="m", base_path="p", version_labels={"a": 1})]
    every: dict[str, Any] = {
        "Predict": predict,
        "Classify": prediction_pb2.ClassificationRequest(model_spec=spec, input=given_examples),
        "Regress": prediction_pb2.RegressionRequest(model_spec=spec, input=given_examples),
        "MultiInference": prediction_pb2.MultiInferenceRequest(tasks=tasks, input=given_examples),
        "GetModelMetadata": prediction_pb2.GetModelMetadataRequest(
            model_spec=spec, metadata_field=["signature_def"]
        ),
        "GetModelStatus": prediction_pb2.GetModelStatusRequest(model_spec=spec),
        "HandleReloadConfigRequest": prediction_pb2.ReloadConfigRequest(
            config={"model_config_list": {"config": models}}
        ),
        "ModelInfer": infer,
        "ModelReady": inference_pb2.ModelReadyRequest(name="echo", version="1"),
        "ModelMetadata": inference_pb2.ModelMetadataRequest(name="echo", version="1"),
    }
    return {name: message.SerializeToString() for name, message in every.items()}


REQUESTS = requests()


@cache
def methods() -> dict[str, Any]:
    """The methods over one repository, by their last names."""
    served = Served()
    every = (
        prediction_service.services(served.repository, served.admission, Limits()),
        model_service.services(served.repository, may_reload=True),
        grpc_service.services(served.repository, served.admission),
    )
    return {path.rpartition("/")[2]: method for each in every for path, method in each.unary.items()}


async def check(name: str, data: bytes) -> None:
    try:
        answer = await methods()[name](data, CALL)
    except OF_THE_CALLER:
        return
    assert isinstance(answer, bytes)


@st.composite
def damaged(draw: Any) -> tuple[str, bytes]:
    """A method, and its request with some bytes replaced, removed, inserted or repeated."""
    name = draw(st.sampled_from(sorted(REQUESTS)))
    data = REQUESTS[name]
    for _ in range(draw(st.integers(1, 3))):
        position, cut = draw(st.integers(0, len(data))), draw(st.integers(0, 8))
        inserted = draw(st.binary(max_size=8) | st.just(data[position:]))
        data = data[:position] + inserted + data[position + cut :]
    return name, data


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_requests_themselves_are_answered_or_refused(name):
    await check(name, REQUESTS[name])


@given(case=damaged())
async def test_a_damaged_request_is_answered_or_is_an_error_of_the_caller(case):
    await check(*case)


@pytest.mark.sweep
@pytest.mark.timeout(3000)
@settings(max_examples=100_000)
@given(case=damaged())
async def test_many_damaged_requests_are_answered_or_are_errors_of_the_caller(case):
    await check(*case)
