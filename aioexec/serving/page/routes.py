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
from collections.abc import Iterable
from contextlib import AbstractContextManager, aclosing
from typing import Any, Final

from aiohttp import web

from aioexec.errors import ResourceExhaustedError
from aioexec.in_thread import in_thread
from aioexec.serving.application_keys import REPOSITORY
from aioexec.serving.models.served_version import ServedVersion
from aioexec.serving.off_loop import run_sized
from aioexec.serving.page.descriptions import describe_graph, describe_models, graph_of
from aioexec.serving.page.live import samples
from aioexec.serving.page.static_files import StaticFiles
from aioexec.serving.page.tracing import run_traced
from aioexec.serving.request_body import read_json
from aioexec.serving.rest.predict import decode_request
from aioexec.serving.rest.values import json_of, written

_MOST_STREAMS: Final = 16
"""The most open streams of samples: each one has a heartbeat of its own."""

_VERSION: Final = "/page/models/{name}/versions/{version:[0-9]{1,19}}"


def add_routes(app: web.Application) -> None:
    """Add the page's routes to an application."""
    page = _Page()
    app.router.add_get("/", page.index)
    app.router.add_get("/page/live", page.live)
    app.router.add_get("/page/models", _models)
    app.router.add_get(_VERSION + "/graph", _graph)
    app.router.add_post(_VERSION + "/trace", _trace)
    app.router.add_get(r"/page/{file:[a-z_]+\.[a-z]+}", page.file)
    app.on_shutdown.append(page.stop)


class _Page:
    """The handlers of one application."""

    def __init__(self) -> None:
        self._files = StaticFiles()
        self._streams = 0  # the number of open streams of samples
        self._stop = asyncio.Event()  # set when the application shuts down: streams have no end of their own

    async def index(self, request: web.Request) -> web.Response:
        """Return the page."""
        return await self._files.reply("index.html")

    async def file(self, request: web.Request) -> web.Response:
        """Return a file of the page."""
        return await self._files.reply(request.match_info["file"])

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Send a sample of measurements each second."""
        if self._streams >= _MOST_STREAMS:
            raise ResourceExhaustedError(f"the page is open {_MOST_STREAMS} times already")
        reply = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        self._streams += 1
        try:
            await reply.prepare(request)
            async with aclosing(samples(request.app[REPOSITORY], self._stop)) as measured:
                async for sample in measured:
                    await reply.write(f"data: {json.dumps(sample)}\n\n".encode())
        except ConnectionResetError:
            pass  # the page was closed
        finally:
            self._streams -= 1
        return reply

    async def stop(self, app: web.Application) -> None:
        self._stop.set()


async def _models(request: web.Request) -> web.Response:
    """Describe the models for the page."""
    return web.json_response(describe_models(request.app[REPOSITORY]))


async def _graph(request: web.Request) -> web.Response:
    """Return the nodes of a version's graph."""
    with _lease(request) as served:
        operations = graph_of(served.signatures)
    nodes = await in_thread(lambda: encode_array(describe_graph(operations)))
    return _json(b'{"nodes":%s}' % nodes)


async def _trace(request: web.Request) -> web.Response:
    """Run a traced step of a signature."""
    body = await read_json(request)
    with _lease(request) as served:
        asked = await run_sized(len(body), lambda: decode_request(served, body))
        outputs, timeline = await run_traced(served.signature(asked.signature_name), asked.inputs)
        encoded = await in_thread(
            lambda: written({name: json_of(name, array) for name, array in outputs.items()})
        )
        events = await in_thread(encode_array, timeline)
    return _json(b'{"outputs":%s,"timeline":%s}' % (encoded, events))


def encode_array(elements: Iterable[Any]) -> bytes:
    """Serialize an array in a thread: element by element, since one call for all would keep the interpreter lock."""
    return b"[%s]" % b",".join(json.dumps(element, separators=(",", ":")).encode() for element in elements)


def _lease(request: web.Request) -> AbstractContextManager[ServedVersion]:
    name, version = request.match_info["name"], int(request.match_info["version"])
    return request.app[REPOSITORY].lease(name, version=version)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
