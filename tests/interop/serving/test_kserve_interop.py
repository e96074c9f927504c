"""Triton's clients and curl against our server of a model that TensorFlow wrote."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import Any

import numpy as np
import pytest

from aioexec.serving.protos import inference_pb2
from tests.interop.serving.test_prediction_interop import fields_that_differ
from tests.interop.serving.tf_model import expected_y

pytestmark = [pytest.mark.interop, pytest.mark.network]

KINDS = ["http", "http_json", "http_gzip", "http_aio", "grpc", "grpc_aio", "stream"]


async def test_each_client_of_triton_gets_what_tensorflow_computes(server, client):
    answers = await client("triton_client", server.url.removeprefix("http://"), server.grpc_address)

    for kind in KINDS:
        np.testing.assert_allclose(answers[kind]["y"], expected_y(), rtol=1e-5, err_msg=kind)
        assert answers[kind]["shouted"] == ["a!", "\u00fc!"], kind
    assert "no model 'none' here" in answers["stream"]["error"]
    about: list[Any] = [
        [True] * 4, "aioexec", ["1"], [["x", "FP32", [-1, 3]], ["text", "BYTES", [-1]]], ["y", "shouted"],
    ]  # fmt: skip
    for found in answers["metadata"].values():
        ready, name, versions, inputs, outputs = found
        assert [ready, name, versions, sorted(inputs), sorted(outputs)] == [
            *about[:3], sorted(about[3]), sorted(about[4]),
        ]  # fmt: skip
    assert ["missing ['text']" in each for each in answers["errors"]] == [True, True]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_gets_an_inference(server):
    body = {
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [0, 0, 0]},
            {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]},
        ]
    }

    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--data", json.dumps(body), f"{server.url}/v2/models/model/infer",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await process.communicate()

    outputs = {each["name"]: each["data"] for each in json.loads(output)["outputs"]}
    assert outputs == {"y": [0, 0], "shouted": ["a!"]}


def test_our_messages_have_the_fields_of_the_protocol():
    service_pb2 = pytest.importorskip("tritonclient.grpc").service_pb2
    seen: set[str] = set()

    for name, message in inference_pb2.DESCRIPTOR.message_types_by_name.items():
        theirs = service_pb2.DESCRIPTOR.message_types_by_name[name]
        assert fields_that_differ(message, theirs, seen) == []
