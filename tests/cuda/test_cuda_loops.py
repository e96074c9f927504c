"""Loops on GPUs of the stub: the body is one CUDA graph, which each iteration launches, and nothing is copied to the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from tests.cuda.conftest import Gpus
from tests.cuda.test_cuda_programs import settled
from tests.tiers import graph, session_on

X = np.array([0.5, -1.0, 2.0], np.float32)


def counted(x: Any) -> Any:
    return ax.while_loop(lambda i, y: i < 12, lambda i, y: (i + 1, y * 0.5 + x), [0, x])[1]


def gradient(x: Any) -> Any:
    """The gradient of a loop: both loops are of six iterations."""
    y = ax.while_loop(lambda i, y: i < 6, lambda i, y: (i + 1, y * x * 0.5 + y), [0, x])[1]
    return ax.gradients(y, x)[0]


def recurrent(x: Any) -> Any:
    """A loop over TensorArrays."""
    rows = ax.negative(ax.stack([x * float(k) for k in range(12)]))
    return ax.scan(lambda total, row: total * 0.5 + row, rows)


@pytest.mark.parametrize("make", [counted, gradient, recurrent])
async def test_an_iteration_is_one_launch_of_a_graph(emulated_gpus: Gpus, make: Callable[[Any], Any]):
    with graph() as g:
        x = ax.placeholder(ax.float32, [3])
        y = make(x)
    config = ax.ConfigProto(device_count={"GPU": 0})
    config.aioexec.jit = "off"
    async with ax.Session(graph=g, config=config) as session:
        expected = await session.run(y, {x: X})
    stub = emulated_gpus.stub

    async with session_on(g, "eager") as session:
        for _ in range(4):
            await session.run(y, {x: X})
            await settled(emulated_gpus)
        stub.calls.clear()
        found = await session.run(y, {x: X})

    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert 11 <= stub.calls.count("cuGraphLaunch") <= 16
    assert stub.calls.count("cuMemcpyDtoHAsync") == 1  # the fetch
