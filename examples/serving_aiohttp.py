"""A SavedModel in an aiohttp server: routes of its own, and all routes of the model server below /models.

    python -m examples.small_model /tmp/small
    python -m examples.serving_aiohttp /tmp/small
    curl localhost:8080/predict -d '[[1, 2]]'
    printf '[1, 2]\n[3, 4]\n' | curl -N localhost:8080/stream --data-binary @-
    curl localhost:8080/models/v1/models/small:predict -d '{"instances": [[1, 2]]}'

The page of the model server is at localhost:8080/models/. On SIGTERM the server accepts no further connections, answers the
requests it has, and closes the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator

from aiohttp import web

import aioexec as ax
from aioexec.serving import application
from examples import small_model

MODEL = web.AppKey("MODEL", ax.saved_model.LoadedModel)


async def create_app(folder: str) -> web.Application:
    """Load the model before the server listens: a damaged one fails the start."""
    model = await small_model.load(folder)

    async def close_model(app: web.Application) -> AsyncIterator[None]:
        yield
        await model.close()

    app = web.Application()
    app[MODEL] = model
    app.cleanup_ctx.append(close_model)
    app.router.add_post("/predict", predict)
    app.router.add_post("/stream", stream)
    app.add_subapp("/models", application({"small": model}))
    return app


async def predict(request: web.Request) -> web.Response:
    """The body is a list of rows; the reply has a row for each."""
    outputs = await request.app[MODEL](x=await request.json())
    return web.json_response(outputs["y"].tolist())


async def stream(request: web.Request) -> web.StreamResponse:
    """The body has a row in each line; its answer is sent while further lines arrive."""
    reply = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await reply.prepare(request)
    async for line in request.content:
        outputs = await request.app[MODEL](x=[json.loads(line)])
        await reply.write(json.dumps(outputs["y"][0].tolist()).encode() + b"\n")
    return reply


if __name__ == "__main__":
    web.run_app(create_app(sys.argv[1]), host="127.0.0.1", port=8080)
