"""A minimal master, for tests of its clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np

from aioexec.distributed.transport.methods import METHODS
from aioexec.distributed.transport.transport import Channel, Payload


class Scripted(Channel):
    """A master in a few lines: it notes calls, and answers fetches with what is in `values`.

    `failures` are raised first, one a call; `gate` holds steps while it is not set.
    """

    def __init__(self) -> None:
        super().__init__("nowhere.example:2222")
        self.calls: list[tuple[str, Any, float | None, bool]] = []
        self.fed: list[list[Any]] = []
        self.failures: list[Exception] = []
        self.values: dict[str, Any] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.cancelled = 0
        self.is_closed = False
        self.reorder: Callable[[Any], Any] = lambda names: reversed(names)

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        name = method.removeprefix("MasterService/")
        self.calls.append((name, request.message, timeout, wait_for_ready))
        self.fed.append(list(request.tensors))
        if self.failures:
            raise self.failures.pop(0)
        reply = METHODS[method].response()
        return await getattr(self, name, self.nothing)(request.message, reply)

    async def nothing(self, request: Any, reply: Any) -> Payload:
        return Payload(reply)

    async def CreateSession(self, request: Any, reply: Any) -> Payload:
        reply.session_handle = "00000000000000aa"
        return Payload(reply)

    async def ExtendSession(self, request: Any, reply: Any) -> Payload:
        reply.new_graph_version = request.current_graph_version + 1
        return Payload(reply)

    async def RunStep(self, request: Any, reply: Any) -> Payload:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if "failure" in self.values:
            reply.status_code, reply.status_error_message = self.values["failure"]
            return Payload(reply)
        names = list(self.reorder(request.fetch))
        for name in names:
            reply.tensor.add(name=name)
        reply.metadata.step_stats.dev_stats.add(device="there")
        return Payload(reply, [self.values.get(name, np.float32(1)) for name in names])

    async def MakeCallable(self, request: Any, reply: Any) -> Payload:
        reply.handle = 7
        return Payload(reply)

    async def RunCallable(self, request: Any, reply: Any) -> Payload:
        return Payload(reply, [np.float32(3), np.float32(4)])

    async def PartialRunSetup(self, request: Any, reply: Any) -> Payload:
        reply.partial_run_handle = "0"
        return Payload(reply)

    async def close(self) -> None:
        self.is_closed = True

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]

    @property
    def last(self) -> Any:
        return self.calls[-1][1]
