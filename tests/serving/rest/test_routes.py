"""The REST routes, over connections in memory: versions, labels, classify, regress, status, metadata, limits."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import aioexec as ax
from aioexec.formats.protos.example_pb2 import Example
from aioexec.saved_model.signature import Signature
from aioexec.serving import Limits, Repository
from aioexec.serving.models.model_config import ModelConfig
from aioexec.serving.models.version_policy import All
from tests.serving.memory_connection import MemoryConnection, connections, post
from tests.serving.signatures import Fake

pytestmark = pytest.mark.usefixtures("virtual_clock")

with ax.Graph().as_default():
    X = ax.placeholder(ax.float32, [None, 2], name="x")
    Y = ax.placeholder(ax.float32, [None], name="y")
    EXAMPLES = ax.placeholder(ax.string, [None], name="examples")


class Waiting:
    """A model whose runs wait for `open`."""

    def __init__(self):
        self.open = asyncio.Event()
        self.started = asyncio.Event()
        self.was_cancelled = False

    async def run(self, fetches, feed_dict=None):
        self.started.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return [np.zeros(len(feed_dict[X])) for _ in fetches]


def get(path, *headers):
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


async def asked(server, data):
    connection = MemoryConnection(server())
    connection.send(data)
    (answer,) = await connection.answers()
    connection.leave()
    return answer


@asynccontextmanager
async def versions_of_adder(tmp_path):
    for version in ("1", "2"):
        (tmp_path / "adder" / version).mkdir(parents=True)

    async def load(path):
        added = int(path[-1])
        signature = Fake({"x": X}, {"y": Y}, lambda x: {"y": x.sum(axis=1) + added})

        async def close(): ...

        return SimpleNamespace(signatures={"serving_default": signature}, close=close)

    config = ModelConfig("adder", str(tmp_path / "adder"), All(), {"stable": 1}, is_warmed=False)
    async with Repository.watching([config], load) as repository:
        await asyncio.sleep(1)
        async with connections(repository) as server:
            yield server


@pytest.mark.parametrize(
    ("path", "predictions"),
    [("adder", [5]), ("adder/versions/1", [4]), ("adder/versions/2", [5]), ("adder/labels/stable", [4])],
)
async def test_a_version_is_chosen_by_number_or_label_and_is_the_newest_by_default(
    tmp_path, path, predictions
):
    async with versions_of_adder(tmp_path) as server:
        answer = await asked(server, post(f"/v1/models/{path}:predict", b'{"instances": [[1, 2]]}'))

    assert (answer.status, answer.json) == (200, {"predictions": predictions})


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("adder/versions/3:predict", "model 'adder': version 3 is not served"),
        ("adder/labels/other:predict", "model 'adder': no label 'other', only ['stable']"),
        ("other:predict", "no model 'other' here, only ['adder']"),
        ("adder/versions/first:predict", "Not Found"),
        ("adder/versions/99999999999999999999:predict", "Not Found"),
    ],
)
async def test_what_is_not_there_is_not_found(tmp_path, path, message):
    async with versions_of_adder(tmp_path) as server:
        answer = await asked(server, post(f"/v1/models/{path}", b'{"instances": [[1, 2]]}'))

    assert answer.status == 404
    assert message in answer.json["error"]


async def test_the_status_has_every_version_or_the_one_that_is_named(tmp_path):
    async with versions_of_adder(tmp_path) as server:
        every = await asked(server, get("/v1/models/adder"))
        one = await asked(server, get("/v1/models/adder/labels/stable"))
        none = await asked(server, get("/v1/models/adder/versions/7"))

    ok = {"error_code": "OK", "error_message": ""}
    assert every.json == {
        "model_version_status": [
            {"version": "2", "state": "AVAILABLE", "status": ok},
            {"version": "1", "state": "AVAILABLE", "status": ok},
        ]
    }
    assert one.json["model_version_status"] == every.json["model_version_status"][1:]
    assert (none.status, none.json) == (404, {"error": "model 'adder': version 7 is not served"})


async def test_the_metadata_has_the_signatures():
    signature = Fake({"x": X}, {"y": Y})
    async with connections({"adder": signature}) as server:
        answer = await asked(server, get("/v1/models/adder/metadata"))

    tensors = [("x", "x:0", ["-1", "2"]), ("y", "y:0", ["-1"])]
    described = {
        key: {
            "dtype": "DT_FLOAT",
            "tensor_shape": {"dim": [{"size": size, "name": ""} for size in sizes], "unknown_rank": False},
            "name": name,
        }
        for key, name, sizes in tensors
    }
    assert answer.json == {
        "model_spec": {"name": "adder", "signature_name": "", "version": "1"},
        "metadata": {
            "signature_def": {
                "signature_def": {
                    "serving_default": {
                        "inputs": {"x": described["x"]},
                        "outputs": {"y": described["y"]},
                        "method_name": "tensorflow/serving/predict",
                    }
                }
            }
        },
    }


def ages(inputs):
    features = [Example.FromString(each).features.feature for each in inputs]
    return np.array(
        [each["age"].int64_list.value[0] + each["extra"].float_list.value[0] for each in features]
    )


def classified(inputs):
    found = ages(inputs)
    classes = np.array([[b"old", b"young"]] * len(inputs), object)
    return {"classes": classes, "scores": np.stack([found / 100, 1 - found / 100], axis=1)}


async def test_examples_are_classified_with_the_features_of_their_context():
    signature = Fake({"inputs": EXAMPLES}, {"classes": EXAMPLES, "scores": X}, classified, method="classify")
    body = {"context": {"extra": 0.5, "age": 9}, "examples": [{"age": 25}, {"age": [75]}]}
    async with connections({"ages": signature}) as server:
        answer = await asked(server, post("/v1/models/ages:classify", json.dumps(body).encode()))

    assert answer.json == {"result": [[["old", 0.255], ["young", 0.745]], [["old", 0.755], ["young", 0.245]]]}


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
async def test_examples_are_regressed(shape):
    signature = Fake(
        {"inputs": EXAMPLES},
        {"outputs": Y},
        lambda inputs: {"outputs": ages(inputs).reshape(shape)},
        method="regress",
    )
    body = {"examples": [{"age": 25, "extra": 0.5}, {"age": 75, "extra": 1.0}]}
    async with connections({"ages": signature}) as server:
        answer = await asked(server, post("/v1/models/ages:regress", json.dumps(body).encode()))

    assert answer.json == {"result": [25.5, 76]}


@pytest.mark.parametrize(
    ("verb", "body", "message"),
    [
        ("classify", {"examples": [{}]}, "signature 'serving_default': expected one input and the method"),
        ("regress", {"examples": []}, "'examples' must be a list of at least one, got []"),
        ("regress", {"examples": [1]}, "example 0: expected an object, got 1"),
        ("regress", {"examples": [{}], "context": 3}, "'context' must be an object, got 3"),
        (
            "regress",
            {"examples": [{"age": [1, "a"]}]},
            "example 0, feature 'age': expected numbers, or strings",
        ),
        ("regress", {"examples": [{"age": 2**70}]}, "example 0, feature 'age': "),
        ("regress", {"examples": [{"age": {"b64": "?"}}]}, "example 0, feature 'age': expected base64"),
        ("regress", {"examples": [{"age": "\ud800"}]}, "example 0, feature 'age': "),
        ("regress", {"instances": [1]}, "the request has unknown keys: ['instances']"),
    ],
)
async def test_bad_examples_are_refused(verb, body, message):
    signature = Fake({"inputs": EXAMPLES}, {"outputs": Y}, lambda inputs: {}, method="regress")
    async with connections({"ages": signature}) as server:
        answer = await asked(server, post(f"/v1/models/ages:{verb}", json.dumps(body).encode()))

    assert answer.status == 400
    assert message in answer.json["error"]


GOOD = post("/v1/models/waiting:predict", b'{"instances": [[1, 2]]}')


@pytest.fixture
async def waiting():
    return Waiting()


@pytest.mark.parametrize(
    ("header", "seconds"), [("X-Request-Timeout: 2.5", 2.5), ("X-Envoy-Expected-Rq-Timeout-Ms: 500", 0.5)]
)
async def test_a_deadline_in_a_header_ends_the_run(waiting, header, seconds):
    async with connections({"waiting": Signature("serving_default", {"x": X}, {"y": Y}, waiting)}) as server:
        connection = MemoryConnection(server())
        connection.send(post("/v1/models/waiting:predict", b'{"instances": [[1, 2]]}', header))
        await asyncio.sleep(seconds - 0.1)
        assert not waiting.was_cancelled
        await asyncio.sleep(0.2)
        (answer,) = await connection.answers()

    assert (answer.status, waiting.was_cancelled) == (504, True)
    assert answer.json == {"error": f"the request took longer than its limit of {seconds:g} s"}


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "inf"])
async def test_a_deadline_that_is_no_positive_number_is_refused(waiting, text):
    async with connections({"waiting": Signature("serving_default", {"x": X}, {"y": Y}, waiting)}) as server:
        answer = await asked(server, post("/v1/models/waiting:predict", b"{}", f"X-Request-Timeout: {text}"))

    assert (answer.status, answer.json["error"]) == (
        400,
        f"X-Request-Timeout: expected a positive number, got '{text}'",
    )


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(requests=1), "1 requests are under way, try again later"),
        (Limits(bytes_under_way=30), "requests of 23 bytes are under way, 23 more are too many"),
    ],
)
async def test_requests_beyond_the_limits_are_refused_with_a_time_to_try_again(waiting, limits, message):
    async with connections(
        {"waiting": Signature("serving_default", {"x": X}, {"y": Y}, waiting)}, limits=limits
    ) as server:
        first = MemoryConnection(server())
        first.send(GOOD)
        await waiting.started.wait()

        second = MemoryConnection(server())
        second.send(GOOD)
        (refused,) = await second.answers()
        healthy = await asked(server, get("/healthz"))
        waiting.open.set()
        (answer,) = await first.answers()

    assert refused.status == 429
    assert message in refused.json["error"]
    assert b"Retry-After: 1\r\n" in bytes(second.written)
    assert healthy.status == 200
    assert answer.json == {"predictions": [0]}


async def test_a_run_ends_when_its_client_leaves(waiting):
    async with connections({"waiting": Signature("serving_default", {"x": X}, {"y": Y}, waiting)}) as server:
        connection = MemoryConnection(server())
        connection.send(GOOD)
        await waiting.started.wait()
        connection.leave()
        await asyncio.sleep(1)

        assert waiting.was_cancelled


async def test_a_server_is_alive_before_it_is_ready(tmp_path):
    async def load(path): ...

    async with (
        Repository.watching([ModelConfig("later", str(tmp_path / "none"))], load) as repository,
        connections(repository) as server,
    ):
        alive, ready = [await asked(server, get(path)) for path in ("/healthz", "/readyz")]

    assert (alive.status, alive.json) == (200, {"status": "ok"})
    assert (ready.status, ready.json) == (503, {"error": "a model has no version that is available"})


async def test_json_beyond_its_limit_is_refused_before_it_is_read():
    async with connections({"adder": Fake({"x": X}, {"y": Y})}, limits=Limits(json_bytes=100)) as server:
        connection = MemoryConnection(server())
        connection.send(post("/v1/models/adder:predict", b" " * 200)[:-150])
        (answer,) = await connection.answers()

    assert answer.status == 413
    assert re.search("Maximum request body size 100 exceeded", answer.json["error"])
