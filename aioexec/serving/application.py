"""The aiohttp application: routes of TensorFlow Serving's REST interface over a table of models.

    POST /v1/models/NAME:predict   {"instances": …} -> {"predictions": …}
    GET  /v1/models/NAME           the model's status

Every error is returned as {"error": message} with the HTTP status of its class. A program with an aiohttp server of its own
mounts this application there: `own.add_subapp("/ml", application({"digits": model}))`.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from aioexec.errors import NotFoundError
from aioexec.in_thread import in_thread
from aioexec.serving import request_body
from aioexec.serving.json_errors import answer_of
from aioexec.serving.model import Model
from aioexec.serving.rest_json import decode_request, encode_answer

T = TypeVar("T")

LARGEST_REQUEST = 1 << 20
"""The most bytes of a request's body."""

_LARGEST_INLINE = 1 << 14
"""The most bytes of JSON to parse or serialize on the loop, in a fraction of a millisecond; more is done in a thread."""

_BYTES_A_NUMBER = 16

MODELS = web.AppKey("MODELS", Mapping[str, Model])
DECOMPRESSES = web.AppKey("DECOMPRESSES", bool)
"""Whether the application decompresses bodies itself; aiohttp's own server decompresses them before."""


def application(models: Mapping[str, Model], *, largest_request: int = LARGEST_REQUEST) -> web.Application:
    """Return an application that serves `models` by name; the mapping may change while it runs.

    aiohttp keeps references to the last 1,024 applications of a process, stopped ones included: empty the mapping to release a
    model's session.
    """
    app = web.Application(middlewares=[_answer_errors_as_json], client_max_size=largest_request)
    app[MODELS] = models
    app[DECOMPRESSES] = False
    app.router.add_post("/v1/models/{name}:predict", _predict)
    app.router.add_get("/v1/models/{name}", _status)
    return app


async def _predict(request: web.Request) -> web.Response:
    model = _model(request)
    body = await request_body.read(request)
    if request.app[DECOMPRESSES]:
        body = await request_body.decompress(request, body)
    asked = await _run_sized(len(body), lambda: decode_request(model.inputs, body))
    values = await model.session.run(dict(model.outputs), asked.feeds)
    size = _BYTES_A_NUMBER * sum(value.size for value in values.values())
    answer = await _run_sized(size, lambda: encode_answer(values, asked.count))
    return web.Response(body=answer, content_type="application/json")


async def _status(request: web.Request) -> web.Response:
    _model(request)
    available = {"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    return web.json_response({"model_version_status": [available]})


def _model(request: web.Request) -> Model:
    name, models = request.match_info["name"], request.app[MODELS]
    if name not in models:
        raise NotFoundError(f"no model {name!r} here, only {sorted(models)}")
    return models[name]


async def _run_sized(size: int, work: Callable[[], T]) -> T:
    """Run work proportional to `size` bytes of JSON, without blocking the loop."""
    return work() if size <= _LARGEST_INLINE else await in_thread(work)


@web.middleware
async def _answer_errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Exception as error:
        return answer_of(error)
