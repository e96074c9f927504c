"""Training steps on a GPU of the stub that emulates the kernels of the package: the values of the processor, and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.cuda.conftest import Gpus
from tests.tiers import session_on

pytestmark = pytest.mark.slow  # kernels are compiled

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(8, 4)).astype(np.float32)
Y = (X @ [1.0, -2.0, 0.5, 3.0] + 0.25).astype(np.float32)
OPTIMIZERS = {
    "descent": lambda: ax.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: ax.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: ax.train.AdamOptimizer(0.1),
}


class Model:
    """Two layers, by some optimizer; on the current default graph."""

    def __init__(self, optimizer: str, use_resource: bool) -> None:
        self.x, self.y = ax.placeholder(ax.float32, [8, 4]), ax.placeholder(ax.float32, [8])
        start = np.linspace(-1, 1, 12, dtype=np.float32)
        self.weights = [
            ax.get_variable(name, initializer=ax.constant(value), use_resource=use_resource)
            for name, value in {"a": start.reshape(4, 3), "b": start[:3].reshape(3, 1)}.items()
        ]
        hidden = ax.tanh(ax.matmul(self.x, self.weights[0]))
        found = ax.reshape(ax.matmul(hidden, self.weights[1]), [8])
        self.loss = ax.reduce_mean(ax.square(found - self.y))
        self.step = OPTIMIZERS[optimizer]().minimize(self.loss)
        self.init = ax.global_variables_initializer()

    @property
    def feeds(self) -> dict[Any, Any]:
        return {self.x: X, self.y: Y}


async def losses(model: Model, session: Any, count: int) -> list[float]:
    return [float((await session.run([model.loss, model.step], model.feeds))[0]) for _ in range(count)]


async def expected_losses(optimizer: str, count: int) -> list[float]:
    with ax.Graph().as_default() as graph, ax.device("/cpu:0"):
        model = Model(optimizer, True)
    async with session_on(graph, "off") as session:
        await session.run(model.init)
        return await losses(model, session, count)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_training_gives_the_values_of_the_processor(
    emulated_gpus: Gpus, optimizer: str, use_resource: bool
):
    with ax.Graph().as_default() as graph:
        model = Model(optimizer, use_resource)

    async with session_on(graph, "off") as session:
        await session.run(model.init)
        found = await losses(model, session, 4)

    assert emulated_gpus.stub.calls.count("cuLaunchKernel") > 40
    np.testing.assert_allclose(found, await expected_losses(optimizer, 4), rtol=1e-5)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
async def test_a_training_step_becomes_one_launch(emulated_gpus: Gpus, optimizer: str, use_resource: bool):
    """Variables stay where they are, and no step holds more memory than the one before."""
    with ax.Graph().as_default() as graph:
        model = Model(optimizer, use_resource)
    stub = emulated_gpus.stub

    async with session_on(graph, "background") as session:
        await session.run(model.init)
        found = await losses(model, session, 3)
        (device,) = emulated_gpus.made
        await device.sync()
        before, calls = device.memory.used, len(stub.calls)
        found += await losses(model, session, 3)
        made = stub.calls[calls:]
        assert device.memory.used == before

    assert made.count("cuGraphLaunch") == 3
    assert "cuLaunchKernel" not in made
    assert "cuGraphInstantiate" not in made
    np.testing.assert_allclose(found, await expected_losses(optimizer, 6), rtol=1e-5)
