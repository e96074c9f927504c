"""Steps on GPUs of the stub."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.conftest import Gpus
from tests.tiers import constant, feed, graph, op, read, resource, session_on


@pytest.mark.parametrize("seed", range(10))
async def test_values_go_in_and_come_out(gpus: Gpus, seed: int):
    gpus.stub._random.seed(seed)
    with graph() as g:
        x = feed([2, 2])
        y = op("Neg", op("Add", x, constant([[1.0, 2.0], [3.0, 4.0]])))

    async with session_on(g, "off") as session:
        for _ in range(3):
            np.testing.assert_array_equal(await session.run(y, {x: np.eye(2)}), [[-2, -2], [-3, -5]])

    assert gpus.stub.calls.count("cuLaunchKernel") == 6


@pytest.mark.parametrize("seed", range(10))
async def test_variables_are_read_and_written(gpus: Gpus, seed: int):
    gpus.stub._random.seed(seed)
    with graph() as g:
        v, x = resource([2]), feed([2])
        init = op("AssignVariableOp", v, constant([1.0, 2.0]))
        add = op("AssignAddVariableOp", v, x)
        value = read(v)

    async with session_on(g, "off") as session:
        await session.run(init)
        for _ in range(3):
            await session.run(add, {x: [1, 1]})
        np.testing.assert_array_equal(await session.run(value), [4, 5])
