"""Idle connections are closed, and do not keep other clients out."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from aioexec import descriptors
from aioexec.distributed.transport.fast import transport as fast_transport
from aioexec.distributed.transport.grpc import listener as grpc_listener
from tests.distributed.fast_pairs import FastPairs, Peers
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, echo, step

HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How a connection begins that speaks HTTP/2: the preface, and settings."""

pytestmark = pytest.mark.network


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Whether the other side closes a connection instead of sending something."""
    try:
        return not await reader.read(1)
    except ConnectionError:
        return True


async def test_a_connection_that_does_not_speak_http2_is_closed(monkeypatch):
    monkeypatch.setattr(grpc_listener, "_HANDSHAKE_MILLISECONDS", 50)
    async with Pairs() as pairs:
        listener = await pairs.listen({RUN_STEP: echo})
        host, _, port = listener.address.rpartition(":")
        silent = [await asyncio.open_connection(host, port) for _ in range(20)]

        for reader, _ in silent:
            await reader.read()  # until it is closed
        await pairs.connect(listener.address).call(RUN_STEP, step())

        for _, writer in silent:
            writer.close()
            await writer.wait_closed()


async def test_connections_beyond_a_number_are_closed_and_calls_over_those_there_are_go_on(monkeypatch):
    monkeypatch.setattr(descriptors, "MOST_CONNECTIONS", 3)
    async with Pairs() as pairs:
        listener = await pairs.listen({RUN_STEP: echo})
        channel = pairs.connect(listener.address)
        await channel.call(RUN_STEP, step())
        host, _, port = listener.address.rpartition(":")
        opened = [await asyncio.open_connection(host, port) for _ in range(6)]
        for _, writer in opened:
            writer.write(HTTP2)

        ended = [await is_closed(reader) for reader, _ in opened]
        await channel.call(RUN_STEP, step())

        assert sum(ended) == 4, "the channel and two more are let in"
        for _, writer in opened:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


async def test_beyond_a_number_of_silent_connections_the_oldest_are_closed(monkeypatch):
    monkeypatch.setattr(fast_transport, "_MOST_UNAUTHENTICATED", 10)
    peers = Peers()
    async with FastPairs() as pairs:
        listener: Any = await pairs.listen({RUN_STEP: peers})
        silent = [await asyncio.open_connection("127.0.0.1", listener._fast.port) for _ in range(20)]

        for reader, _ in silent[:10]:
            await reader.read()
        channel = pairs.connect(listener.address)
        await channel.call(RUN_STEP, step())

        assert peers.ways == ["fast"]
        assert len(listener._fast._unknown) == 9, "one more made room for the channel"
        for _, writer in silent:
            writer.close()
            await writer.wait_closed()
