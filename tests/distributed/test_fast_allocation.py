"""Large tensors of replies over the fast path are received in the arrays that the requests make for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from aioexec.distributed.transport.transport import Allocate, Channel, Payload
from aioexec.formats.protos import RecvTensorRequest
from tests.distributed.fast_pairs import MIB, RECV, FastPairs, recv_of
from tests.distributed.grpc_pairs import RUN_STEP, echo, step

pytestmark = [pytest.mark.network, pytest.mark.both_loops]


@pytest.fixture
async def pairs() -> AsyncIterator[FastPairs]:
    async with FastPairs() as pairs:
        yield pairs


async def receive(channel: Channel, allocate: Allocate | None, posts: bool) -> Any:
    """The reply of a call with or without a task of its own."""
    request = Payload(RecvTensorRequest(), allocate=allocate)
    if not posts:
        return await channel.call(RECV, request)
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    assert channel.post(RECV, request, answer.set_result) is not None
    return await answer


@pytest.mark.parametrize("posts", [True, False])
async def test_a_large_tensor_is_received_in_the_array_that_the_request_makes(pairs: FastPairs, posts: bool):
    value = np.random.default_rng(1).normal(size=(3, MIB // 8)).astype(np.float32)
    listener = await pairs.listen({RECV: recv_of(value), RUN_STEP: echo})
    channel = pairs.connect(listener.address)
    await channel.call(RUN_STEP, step(np.array(3)))
    made: list[Any] = []

    def allocate(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
        made.append(np.empty(shape, dtype))
        return made[-1]

    for _ in range(2):
        reply = await receive(channel, allocate, posts)
        assert reply.tensors[0] is made[-1]
        np.testing.assert_array_equal(reply.tensors[0], value)
        plain = await receive(channel, None, posts)
        np.testing.assert_array_equal(plain.tensors[0], value)
    assert len(made) == 2


async def test_a_small_tensor_needs_no_array_of_the_request(pairs: FastPairs):
    listener = await pairs.listen({RECV: recv_of(np.arange(10)), RUN_STEP: echo})
    channel = pairs.connect(listener.address)
    await channel.call(RUN_STEP, step(np.array(3)))

    reply = await receive(channel, lambda dtype, shape: pytest.fail("an array was made"), False)

    np.testing.assert_array_equal(reply.tensors[0], np.arange(10))
