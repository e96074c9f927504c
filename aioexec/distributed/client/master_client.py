"""Calls to a master, with retries where these are safe.

A master runs each request id at most once and refuses an id it has seen. A call that could not connect, or whose connection was
lost, is retried a few times with the same id. If the retry is refused, the first attempt had arrived and its reply is lost; the
caller gets the first error.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from aioexec.distributed.transport.methods import METHODS, tensor_protos
from aioexec.distributed.transport.status import SILENT
from aioexec.distributed.transport.transport import Channel, Payload
from aioexec.errors import AbortedError, DeadlineExceededError, UnavailableError
from aioexec.sessions.options import SessionOptions

PAUSES: Final = (0.005, 0.01, 0.02)
"""Seconds before each further attempt: long enough to reconnect, not for a server to start."""


class MasterClient:
    """Calls to the master behind a channel.

    Args:
        bits: the source of the random seed; asking the system for each number takes as long as writing a request.
    """

    def __init__(self, channel: Channel, bits: Callable[[int], int] = secrets.randbits) -> None:
        self.channel = channel
        self._numbers = Random(bits(64))  # request ids

    def new_request_id(self) -> int:
        """A random number of 63 bits that is not 0."""
        return self._numbers.getrandbits(63) or 1

    async def call(
        self, name: str, message: Any, tensors: Sequence[Any] = (), deadline: float | None = None
    ) -> Payload:
        """Call a method of a server that was reachable before.

        Raises:
            OpError: of the master.
            UnavailableError: the server cannot be reached, or the connection was lost.
            DeadlineExceededError: no reply in time.
        """
        method, request = f"MasterService/{name}", Payload(message, tensors)
        try:
            return await self.channel.call(method, request, _left(deadline))
        except UnavailableError as error:
            if SILENT in error.payloads:
                raise
            lost = error
        for pause in PAUSES:
            await asyncio.sleep(pause)
            for place, tensor in zip(tensor_protos(message, METHODS[method].sent), tensors, strict=False):
                if tensor is not None:
                    place.Clear()
            try:
                return await self.channel.call(method, request, _left(deadline))
            except UnavailableError:
                continue
            except AbortedError:
                break
        raise lost

    async def call_when_ready(self, name: str, message: Any, timeout_in_ms: int = 0) -> Any:
        """Call a method, waiting for the server to become reachable; returns the reply's message. 0 ms: no timeout."""
        timeout = timeout_in_ms / 1000 if timeout_in_ms > 0 else None
        reply = await self.channel.call(
            f"MasterService/{name}", Payload(message), timeout, wait_for_ready=True
        )
        return reply.message

    async def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        """Close all sessions of the master, and clear these containers."""
        message = METHODS["MasterService/Reset"].request(
            container=containers, device_filters=options.device_filters
        )
        await self.call_when_ready("Reset", message, options.operation_timeout_in_ms)


def _left(deadline: float | None) -> float | None:
    """Seconds until a deadline on the loop's clock."""
    if deadline is None:
        return None
    left = deadline - asyncio.get_running_loop().time()
    if left <= 0:
        raise DeadlineExceededError("Deadline Exceeded")
    return left
