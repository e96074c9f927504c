"""The time of a request over HTTP to the MLP, one row, from 64 connections that are kept alive; the server makes batches.

aioexec is its command `serve`; the peer is an aiohttp server with onnxruntime (`bench.http_servers`). The requests are those of
TensorFlow Serving with rows in JSON, or of the Open Inference Protocol with binary tensors. The load is generated in another
process than the server's. "requests/s" in a case's name is a load that both servers can take: each request has its time, and
the 99th percentile of the time from there to its reply is measured. In the last case versions of 100 MiB of another model load,
one after the other; its figure is that percentile, its note by how much it moves.
"""

import asyncio
import json
import os
import shutil
import sys
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from bench import mlp, saved_models, sessions
from bench.http_load import Clients, Connection, Latencies
from bench.http_servers import BATCH, LENGTH_HEADER, MODEL
from bench.workload import FOLDER, Case, Sample, Workload

QUESTION = __doc__.splitlines()[0]
MEASURES = "time per request, all connections together; where a rate is given, p99 of the latency"
CLIENTS = 64
JSON, BINARY, LOADING = "JSON", "binary", "loading"
RATE, RATE_WHILE_LOADING = 600, 300
CASES = [
    Case("JSON", variant=JSON),
    Case("binary tensors", variant=BINARY),
    Case(f"JSON, {RATE} requests/s", variant=JSON, size=RATE),
    Case(f"binary tensors, {RATE} requests/s", variant=BINARY, size=RATE),
    Case(f"a version loads, {RATE_WHILE_LOADING} requests/s", variant=LOADING, size=RATE_WHILE_LOADING),
]
OTHER = "other"
LOADS_A_ROUND = 3


async def aioexec(case: Case, stack: AsyncExitStack) -> Workload:
    folder = Path(os.environ[FOLDER]) / case.name.replace(" ", "_").replace("/", "_")
    await _write_mlp(folder / MODEL / "1")
    settings = f"max_batch_size = {BATCH}, max_delay = 0, max_queue = {4 * CLIENTS}"
    config = f'poll_seconds = 0.05\n[models.{MODEL}]\npath = "{MODEL}"\nbatching = {{{settings}}}\n'
    if case.variant == LOADING:
        await saved_models.write_with_aioexec(str(folder / "next"))
        shutil.copytree(folder / "next", folder / OTHER / "1")
        config += f'[models.{OTHER}]\npath = "{OTHER}"\n'
    (folder / "models.toml").write_text(config, encoding="utf-8")
    command = ["-m", "aioexec.cli", "serve", "--config", str(folder / "models.toml"), "--port", "0", "--json"]
    url = json.loads(await _started(command, stack))["url"]
    (watcher,) = (await Clients.connected(url, 1)).connections
    stack.callback(watcher.close)
    await _available(watcher, MODEL, 1)
    if case.variant == LOADING:
        await _available(watcher, OTHER, 1)
        return await _loading(url, watcher, folder, stack, case)
    return await _workload(url, case, stack)


async def onnxruntime_aiohttp(case: Case, stack: AsyncExitStack) -> Workload | None:
    if case.variant == LOADING:
        return None
    url = await _started(["-m", "bench.http_servers"], stack)
    return await _workload(url, case, stack)


async def _workload(url: str, case: Case, stack: AsyncExitStack) -> Workload:
    clients = await Clients.connected(url, CLIENTS)
    stack.callback(clients.close)
    requests = [_request(row, case.variant) for row in mlp.images(CLIENTS)]

    async def outputs() -> Any:
        replies = [await clients.connections[0].ask(request) for request in requests]
        return np.concatenate([_rows_of(reply, case.variant) for reply in replies])

    async def measure(seconds: float) -> Sample:
        seconds *= 5  # of the others' rounds: for a 99th percentile
        if case.size:
            async with clients.paced(requests, case.size) as found:
                await asyncio.sleep(seconds)
            return Sample([found.p99()], {"p50 ms": _median_ms(found)})
        found, elapsed = await clients.ask_all(requests, seconds)
        done = len(found.seconds)
        notes = {"requests/s": done / elapsed, "p50 ms": _median_ms(found), "p99 ms": found.p99() * 1e3}
        return Sample([elapsed / done], notes)

    async def step() -> Any:
        await clients.ask_all(requests, 0.2)

    return Workload(step, outputs, measure)


