"""Calls over gRPC, as TensorFlow's servers and clients make them: unary, tensors inside the messages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc

from aioexec.distributed.methods import METHODS, Method, path_of, put_in, taken_out
from aioexec.distributed.security import Security
from aioexec.distributed.settings import Limits
from aioexec.distributed.status import error_from, message_of
from aioexec.distributed.transport import Call, Channel, Handler, Handlers, Listener, Payload, Transport
from aioexec.errors import OpError, UnavailableError, from_exception

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
)
_MOST_BYTES = 1 << 40
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class GrpcTransport(Transport):
    """Channels and listeners of gRPC.

    Args:
        security: None for what the environment says.
    """

    def __init__(self, security: Security | None = None, limits: Limits | None = None) -> None:
        self.security = Security.from_environment() if security is None else security
        self.limits = limits or Limits()

    def channel(self, address: str) -> GrpcChannel:
        return GrpcChannel(address)

    def listener(
        self, address: str, handlers: Handlers, on_peer_gone: Callable[[str], None] | None = None
    ) -> GrpcListener:
        self.security.check_listening(address)
        return GrpcListener(address, handlers)


class GrpcChannel(Channel):
    """A gRPC channel to one peer."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._channel: grpc.aio.Channel | None = None
        self._callers: dict[str, Any] = {}

    def _caller(self, method: str) -> Any:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        caller = self._callers.get(method)
        if caller is None:
            caller = self._callers[method] = self._channel.unary_unary(
                path_of(method),
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=METHODS[method].response.FromString,
            )
        return caller

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        described = METHODS[method]
        put_in(request.message, described.sent, request.tensors)
        try:
            reply = await self._caller(method)(
                request.message, timeout=timeout, wait_for_ready=wait_for_ready
            )
        except grpc.aio.AioRpcError as error:
            raise _error_of(error, self.address) from None
        except grpc.aio.UsageError:
            raise UnavailableError(f"the channel to {self.address} was closed") from None
        return Payload(reply, taken_out(reply, described.received, _MOST_BYTES))

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel = self._channel, None
            self._callers.clear()
            await channel.close()


def _error_of(error: grpc.aio.AioRpcError, address: str) -> OpError:
    code = error.code().value[0]
    message = error.details() or f"{error.code().name} from {address}"
    return error_from(code, message)


class GrpcListener(Listener):
    """A gRPC server that hands calls to handlers."""

    def __init__(self, address: str, handlers: Handlers) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers((_Handlers(handlers),))
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise UnavailableError(f"cannot listen at {address}: {error}") from error
        self.address = f"{address.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float | None = None) -> None:
        await self._server.stop(grace)


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    def __init__(self, handlers: Handlers) -> None:
        self._made = {
            path_of(name): _served(METHODS[name], handler) for name, handler in handlers.items()
        }

    def service(self, handler_call_details: Any) -> Any:
        return self._made.get(handler_call_details.method)


def _served(method: Method, handler: Handler) -> Any:
    async def serve(request: Any, context: Any) -> Any:
        left = context.time_remaining()
        deadline = None if left is None else asyncio.get_running_loop().time() + left
        try:
            tensors = taken_out(request, method.sent, _MOST_BYTES)
            reply = await handler(Payload(request, tensors), Call(context.peer(), deadline))
            put_in(reply.message, method.received, reply.tensors)
        except Exception as error:
            failed = from_exception(error)
            await context.abort(_CODES[failed.error_code], message_of(failed)[:3072])
        return reply.message

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=method.request.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
