"""`AsgiApplication`: serves an aiohttp application to an ASGI server.

Each request becomes a connection in memory to aiohttp's own protocol, so every route, limit and error is the same as over a
socket. Rejected: handlers for ASGI beside those for aiohttp, because every protocol would be written twice; requests made from
aiohttp's internal classes, because these change between its versions.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from aiohttp import web

from aioexec.errors import FailedPreconditionError
from aioexec.serving.asgi.memory_transport import MemoryTransport
from aioexec.serving.asgi.messages import Receive, Scope, Send
from aioexec.serving.asgi.request_head import encode_head, sends_chunks
from aioexec.serving.asgi.response_parser import ResponseParser
from aioexec.serving.connections import Connections, connections_of


class AsgiApplication:
    """An ASGI application (version 3) of the routes of an aiohttp application.

        served = AsgiApplication(application({"digits": model}))    # uvicorn module:served

    An ASGI server starts and stops it by the lifespan protocol. A framework that mounts it does not forward that: there, use it
    with `async with` in the framework's own lifespan.

        app = Starlette(routes=[Mount("/ml", app=served)], lifespan=lifespan)   # lifespan: async with served: yield

    A client that disconnects cancels its request. Run the ASGI server with a limit on its graceful shutdown: the page's stream
    of measurements ends only with its client.
    """

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._stack = AsyncExitStack()
        self._connections: Connections | None = None  # None outside `async with` and the lifespan

    async def __aenter__(self) -> Self:
        self._connections = await self._stack.enter_async_context(connections_of(self._app))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections = None
        await self._stack.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan.

        Raises:
            FailedPreconditionError: it is not started, or the scope is one of WebSocket.
        """
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._respond(scope, receive, send)
        else:
            raise FailedPreconditionError(f"expected HTTP requests only, got a scope of {scope['type']!r}")

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()  # lifespan.startup
        try:
            await self.__aenter__()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()  # lifespan.shutdown
        await self.__aexit__(None, None, None)
        await send({"type": "lifespan.shutdown.complete"})

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._connections is None:
            raise FailedPreconditionError(
                "AsgiApplication: not started; use `async with` in the lifespan of the application that mounts it"
            )
        head = encode_head(scope)
        info = {"peername": tuple(scope["client"]) if scope.get("client") else None}
        transport = MemoryTransport(self._connections(), info)
        try:
            async with asyncio.TaskGroup() as tasks:
                forwarding = tasks.create_task(
                    _forward_request(head, sends_chunks(scope), receive, transport)
                )
                await _forward_response(scope["method"], transport, send)
                forwarding.cancel()
        finally:
            transport.close()


async def _forward_request(head: bytes, chunked: bool, receive: Receive, transport: MemoryTransport) -> None:
    """Send the request to the protocol; close the transport when the client disconnects, which cancels the handler."""
    await transport.feed(head)
    more = True
    while (message := await receive())["type"] == "http.request" and more:
        body, more = message.get("body", b""), message.get("more_body", False)
        if chunked and body:
            body = b"%x\r\n%s\r\n" % (len(body), body)
        if chunked and not more:
            body += b"0\r\n\r\n"
        if body:
            await transport.feed(body)
    transport.close()


async def _forward_response(method: str, transport: MemoryTransport, send: Send) -> None:
    """Send the response's messages until it is complete, or the transport is closed."""
    parser = ResponseParser(method)
    while not parser.is_complete:
        data = await transport.read()
        if not data:
            break
        for message in parser.feed(data):
            try:
                await send(message)
            except OSError:  # the client has disconnected
                return
