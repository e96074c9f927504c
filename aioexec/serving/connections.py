"""Limits of the connections of an HTTP server: their number, and the time without a request.

aiohttp has neither: idle connections would exhaust the process's descriptors. Requests that aiohttp rejects before it finds a
handler get their reply here, as JSON like every other error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web

from aioexec.descriptors import most_connections
from aioexec.serving.application_keys import DECOMPRESSES
from aioexec.serving.json_errors import answer_of

_HEAD_SECONDS: Final = 10.0
"""Seconds from the start of a connection until the head of its first request."""

_IDLE_SECONDS: Final = 75.0
"""Seconds from the end of a request's handler until the reply is sent and the head of the next request has arrived."""

GRACE_SECONDS: Final = 1.0
"""Seconds that requests under way may take after the server stops, before they are cancelled."""


@asynccontextmanager
async def connections_of(app: web.Application, grace: float = GRACE_SECONDS) -> AsyncIterator[Connections]:
    """The connections of an application's server; they are closed with it.

    A client that disconnects cancels its request. At the end requests under way have `grace` seconds.
    """
    app[DECOMPRESSES] = True
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=grace)
    await runner.setup()
    assert runner.server is not None, "it was set up"
    connections = Connections(runner.server)
    try:
        yield connections
    finally:
        await runner.cleanup()
        connections.abort()


class Connections:
    """The open connections of a server; a call makes the protocol of a new one.

    Attributes:
        waiting: those without a request, with the timers that close them, oldest first.

    Constant: `_handle`, the handler of requests that `_handle_request` wraps; `_most`, the limit of connections. Changing:
    `_open`, the open connections.
    """

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._handle = server.request_handler
        server.request_handler = self._handle_request
        self._most = most_connections()
        self._open: set[_Connection] = set()
        self.waiting: dict[_Connection, asyncio.TimerHandle] = {}

    def __call__(self) -> _Connection:
        return _Connection(self, self._server)

    def on_connection_made(self, connection: _Connection) -> None:
        """Add a connection; beyond the limit, close the one that has been idle longest, which may be the new one."""
        self._open.add(connection)
        self.wait(connection, _HEAD_SECONDS)
        if len(self._open) > self._most:
            self._close(next(iter(self.waiting)))

    def wait(self, connection: _Connection, seconds: float) -> None:
        """Close an open connection after `seconds` without a request."""
        if connection in self._open:
            loop = asyncio.get_running_loop()
            self.waiting[connection] = loop.call_later(seconds, self._close, connection)

    def end_wait(self, connection: _Connection) -> None:
        """Cancel the timer of a connection: it has a request, or is lost."""
        timer = self.waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def on_connection_lost(self, connection: _Connection) -> None:
        self._open.discard(connection)
        self.end_wait(connection)

    def abort(self) -> None:
        """Close all connections at once."""
        for connection in [*self._open]:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        self.on_connection_lost(connection)
        connection.abort()

    async def _handle_request(self, request: web.BaseRequest) -> web.StreamResponse:
        connection: Any = request.protocol
        self.end_wait(connection)
        try:
            return await self._handle(request)
        except Exception as error:
            return answer_of(error)
        finally:
            self.wait(connection, _IDLE_SECONDS)


class _Connection(web.RequestHandler):
    """aiohttp's protocol of one connection, which enters itself in its `_connections`.

    It is aborted instead of waiting for the peer to read.
    """

    __slots__ = ("_connections", "_socket")

    def __init__(self, connections: Connections, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, access_log=None, auto_decompress=False)  # type: ignore[arg-type]
        self._connections = connections
        self._socket: Any = None  # the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport
        super().connection_made(transport)
        self._connections.on_connection_made(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.on_connection_lost(self)
        super().connection_lost(exc)
        self._socket = None

    def abort(self) -> None:
        """Close the connection at once, and discard unsent data."""
        if self._socket is not None:
            self._socket.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Reply to malformed HTTP."""
        answer = web.json_response({"error": message or str(exc)}, status=status)
        answer.force_close()
        return answer
