"""`optimize_loss`: steps, learning rates, noise, multipliers, clipping and summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from aioexec.graph.keys import GraphKeys
from tests.contrib.values import names

layers = ax.contrib.layers


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def problem() -> tuple[Any, Any, Any]:
    """A loss with the gradient 3 in `w`, which starts at 2; and the global step."""
    w = ax.get_variable("w", initializer=2.0)
    return w, w * 3.0, ax.train.get_or_create_global_step()


async def after_a_step(train: Any, *fetches: Any) -> Any:
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        loss = await session.run(train)
        return [loss, *await session.run(list(fetches))]


@pytest.mark.parametrize(
    "optimizer",
    [
        "SGD",
        ax.train.GradientDescentOptimizer,
        lambda rate: ax.train.GradientDescentOptimizer(rate),
        ax.train.GradientDescentOptimizer(0.1),
    ],
)
async def test_a_step_moves_variables_and_counts(optimizer):
    w, loss, step = problem()
    train = layers.optimize_loss(loss, step, 0.1, optimizer)

    assert [*names(ax.global_variables())] == ["w", "global_step", "OptimizeLoss/learning_rate"]
    np.testing.assert_allclose(await after_a_step(train, w, step), [6, 1.7, 1], rtol=1e-6)


@pytest.mark.parametrize("optimizer", layers.OPTIMIZER_CLS_NAMES)
async def test_optimizers_have_names(optimizer):
    w, loss, step = problem()

    assert (await after_a_step(layers.optimize_loss(loss, step, 0.1, optimizer), w))[1] < 2


async def test_without_a_step_the_graphs_is_counted_or_none():
    _w, loss, step = problem()
    counted = layers.optimize_loss(loss, None, 0.1, "SGD")
    uncounted = layers.optimize_loss(loss, None, 0.1, "SGD", increment_global_step=False)

    assert (await after_a_step(counted, step))[1] == 1
    assert (await after_a_step(uncounted, step))[1] == 0


async def test_the_learning_rate_decays():
    w, loss, step = problem()

    def halved(rate: Any, global_step: Any) -> Any:
        return rate / 2.0

    train = layers.optimize_loss(loss, step, ax.constant(0.2), "SGD", learning_rate_decay_fn=halved)

    np.testing.assert_allclose((await after_a_step(train, w))[1], 1.7, rtol=1e-6)
    assert "OptimizeLoss/learning_rate" in names(ax.get_collection(GraphKeys.SUMMARIES))


async def test_gradients_are_multiplied_and_clipped():
    w, loss, step = problem()
    train = layers.optimize_loss(
        loss, step, 0.1, "SGD", gradient_multipliers={w: 2.0}, clip_gradients=1.5, summaries=["gradient_norm"]
    )

    np.testing.assert_allclose((await after_a_step(train, w))[1], 2 - 0.1 * 1.5, rtol=1e-6)
    assert [
        summary.op.name.removeprefix("OptimizeLoss/") for summary in ax.get_collection(GraphKeys.SUMMARIES)
    ] == [
        "global_norm/gradient_norm",
        "gradient_norm/w_0",
        "global_norm/clipped_gradient_norm",
    ]


async def test_gradients_have_noise():
    w, loss, step = problem()
    ax.set_random_seed(1)
    train = layers.optimize_loss(loss, step, 0.1, "SGD", gradient_noise_scale=0.5)
    found = (await after_a_step(train, w))[1]

    assert 0 < abs(found - 1.7) <= 0.1 * 0.5 * 2


async def test_sparse_gradients_are_multiplied():
    table = ax.get_variable("table", initializer=np.ones((3, 2), np.float32))
    loss = ax.reduce_sum(ax.gather(table, [1]))
    step = ax.train.get_or_create_global_step()
    train = layers.optimize_loss(
        loss, step, 0.1, "SGD", gradient_multipliers={"table:0": 2.0}, summaries=["gradients"]
    )

    expected = np.array([[1, 1], [0.8, 0.8], [1, 1]])
    np.testing.assert_allclose((await after_a_step(train, table))[1], expected, rtol=1e-6)


async def test_updates_come_before_the_loss():
    _w, loss, step = problem()
    counter = ax.get_variable("counter", initializer=0.0, trainable=False)
    ax.add_to_collection(GraphKeys.UPDATE_OPS, counter.assign_add(1.0))
    train = layers.optimize_loss(loss, step, 0.1, "SGD")

    assert (await after_a_step(train, counter))[1] == 1


async def test_unusual_gradients_are_scaled_down():
    w = ax.get_variable("w", initializer=0.0)
    scale = ax.placeholder(ax.float32, [])
    clip = layers.adaptive_clipping_fn(std_factor=1.0, decay=0.5, report_summary=True)
    pairs = clip([(scale, w), (None, w)])
    feeds = [1.0] * 6 + [1000.0]
    log_norms = np.log(np.array(feeds) + 1e-8)
    mean = square = 0.0
    for each in log_norms:
        mean, square = 0.5 * mean + 0.5 * each, 0.5 * square + 0.5 * each**2
    largest = np.exp(mean + np.sqrt(max(1e-8, square - mean**2)))
    expected = 1000.0 if largest > 1000.0 else np.exp(mean)

    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        for value in feeds:
            found = await session.run(pairs[0][0], {scale: value})
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert pairs[1] == (None, w)
    assert names(ax.global_variables()) == ["w", "AdaptiveMaxNorm/mean", "AdaptiveMaxNorm/sq_mean"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learning_rate": 1}, "0d Tensor or float"),
        ({"learning_rate": -1.0}, "Invalid learning_rate"),
        ({"learning_rate": None}, "Learning rate is None"),
        ({"optimizer": "Best"}, "Optimizer name"),
        ({"optimizer": 1}, "Unrecognized"),
        ({"optimizer": lambda rate: rate}, "function should return"),
        ({"summaries": ["none"]}, "Summaries should be"),
        ({"clip_gradients": "yes"}, "clip_gradients"),
    ],
)
def test_arguments_are_checked(options: Any, message: str):
    _, loss, step = problem()
    given = {"learning_rate": 0.1, "optimizer": "SGD", **options}

    with pytest.raises(GraphValueError, match=message):
        layers.optimize_loss(loss, step, **given)


def test_the_loss_is_a_scalar():
    with pytest.raises(GraphValueError, match="scalar"):
        layers.optimize_loss(ax.constant([1.0]), None, 0.1, "SGD")
