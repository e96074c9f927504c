"""The services of a gRPC listener: coroutines from bytes to bytes, by path."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.distributed.transport.message_codec import decode_request, encode_reply
from aioexec.distributed.transport.methods import path_of
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Call, Handler, Handlers

Unary = Callable[[bytes, Call], Awaitable[bytes]]
"""Returns the reply to a request; raises an OpError."""

Send = Callable[[bytes], Awaitable[None]]
"""Sends a reply of a stream; waits while the caller reads slowly."""

Streaming = Callable[[AsyncIterator[bytes], Send, Call], Awaitable[None]]
"""Reads a stream of requests and sends a stream of replies; raises an OpError."""


@dataclass(frozen=True, slots=True)
class Services:
    """Methods by path, "/tensorflow.MasterService/RunStep"; other methods are unimplemented."""

    unary: Mapping[str, Unary]
    streaming: Mapping[str, Streaming] = field(default_factory=dict)

    def names(self) -> set[str]:
        """The full names of the services, "tensorflow.MasterService"."""
        return {path.split("/")[1] for path in (*self.unary, *self.streaming)}


def host_of(call: Call) -> str:
    """The caller's machine: the address of its connection without the port."""
    return call.peer.rpartition(":")[0]


def services_of(handlers: Handlers, limits: Limits) -> Services:
    """The services of handlers that take and return payloads."""
    return Services(
        {path_of(method): _unary(method, handler, limits) for method, handler in handlers.items()}
    )


def _unary(method: str, handler: Handler, limits: Limits) -> Unary:
    async def answer(data: bytes, call: Call) -> bytes:
        request = await decode_request(method, data, limits)
        return await encode_reply(method, await handler(request, call))

    return answer
