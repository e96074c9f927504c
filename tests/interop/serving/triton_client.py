"""Triton's clients, each kind: python -m tests.interop.serving.triton_client HTTP_ADDRESS GRPC_ADDRESS.

It prints what they received as JSON.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio

from tests.interop.serving.tf_model import TEXT, X

Answer = dict[str, Any]


def main(http_address: str, grpc_address: str) -> None:
    answers = {
        "http": with_http(http_address, {}, {}),
        "http_json": with_http(http_address, {"binary_data": False}, {"binary_data": False}),
        "http_gzip": with_http(http_address, {}, {}, request_compression_algorithm="gzip"),
        "grpc": with_grpc(grpc_address),
        "stream": with_grpc_stream(grpc_address),
        **asyncio.run(with_asyncio(http_address, grpc_address)),
        "metadata": metadata(http_address, grpc_address),
        "errors": errors(http_address, grpc_address),
    }
    print(json.dumps(answers))


def _inputs(module: Any, **how: Any) -> Any:
    x, text = module.InferInput("x", X.shape, "FP32"), module.InferInput("text", [len(TEXT)], "BYTES")
    x.set_data_from_numpy(X, **how)
    text.set_data_from_numpy(np.array(TEXT, object), **how)
    return [x, text]


def _outputs(module: Any, **how: Any) -> Any:
    return [module.InferRequestedOutput(name, **how) for name in ("shouted", "y")]


def _received(result: Any) -> Answer:
    shouted = [
        each.decode() if isinstance(each, bytes) else each for each in result.as_numpy("shouted").tolist()
    ]
    return {"y": result.as_numpy("y").tolist(), "shouted": shouted}


def with_http(address: str, sent: Any, wanted: Any, **options: Any) -> Answer:
    client = triton_http.InferenceServerClient(address)
    try:
        return _received(
            client.infer(
                "model", _inputs(triton_http, **sent), outputs=_outputs(triton_http, **wanted), **options
            )
        )
    finally:
        client.close()


def with_grpc(address: str) -> Answer:
    with triton_grpc.InferenceServerClient(address) as client:
        return _received(
            client.infer("model", _inputs(triton_grpc), outputs=_outputs(triton_grpc), model_version="1")
        )


def with_grpc_stream(address: str) -> Answer:
    received: queue.Queue[Any] = queue.Queue()
    with triton_grpc.InferenceServerClient(address) as client:
        client.start_stream(callback=lambda result, error: received.put((result, error)))
        for index in range(3):
            client.async_stream_infer(
                "model" if index != 1 else "none", _inputs(triton_grpc), request_id=str(index)
            )
        results = [received.get(timeout=60) for _ in range(3)]
        client.stop_stream()
    assert [result is None for result, _ in results] == [False, True, False]
    return {**_received(results[2][0]), "error": str(results[1][1])}


async def with_asyncio(http_address: str, grpc_address: str) -> dict[str, Answer]:
    async with triton_http_aio.InferenceServerClient(http_address) as client:
        over_http = _received(
            await client.infer("model", _inputs(triton_http_aio), outputs=_outputs(triton_http_aio))
        )
    async with triton_grpc_aio.InferenceServerClient(grpc_address) as client:
        over_grpc = _received(
            await client.infer("model", _inputs(triton_grpc_aio), outputs=_outputs(triton_grpc_aio))
        )
    return {"http_aio": over_http, "grpc_aio": over_grpc}


def metadata(http_address: str, grpc_address: str) -> dict[str, Any]:
    http = triton_http.InferenceServerClient(http_address)
    try:
        over_http = _about(http)
    finally:
        http.close()
    with triton_grpc.InferenceServerClient(grpc_address) as grpc:
        over_grpc = _about(grpc, as_json=True)
    return {"http": over_http, "grpc": over_grpc}


def _about(client: Any, **how: Any) -> list[Any]:
    is_ready = [
        client.is_server_live(), client.is_server_ready(), client.is_model_ready("model"),
        client.is_model_ready("model", "1"),
    ]  # fmt: skip
    model = client.get_model_metadata("model", **how)
    inputs = [
        [each["name"], each["datatype"], [int(size) for size in each["shape"]]] for each in model["inputs"]
    ]
    return [
        is_ready, client.get_server_metadata(**how)["name"], model["versions"], inputs,
        [each["name"] for each in model["outputs"]],
    ]  # fmt: skip


def errors(http_address: str, grpc_address: str) -> list[str]:
    found = []
    http = triton_http.InferenceServerClient(http_address)
    with triton_grpc.InferenceServerClient(grpc_address) as grpc:
        for client, module in ((http, triton_http), (grpc, triton_grpc)):
            try:
                client.infer("model", _inputs(module)[:1])
            except module.InferenceServerException as failed:
                found.append(failed.message())
    http.close()
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
