"""Sockets of another user of this machine, for tests that root runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may act for another user")


@contextlib.contextmanager
def as_another_user() -> Iterator[None]:
    """Make and connect sockets as another user; nothing is awaited inside."""
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextlib.asynccontextmanager
async def forwarded(port: int) -> AsyncIterator[str]:
    """The address of a forwarder to a port of 127.0.0.1, whose connections are another user's."""
    writers: list[asyncio.StreamWriter] = []
    pipes: list[asyncio.Task[Any]] = []

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
            writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with as_another_user():
            made = socket.create_connection(("127.0.0.1", port))
        made.setblocking(False)
        reader_there, writer_there = await asyncio.open_connection(sock=made)
        writers.extend((writer, writer_there))
        pipes.extend(
            asyncio.ensure_future(each) for each in (pipe(reader, writer_there), pipe(reader_there, writer))
        )

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*pipes)
        await server.wait_closed()
