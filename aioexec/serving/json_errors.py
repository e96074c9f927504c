"""Exceptions as HTTP replies: {"error": message}, with the status of the error's class."""

from __future__ import annotations

import json
import logging
from typing import Final

from aiohttp import web

from aioexec.errors import OpError
from aioexec.serving.http_status import status_of

_JSON: Final = "application/json"
_RETRY_AFTER: Final = {429: "1", 503: "1"}
"""Seconds after which a client may try again, by the status of a refusal under load or while a version is loaded."""

_log = logging.getLogger(__name__)


def answer_of(error: Exception) -> web.Response:
    """Return the reply to a failed request; an exception that is no OpError is logged.

    Raises:
        web.HTTPException: aiohttp's own reply (no such route, method not allowed, body too large), which must be raised.
    """
    if isinstance(error, OpError):
        status = status_of(error)
        answer = web.json_response({"error": error.message}, status=status)
        if status in _RETRY_AFTER:
            answer.headers["Retry-After"] = _RETRY_AFTER[status]
        return answer
    if isinstance(error, web.HTTPException):
        if error.content_type != _JSON:
            error.text = json.dumps({"error": error.text or error.reason})
            error.content_type = _JSON
        raise error
    _log.error("a request failed with an exception that is no OpError", exc_info=error)
    return web.json_response({"error": "Internal Server Error"}, status=500)
