"""The channel of a session to its server: local calls if the server is in the same loop, else the fast path or gRPC.

Each session has a channel of its own and closes it at its end, by which the server detects the end of the client. The channel
fails calls to an unresponsive server (`liveness`).
"""

from __future__ import annotations

import asyncio

from aioexec.distributed.security.security import Security
from aioexec.distributed.transport.liveness import watch_channel
from aioexec.distributed.transport.local import local_channel
from aioexec.distributed.transport.settings import Liveness
from aioexec.distributed.transport.transport import Channel, Payload, Transport
from aioexec.errors import UnavailableError
from aioexec.in_thread import in_thread


class _Default:
    """The credentials of this process's sessions; None: those of the environment."""

    security: Security | None = None  # set by `use_security`


def use_security(security: Security | None) -> None:
    """Set certificates and token of sessions that are opened from now on; None: those of the environment."""
    _Default.security = security


def channel_to(address: str) -> Channel:
    """A channel to the server at an address; the caller closes it."""
    return _LateChannel(address)


class _LateChannel(Channel):
    """A channel that is chosen at its first call, since a server in this loop may be made after the channel.

    Certificates are read, and gRPC is imported, off the loop. `_channel` is the chosen one, set under the lock `_choosing`.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._channel: Channel | None = None
        self._choosing = asyncio.Lock()
        self._is_closed = False  # set by `close`, never reset

    async def call(
        self, method: str, request: Payload, timeout: float | None = None, *, wait_for_ready: bool = False
    ) -> Payload:
        channel = self._channel or await self._choose()
        return await channel.call(method, request, timeout, wait_for_ready=wait_for_ready)

    async def _choose(self) -> Channel:
        async with self._choosing:
            if self._channel is None:
                local = local_channel(self.address)
                if local is None:
                    transport = await in_thread(_transport, _Default.security)
                    if self._is_closed:
                        raise UnavailableError(f"the channel to {self.address} was closed")
                    self._channel = watch_channel(transport.channel(self.address), Liveness())
                else:
                    self._channel = local
            return self._channel

    async def close(self) -> None:
        self._is_closed = True
        if self._channel is not None:
            await self._channel.close()


def _transport(security: Security | None) -> Transport:
    from aioexec.distributed.transport.negotiated_transport import NegotiatedTransport  # loads grpc

    return NegotiatedTransport(security)
