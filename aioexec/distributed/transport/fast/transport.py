"""Connecting and listening on the fast path."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from itertools import count
from typing import Final

from aioexec.distributed.security.peer_users import admits_local, admits_tcp, is_own_address
from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.answering import GREETING_SECONDS, AnsweringConnection
from aioexec.distributed.transport.fast.calling import CallingConnection
from aioexec.distributed.transport.fast.events import Greeting
from aioexec.distributed.transport.fast.sockets import listening_socket, local_connection, local_socket
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Handlers
from aioexec.errors import FailedPreconditionError, OpError, PermissionDeniedError, UnavailableError
from aioexec.in_thread import in_thread

_FAREWELL_SECONDS: Final = 0.2
"""Seconds that a closing connection may take to send its buffer; then it is aborted."""


_MOST_UNAUTHENTICATED: Final = 512
"""The most unauthenticated connections; beyond that, the oldest of them is closed."""


async def connect(
    host: str, port: int, listener: int, security: Security, limits: Limits, context: ssl.SSLContext | None
) -> CallingConnection:
    """Connect to a listener, identified by its number.

    A listener of this machine is reached by its Unix socket, if that belongs to this user or root.

    Raises:
        UnavailableError: no listener is at the address, or another one than was meant.
        UnauthenticatedError: the listener does not have the token.
    """
    name, loop = f"{host}:{port}", asyncio.get_running_loop()

    def new_connection() -> CallingConnection:
        return CallingConnection(name, limits, security.token)

    here = local_connection(listener) if context is None and await _is_this_machine(host) else None
    try:
        if here is None:
            _, connection = await loop.create_connection(new_connection, host, port, ssl=context)
        else:
            _, connection = await loop.create_unix_connection(new_connection, sock=here)
    except OSError as error:  # including ssl.SSLError
        raise UnavailableError(f"cannot connect to {name}: {error}") from error
    try:
        await connection.greet(listener)
    except BaseException:
        connection.abort()
        raise
    return connection


async def _is_this_machine(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(is_own_address(str(address[0])) for *_, address in found)


def _is_of_trusted_user(connected: socket.socket) -> bool:
    if connected.family == socket.AF_UNIX:
        return admits_local(connected.fileno())
    host, port = connected.getsockname()[:2]
    return admits_tcp(connected.getpeername()[:2], [host], port)


class FastListener:
    """Listens for connections at a port of its own, `port`, known after `start`, and on a Unix socket.

    Args:
        host: the interface, an address or a name.
        number: a random number that identifies this listener.
        handlers, security, limits: of its connections.
        on_peer_gone: called with the `Call.peer` of each connection that has ended.
    """

    def __init__(
        self,
        host: str,
        number: int,
        handlers: Handlers,
        security: Security,
        limits: Limits,
        on_peer_gone: Callable[[str], None] | None = None,
    ) -> None:
        self.number = number
        self._handlers = handlers
        self._security = security
        self._limits = limits
        self._on_peer_gone = on_peer_gone
        self._host = host
        self.port = 0
        self._servers: list[asyncio.Server] = []  # none before `start` and after `stop`
        self._connections: set[AnsweringConnection] = set()
        self._unknown: dict[AnsweringConnection, None] = {}  # unauthenticated connections, oldest first
        self._tasks: set[asyncio.Task[None]] = set()  # of calls, until they are done
        self._answers: set[Answer] = set()  # of calls without a task
        self._peers = count(1)  # numbers of connections
        self._is_stopped = False  # set by `stop`, never reset

    async def start(self) -> None:
        """Begin to accept connections.

        Raises:
            UnavailableError: cannot listen at the interface.
        """
        context = None
        if self._security.serves_tls:
            context = await in_thread(self._security.listening_context)
        bound = listening_socket(self._host)
        self.port = bound.getsockname()[1]
        here = local_socket(self.number) if context is None else None
        loop = asyncio.get_running_loop()
        try:
            within = None if context is None else GREETING_SECONDS
            self._servers.append(
                await loop.create_server(
                    self._new_connection, sock=bound, ssl=context, ssl_handshake_timeout=within
                )
            )
            if here is not None:
                self._servers.append(await loop.create_unix_server(self._new_connection, sock=here))
        except BaseException:
            await self.stop()
            for each in (bound, here):
                if each is not None:
                    each.close()
            raise

    def _new_connection(self) -> AnsweringConnection:
        peer = f"fast:{self.number:016x}/{next(self._peers)}"
        return AnsweringConnection(
            peer,
            self._handlers,
            self._limits,
            self._refusal_of,
            self._security.token,
            self._tasks,
            self._answers,
            self._on_connection_made,
            self._on_admitted,
            self._on_connection_lost,
        )

    def _on_connection_made(self, connection: AnsweringConnection) -> None:
        self._connections.add(connection)
        if self._is_stopped:
            connection.abort()  # during the TLS handshake
        self._unknown[connection] = None
        if len(self._unknown) > _MOST_UNAUTHENTICATED:
            oldest = next(iter(self._unknown))
            del self._unknown[oldest]
            oldest.abort()

    def _refusal_of(self, connection: AnsweringConnection, greeting: Greeting) -> OpError | None:
        if greeting.version != frames.VERSION:
            return FailedPreconditionError(f"expected version {frames.VERSION}, got {greeting.version}")
        if greeting.listener != self.number:
            return FailedPreconditionError("this is another listener than the one that is meant")
        if not self._security.trusts_all_users and not _is_of_trusted_user(connection.socket()):
            return PermissionDeniedError("this listener admits its own user and root only")
        return None

    def _on_admitted(self, connection: AnsweringConnection) -> None:
        self._unknown.pop(connection, None)

    def _on_connection_lost(self, connection: AnsweringConnection) -> None:
        self._connections.discard(connection)
        self._unknown.pop(connection, None)
        if self._on_peer_gone is not None:
            self._on_peer_gone(connection.peer)

    async def stop(self, grace: float | None = None) -> None:
        """Stop taking calls, wait for those under way, and cancel the rest after `grace` seconds."""
        self._is_stopped = True
        servers, self._servers = self._servers, []
        for each in servers:
            each.close()
        for connection in self._connections:
            connection.takes_calls = False
        try:
            if grace:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(grace):
                        await self._wait_until_answered()
            await self._close_connections()
        finally:
            self._cancel_calls()
            for connection in self._connections:
                connection.abort()
        for each in servers:
            await each.wait_closed()

    async def _wait_until_answered(self) -> None:
        """Wait until all calls are answered."""
        await self._wait_for_calls()
        for connection in list(self._connections):
            await connection.flush()

    async def _close_connections(self) -> None:
        """Cancel the remaining calls and close the connections, and wait for them."""
        for connection in list(self._connections):
            connection.end("the server is shutting down")
        lost = [connection.lost for connection in self._connections]
        self._cancel_calls()
        if lost:
            await asyncio.wait(lost, timeout=_FAREWELL_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        if lost:
            await asyncio.wait(lost)
        await self._wait_for_calls()

    async def _wait_for_calls(self) -> None:
        """Wait for all calls; a finished answer may need a task to be sent."""
        while under_way := [*self._tasks, *[answer.as_future() for answer in self._answers]]:
            await asyncio.wait(under_way)

    def _cancel_calls(self) -> None:
        for task in self._tasks:
            task.cancel()
        for answer in list(self._answers):
            answer.cancel()
