"""TensorFlow Serving's client protos against our server of a model that TensorFlow wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.serving.protos import prediction_pb2
from tests.interop.serving.tf_model import X, expected_scores, expected_y

pytestmark = [pytest.mark.interop, pytest.mark.network]


async def test_a_client_of_tensorflow_serving_gets_what_tensorflow_computes(server, client):
    answers = await client("prediction_client", server.grpc_address)

    predicted = answers["predict"]
    np.testing.assert_allclose(predicted["y"], expected_y(), rtol=1e-5)
    assert predicted["float_val"] == np.ravel(predicted["y"]).tolist()
    assert predicted["shouted"] == ["a!", "\u00fc!"]
    assert predicted["version"] == 1
    assert answers["filtered"] == ["shouted"]
    labels = [[label for label, _ in row] for row in answers["classify"]]
    assert labels == [["left", "right"]] * 2
    scores = [[score for _, score in row] for row in answers["classify"]]
    np.testing.assert_allclose(scores, expected_scores(), rtol=1e-5)
    assert answers["regress"] == X.sum(axis=1).tolist()
    assert answers["multi"] == ["classification_result", "regression_result"]
    assert answers["metadata"] == {
        "serving_default": ["tensorflow/serving/predict", ["text", "x"], ["shouted", "y"]],
        "classify": ["tensorflow/serving/classify", ["inputs"], ["classes", "scores"]],
        "regress": ["tensorflow/serving/regress", ["inputs"], ["outputs"]],
    }
    assert answers["status"] == [[1, 30]]
    assert answers["error"] == ["NOT_FOUND", "no model 'none' here, only ['model']"]


def fields_that_differ(ours: Any, theirs: Any, seen: set[str]) -> list[str]:
    """The fields of our message, and of those in it, that theirs has not, or otherwise."""
    if ours.full_name in seen:
        return []
    seen.add(ours.full_name)
    wrong = []
    for field in ours.fields:
        other = theirs.fields_by_name.get(field.name)
        same = ("number", "type", "is_repeated")
        if other is None or any(getattr(field, each) != getattr(other, each) for each in same):
            wrong.append(f"{ours.full_name}.{field.name}")
        elif field.message_type is not None and not field.message_type.full_name.startswith("google."):
            wrong += fields_that_differ(field.message_type, other.message_type, seen)
    return wrong


def test_our_messages_have_the_fields_of_tensorflow_serving(tf):
    from google.protobuf import descriptor_pool
    from tensorflow_serving.apis import model_service_pb2, prediction_service_pb2

    assert model_service_pb2.DESCRIPTOR.services_by_name
    assert prediction_service_pb2.DESCRIPTOR.services_by_name
    pool, seen = descriptor_pool.Default(), set[str]()

    for name, message in prediction_pb2.DESCRIPTOR.message_types_by_name.items():
        theirs = pool.FindMessageTypeByName(f"tensorflow.serving.{name}")
        assert fields_that_differ(message, theirs, seen) == []
