"""A SavedModel in a FastAPI program: routes of its own, and all routes of the model server below /models.

    pip install fastapi uvicorn
    python -m examples.small_model /tmp/small
    python -m examples.serving_fastapi /tmp/small
    curl localhost:8080/predict -H 'Content-Type: application/json' -d '[[1, 2]]'
    curl localhost:8080/models/v1/models/small:predict -d '{"instances": [[1, 2]]}'

With Starlette alone the same `lifespan` and `mount` work. On SIGTERM uvicorn accepts no further connections, answers the
requests it has, and ends the lifespan, which closes the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from aioexec.serving import application
from aioexec.serving.asgi import AsgiApplication
from examples import small_model

GRACE = 10
"""Seconds that requests under way may take at the end; a stream of the page has no end of its own."""


def create_app(folder: str) -> FastAPI:
    """Return the program; the model is loaded when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with await small_model.load(folder) as model:
            app.state.model = model
            async with AsgiApplication(application({"small": model})) as models:
                app.mount("/models", models)
                yield

    app = FastAPI(lifespan=lifespan)
    app.post("/predict")(predict)
    app.post("/stream")(stream)
    return app


async def predict(rows: list[list[float]], request: Request) -> list[list[float]]:
    """The body is a list of rows; the reply has a row for each."""
    outputs = await request.app.state.model(x=rows)
    answer: list[list[float]] = outputs["y"].tolist()
    return answer


async def stream(rows: list[list[float]], request: Request) -> StreamingResponse:
    """The body is a list of rows; each answer is sent in a line of its own as soon as it is there."""

    async def lines() -> AsyncIterator[bytes]:
        for row in rows:
            outputs = await request.app.state.model(x=[row])
            yield json.dumps(outputs["y"][0].tolist()).encode() + b"\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


if __name__ == "__main__":
    uvicorn.run(create_app(sys.argv[1]), host="127.0.0.1", port=8080, timeout_graceful_shutdown=GRACE)
