"""The answering side of gRPC.

A call without the token, or one that comes while the listener stops, is refused before its request is read. Every other call is
one task, which is cancelled if the caller is lost; `stop` waits for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError

from aioexec.descriptors import most_connections
from aioexec.distributed.security.peer_users import admits_tcp
from aioexec.distributed.security.proofs import CallProofs
from aioexec.distributed.security.security import Security, addresses_of
from aioexec.distributed.server.health import Health
from aioexec.distributed.server.loop_end import LoopEndGuard
from aioexec.distributed.transport.grpc.accepting import AcceptingServer
from aioexec.distributed.transport.grpc.channel import message_options
from aioexec.distributed.transport.grpc.rpc_errors import Status, cancelled, status_of, stopped
from aioexec.distributed.transport.message_codec import decoded_request, encoded_reply
from aioexec.distributed.transport.methods import path_of
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Call, Handler, Handlers, Listener
from aioexec.errors import (
    InternalError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    from_exception,
)
from aioexec.formats.protos import HealthCheckRequest, HealthCheckResponse

_FLUSH_SECONDS: Final = 0.5
"""How long replies that are being sent may take when nothing else is left."""

_KEEPALIVE_MILLISECONDS: Final = 10_000
"""Between questions on a silent connection whether the caller's machine is still there, and for the answer."""

_HANDSHAKE_MILLISECONDS: Final = 5_000
"""For a new connection, until it speaks HTTP/2; then it is closed. gRPC's default of two minutes lets silent ones use up all
descriptors."""

_IDLE_MILLISECONDS: Final = 300_000
"""Without a call, after which a connection is closed; the caller's gRPC makes another for its next call."""

_HEALTH: Final = "/grpc.health.v1.Health/"

_log = logging.getLogger(__name__)


