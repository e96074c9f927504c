"""The middleware around every request of an application: admission, deadline, and errors as JSON."""

from __future__ import annotations

import asyncio

from aiohttp import web
from aiohttp.typedefs import Handler

from aioexec.errors import DeadlineExceededError
from aioexec.serving.application_keys import ADMISSION, LIMITS
from aioexec.serving.deadlines import timeout_of
from aioexec.serving.json_errors import answer_of


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Run a request's handler; what may be long, and has a body, needs admission."""
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
