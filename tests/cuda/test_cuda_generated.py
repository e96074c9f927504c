"""Sessions on GPUs of the stub with the kernels that GPUs get: each is emulated on this processor (see `emulation`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.cuda.conftest import Gpus


def network(graph: Any) -> tuple[Any, Any]:
    """A network of one hidden layer: its loss, and a step of training it with Adam."""
    ax.set_random_seed(1)
    random = np.random.default_rng(1)
    x = ax.constant(random.normal(size=(8, 4)).astype(np.float32))
    target = ax.constant(random.normal(size=(8, 3)).astype(np.float32))
    w = ax.get_variable("w", initializer=ax.constant(random.normal(size=(1, 4)).astype(np.float32)))
    b = ax.get_variable("b", initializer=ax.constant(random.normal(size=(8, 3)).astype(np.float32)))
    hidden = ax.tanh(x * w)
    loss = ax.reduce_mean(ax.square(ax.reduce_sum(hidden, 1, keepdims=True) + b - target))
    return loss, ax.train.AdamOptimizer(0.1).minimize(loss)


async def losses(config: Any) -> list[float]:
    with ax.Graph().as_default() as graph:
        loss, train = network(graph)
        init = ax.global_variables_initializer()
    async with ax.Session(graph=graph, config=config) as session:
        await session.run(init)
        return [float((await session.run([loss, train]))[0]) for _ in range(5)]


@pytest.mark.slow
async def test_a_network_is_trained_as_on_the_processor(emulated_gpus: Gpus):
    expected = await losses(ax.ConfigProto(device_count={"GPU": 0}))
    assert emulated_gpus.stub.calls == []

    found = await losses(ax.ConfigProto())

    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert found[-1] < found[0]
    assert emulated_gpus.stub.calls.count("cuLaunchKernel") > 50