async def _loading(
    url: str, watcher: Connection, folder: Path, stack: AsyncExitStack, case: Case
) -> Workload:
    """Requests to the MLP while versions of another model load."""
    workload = await _workload(url, Case("", variant=JSON), stack)
    clients = await Clients.connected(url, CLIENTS)
    stack.callback(clients.close)
    requests = [_request(row, JSON) for row in mlp.images(CLIENTS)]
    versions = count(2)

    async def load() -> float:
        """Add a version and wait until it is served; return the seconds."""
        version = next(versions)
        loop = asyncio.get_running_loop()
        added = loop.time()
        await asyncio.to_thread(_add_version, folder, version)
        await _available(watcher, OTHER, version)
        return loop.time() - added

    async def measure(seconds: float) -> Sample:
        async with clients.paced(requests, case.size) as busy:
            times = [await load() for _ in range(LOADS_A_ROUND)]
        await asyncio.sleep(0.2)
        async with clients.paced(requests, case.size) as idle:
            await asyncio.sleep(sum(times))
        moved = 100 * (busy.p99() / idle.p99() - 1)
        return Sample(
            [busy.p99()],
            {"p99 without ms": idle.p99() * 1e3, "load s": np.median(times).item(), "p99 moved %": moved},
        )

    return Workload(workload.step, workload.outputs, measure)


async def _available(watcher: Connection, model: str, version: int) -> None:
    """Wait until a version is served."""
    asked = f"GET /v1/models/{model} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    while True:
        status = json.loads(await watcher.ask(asked))["model_version_status"]
        if any(int(each["version"]) == version and each["state"] == "AVAILABLE" for each in status):
            return
        await asyncio.sleep(0.02)


def _add_version(folder: Path, version: int) -> None:
    """Let a version appear at once, in place of the one before the last."""
    copy = folder / "copy"
    shutil.copytree(folder / "next", copy, copy_function=os.link)
    copy.rename(folder / OTHER / str(version))
    shutil.rmtree(folder / OTHER / str(version - 2), ignore_errors=True)


async def _write_mlp(folder: Path) -> None:
    import aioexec as ax

    async with AsyncExitStack() as stack:
        session, built = await sessions.aioexec_session(mlp.build_inference, Case("", size=1), stack)
        (x,), (y,) = built.feeds, built.outputs
        await ax.saved_model.simple_save(session, folder, {"x": x}, {"y": y})


async def _started(command: list[str], stack: AsyncExitStack) -> str:
    """Start a server in another process, and return the line that it prints; it ends with the stack."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    stack.push_async_callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError(f"the server {command} has ended before it served")
    return line.decode().strip()


def _request(row: Any, form: str) -> bytes:
    """A request with one row."""
    if form == JSON:
        body = json.dumps({"instances": [row.tolist()]}).encode()
        head = f"POST /v1/models/{MODEL}:predict HTTP/1.1\r\nContent-Type: application/json\r\n"
    else:
        size = {"binary_data_size": row.nbytes}
        x = {"name": "x", "datatype": "FP32", "shape": [1, row.size], "parameters": size}
        asked = {"inputs": [x], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}
        text = json.dumps(asked).encode()
        body = text + row.tobytes()
        head = f"POST /v2/models/{MODEL}/infer HTTP/1.1\r\n{LENGTH_HEADER}: {len(text)}\r\n"
    return f"{head}Host: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def _rows_of(reply: bytes, form: str) -> Any:
    """The rows in a reply."""
    if form == JSON:
        return np.float32(json.loads(reply)["predictions"])
    size = mlp.SIZES[-1] * np.dtype(np.float32).itemsize
    return np.frombuffer(reply[-size:], np.float32).reshape(1, -1)


def _median_ms(found: Latencies) -> float:
    return float(np.median(found.seconds)) * 1e3
