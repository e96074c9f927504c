"""Connections that say nothing are closed, and keep nobody else out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioexec.distributed import fast_transport
from aioexec.distributed.grpc_transport import listener as grpc_listener
from tests.distributed.fast_pairs import FastPairs, Peers
from tests.distributed.grpc_pairs import RUN_STEP, Pairs, echo, step

pytestmark = pytest.mark.network


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


async def test_beyond_a_number_of_silent_connections_the_oldest_are_closed(monkeypatch):
    monkeypatch.setattr(fast_transport, "_MOST_UNKNOWN", 10)
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
