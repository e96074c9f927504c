"""Values beyond the size limit of messages: gRPC refuses them before copying, and the server is not affected."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.distributed.client.grpc_session import GrpcSession
from aioexec.distributed.transport.grpc import GrpcTransport
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.sessions.options import SessionOptions


@pytest.mark.behaviour(147)
@pytest.mark.network
async def test_a_value_of_3_gib_is_refused_over_grpc_and_the_session_goes_on():
    value = np.broadcast_to(np.float32(1), [3 << 28])  # as large, without the memory
    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [None], name="x")
        ax.shape(x, name="shape")

    async with ax.train.Server.create_local_server() as server:
        session = GrpcSession(SessionOptions(), GrpcTransport().channel(server.address))
        try:
            await session.create(graph.as_graph_def())
            with pytest.raises((ResourceExhaustedError, InvalidArgumentError), match="bytes"):
                await session.run(None, [("x:0", value)], ["shape:0"], [])

            (shape,) = await session.run(None, [("x:0", value[:3].copy())], ["shape:0"], [])
            assert shape.tolist() == [3]
        finally:
            await session.close()
