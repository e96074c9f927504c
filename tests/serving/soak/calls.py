"""The protocols of the model server, each as a function that sends a request for some rows and returns the outcomes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import grpc
import numpy as np

from aioexec.errors import OpError, UnknownError, exception_type_from_error_code
from aioexec.formats.tensor_codec import decode_tensor, encode_tensor
from aioexec.serving.http_status import error_of
from aioexec.serving.protos import inference_pb2 as pb, prediction_pb2
from aioexec.serving.server import Server

Array = np.ndarray[Any, Any]

STREAMED = 3
"""Requests of one stream."""

_LENGTH = "Inference-Header-Content-Length"
_PREDICT = "/tensorflow.serving.PredictionService/Predict"
_INFER = "/inference.GRPCInferenceService/ModelInfer"
_STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


@dataclass(frozen=True)
class Request:
    """What a client asks for; `version` is None for the one that the server chooses, `id` differs for each request."""

    model: str
    version: int | None
    signature: str
    x: Array
    id: str


@dataclass(frozen=True)
class Answer:
    """The values of a reply, and the version and id that it names; None where the protocol names none."""

    y: Array
    version: int | None = None
    id: str | None = None


class StreamedError(UnknownError):
    """An error in the reply of a stream, which has a message only."""


Outcome = Answer | OpError


@dataclass(frozen=True)
class Connections:
    """The connections of a client to a server."""

    http: aiohttp.ClientSession
    channel: Any


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Connections]:
    """A client's connections in the block."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with (
        aiohttp.ClientSession(server.url) as http,
        grpc.aio.insecure_channel(server.grpc_address, options=options) as channel,
    ):
        yield Connections(http, channel)


# TensorFlow Serving's REST


async def rest_rows(to: Connections, asked: Request) -> list[Outcome]:
    body = {"signature_name": asked.signature, "instances": asked.x.tolist()}
    return await _rest(to, asked, body, "predictions")


async def rest_columns(to: Connections, asked: Request) -> list[Outcome]:
    body = {"signature_name": asked.signature, "inputs": {"x": asked.x.tolist()}}
    return await _rest(to, asked, body, "outputs")


async def _rest(to: Connections, asked: Request, body: Any, key: str) -> list[Outcome]:
    version = "" if asked.version is None else f"/versions/{asked.version}"
    async with to.http.post(f"/v1/models/{asked.model}{version}:predict", json=body) as response:
        reply = await response.json()
    if response.status != 200:
        return [error_of(response.status)(reply["error"])]
    return [Answer(np.array(reply[key]))]


# The Open Inference Protocol over HTTP


async def kserve_json(to: Connections, asked: Request) -> list[Outcome]:
    given = _described(asked) | {"data": asked.x.ravel().tolist()}
    body = {"id": asked.id, "parameters": {"signature_name": asked.signature}, "inputs": [given]}
    async with to.http.post(_infer_path(asked), json=body) as response:
        reply = await response.json()
    if response.status != 200:
        return [error_of(response.status)(reply["error"])]
    return [_named(reply, np.array(reply["outputs"][0]["data"]))]


async def kserve_binary(to: Connections, asked: Request) -> list[Outcome]:
    given = _described(asked) | {"parameters": {"binary_data_size": asked.x.nbytes}}
    parameters = {"signature_name": asked.signature, "binary_data_output": True}
    head = json.dumps({"id": asked.id, "parameters": parameters, "inputs": [given]}).encode()
    body, headers = head + asked.x.tobytes(), {_LENGTH: str(len(head))}
    async with to.http.post(_infer_path(asked), data=body, headers=headers) as response:
        reply = await response.read()
    if response.status != 200:
        return [error_of(response.status)(json.loads(reply)["error"])]
    length = int(response.headers[_LENGTH])
    return [_named(json.loads(reply[:length]), np.frombuffer(reply[length:]))]


def _infer_path(asked: Request) -> str:
    version = "" if asked.version is None else f"/versions/{asked.version}"
    return f"/v2/models/{asked.model}{version}/infer"


def _described(asked: Request) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP64", "shape": list(asked.x.shape)}


def _named(reply: Any, y: Array) -> Answer:
    return Answer(y, int(reply["model_version"]), reply["id"])


# gRPC


async def predict(to: Connections, asked: Request) -> list[Outcome]:
    """PredictionService."""
    request = prediction_pb2.PredictRequest(
        model_spec={"name": asked.model, "signature_name": asked.signature}
    )
    if asked.version is not None:
        request.model_spec.version.value = asked.version
    request.inputs["x"].CopyFrom(encode_tensor(asked.x))
    try:
        data = await to.channel.unary_unary(_PREDICT)(request.SerializeToString())
    except grpc.aio.AioRpcError as error:
        return [_op_error(error)]
    reply = prediction_pb2.PredictResponse.FromString(data)
    return [Answer(decode_tensor(reply.outputs["y"]), reply.model_spec.version.value)]


async def infer(to: Connections, asked: Request) -> list[Outcome]:
    """GRPCInferenceService, one request."""
    try:
        data = await to.channel.unary_unary(_INFER)(_infer_request(asked, asked.id))
    except grpc.aio.AioRpcError as error:
        return [_op_error(error)]
    return [_inferred(pb.ModelInferResponse.FromString(data), asked.id)]


async def infer_stream(to: Connections, asked: Request) -> list[Outcome]:
    """GRPCInferenceService, a stream of equal requests with ids of their own, which are answered in order."""
    call = to.channel.stream_stream(_STREAM)()
    try:
        return await _replies(call, asked)
    finally:
        call.cancel()  # does nothing after the end


async def _replies(call: Any, asked: Request) -> list[Outcome]:
    for number in range(STREAMED):
        await call.write(_infer_request(asked, f"{asked.id}/{number}"))
    await call.done_writing()
    outcomes: list[Outcome] = []
    async for data in call:
        response = pb.ModelStreamInferResponse.FromString(data)
        reply = response.infer_response
        assert reply.id == f"{asked.id}/{len(outcomes)}", "lost, doubled or out of order"
        outcomes.append(
            StreamedError(response.error_message) if response.error_message else _inferred(reply, asked.id)
        )
    assert len(outcomes) == STREAMED, "the stream has ended early"
    return outcomes


def _infer_request(asked: Request, id: str) -> bytes:
    request = pb.ModelInferRequest(
        model_name=asked.model,
        model_version="" if asked.version is None else str(asked.version),
        id=id,
        inputs=[{"name": "x", "datatype": "FP64", "shape": asked.x.shape}],
        raw_input_contents=[asked.x.tobytes()],
    )
    request.parameters["signature_name"].string_param = asked.signature
    return request.SerializeToString()


def _inferred(reply: pb.ModelInferResponse, id: str) -> Answer:
    return Answer(np.frombuffer(reply.raw_output_contents[0]), int(reply.model_version), id)


def _op_error(error: grpc.aio.AioRpcError) -> OpError:
    kind: type[OpError] = exception_type_from_error_code(error.code().value[0])
    return kind(error.details())


Protocol = Callable[[Connections, Request], Coroutine[Any, Any, list[Outcome]]]

PROTOCOLS: Mapping[str, Protocol] = {
    "REST, rows": rest_rows,
    "REST, columns": rest_columns,
    "KServe, JSON": kserve_json,
    "KServe, binary": kserve_binary,
    "PredictionService": predict,
    "KServe, gRPC": infer,
    "KServe, stream": infer_stream,
}
