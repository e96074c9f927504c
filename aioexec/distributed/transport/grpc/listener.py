"""The server side of gRPC.

A call without the token, or during `stop`, is refused before its request is read. Every other call is one task, which is
cancelled if the caller is lost; `stop` waits for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError

from aioexec.descriptors import most_connections
from aioexec.distributed.security.peer_users import admits_tcp
from aioexec.distributed.security.proofs import CallProofs
from aioexec.distributed.security.security import Security, addresses_of
from aioexec.distributed.transport.grpc.accepting import AcceptingServer
from aioexec.distributed.transport.grpc.channel import message_options
from aioexec.distributed.transport.grpc.health import Health
from aioexec.distributed.transport.grpc.rpc_errors import Status, cancelled_error, status_of, stopped_error
from aioexec.distributed.transport.grpc.services import Services, Streaming, Unary
from aioexec.distributed.transport.loop_end import LoopEndGuard
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Call, Listener
from aioexec.errors import (
    CancelledError,
    InternalError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
    from_exception,
)
from aioexec.formats.protos import HealthCheckRequest, HealthCheckResponse

_FLUSH_SECONDS: Final = 0.5
"""The time to send the last replies when nothing else is left."""

_KEEPALIVE_MILLISECONDS: Final = 10_000
"""The interval of keepalive pings on an idle connection, and the timeout of each."""

_HANDSHAKE_MILLISECONDS: Final = 5_000
"""The time for a new connection to complete the HTTP/2 handshake. gRPC's default of two minutes lets idle ones exhaust the
descriptors."""

_IDLE_MILLISECONDS: Final = 300_000
"""The time without a call after which a connection is closed; the caller's gRPC reconnects for its next call."""

_HEALTH: Final = "/grpc.health.v1.Health/"

_log = logging.getLogger(__name__)

T = TypeVar("T")