class GrpcListener(Listener):
    """A gRPC server that hands calls to handlers. It answers health checks; a single check needs no token, a watch does.

    gRPC does not report the end of a connection, so `on_peer_gone` is never called; the calls of a lost peer are cancelled.
    """

    def __init__(self, address: str, handlers: Handlers, security: Security, limits: Limits) -> None:
        self._answers = {
            path_of(method): _unary(self._answer(method, handler)) for method, handler in handlers.items()
        }
        self._security = security
        self._limits = limits
        self._proofs = None if security.token is None else CallProofs(security.token)
        self._own_addresses = None if security.trusts_all_users else _own_addresses(_host(address))
        self._health = Health({path_of(method).split("/")[1] for method in handlers})
        self._calls: set[asyncio.Task[Any]] = set()  # those in a handler, or on the way there and back
        self._takes_calls = True
        self._given_up = False  # whether calls under way are cancelled because we stop
        self._is_started = False
        self._guard: LoopEndGuard | None = None
        host = _host(address)
        server = AcceptingServer(_options(limits))
        server.add_generic_rpc_handlers((_Router(self),))
        self.address = f"{host}:{_bind(server, address, security)}"
        self._server: AcceptingServer | None = (
            server  # None once stopped: it refers to us, and only its end frees the port
        )

    async def start(self) -> None:
        assert self._server is not None, "not stopped"
        self._is_started = True
        if self._guard is None:
            self._guard = LoopEndGuard(self.stop, f"guard of the listener at {self.address}")
        await self._server.start()

    def drain(self) -> None:
        self._health.drain()

    async def stop(self, grace: float | None = None) -> None:
        server = self._server
        if server is None:
            return
        self.drain()
        self._takes_calls = False
        if not self._is_started:
            await self.start()  # gRPC gives the port back only then
        if self._calls and grace:
            await asyncio.wait(self._calls, timeout=grace)
        self._given_up = True
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls)
        await server.stop(_FLUSH_SECONDS)
        self._server = None
        assert self._guard is not None, "it was started, if only to be stopped"
        await self._guard.end()

    def find(self, method: str, metadata: Any) -> Any:
        """The handler of a call, as gRPC describes handlers, or None."""
        if method == f"{_HEALTH}Check":
            return _unary(self._check_health)
        if not self._admits_call(method, metadata):
            return _turned_away(UnauthenticatedError("the call has no token, or a wrong one"))
        if not self._takes_calls:
            return _turned_away(stopped())
        if method == f"{_HEALTH}Watch":
            return grpc.unary_stream_rpc_method_handler(self._watch_health)
        return self._answers.get(method)

    def _admits_call(self, path: str, metadata: Any) -> bool:
        """Whether a call carries the token or proves it, where there is one."""
        if self._proofs is None:
            return True
        said = _authorization(metadata)
        return self._security.is_token_of(said) or self._proofs.admits(said, path)

    def _check_user(self, context: Any) -> None:
        """Raise PermissionDeniedError if the caller is a process of another user, and all that is known is that it is here."""
        if self._own_addresses is None:
            return
        kind, _, peer = unquote(context.peer()).partition(":")
        if kind == "unix":
            return  # access is decided by the permissions of the socket's file
        host, _, port = peer.rpartition(":")
        port_here = int(self.address.rpartition(":")[2])
        if not admits_tcp((host.strip("[]"), int(port)), self._own_addresses, port_here):
            raise PermissionDeniedError("this server admits processes of its own user and root only")

    def _answer(self, method: str, handler: Handler) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def answer(data: bytes, context: Any) -> bytes:
            if not self._takes_calls:
                return _failed(context, status_of(stopped()))
            task = asyncio.current_task()
            assert task is not None, "a coroutine runs in a task"
            self._calls.add(task)
            try:
                self._check_user(context)
                request = await decoded_request(method, data, self._limits)
                reply = await handler(request, Call(context.peer(), _deadline(context)))
                return await encoded_reply(method, reply)
            except asyncio.CancelledError:
                if task.cancelling() and not self._given_up:
                    raise
                # otherwise the caller is still there, and would wait for ever
                status = status_of(stopped() if self._given_up else cancelled())
            except Exception as error:
                status = status_of(_from_handler(method, error))
            finally:
                self._calls.discard(task)
            return _failed(context, status)

        return answer

    async def _check_health(self, data: bytes, context: Any) -> bytes:
        try:
            status = self._health.check(_service(data))
        except OpError as error:
            return _failed(context, status_of(error))
        return HealthCheckResponse(status=status).SerializeToString()

    async def _watch_health(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            service = _service(data)
        except InternalError as error:
            _failed(context, status_of(error))
            return
        async for status in self._health.watch(service):
            yield HealthCheckResponse(status=status).SerializeToString()


class _Router(grpc.GenericRpcHandler):
    def __init__(self, listener: GrpcListener) -> None:
        self._listener = listener

    def service(self, handler_call_details: Any) -> Any:
        return self._listener.find(handler_call_details.method, handler_call_details.invocation_metadata)


def _options(limits: Limits) -> tuple[tuple[str, int], ...]:
    return (
        *message_options(limits),
        ("grpc.so_reuseport", 0),  # or two servers could listen at one port, and share its calls
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
        ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
        ("grpc.max_allowed_incoming_connections", most_connections()),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.http2.ping_timeout_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.http2.max_pings_without_data", 0),  # ask for as long as it takes
    )


def _host(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not (
        host and port.isascii() and port.isdigit() and int(port) < 1 << 16
    ):  # gRPC takes a port modulo 65536
        raise UnavailableError(f"cannot listen at {address!r}: expected host:port")
    return host


def _own_addresses(host: str) -> set[str]:
    """The addresses gRPC listens at for a loopback host: for `localhost` both, whatever the system's resolver returns."""
    return {"127.0.0.1", "::1", *addresses_of(host)}


def _bind(server: Any, address: str, security: Security) -> int:
    try:
        if not security.serves_tls:
            port: int = server.add_insecure_port(address)
        else:
            credentials = grpc.ssl_server_credentials(
                [(security.key, security.certificate)],
                security.ca,
                require_client_auth=security.ca is not None,
            )
            port = server.add_secure_port(address, credentials)
    except (RuntimeError, ValueError) as error:
        raise UnavailableError(f"cannot listen at {address}: {error}") from error
    return port


def _authorization(metadata: Any) -> str:
    """The metadata `authorization`; "" if there is none, or it is no ASCII text."""
    said = next((value for key, value in metadata if key == "authorization"), "")
    text = said.decode("ascii", "replace") if isinstance(said, bytes) else str(said)
    return text if text.isascii() else ""


def _unary(behaviour: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(behaviour)


def _turned_away(error: OpError) -> Any:
    """A handler that does not read what is sent: gRPC reads a stream only when it is asked to."""

    async def turn_away(requests: Any, context: Any) -> None:
        await context.abort(*status_of(error))

    return grpc.stream_unary_rpc_method_handler(turn_away)


def _failed(context: Any, status: Status) -> bytes:
    """End a call with an error. Not by `abort`: its exception would keep request and reply until they are collected."""
    code, message, metadata = status
    context.set_code(code)
    context.set_details(message)
    context.set_trailing_metadata(metadata)
    return b""


def _from_handler(method: str, error: Exception) -> OpError:
    if not isinstance(error, OpError):
        _log.error("%s failed with an exception that is no OpError", method, exc_info=error)
    return from_exception(error)


def _deadline(context: Any) -> float | None:
    left = context.time_remaining()
    return None if left is None else asyncio.get_running_loop().time() + left


def _service(data: bytes) -> str:
    try:
        return HealthCheckRequest.FromString(data).service
    except DecodeError as error:
        raise InternalError("Unable to parse request") from error
