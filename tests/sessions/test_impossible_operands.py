"""Operands of an impossible shape or value: the same canonical error on every tier, and the session stays usable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError, InvalidArgumentError

Built = tuple[Any, dict[str, Any]]


def fed(dtype: ax.DType, name: str, shape: Any = None) -> Any:
    return ax.placeholder(dtype, shape, name=name)


def filled(*dims: int) -> Callable[[], Built]:
    return lambda: (ax.fill(fed(ax.int64, "dims", [len(dims)]), 1.0), {"dims:0": dims})


CASES: dict[str, Callable[[], Built]] = {
    "fill, nothing in it": filled(2**32, 2**32, 0),
    "fill, bytes beyond 64 bits": filled(2**31, 2**31),
    "fill, elements beyond 64 bits": filled(2**62, 2**62),
    "reshape": lambda: (
        ax.reshape(fed(ax.float32, "x", [1]), fed(ax.int64, "dims", [3])),
        {"x:0": [1.0], "dims:0": [2**32, 2**32, 0]},
    ),
    "tile": lambda: (
        ax.tile(fed(ax.float32, "x", [1]), fed(ax.int64, "times", [1])),
        {"x:0": [1.0], "times:0": [2**62]},
    ),
    "broadcast": lambda: (
        ax.broadcast_to(fed(ax.float32, "x", []), fed(ax.int64, "dims", [2])),
        {"x:0": 1.0, "dims:0": [2**40, 2**40]},
    ),
    "scatter_nd": lambda: (
        ax.scatter_nd(fed(ax.int64, "at", [1, 1]), fed(ax.float32, "x", [1]), fed(ax.int64, "dims", [1])),
        {"at:0": [[0]], "x:0": [1.0], "dims:0": [2**61]},
    ),
    "product without terms": lambda: (
        ax.matmul(fed(ax.float32, "x", [None, None]), fed(ax.float32, "y", [None, None])),
        {"x:0": np.zeros((2**31 - 1, 0)), "y:0": np.zeros((0, 2**31 - 1))},
    ),
    "an axis that is empty": lambda: (
        ax.expand_dims(fed(ax.float32, "x"), fed(ax.int32, "axis")),
        {"x:0": [1.0], "axis:0": np.zeros(0)},
    ),
    "several axes": lambda: (
        ax.expand_dims(fed(ax.float32, "x"), fed(ax.int32, "axis")),
        {"x:0": [1.0], "axis:0": [0, 1]},
    ),
    "an endless range": lambda: (ax.range(fed(ax.float32, "x", []), float("inf"), 1.0), {"x:0": 0.0}),
    "a filter that is a scalar": lambda: (
        ax.nn.conv2d(fed(ax.float32, "x"), fed(ax.float32, "filter"), [1, 1, 1, 1], "SAME"),
        {"x:0": np.zeros((1, 4, 4, 1)), "filter:0": 1.0},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("case", CASES)
async def test_what_cannot_be_is_an_invalid_argument_on_every_tier(case: str, jit: str) -> None:
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    with ax.Graph().as_default() as graph:
        output, feeds = CASES[case]()
        one = ax.constant(1)
    async with ax.Session(graph=graph, config=config) as session:
        for _ in range(2):
            with pytest.raises(InvalidArgumentError):
                await session.run(output, feeds)

        assert await session.run(one) == 1


@pytest.mark.parametrize("dims", [[2**32, 2**32, 0], [2**61], [2**31] * 4])
def test_a_constant_that_no_memory_can_hold_is_refused(dims: list[int]) -> None:
    with ax.Graph().as_default(), pytest.raises(GraphValueError, match="no memory can hold"):
        ax.constant(1.0, shape=dims)


@pytest.mark.slow
async def test_a_cost_beyond_64_bits_runs() -> None:
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"
    with ax.Graph().as_default() as graph:
        x = fed(ax.float32, "x", [None, None, None, None])
        pooled = ax.nn.max_pool(x, [1, 2**30, 2**30, 1], [1, 1, 1, 1], "SAME")
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    async with ax.Session(graph=graph, config=config) as session:
        for _ in range(2):
            assert (await session.run(pooled, {x: image}) == 15).all()


@pytest.mark.parametrize("is_training", [True, False])
async def test_images_without_channels_are_normalized(is_training: bool) -> None:
    with ax.Graph().as_default() as graph:
        x, vector = fed(ax.float32, "x"), fed(ax.float32, "vector")
        normalized = graph.create_op(
            "FusedBatchNormV3", [x, vector, vector, vector, vector], attrs={"is_training": is_training}
        ).outputs
    async with ax.Session(graph=graph) as session:
        found = await session.run(list(normalized[:5]), {x: np.zeros((1, 2, 2, 0)), vector: np.zeros(0)})

    assert [each.shape for each in found] == [(1, 2, 2, 0), (0,), (0,), (0,), (0,)]


async def test_no_gradients_of_resized_images_are_zeros_for_the_images() -> None:
    with ax.Graph().as_default() as graph:
        gradients = fed(ax.float32, "gradients")
        images = graph.create_op("ResizeNearestNeighborGrad", [gradients, ax.constant([3, 4])]).outputs[0]
    async with ax.Session(graph=graph) as session:
        found = await session.run(images, {gradients: np.zeros((1, 0, 2, 1))})

    np.testing.assert_array_equal(found, np.zeros((1, 3, 4, 1)))
