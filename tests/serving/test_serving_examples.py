"""The examples of serving answer as NumPy does, stream, and end gracefully: a request under way gets its answer."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import aiohttp
import grpc
import numpy as np
import pytest
import uvicorn
from aiohttp import web

import aioexec as ax
from aioexec.formats.protos import TensorProto
from examples import serving_aiohttp, serving_fastapi, serving_grpc, small_model
from tests.distributed.grpc_process import grpc_runs as grpc_runs

pytestmark = pytest.mark.network

ROWS = [[1.0, 2.0], [-3.0, 0.5], [0.0, 0.0]]
POWERS = np.exp(np.array(ROWS, np.float32) @ small_model.WEIGHTS)
EXPECTED = POWERS / POWERS.sum(axis=1, keepdims=True)


@pytest.fixture
async def folder(tmp_path):
    path = str(tmp_path / "small")
    await small_model.save(path)
    return path


@pytest.fixture
async def http():
    async with aiohttp.ClientSession() as http:
        yield http


async def read_lines(reply):
    return [json.loads(line) async for line in reply.content]


async def rest_answer(http, url):
    """What the model server below /models answers."""
    async with http.post(f"{url}/models/v1/models/small:predict", json={"instances": ROWS}) as reply:
        return (await reply.json())["predictions"]


@asynccontextmanager
async def aiohttp_serving(folder):
    """The URL of the aiohttp example, its runner, and an event that is set when it begins to end."""
    app, ends = await serving_aiohttp.create_app(folder), asyncio.Event()

    async def on_shutdown(app):
        ends.set()

    app.on_shutdown.append(on_shutdown)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", runner, ends
    finally:
        await runner.cleanup()


async def test_the_aiohttp_example_predicts_streams_and_mounts(folder, http):
    async with aiohttp_serving(folder) as (url, _, _):
        async with http.post(f"{url}/predict", json=ROWS) as reply:
            predicted = await reply.json()
        lines = "".join(f"{row}\n" for row in ROWS).encode()
        async with http.post(f"{url}/stream", data=lines) as reply:
            streamed = await read_lines(reply)
        rest = await rest_answer(http, url)
        async with http.get(f"{url}/models/") as reply:
            page = await reply.text()

    for answer in (predicted, streamed, rest):
        np.testing.assert_allclose(answer, EXPECTED, rtol=1e-5)
    assert "<title>Model server</title>" in page


async def test_a_request_of_the_aiohttp_example_is_answered_before_its_model_is_closed(
    folder, http, monkeypatch
):
    run, is_running, may_run = ax.saved_model.LoadedModel.__call__, asyncio.Event(), asyncio.Event()

    async def run_later(model, **inputs):
        is_running.set()
        await may_run.wait()
        return await run(model, **inputs)

    async with aiohttp_serving(folder) as (url, runner, ends):
        monkeypatch.setattr(ax.saved_model.LoadedModel, "__call__", run_later)
        asking = asyncio.create_task(http.post(f"{url}/predict", json=ROWS))
        await is_running.wait()
        ending = asyncio.create_task(runner.cleanup())
        await ends.wait()
        may_run.set()
        async with await asking as reply:
            predicted = await reply.json()
        await ending

    np.testing.assert_allclose(predicted, EXPECTED, rtol=1e-5)


@asynccontextmanager
async def uvicorn_serving(app):
    """The URL of an ASGI application under uvicorn; at the end it is stopped gracefully."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            app, log_config=None, ws="none", timeout_graceful_shutdown=serving_fastapi.GRACE
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", server
        finally:
            server.should_exit = True
            await running


async def test_the_fastapi_example_predicts_streams_and_mounts(folder, http):
    app = serving_fastapi.create_app(folder)
    async with uvicorn_serving(app) as (url, _):
        async with http.post(f"{url}/predict", json=ROWS) as reply:
            predicted = await reply.json()
        async with http.post(f"{url}/stream", json=ROWS) as reply:
            streamed = await read_lines(reply)
        rest = await rest_answer(http, url)
        async with http.get(f"{url}/models/page/live") as reply:
            sample = await reply.content.readuntil(b"\n\n")
        async with http.post(f"{url}/models/v1/models/none:predict", json={}) as reply:
            refused = reply.status, await reply.json()

    for answer in (predicted, streamed, rest):
        np.testing.assert_allclose(answer, EXPECTED, rtol=1e-5)
    assert json.loads(sample.removeprefix(b"data: "))["models"] == {"small": {"1": "AVAILABLE"}}
    assert refused[0] == 404
    assert "no model 'none'" in refused[1]["error"]


async def test_the_grpc_example_predicts_and_streams(folder):
    codec = {
        "request_serializer": TensorProto.SerializeToString,
        "response_deserializer": TensorProto.FromString,
    }
    async with (
        serving_grpc.serving(folder) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        classify = channel.unary_unary("/example.Classifier/Classify", **codec)
        classify_stream = channel.stream_stream("/example.Classifier/ClassifyStream", **codec)
        whole = ax.make_ndarray(await classify(ax.make_tensor_proto(np.array(ROWS, np.float32))))
        calls = classify_stream(ax.make_tensor_proto(np.array([row], np.float32)) for row in ROWS)
        streamed = [ax.make_ndarray(reply)[0] async for reply in calls]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await classify(ax.make_tensor_proto(np.array([[1]], np.float32)))

    np.testing.assert_allclose(whole, EXPECTED, rtol=1e-5)
    np.testing.assert_allclose(streamed, EXPECTED, rtol=1e-5)
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "input 'x'" in refused.value.details()


async def test_a_call_of_the_grpc_example_that_is_under_way_is_answered(folder):
    codec = {
        "request_serializer": TensorProto.SerializeToString,
        "response_deserializer": TensorProto.FromString,
    }
    rows: asyncio.Queue[list[float] | None] = asyncio.Queue()

    async def requests():
        while (row := await rows.get()) is not None:
            yield ax.make_tensor_proto(np.array([row], np.float32))

    serving = serving_grpc.serving(folder)
    port = await serving.__aenter__()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        calls = channel.stream_stream("/example.Classifier/ClassifyStream", **codec)(requests())
        rows.put_nowait(ROWS[0])
        first = ax.make_ndarray(await calls.read())
        ending = asyncio.create_task(serving.__aexit__(None, None, None))
        await asyncio.sleep(0)
        rows.put_nowait(ROWS[1])
        rows.put_nowait(None)
        second = ax.make_ndarray(await calls.read())
        assert await calls.read() is grpc.aio.EOF
        await ending

    np.testing.assert_allclose([first[0], second[0]], EXPECTED[:2], rtol=1e-5)
