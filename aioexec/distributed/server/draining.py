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
        self._name = name  # of the server, for messages
        self._is_draining = False  # never reset
        self.parts = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    def wrap(self, handlers: Handlers) -> Handlers:
        """These handlers, wrapped."""
        return {
            method: self._guard(method, handler) if method in BEGINS else handler
            for method, handler in handlers.items()
        }

    def drain(self) -> None:
        """Begin draining."""
        self._is_draining = True

    async def wait_until_quiet(self) -> None:
        """Wait until no part of another task's step is under way."""
        await self._quiet.wait()

    def _guard(self, method: str, handler: Handler) -> Handler:
        def begin(request: Payload, call: Call) -> Awaitable[Payload]:
            if self._is_draining and not getattr(request.message, "is_partial", False):
                raise UnavailableError(f"{self._name} is shutting down")
            reply = handler(request, call)
            return self._count_part(reply) if method == PARTS else reply

        return begin

    def _count_part(self, answer: Awaitable[Payload]) -> Awaitable[Payload]:
        """Count an answer, until its reply is ready, as a part of another task's step under way."""
        if not isinstance(answer, Answer):
            self._on_part_begun()
            return self._await_part(answer)
        if answer.reply is None:
            self._on_part_begun()
            answer.add_callback(lambda _: self._on_part_ended())
        return answer

    async def _await_part(self, reply: Awaitable[Payload]) -> Payload:
        try:
            return await reply
        finally:
            self._on_part_ended()

    def _on_part_begun(self) -> None:
        self.parts += 1
        self._quiet.clear()

    def _on_part_ended(self) -> None:
        self.parts -= 1
        if not self.parts:
            self._quiet.set()
