"""The transport of servers and sessions: gRPC with any peer, and the fast path between two peers that support it.

A listener listens for both. A channel first calls `Peer/Hello` over gRPC. TensorFlow does not have that method, and the channel
keeps using gRPC; a listener of ours replies with the address of its fast path. If that cannot be reached (a firewall, a proxy),
the channel keeps using gRPC too. After a lost connection the next call repeats this, since the peer may be another one by then.
"""

from __future__ import annotations

import asyncio
import enum
import secrets
import ssl
from collections.abc import Callable
from typing import Final

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.fast import frames
from aioexec.distributed.transport.fast.calling import CallingConnection
from aioexec.distributed.transport.fast.transport import FastListener, connect
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import (
    Answered,
    Call,
    Channel,
    Handlers,
    Listener,
    Notify,
    Payload,
    Posted,
    Transport,
)
from aioexec.errors import DeadlineExceededError, UnavailableError, UnimplementedError
from aioexec.formats.protos import HelloRequest, HelloResponse
from aioexec.in_thread import in_thread

_HELLO: Final = "Peer/Hello"
_CONNECTING_SECONDS: Final = 1.0
"""The timeout of a connection to the fast path; after that only gRPC is used."""


class NegotiatedTransport(Transport):
    """gRPC, and the fast path if both sides support it.

    Args:
        security: None: from the environment.
        limits: bounds on received messages.
        bits: the source of the numbers of listeners.
    """

    def __init__(
        self,
        security: Security | None = None,
        limits: Limits | None = None,
        bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        self.security = Security.from_environment() if security is None else security
        self.limits = limits or Limits()
        self._bits = bits
        # Makes the gRPC half of channels and listeners.
        self._grpc = GrpcTransport(self.security, self.limits)
        self._context: ssl.SSLContext | None = None  # of calls over TLS; made at the first connection

    def channel(self, address: str) -> NegotiatedChannel:
        return NegotiatedChannel(address, self._grpc.channel(address), self)

    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> NegotiatedListener:
        self.security.check_listening(address)
        host = host_of(address)
        fast = None
        if host is not None:
            fast = FastListener(host, self._bits(64), handlers, self.security, self.limits, on_peer_gone)
        return NegotiatedListener(self._grpc, address, handlers, fast, on_peer_gone)

    async def connect(self, host: str, hello: HelloResponse) -> CallingConnection:
        """Make a fast-path connection to the peer that sent this `hello`; see `connect` of the fast transport."""
        if self._context is None and self.security.calls_tls:
            self._context = await in_thread(self.security.calling_context)
        return await connect(host, hello.port, hello.listener, self.security, self.limits, self._context)


def host_of(address: str) -> str | None:
    """The host of "host:port", None if an address has another form (a path, a name with a scheme)."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:
        return None
    if host.startswith("["):
        return host.removeprefix("[").removesuffix("]")
    return host if ":" not in host else None


class _State(enum.Enum):
    """The states of a channel. The next call after a loss notices it, and negotiates.

    UNDECIDED ── no fast path ──▶ GRPC ── gRPC loses the peer ──▶ UNDECIDED
    UNDECIDED ── connected ──▶ FAST ── the connection is lost ──▶ UNDECIDED
    each of them ── close ──▶ CLOSED
    """

    UNDECIDED = "undecided"
    FAST = "fast"
    GRPC = "grpc"
    CLOSED = "closed"


class NegotiatedChannel(Channel):
    """Calls over the fast path or gRPC.

    Constant: `_host`, None for an address of a form that has no fast path; `_grpc`, the channel for it. Changing: `_state`;
    `_connection`, the fast path, set exactly while FAST; it is made under the lock `_connecting`.
    """

    def __init__(self, address: str, grpc: Channel, transport: NegotiatedTransport) -> None:
        super().__init__(address)
        self._grpc = grpc
        self._transport = transport  # makes connections of the fast path
        self._host = host_of(address)
        self._state = _State.UNDECIDED
        self._connection: CallingConnection | None = None
        self._connecting = asyncio.Lock()

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        connection = self._open_connection()
        if connection is not None:
            return await connection.call(method, request, timeout)
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                connection = await self._negotiate(timeout, wait_for_ready)
        except TimeoutError:
            raise DeadlineExceededError(f"{self.address} could not be reached within the timeout") from None
        if deadline is not None:
            timeout = max(deadline - loop.time(), 0.0)
        if connection is not None:
            return await connection.call(method, request, timeout)
        try:
            return await self._grpc.call(method, request, timeout, wait_for_ready=wait_for_ready)
        except UnavailableError:
            if self._state is _State.GRPC:
                self._state = _State.UNDECIDED
            raise

    def post(self, method: str, request: Payload, answered: Answered) -> Posted | None:
        connection = self._connection
        return None if connection is None else connection.post(method, request, answered)

    async def follow(self, method: str, request: Payload, notify: Notify) -> None:
        connection = await self._negotiate(None, False)
        if connection is None:
            await super().follow(method, request, notify)
        else:
            await connection.call(method, request, None, notify)

    def _open_connection(self) -> CallingConnection | None:
        """The connection of the fast path, unless it is lost."""
        connection = self._connection
        return connection if connection is not None and connection.is_open else None

    async def _negotiate(self, timeout: float | None, wait_for_ready: bool) -> CallingConnection | None:
        """Return the fast path, connected first if it is not; None if there is none.

        Raises:
            UnavailableError: the channel is closed, or the peer cannot be reached.
        """
        connection = self._open_connection()
        if connection is not None:
            return connection
        self._check_open()
        if self._state is _State.GRPC or self._host is None:
            return None
        hello = Payload(HelloRequest(version=[frames.VERSION]))
        try:
            answer = await self._grpc.call(_HELLO, hello, timeout, wait_for_ready=wait_for_ready)
        except UnimplementedError:
            self._use_grpc()
            return None
        if answer.message.version != frames.VERSION or not answer.message.port:
            self._use_grpc()
            return None
        async with self._connecting:
            return await self._connect_fast(self._host, answer.message)

    async def _connect_fast(self, host: str, hello: HelloResponse) -> CallingConnection | None:
        connection = self._open_connection()
        if connection is not None:
            return connection
        self._check_open()
        try:
            async with asyncio.timeout(_CONNECTING_SECONDS):
                connection = await self._transport.connect(host, hello)
        except (TimeoutError, UnavailableError):
            self._use_grpc()
            return None
        if self._state is _State.CLOSED:  # meanwhile
            await self._disconnect(connection)
            self._check_open()
        self._connection, self._state = connection, _State.FAST
        return connection

    def _use_grpc(self) -> None:
        """Record that there is no fast path, unless another call has connected, or closed the channel, meanwhile."""
        if self._state is not _State.CLOSED and self._open_connection() is None:
            self._connection, self._state = None, _State.GRPC

    async def _disconnect(self, connection: CallingConnection) -> None:
        connection.end(f"the channel to {self.address} was closed")
        connection.abort()
        await connection.lost

    def _check_open(self) -> None:
        if self._state is _State.CLOSED:
            raise UnavailableError(f"the channel to {self.address} was closed")

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        self._state = _State.CLOSED
        try:
            if connection is not None:
                await self._disconnect(connection)
        finally:
            await self._grpc.close()


class NegotiatedListener(Listener):
    """Listens for gRPC, at `address` by `_grpc`, and for the fast path; `_fast` is None if the address has none."""

    def __init__(
        self,
        grpc: GrpcTransport,
        address: str,
        handlers: Handlers,
        fast: FastListener | None,
        on_peer_gone: Callable[[str], None] | None,
    ) -> None:
        self._fast = fast
        self._grpc = grpc.listener(address, {**handlers, _HELLO: self._hello}, on_peer_gone)
        self.address = self._grpc.address

    async def _hello(self, request: Payload, call: Call) -> Payload:
        if self._fast is None or frames.VERSION not in request.message.version:
            return Payload(HelloResponse())
        return Payload(
            HelloResponse(version=frames.VERSION, port=self._fast.port, listener=self._fast.number)
        )

    async def start(self) -> None:
        if self._fast is not None:
            await self._fast.start()
        try:
            await self._grpc.start()
        except BaseException:
            if self._fast is not None:
                await self._fast.stop()
            raise

    def drain(self) -> None:
        self._grpc.drain()

    async def stop(self, grace: float | None = None) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._grpc.stop(grace))
            if self._fast is not None:
                group.create_task(self._fast.stop(grace))
