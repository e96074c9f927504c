"""The middleware around every request of an application: admission, deadline, errors as JSON, metrics, spans and logs."""

from __future__ import annotations

import asyncio
import logging
from time import perf_counter
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from aioexec.errors import DeadlineExceededError
from aioexec.serving.application_keys import ADMISSION, LIMITS, METRICS
from aioexec.serving.deadlines import timeout_of
from aioexec.serving.json_errors import answer_of
from aioexec.serving.telemetry import tracing
from aioexec.serving.telemetry.logs import ACCESS_LOGGER

_CLIENT_LEFT: Final = 499
"""The status in metrics and logs of a request whose client has disconnected."""

_log = logging.getLogger(ACCESS_LOGGER)


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Run a request's handler, and record the request."""
    if tracing.is_traced():
        with tracing.request_span(f"{request.method} {_route(request)}", request.headers) as span:
            response = await _record(request, handler, tracing.trace_id_of(span))
            tracing.set_status(span, response.status)
            return response
    return await _record(request, handler, None)


async def _record(request: web.Request, handler: Handler, trace_id: str | None) -> web.StreamResponse:
    started, status = perf_counter(), _CLIENT_LEFT
    try:
        response = await _answer(request, handler)
        status = response.status
        return response
    except web.HTTPException as error:
        status = error.status
        raise
    finally:
        seconds = perf_counter() - started
        request.app[METRICS].on_request("http", _route(request), str(status), seconds)
        if _log.isEnabledFor(logging.INFO):
            fields = _fields(request, status, seconds, trace_id)
            _log.info("%s %r %d %.1f ms", request.method, request.path, status, seconds * 1e3, extra=fields)


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        if request.method != "POST":
            return await handler(request)
        size = request.content_length
        with request.app[ADMISSION].admit(request.app[LIMITS].request_bytes if size is None else size):
            return await _run_in_time(request, handler)
    except Exception as error:
        return answer_of(error)


async def _run_in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    seconds = timeout_of(request.headers)
    if seconds is None:
        return await handler(request)
    try:
        async with asyncio.timeout(seconds) as timeout:
            return await handler(request)
    except TimeoutError:
        if timeout.expired():
            raise DeadlineExceededError(f"the request took longer than its limit of {seconds:g} s") from None
        raise


def _route(request: web.Request) -> str:
    """The route's pattern, "" if there is none: paths themselves would be too many values of a metric's label."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _fields(request: web.Request, status: int, seconds: float, trace_id: str | None) -> dict[str, Any]:
    return {
        "protocol": "http",
        "method": request.method,
        "path": request.path,
        "status": status,
        "seconds": round(seconds, 6),
        "trace_id": trace_id,
    }
