"""The routes of the Open Inference Protocol over HTTP.

GET  /v2                                           the server
GET  /v2/health/live, /v2/health/ready             200 or 400
GET  /v2/models/NAME[/versions/VERSION]            its tensors
GET  /v2/models/NAME[/versions/VERSION]/ready      200 or 400
POST /v2/models/NAME[/versions/VERSION]/infer
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Final

from aiohttp import web

from aioexec.errors import InvalidArgumentError
from aioexec.serving.application_keys import ADMISSION, LIMITS, REPOSITORY
from aioexec.serving.kserve import metadata, schemas
from aioexec.serving.kserve.inference import infer
from aioexec.serving.kserve.json_messages import LENGTH_HEADER, decode_body, encode_body
from aioexec.serving.off_loop import run_sized
from aioexec.serving.openapi import described
from aioexec.serving.request_body import read, read_json

_PATHS: Final = ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
_BYTES_A_NUMBER: Final = 16


def add_routes(app: web.Application) -> None:
    """Add the routes to an application."""
    app.router.add_get("/v2", _server)
    app.router.add_get("/v2/health/live", _live)
    app.router.add_get("/v2/health/ready", _ready)
    for path in _PATHS:
        app.router.add_get(path, _model)
        app.router.add_get(path + "/ready", _model_ready)
        app.router.add_post(path + "/infer", _infer)


async def _server(request: web.Request) -> web.Response:
    """Describe the server."""
    about = {
        "name": metadata.SERVER_NAME,
        "version": metadata.SERVER_VERSION,
        "extensions": metadata.EXTENSIONS,
    }
    return web.json_response(about)


async def _live(request: web.Request) -> web.Response:
    """Say that the process serves."""
    return web.json_response({"live": True})


async def _ready(request: web.Request) -> web.Response:
    """Say whether each model has a version that takes requests."""
    ready = not request.app[ADMISSION].is_draining and request.app[REPOSITORY].is_ready()
    return web.json_response({"ready": ready}, status=200 if ready else 400)


async def _model(request: web.Request) -> web.Response:
    """Return the inputs and outputs of a version."""
    found = metadata.model_metadata(request.app[REPOSITORY], *_version_of(request))
    return web.json_response({**asdict(found), "platform": metadata.PLATFORM})


async def _model_ready(request: web.Request) -> web.Response:
    """Say whether a version takes requests."""
    name, version = _version_of(request)
    ready = metadata.is_model_ready(request.app[REPOSITORY], name, version)
    return web.json_response({"name": name, "ready": ready}, status=200 if ready else 400)


@described(body=schemas.INFER_REQUEST, reply=schemas.INFER_REPLY)
async def _infer(request: web.Request) -> web.Response:
    """Run a model, with values in JSON or as bytes."""
    json_length = _json_length(request)
    if json_length is None:
        body = await read_json(request)
    else:
        body = await read(request, request.app[LIMITS].request_bytes)
    asked = await run_sized(
        len(body) if json_length is None else json_length,
        partial(decode_body, body, json_length, *_version_of(request)),
    )
    reply = await infer(request.app[REPOSITORY], asked.request, request.remote)
    numbers = sum(value.size for value in reply.outputs.values())
    encoded, length = await run_sized(_BYTES_A_NUMBER * numbers, partial(encode_body, reply, asked))
    if length is None:
        return web.Response(body=encoded, content_type="application/json")
    headers = {LENGTH_HEADER: str(length)}
    return web.Response(body=encoded, headers=headers, content_type="application/octet-stream")


def _version_of(request: web.Request) -> tuple[str, str]:
    return request.match_info["name"], request.match_info.get("version", "")


def _json_length(request: web.Request) -> int | None:
    """The length of the JSON before binary tensors, None without these."""
    text = request.headers.get(LENGTH_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidArgumentError(f"{LENGTH_HEADER}: expected a number of bytes, got {text!r}")
    most = request.app[LIMITS].json_bytes
    if int(text) > most:
        raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=int(text))
    return int(text)
