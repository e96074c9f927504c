"""The routes of the Open Inference Protocol over HTTP.

GET  /v2                                     the server
GET  /v2/health/live, /v2/health/ready       200 or 400
GET  /v2/models/NAME[/versions/VERSION]            its tensors
GET  /v2/models/NAME[/versions/VERSION]/ready      200 or 400
POST /v2/models/NAME[/versions/VERSION]/infer
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Final, TypeVar

from aiohttp import web

from aioexec.errors import InvalidArgumentError
from aioexec.in_thread import in_thread
from aioexec.serving import request_body
from aioexec.serving.kserve import metadata
from aioexec.serving.kserve.inference import infer
from aioexec.serving.kserve.json_messages import LENGTH_HEADER, decode_body, encode_body
from aioexec.serving.repository import Repository

T = TypeVar("T")

_LARGEST_INLINE: Final = 1 << 14
"""The most bytes of JSON to parse or serialize on the loop, in a fraction of a millisecond; more is done in a thread."""

_BYTES_A_NUMBER: Final = 16


def add_routes(app: web.Application, repository: Repository) -> None:
    """Serve the models of a repository under /v2; errors leave the handlers as OpErrors."""
    routes = _Routes(repository)
    router = app.router
    router.add_get("/v2", routes.server)
    router.add_get("/v2/health/live", routes.live)
    router.add_get("/v2/health/ready", routes.ready)
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        router.add_get(model, routes.model)
        router.add_get(f"{model}/ready", routes.model_ready)
        router.add_post(f"{model}/infer", routes.infer)


class _Routes:
    """The handlers over one repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    async def server(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "name": metadata.SERVER_NAME,
                "version": metadata.SERVER_VERSION,
                "extensions": metadata.EXTENSIONS,
            }
        )

    async def live(self, request: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def ready(self, request: web.Request) -> web.Response:
        ready = self._repository.is_ready()
        return web.json_response({"ready": ready}, status=200 if ready else 400)

    async def model(self, request: web.Request) -> web.Response:
        found = metadata.model_metadata(self._repository, *_model(request))
        return web.json_response({**asdict(found), "platform": metadata.PLATFORM})

    async def model_ready(self, request: web.Request) -> web.Response:
        name, version = _model(request)
        ready = metadata.is_model_ready(self._repository, name, version)
        return web.json_response({"name": name, "ready": ready}, status=200 if ready else 400)

    async def infer(self, request: web.Request) -> web.Response:
        body = await request_body.read(request)
        json_length = _json_length(request)
        size = len(body) if json_length is None else json_length
        asked = await _run_sized(size, lambda: decode_body(body, json_length, *_model(request)))
        reply = await infer(self._repository, asked.request)
        numbers = sum(value.size for value in reply.outputs.values())
        answer, length = await _run_sized(_BYTES_A_NUMBER * numbers, lambda: encode_body(reply, asked))
        if length is None:
            return web.Response(body=answer, content_type="application/json")
        headers = {LENGTH_HEADER: str(length)}
        return web.Response(body=answer, headers=headers, content_type="application/octet-stream")


def _model(request: web.Request) -> tuple[str, str]:
    return request.match_info["name"], request.match_info.get("version", "")


def _json_length(request: web.Request) -> int | None:
    text = request.headers.get(LENGTH_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidArgumentError(f"{LENGTH_HEADER}: expected a number of bytes, got {text!r}")
    return int(text)


async def _run_sized(size: int, work: Callable[[], T]) -> T:
    """Run work proportional to `size` bytes of JSON, without blocking the loop."""
    return work() if size <= _LARGEST_INLINE else await in_thread(work)
