"""The routes of TensorFlow Serving's REST interface.

POST /v1/models/NAME[/versions/V | /labels/L]:predict       also :classify and :regress
GET  /v1/models/NAME[/versions/V | /labels/L]               the versions' status
GET  /v1/models/NAME[/versions/V | /labels/L]/metadata      the signatures
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from aiohttp import web

from aioexec.serving.application_keys import REPOSITORY
from aioexec.serving.models.served_version import ServedVersion
from aioexec.serving.off_loop import run_sized
from aioexec.serving.openapi import described
from aioexec.serving.request_body import read_json
from aioexec.serving.rest import examples, predict, schemas
from aioexec.serving.rest.descriptions import metadata_json, status_json
from aioexec.serving.rest.values import Array

MODEL: Final = "/v1/models/{name}"
_PATHS: Final = (MODEL, MODEL + "/versions/{version:[0-9]{1,19}}", MODEL + "/labels/{label}")
_BYTES_A_NUMBER: Final = 16


def add_routes(app: web.Application) -> None:
    """Add the routes to an application."""
    for path in _PATHS:
        app.router.add_post(path + ":predict", _predict)
        app.router.add_post(path + ":classify", _classify)
        app.router.add_post(path + ":regress", _regress)
        app.router.add_get(path, _status)
        app.router.add_get(path + "/metadata", _metadata)


@described(body=schemas.PREDICT_REQUEST, reply=schemas.PREDICT_REPLY)
async def _predict(request: web.Request) -> web.Response:
    """Run a signature of a model."""
    body = await read_json(request)
    with _lease(request) as served:
        asked = await run_sized(len(body), partial(predict.decode_request, served, body))
        outputs = await served.run(asked.signature_name, asked.inputs, caller=request.remote)
        encoded = await run_sized(_size(outputs), partial(predict.encode_answer, outputs, asked.count))
    return web.Response(body=encoded, content_type="application/json")


@described(body=schemas.EXAMPLES_REQUEST, reply=schemas.CLASSIFY_REPLY)
async def _classify(request: web.Request) -> web.Response:
    """Classify examples of features."""
    return await _use_examples(request, "classify")


@described(body=schemas.EXAMPLES_REQUEST, reply=schemas.REGRESS_REPLY)
async def _regress(request: web.Request) -> web.Response:
    """Return a number for each example of features."""
    return await _use_examples(request, "regress")


async def _use_examples(request: web.Request, verb: examples.Verb) -> web.Response:
    body = await read_json(request)
    with _lease(request) as served:
        asked = await run_sized(len(body), partial(examples.decode_request, served, body, verb))
        outputs = await served.run(asked.signature_name, asked.inputs, asked.outputs, caller=request.remote)
        encoded = await run_sized(_size(outputs), partial(examples.encode_answer, outputs, asked.count, verb))
    return web.Response(body=encoded, content_type="application/json")


@described(reply=schemas.STATUS_REPLY)
async def _status(request: web.Request) -> web.Response:
    """Return the state of a model's versions."""
    name, version, label = _version_of(request)
    return web.json_response(status_json(request.app[REPOSITORY].status(name, version, label)))


@described(reply=schemas.METADATA_REPLY)
async def _metadata(request: web.Request) -> web.Response:
    """Return the signatures of a version."""
    with _lease(request) as served:
        return web.json_response(metadata_json(served))


def _lease(request: web.Request) -> AbstractContextManager[ServedVersion]:
    name, version, label = _version_of(request)
    return request.app[REPOSITORY].lease(name, version=version, label=label)


def _version_of(request: web.Request) -> tuple[str, int | None, str | None]:
    found = request.match_info
    version = found.get("version")
    return found["name"], None if version is None else int(version), found.get("label")


def _size(outputs: dict[str, Array]) -> int:
    return _BYTES_A_NUMBER * sum(array.size for array in outputs.values())
