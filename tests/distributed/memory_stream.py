"""A transport in memory: bytes sent to a connection of the fast path, and those that it writes, without sockets."""

from __future__ import annotations

import asyncio
from typing import Any


class MemoryStream(asyncio.Transport):
    """The other side of a connection: what the connection writes is in `written`."""

    def __init__(self, connection: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.written = bytearray()
        self._connection = connection
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        self._unread = b""
        self._most = 1 << 20
        connection.connection_made(self)

    def send(self, data: bytes, most: int = 1 << 20) -> None:
        """Have the connection receive bytes, at most so many at once, as long as it is open and reads."""
        self._unread += data
        self._most = most
        self._deliver()

    def leave(self) -> None:
        """Close the connection from this side."""
        self.abort()

    def _deliver(self) -> None:
        view = memoryview(self._unread)
        while view and not self._is_closing and not self._is_paused:
            buffer: Any = self._connection.get_buffer(-1)
            count = min(len(buffer), len(view), self._most)
            buffer[:count] = view[:count]
            view = view[count:]
            self._connection.buffer_updated(count)
        self._unread = bytes(view)

    # Called by the connection

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self.written += data

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        self._is_closing = True
        if not self._is_lost:
            self._is_lost = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        asyncio.get_running_loop().call_soon(self._deliver)
