"""A transport in memory: aiohttp's protocol writes a response to it, and a coroutine takes the bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

_MOST_BUFFERED: Final = 1 << 16
"""As many bytes pause the protocol's writing until they are taken."""


class MemoryTransport(asyncio.Transport):
    """The server's end of a connection whose other end is `read`.

    Changing: `_written`, the bytes that were not taken yet; `_changed`, set when there are some or the transport is closed;
    `_may_read`, cleared while the protocol has paused reading.
    """

    def __init__(self, protocol: asyncio.Protocol, info: Mapping[str, Any]) -> None:
        super().__init__(dict(info))
        self._protocol = protocol
        self._written = bytearray()
        self._changed = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._is_paused = False  # whether the protocol was asked to pause writing
        self._is_closed = False
        protocol.connection_made(self)

    async def read(self) -> bytes:
        """Return what was written since the last call; wait for it. b"" after the transport is closed."""
        await self._changed.wait()
        data = bytes(self._written)
        self._written.clear()
        if not self._is_closed:
            self._changed.clear()
        if self._is_paused:
            self._is_paused = False
            self._protocol.resume_writing()
        return data

    async def feed(self, data: bytes) -> None:
        """Have the protocol receive bytes, once it reads; they are dropped after the transport is closed."""
        await self._may_read.wait()
        if not self._is_closed:
            self._protocol.data_received(data)

    # Called by the protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closed:
            return
        self._written += data
        self._changed.set()
        if len(self._written) > _MOST_BUFFERED and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._changed.set()
            self._may_read.set()
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()