class GrpcListener(Listener):
    """A gRPC server of services. It also serves health checks; a single check needs no token, a watch does.

    gRPC does not report the end of a connection, so `on_peer_gone` is never called; the calls of a lost peer are cancelled.

    Args:
        admits_all_users: admit processes of every user of this machine, also without a token or a certificate.

    Constant: `address`, with the assigned port; `_answers`, the services in gRPC's form, by path.
    """

    def __init__(
        self,
        address: str,
        services: Services,
        security: Security,
        limits: Limits,
        *,
        admits_all_users: bool = False,
    ) -> None:
        self._answers = {path: _unary(self._answer(path, method)) for path, method in services.unary.items()}
        for path, method in services.streaming.items():
            self._answers[path] = grpc.stream_stream_rpc_method_handler(self._answer_stream(path, method))
        self._security = security  # who may call, and how it is proved
        # None: no proofs of a token are needed.
        self._proofs = None if security.token is None else CallProofs(security.token)
        # Of this machine, to identify a caller's user; None: all users may call.
        all_users = admits_all_users or security.trusts_all_users
        self._own_addresses = None if all_users else _own_addresses(_host(address))
        self._health = Health(services.names())
        self._calls: set[asyncio.Task[Any]] = set()  # calls from their arrival until their reply is sent
        self._takes_calls = True  # reset by `stop`
        self._given_up = False  # whether `stop` has cancelled the calls under way
        self._is_started = False  # set by `start`, never reset
        self._guard: LoopEndGuard | None = None  # from the start until the end of `stop`
        host = _host(address)
        server = AcceptingServer(_options(limits))
        server.add_generic_rpc_handlers((_Router(self),))
        self.address = f"{host}:{_bind(server, address, security)}"
        self._server: AcceptingServer | None = (
            server  # None once stopped: it refers to this object, and the port is freed when it is collected
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
            await self.start()  # gRPC releases the port only after a start
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
        """The handler of a call in gRPC's form, or None."""
        if method == f"{_HEALTH}Check":
            return _unary(self._check_health)
        if not self._admits_call(method, metadata):
            return _refusing_handler(UnauthenticatedError("the call has no token, or a wrong one"))
        if not self._takes_calls:
            return _refusing_handler(stopped_error())
        if method == f"{_HEALTH}Watch":
            return grpc.unary_stream_rpc_method_handler(self._watch_health)
        return self._answers.get(method)

    def _admits_call(self, path: str, metadata: Any) -> bool:
        """Whether a call carries the token or a proof of it, if there is a token."""
        if self._proofs is None:
            return True
        given = _authorization(metadata)
        return self._security.is_token_of(given) or self._proofs.admits(given, path)

    def _check_user(self, context: Any) -> None:
        """Raise PermissionDeniedError if users must be checked and the caller is a process of another user."""
        if self._own_addresses is None:
            return
        kind, _, peer = unquote(context.peer()).partition(":")
        if kind == "unix":
            return  # the permissions of the socket's file decide access
        host, _, port = peer.rpartition(":")
        port_here = int(self.address.rpartition(":")[2])
        if not admits_tcp((host.strip("[]"), int(port)), self._own_addresses, port_here):
            raise PermissionDeniedError("this server admits processes of its own user and root only")

    def _answer(self, path: str, method: Unary) -> Callable[[bytes, Any], Awaitable[bytes]]:
        async def answer(data: bytes, context: Any) -> bytes:
            return await self._serve(path, context, lambda call: method(data, call)) or b""

        return answer

    def _answer_stream(self, path: str, method: Streaming) -> Callable[[Any, Any], Awaitable[None]]:
        async def answer(requests: Any, context: Any) -> None:
            await self._serve(path, context, lambda call: method(requests, partial(_send, context), call))

        return answer

    async def _serve(self, path: str, context: Any, work: Callable[[Call], Awaitable[T]]) -> T | None:
        """Await the work of one call; if it fails, set the status and return None."""
        if not self._takes_calls:
            _fail(context, status_of(stopped_error()))
            return None
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._calls.add(task)
        try:
            self._check_user(context)
            metadata = context.invocation_metadata()
            return await work(Call(context.peer(), _deadline(context), metadata=metadata))
        except asyncio.CancelledError:
            if task.cancelling() and not self._given_up:
                raise
            # otherwise the caller has not cancelled, and would wait for the reply forever
            status = status_of(stopped_error() if self._given_up else cancelled_error())
        except Exception as error:
            status = status_of(_error_of_handler(path, error))
        finally:
            self._calls.discard(task)
        _fail(context, status)
        return None

    async def _check_health(self, data: bytes, context: Any) -> bytes:
        try:
            status = self._health.check(_service(data))
        except OpError as error:
            _fail(context, status_of(error))
            return b""
        return HealthCheckResponse(status=status).SerializeToString()

    async def _watch_health(self, data: bytes, context: Any) -> AsyncIterator[bytes]:
        try:
            service = _service(data)
        except InternalError as error:
            _fail(context, status_of(error))
            return
        async for status in self._health.watch(service):
            yield HealthCheckResponse(status=status).SerializeToString()


class _Router(grpc.GenericRpcHandler):
    """Finds the handler of a call in its `_listener`."""

    def __init__(self, listener: GrpcListener) -> None:
        self._listener = listener

    def service(self, handler_call_details: Any) -> Any:
        return self._listener.find(handler_call_details.method, handler_call_details.invocation_metadata)


def _options(limits: Limits) -> tuple[tuple[str, int], ...]:
    return (
        *message_options(limits),
        ("grpc.so_reuseport", 0),  # otherwise two servers could share a port, and its calls
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
        ("grpc.max_connection_idle_ms", _IDLE_MILLISECONDS),
        ("grpc.max_allowed_incoming_connections", most_connections()),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.keepalive_timeout_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.http2.ping_timeout_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.http2.max_pings_without_data", 0),  # no limit on keepalive pings
    )


def _host(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not (
        host and port.isascii() and port.isdigit() and int(port) < 1 << 16
    ):  # gRPC takes a port modulo 65536
        raise UnavailableError(f"cannot listen at {address!r}: expected host:port")
    return host


def _own_addresses(host: str) -> set[str]:
    """The addresses at which gRPC listens for a loopback host: for `localhost` both, whatever the resolver returns."""
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
    """The metadata `authorization`; "" if it is missing or not ASCII."""
    given = next((value for key, value in metadata if key == "authorization"), "")
    text = given.decode("ascii", "replace") if isinstance(given, bytes) else str(given)
    return text if text.isascii() else ""


def _unary(behaviour: Any) -> Any:
    return grpc.unary_unary_rpc_method_handler(behaviour)


def _refusing_handler(error: OpError) -> Any:
    """A handler that fails without reading the request: gRPC reads a stream on demand only."""

    async def turn_away(requests: Any, context: Any) -> None:
        await context.abort(*status_of(error))

    return grpc.stream_unary_rpc_method_handler(turn_away)


async def _send(context: Any, reply: bytes) -> None:
    """Send a reply of a stream.

    Raises:
        CancelledError: the caller has gone; gRPC cancels the call a moment later.
    """
    try:
        await context.write(reply)
    except grpc.aio.InternalError as error:
        raise CancelledError("the caller has gone") from error


def _fail(context: Any, status: Status) -> None:
    """End a call with an error. `abort` is not used: its exception would keep request and reply until they are collected."""
    code, message, metadata = status
    context.set_code(code)
    context.set_details(message)
    context.set_trailing_metadata(metadata)


def _error_of_handler(path: str, error: Exception) -> OpError:
    if not isinstance(error, OpError):
        _log.error("%s failed with an exception that is no OpError", path, exc_info=error)
    return from_exception(error)


def _deadline(context: Any) -> float | None:
    left = context.time_remaining()
    return None if left is None else asyncio.get_running_loop().time() + left


def _service(data: bytes) -> str:
    try:
        return HealthCheckRequest.FromString(data).service
    except DecodeError as error:
        raise InternalError("Unable to parse request") from error
