"""The routes that a supervisor polls.

GET /healthz    whether the process serves: 200
GET /readyz     whether requests may be sent here: 200 if each model has a version that takes them, else 503
GET /metrics    the metrics, in Prometheus's format
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from aioexec.errors import UnavailableError
from aioexec.serving.application_keys import ADMISSION, METRICS, REPOSITORY
from aioexec.serving.openapi import described
from aioexec.serving.telemetry.metrics import CONTENT_TYPE

_STATUS: Final = {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]}


def add_routes(app: web.Application) -> None:
    """Add the routes to an application."""
    app.router.add_get("/healthz", _answer_alive)
    app.router.add_get("/readyz", _answer_ready)
    app.router.add_get("/metrics", _metrics)


@described(reply=_STATUS)
async def _answer_alive(request: web.Request) -> web.Response:
    """Say that the process serves."""
    return web.json_response({"status": "ok"})


@described(reply=_STATUS)
async def _answer_ready(request: web.Request) -> web.Response:
    """Say whether each model has a version that takes requests."""
    if request.app[ADMISSION].is_draining:
        raise UnavailableError("the server is about to end")
    if not request.app[REPOSITORY].is_ready():
        raise UnavailableError("a model has no version that is available")
    return web.json_response({"status": "ok"})


async def _metrics(request: web.Request) -> web.Response:
    """Return the metrics, in Prometheus's format."""
    return web.Response(body=await request.app[METRICS].reply(), headers={"Content-Type": CONTENT_TYPE})
