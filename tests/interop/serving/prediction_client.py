"""A client with TensorFlow Serving's own protos: python -m tests.interop.serving.prediction_client ADDRESS.

It prints what it received as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.interop.serving.tf_model import TEXT, X


def main(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        models = model_service_pb2_grpc.ModelServiceStub(channel)
        answers = {
            "predict": predict(stub),
            "filtered": filtered(stub),
            "classify": classify(stub),
            "regress": regress(stub),
            "multi": multi_inference(stub),
            "metadata": metadata(stub),
            "status": status(models),
            "error": error(stub),
        }
    print(json.dumps(answers))


def _predict_request() -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "model"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(X))
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(TEXT))
    return request


def predict(stub: Any) -> Any:
    response = stub.Predict(_predict_request(), timeout=60)
    return {
        "y": tf.make_ndarray(response.outputs["y"]).tolist(),
        "float_val": list(response.outputs["y"].float_val),
        "shouted": [each.decode() for each in tf.make_ndarray(response.outputs["shouted"])],
        "version": response.model_spec.version.value,
    }


def filtered(stub: Any) -> Any:
    request = _predict_request()
    request.output_filter.append("shouted")
    request.model_spec.version.value = 1
    return sorted(stub.Predict(request, timeout=60).outputs)


def _examples(request: Any, signature: str) -> Any:
    request.model_spec.name = "model"
    request.model_spec.signature_name = signature
    for row in X:
        example = request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.extend(row)
    return request


def classify(stub: Any) -> Any:
    response = stub.Classify(_examples(classification_pb2.ClassificationRequest(), "classify"), timeout=60)
    return [[(each.label, each.score) for each in row.classes] for row in response.result.classifications]


def regress(stub: Any) -> Any:
    response = stub.Regress(_examples(regression_pb2.RegressionRequest(), "regress"), timeout=60)
    return [each.value for each in response.result.regressions]


def multi_inference(stub: Any) -> Any:
    request = inference_pb2.MultiInferenceRequest()
    for signature in ("classify", "regress"):
        task = request.tasks.add(method_name=f"tensorflow/serving/{signature}")
        task.model_spec.name, task.model_spec.signature_name = "model", signature
    for row in X:
        request.input.example_list.examples.add().features.feature["x"].float_list.value.extend(row)
    response = stub.MultiInference(request, timeout=60)
    return [each.WhichOneof("result") for each in response.results]


def metadata(stub: Any) -> Any:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "model"
    response = stub.GetModelMetadata(request, timeout=60)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    return {
        name: [each.method_name, sorted(each.inputs), sorted(each.outputs)]
        for name, each in signatures.signature_def.items()
    }


def status(models: Any) -> Any:
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "model"
    response = models.GetModelStatus(request, timeout=60)
    return [[each.version, each.state] for each in response.model_version_status]


def error(stub: Any) -> Any:
    request = _predict_request()
    request.model_spec.name = "none"
    try:
        stub.Predict(request, timeout=60)
    except grpc.RpcError as failed:
        return [failed.code().name, failed.details()]
    return None


if __name__ == "__main__":
    main(sys.argv[1])
