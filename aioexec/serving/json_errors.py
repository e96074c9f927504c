"""Exceptions as answers: {"error": message}, with the HTTP status of the error's class."""

from __future__ import annotations

import json
import logging

from aiohttp import web

from aioexec.errors import OpError
from aioexec.serving.http_status import status_of

_JSON = "application/json"
_log = logging.getLogger(__name__)


def answer_of(error: Exception) -> web.Response:
    """Return the answer to a request that failed; an exception that is no OpError is logged.

    Raises:
        web.HTTPException: aiohttp's own answer (no such route, method not allowed, body too large), which aiohttp wants raised.
    """
    if isinstance(error, OpError):
        return web.json_response({"error": error.message}, status=status_of(error))
    if isinstance(error, web.HTTPException):
        if error.content_type != _JSON:
            error.text = json.dumps({"error": error.text or error.reason})
            error.content_type = _JSON
        raise error
    _log.error("a request failed with an exception that is no OpError", exc_info=error)
    return web.json_response({"error": "Internal Server Error"}, status=500)
