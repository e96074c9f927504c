"""The requests that a draining server accepts: none that begins work, all that steps under way need, here or elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from aioexec.distributed.transport.answers import Answer
from aioexec.distributed.transport.transport import Call, Handler, Handlers, Payload
from aioexec.errors import UnavailableError

BEGINS: Final = frozenset(
    {
        "MasterService/CreateSession",
        "WorkerService/CreateWorkerSession",
        "WorkerService/RegisterGraph",
        "WorkerService/RunGraph",
    }
)
"""Methods that begin work, unless they continue a partial run."""

PARTS: Final = "WorkerService/RunGraph"
"""The method by which masters on other tasks run parts of steps here."""


class Draining:
    """Wraps the handlers of a server; while draining, they refuse requests that begin work.

    `parts` is the number of parts of other tasks' steps under way; `_quiet` is set while it is 0.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_draining = False
        self.parts = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def around(self, handlers: Handlers) -> Handlers:
        """These handlers, wrapped."""
        return {
            method: self._guarded(method, handler) if method in BEGINS else handler
            for method, handler in handlers.items()
        }

    def drain(self) -> None:
        """Begin draining."""
        self._is_draining = True

    async def until_quiet(self) -> None:
        """Wait until no part of another task's step is under way."""
        await self._quiet.wait()

    def _guarded(self, method: str, handler: Handler) -> Handler:
        def begin(request: Payload, call: Call) -> Awaitable[Payload]:
            if self._is_draining and not getattr(request.message, "is_partial", False):
                raise UnavailableError(f"{self._name} is shutting down")
            reply = handler(request, call)
            return self._counted(reply) if method == PARTS else reply

        return begin

    def _counted(self, reply: Awaitable[Payload]) -> Awaitable[Payload]:
        """Await a reply, counting it as a part of another task's step under way."""
        if not isinstance(reply, Answer):
            self._part_begins()
            return self._awaited(reply)
        if reply.came is None:
            self._part_begins()
            reply.then(lambda _: self._part_ends())
        return reply

    async def _awaited(self, reply: Awaitable[Payload]) -> Payload:
        try:
            return await reply
        finally:
            self._part_ends()

    def _part_begins(self) -> None:
        self.parts += 1
        self._quiet.clear()

    def _part_ends(self) -> None:
        self.parts -= 1
        if not self.parts:
            self._quiet.set()
