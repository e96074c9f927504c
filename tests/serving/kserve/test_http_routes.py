"""The routes of the Open Inference Protocol, called by an HTTP client."""

import aiohttp
import numpy as np
import pytest

from aioexec.serving import Limits, serve
from tests.serving.echo_models import Served

pytestmark = pytest.mark.network

X = {"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}
Y = {"name": "y", "datatype": "INT64", "shape": [1], "data": [3]}


@pytest.fixture
async def http():
    async with (
        serve(Served().repository, limits=Limits(json_bytes=1000, request_bytes=2000)) as server,
        aiohttp.ClientSession(server.url) as http,
    ):
        yield http


async def ask(http, path):
    async with http.get(path) as response:
        return response.status, await response.json()


async def test_the_server_and_its_models_describe_themselves(http):
    status, about = await ask(http, "/v2")
    assert (status, about["name"], about["extensions"]) == (200, "aioexec", ["binary_tensor_data"])
    assert await ask(http, "/v2/health/live") == (200, {"live": True})
    assert await ask(http, "/v2/health/ready") == (200, {"ready": True})
    assert await ask(http, "/v2/models/echo/ready") == (200, {"name": "echo", "ready": True})
    status, about = await ask(http, "/v2/models/echo/versions/1")
    assert (status, about["versions"], about["platform"]) == (200, ["1"], "tensorflow_savedmodel")
    assert about["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "y", "datatype": "INT64", "shape": [-1]},
    ]


@pytest.mark.parametrize("path", ["none", "none/ready", "echo/versions/2", "echo/versions/2/ready"])
async def test_what_is_not_there_is_404(http, path):
    status, answer = await ask(http, f"/v2/models/{path}")

    assert status == 404
    assert "none" in answer["error"] or "version 2" in answer["error"]


async def test_an_inference_answers_in_json(http):
    async with http.post("/v2/models/echo/infer", json={"id": "7", "inputs": [X, Y]}) as response:
        answer = await response.json()

    assert response.status == 200
    assert answer == {"model_name": "echo", "model_version": "1", "id": "7", "outputs": [X, Y]}


async def test_an_inference_answers_with_binary_tensors(http):
    x = np.array([[1, 2]], np.float32)
    head = {k: v for k, v in X.items() if k != "data"} | {"parameters": {"binary_data_size": 8}}
    json = aiohttp.JsonPayload(
        {"inputs": [head, Y], "outputs": [{"name": "x", "parameters": {"binary_data": True}}]}
    )
    text = json.decode().encode()

    async with http.post(
        "/v2/models/echo/versions/1/infer",
        data=text + x.tobytes(),
        headers={"Inference-Header-Content-Length": str(len(text))},
    ) as response:
        answer = await response.read()

    length = int(response.headers["Inference-Header-Content-Length"])
    assert response.content_type == "application/octet-stream"
    assert answer[length:] == x.tobytes()


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (b"{", {}, 400, "the request is not JSON"),
        (b"{}" + b" " * 1000, {}, 413, "Maximum request body size 1000"),
        (b"{}", {"Inference-Header-Content-Length": "1001"}, 413, "Maximum request body size 1000"),
        (b"\0" * 2001, {"Inference-Header-Content-Length": "2"}, 413, "Maximum request body size 2000"),
        (b"{}", {"Inference-Header-Content-Length": "-1"}, 400, "expected a number of bytes, got '-1'"),
    ],
)
async def test_errors_are_json(http, body, headers, status, message):
    async with http.post("/v2/models/echo/infer", data=body, headers=headers) as response:
        answer = await response.json()

    assert response.status == status
    assert message in answer["error"]
