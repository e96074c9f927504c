"""The routes of the page: its files, and the JSON that they request.

    GET  /                                                     the page
    GET  /page/FILE                                            its style sheet and scripts
    GET  /page/models                                          models, versions and signatures
    GET  /page/models/NAME/versions/VERSION/graph              the nodes of a version's graph
    POST /page/models/NAME/versions/VERSION/trace              runs a traced step: its outputs and timeline
    GET  /page/live                                            server-sent events: a sample each second

The page itself uses the REST interface to run steps. All of its URLs are relative, so it works under any prefix.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from aiohttp import web

from aioexec.errors import ResourceExhaustedError
from aioexec.in_thread import in_thread
from aioexec.serving.page.descriptions import describe_graph, describe_models, graph_of
from aioexec.serving.page.live import samples
from aioexec.serving.page.static_files import StaticFiles
from aioexec.serving.repository import Repository

_MOST_STREAMS: Final = 16
"""The most open streams of samples: each one has a heartbeat of its own."""


def add_routes(app: web.Application, repository: Repository) -> None:
    """Add the page's routes to an application."""
    page = _Page(repository)
    app.router.add_get("/", page.index)
    app.router.add_get("/page/live", page.live)
    app.router.add_get("/page/models", page.models)
    app.router.add_get(r"/page/models/{name}/versions/{version:\d+}/graph", page.graph)
    app.router.add_get(r"/page/{file:[a-z_]+\.[a-z]+}", page.file)
    app.on_shutdown.append(page.stop)


class _Page:
    """The handlers of one application."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._files = StaticFiles()
        self._streams = 0  # the number of open streams of samples
        self._stop = asyncio.Event()  # set when the application shuts down: streams have no end of their own

    async def index(self, request: web.Request) -> web.Response:
        return await self._files.reply("index.html")

    async def file(self, request: web.Request) -> web.Response:
        return await self._files.reply(request.match_info["file"])

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response(describe_models(self._repository))

    async def graph(self, request: web.Request) -> web.Response:
        name, version = request.match_info["name"], int(request.match_info["version"])
        with self._repository.lease(name, version=version) as served:
            operations = graph_of(served.signatures)
        body = await in_thread(lambda: json.dumps(describe_graph(operations), separators=(",", ":")).encode())
        return web.Response(body=body, content_type="application/json")

    async def live(self, request: web.Request) -> web.StreamResponse:
        if self._streams >= _MOST_STREAMS:
            raise ResourceExhaustedError(f"the page is open {_MOST_STREAMS} times already")
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        self._streams += 1
        try:
            await reply.prepare(request)
            async for sample in samples(self._repository, self._stop):
                await reply.write(f"data: {json.dumps(sample)}\n\n".encode())
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            self._streams -= 1
        return reply

    async def stop(self, app: web.Application) -> None:
        self._stop.set()
