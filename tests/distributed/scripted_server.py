"""A server in a memory network whose handlers are scripted by a test, and which records its requests."""

import asyncio
from collections.abc import Awaitable, Callable

from aioexec.distributed.transport.memory.network import AS_USUAL, Fate, MemoryNetwork, Message
from aioexec.distributed.transport.memory.transport import MemoryListener, MemoryTransport
from aioexec.distributed.transport.transport import Call, Payload
from aioexec.formats.protos import (
    GetStatusRequest,
    GetStatusResponse,
)

STATUS = "WorkerService/GetStatus"
RECEIVE = "WorkerService/RecvTensor"
RUN = "WorkerService/RunGraph"
ADDRESS = "server:2222"

ASK = Payload(GetStatusRequest())
Handle = Callable[[Payload, Call], Awaitable[Payload]]


class Server:
    """A listener with scripted handlers, and a record of what it has seen."""

    def __init__(self, network: MemoryNetwork) -> None:
        self.started = 0
        self.cancelled = 0
        self.peers: list[str] = []
        self.gone: list[str] = []
        self.go_on = asyncio.Event()
        self.handle: Handle = self.answer
        handlers = dict.fromkeys((STATUS, RECEIVE, RUN), self._count)
        transport = MemoryTransport(network, "server")
        self.listener: MemoryListener = transport.listener(ADDRESS, handlers, self.gone.append)

    async def _count(self, request: Payload, call: Call) -> Payload:
        self.started += 1
        self.peers.append(call.peer)
        try:
            return await self.handle(request, call)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def answer(self, request: Payload, call: Call) -> Payload:
        return Payload(GetStatusResponse())

    async def wait(self, request: Payload, call: Call) -> Payload:
        await self.go_on.wait()
        return Payload(GetStatusResponse())


def fate_of(kind: str, fate: Fate) -> Callable[[Message], Fate]:
    return lambda message: fate if message.kind == kind else AS_USUAL
