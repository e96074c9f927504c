"""Requests with extreme numbers: of tensors without names, of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import errors
from aioexec.distributed.transport.memory.network import AS_USUAL, Message
from aioexec.testing.cluster import InMemoryCluster


@pytest.mark.parametrize(
    ("kind", "method", "error"),
    [
        ("request", "MasterService/RunStep", errors.InvalidArgumentError),
        ("reply", "MasterService/RunStep", errors.InternalError),
    ],
)
@pytest.mark.parametrize("times", [0, 2])
async def test_a_message_with_another_number_of_tensors_fails_its_step(kind, method, error, times):
    def change(message: Message) -> Any:
        if (message.kind, message.method) == (kind, method):
            message.content.tensors = [*message.content.tensors] * times
        return AS_USUAL

    with ax.Graph().as_default() as graph:
        x = ax.placeholder(ax.float32, [2])
        with ax.device("/job:worker/task:1"):
            y = x + x
    async with InMemoryCluster({"worker": 2}) as cluster, cluster.session(graph=graph) as session:
        fed = {x: np.ones(2, np.float32)}
        await session.run(y, fed)
        cluster.network.fate = change
        with pytest.raises(error, match="tensors"):
            await session.run(y, fed)

        cluster.network.fate = None
        assert (await session.run(y, fed)).tolist() == [2, 2]


async def test_a_session_that_asks_for_two_billion_threads_takes_no_memory_for_them():
    with ax.Graph().as_default() as graph:
        y = ax.constant(1.0) + 1.0
    config = ax.ConfigProto(inter_op_parallelism_threads=2**31 - 1, intra_op_parallelism_threads=2**31 - 1)
    async with (
        InMemoryCluster({"worker": 1}) as cluster,
        cluster.session(graph=graph, config=config) as session,
    ):
        assert await session.run(y) == 2
