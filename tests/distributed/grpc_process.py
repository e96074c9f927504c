"""Keeps gRPC's process-wide objects alive for the whole test run, since leak checks would report them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest

import aioexec as ax
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.distributed.transport.transport import Payload
from aioexec.errors import UnavailableError
from aioexec.formats.protos import GetStatusRequest


@pytest.fixture(scope="session", autouse=True)
def grpc_runs() -> Iterator[None]:
    """Keep between tests what gRPC has for the whole process: its thread goes with its last object, its descriptors never."""
    asyncio.run(_used())
    yield
    grpc.aio.shutdown_grpc_aio()


async def _used() -> None:
    """Let gRPC listen, fail to, and call: it makes its descriptors then."""
    grpc.aio.init_grpc_aio()
    async with ax.train.Server.create_local_server() as server:
        with pytest.raises(UnavailableError):
            ax.train.Server({"worker": [server.address]})
        channel = GrpcTransport().channel(server.address)
        await channel.call("WorkerService/GetStatus", Payload(GetStatusRequest()))
        await channel.close()
