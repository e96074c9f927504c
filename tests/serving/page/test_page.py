"""The page's files have strict headers; its JSON describes models and graphs, traces a step, and measures the process."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest

import aioexec as ax
from aioexec.distributed.security.security import Security
from aioexec.errors import OK, UNKNOWN
from aioexec.saved_model.signature import Signature
from aioexec.serving import serve
from aioexec.serving.models.run_listeners import Run
from aioexec.serving.page import live, routes
from aioexec.serving.page.run_durations import RunDurations
from aioexec.serving.page.static_files import is_static

pytestmark = pytest.mark.network

FILES = ["page.css", "icon.svg", "main.js", "dom.js", "form.js", "graph.js", "graph_layout.js", "plots.js"]
FILES += ["requests.js", "tabs.js", "timeline.js", "values.js"]


@pytest.fixture
async def models():
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None, 2], name="x")
        with ax.name_scope("layer"), ax.device("/cpu:0"):
            doubled = ax.multiply(x, 2.0, name="doubled")
        with ax.control_dependencies([doubled]):
            total = ax.reduce_sum(x, name="total")
    async with ax.Session(graph=graph) as session:
        yield {"sums": Signature("serving_default", {"x": x}, {"doubled": doubled, "total": total}, session)}


@pytest.fixture
async def server(models):
    async with serve(models) as server:
        yield server


@pytest.fixture
async def http(server):
    async with aiohttp.ClientSession(f"{server.url}/") as http:
        yield http


@pytest.mark.parametrize("path", ["", *(f"page/{name}" for name in FILES)])
async def test_files_may_load_nothing_from_elsewhere(http, path):
    async with http.get(path) as reply:
        text = await reply.text()

    policy = reply.headers["Content-Security-Policy"]
    assert reply.status == 200
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "https://" not in text
    assert text.replace("http://www.w3.org/", "").count("http://") == 0


@pytest.mark.parametrize("path", ["page/none.js", "page/__init__.py", "page/%2e%2e/routes.py", "page/"])
async def test_only_the_pages_own_files_are_served(http, path):
    async with http.get(path) as reply:
        assert reply.status == 404


async def test_models_are_described_with_their_signatures(http):
    async with http.get("page/models") as reply:
        [model] = (await reply.json())["models"]

    x = {"tensor": "x:0", "dtype": "float32", "shape": [None, 2]}
    doubled = {"tensor": "layer/doubled:0", "dtype": "float32", "shape": [None, 2]}
    total = {"tensor": "total:0", "dtype": "float32", "shape": []}
    assert model["name"] == "sums"
    [version] = model["versions"]
    assert (version["version"], version["state"], version["error"]) == (1, "AVAILABLE", None)
    signature = version["signatures"]["serving_default"]
    assert signature["inputs"] == {"x": x}
    assert signature["outputs"] == {"doubled": doubled, "total": total}
    assert signature["traceable"] is True


async def test_a_graph_is_described_by_its_nodes(http):
    async with http.get("page/models/sums/versions/1/graph") as reply:
        nodes = (await reply.json())["nodes"]

    by_name = {node[0]: node for node in nodes}
    names = [node[0] for node in nodes]
    _, op, device, inputs, controls, outputs = by_name["layer/doubled"]
    assert (op, device, controls, outputs) == ("Mul", "/device:CPU:0", [], ["float32 (?, 2)"])
    assert [names[index] for index in inputs] == ["x", "layer/doubled/y"]
    assert [names[index] for node in nodes for index in node[4]] == ["layer/doubled"]


async def test_a_step_is_traced(http):
    body = {"signature_name": "serving_default", "inputs": {"x": [[1, 2], [3, 4]]}}
    async with http.post("page/models/sums/versions/1/trace", json=body) as reply:
        answer = await reply.json()

    assert answer["outputs"] == {"doubled": [[2, 4], [6, 8]], "total": 10}
    nodes = {event["args"]["name"]: event["args"]["op"] for event in answer["timeline"] if event["ph"] == "X"}
    assert nodes["layer/doubled"] == "Mul"
    assert nodes["total"] == "Sum"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("sums/versions/1", 400, "input 'x': expected shape (?, 2)"),
        ("sums/versions/2", 404, "version 2"),
        ("other/versions/1", 404, "no model 'other'"),
    ],
)
async def test_a_bad_request_for_a_trace_is_refused(http, path, status, message):
    async with http.post(f"page/models/{path}/trace", json={"inputs": {"x": [1, 2]}}) as reply:
        answer = await reply.json()

    assert reply.status == status
    assert message in answer["error"]


async def test_samples_count_the_requests_between_them(http, monkeypatch):
    monkeypatch.setattr(live, "INTERVAL", 0.02)
    async with http.get("page/live") as reply:
        first = await next_sample(reply)
        for _ in range(2):
            async with http.post("v1/models/sums:predict", json={"inputs": [[1, 2]]}) as answer:
                assert answer.status == 200
        samples: list[dict[str, Any]] = []
        while sum(sample["runs"] for sample in samples) < 2:
            samples.append(await next_sample(reply))

    assert reply.headers["Content-Type"] == "text/event-stream"
    assert first["models"] == {"sums": {"1": "AVAILABLE"}}
    assert first["seconds"] >= 0.02
    assert [sample["failed_runs"] for sample in samples] == [0] * len(samples)
    latency, lag = samples[-1]["latency_ms"], samples[-1]["lag_ms"]
    assert 0 < latency["p50"] <= latency["p99"]
    assert 0 <= lag["p50"] <= lag["p99"] <= lag["max"]


async def next_sample(reply):
    text = await reply.content.readuntil(b"\n\n")
    return json.loads(text.removeprefix(b"data: "))


async def test_streams_end_with_the_server(models):
    async with aiohttp.ClientSession() as http:
        async with serve(models) as server:
            reply = await http.get(f"{server.url}/page/live")
            reading = asyncio.create_task(reply.content.read())
        assert await reading == b""  # the interval was not over


async def test_there_is_a_limit_of_streams(http, monkeypatch):
    monkeypatch.setattr(routes, "_MOST_STREAMS", 1)
    async with http.get("page/live"), http.get("page/live") as refused:
        answer = await refused.json()

    assert refused.status == 429
    assert answer["error"] == "the page is open 1 times already"


async def test_without_the_token_only_the_files_are_served(models, monkeypatch):
    token = "a-token-of-sufficient-length-0123456789"
    async with serve(models, security=Security(token=token)) as server, aiohttp.ClientSession() as http:
        statuses = {}
        for path in (
            "/",
            "/page/main.js",
            "/page/models",
            "/page/live",
            "/page/models/sums/versions/1/graph",
        ):
            async with http.get(server.url + path) as reply:
                statuses[path] = reply.status
        async with http.get(
            f"{server.url}/page/models", headers={"Authorization": f"Bearer {token}"}
        ) as reply:
            with_token = reply.status

    assert statuses == {
        "/": 200,
        "/page/main.js": 200,
        "/page/models": 401,
        "/page/live": 401,
        "/page/models/sums/versions/1/graph": 401,
    }
    assert with_token == 200


@pytest.mark.parametrize(
    "path", ["/page/models/x.js", "/page/models/x.js/versions/1/graph", "/v1/models/x.js", "/x.js"]
)
def test_other_paths_need_the_token(path):
    assert not is_static(path)


def test_percentiles_are_within_a_tenth_above_the_durations():
    runs = RunDurations()
    durations = [0.001] * 50 + [0.02] * 49 + [3.0]
    for seconds in durations:
        runs.on_run(Run("sums", 1, "serving_default", 1, seconds, OK if seconds < 1 else UNKNOWN))

    assert (runs.count, runs.failed) == (100, 1)
    for share, milliseconds in ((0.5, 1), (0.51, 20), (0.99, 20), (1, 3000)):
        assert milliseconds <= runs.percentile_ms(share) <= 1.1 * milliseconds


async def test_nothing_listens_after_the_page_is_closed(server, monkeypatch):
    monkeypatch.setattr(live, "INTERVAL", 0.01)
    before = [*server.repository.listeners]

    async with aclosing(live.samples(server.repository, asyncio.Event())) as samples:
        await anext(samples)
        assert len(server.repository.listeners) == len(before) + 1

    assert server.repository.listeners == before
