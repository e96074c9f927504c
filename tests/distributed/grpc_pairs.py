"""A listener and channels to it, over real sockets of the loopback interface."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import grpc

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.grpc.channel import GrpcChannel
from aioexec.distributed.transport.grpc.listener import GrpcListener
from aioexec.distributed.transport.settings import Limits
from aioexec.distributed.transport.transport import Call, Handler, Payload
from aioexec.formats.protos import RunStepRequest, RunStepResponse

RUN_STEP = "MasterService/RunStep"
RESET = "MasterService/Reset"


class Pairs(AsyncExitStack):
    """Makes listeners and channels, and closes them in the end."""

    def transport(self, security: Security | None = None, limits: Limits | None = None) -> GrpcTransport:
        return GrpcTransport(security or Security(), limits)

    async def listen(
        self,
        handlers: Mapping[str, Handler],
        address: str = "127.0.0.1:0",
        security: Security | None = None,
        limits: Limits | None = None,
    ) -> GrpcListener:
        listener = self.transport(security, limits).listener(address, handlers)
        self.push_async_callback(listener.stop)
        await listener.start()
        return listener

    def connect(
        self, address: str, security: Security | None = None, limits: Limits | None = None
    ) -> GrpcChannel:
        channel = self.transport(security, limits).channel(address)
        self.push_async_callback(channel.close)
        return channel

    async def pair(self, handler: Handler, **options: Any) -> tuple[GrpcListener, GrpcChannel]:
        """A listener that has one handler for RunStep, and a channel to it."""
        listener = await self.listen({RUN_STEP: handler}, **options)
        return listener, self.connect(listener.address)

    def raw(self, address: str) -> grpc.aio.Channel:
        """A channel that sends whatever bytes it is given."""
        channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
        self.push_async_callback(channel.close)
        return channel


def step(*arrays: Any) -> Payload:
    """A request of RunStep with feeds."""
    request = RunStepRequest(session_handle="handle")
    for index in range(len(arrays)):
        request.feed.add(name=f"x{index}:0")
    return Payload(request, arrays)


async def echo(request: Payload, call: Call) -> Payload:
    """Fetches what was fed."""
    reply = RunStepResponse()
    for feed in request.message.feed:
        reply.tensor.add(name=feed.name)
    return Payload(reply, request.tensors)


class Waiting:
    """A handler that waits, and records its end."""

    def __init__(self) -> None:
        self.calls = 0
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.go_on = asyncio.Event()
        self.call: Call | None = None

    async def __call__(self, request: Payload, call: Call) -> Payload:
        self.calls += 1
        self.call = call
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await echo(request, call)
