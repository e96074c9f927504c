"""Losses: formulas in NumPy, weights, reductions, collections, errors. Against TensorFlow: the interop suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import losses
from aioexec.errors import GraphValueError, InvalidArgumentError

Y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
X = np.array([[0.9, 0.2], [0.4, 0.6], [0.3, 0.7]])
ROWS = np.array([[1.0], [0.0], [3.0]])


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def value(tensor: Any, feeds: Any = None) -> Any:
    async with ax.Session() as session:
        return await session.run(tensor, feeds)


def softmax_entropy(y: Any, x: Any) -> Any:
    return -np.sum(y * (x - np.log(np.sum(np.exp(x), 1, keepdims=True))), 1)


ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "absolute_difference": lambda y, x: np.abs(x - y),
    "mean_squared_error": lambda y, x: (x - y) ** 2,
    "hinge_loss": lambda y, x: np.maximum(0, 1 - (2 * y - 1) * x),
    "huber_loss": lambda y, x: np.where(np.abs(x - y) < 1, (x - y) ** 2 / 2, np.abs(x - y) - 0.5),
    "log_loss": lambda y, x: -y * np.log(x) - (1 - y) * np.log(1 - x),
    "sigmoid_cross_entropy": lambda y, x: np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x))),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
async def test_a_loss_is_the_mean_of_its_formula_where_the_weight_is_not_0(name: str):
    loss = getattr(losses, name)(ax.constant(Y, ax.float32), ax.constant(X, ax.float32), ROWS)

    each = ELEMENTWISE[name](Y, X) * ROWS
    assert await value(loss) == pytest.approx(np.sum(each) / 4, rel=1e-5)
    assert losses.get_losses() == [loss]


async def test_cross_entropies_of_classes():
    logits = ax.constant(X, ax.float32)
    dense = losses.softmax_cross_entropy(ax.one_hot([0, 1, 1], 2), logits, weights=ROWS[:, 0])
    by_class = losses.sparse_softmax_cross_entropy([[0], [1], [1]], logits, weights=ROWS)

    expected = np.dot(softmax_entropy(np.eye(2)[[0, 1, 1]], X), ROWS[:, 0]) / 2
    assert await value([dense, by_class]) == pytest.approx([expected] * 2, rel=1e-5)


async def test_smoothing_moves_labels_towards_the_middle():
    logits = ax.constant(X, ax.float32)
    softmax = losses.softmax_cross_entropy(ax.one_hot([0, 1, 1], 2), logits, label_smoothing=0.2)

    labels = np.eye(2)[[0, 1, 1]] * 0.8 + 0.1
    assert await value(softmax) == pytest.approx(np.mean(softmax_entropy(labels, X)), rel=1e-5)


REDUCED: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda each: each,
    "SUM": np.sum,
    "MEAN": lambda each: np.sum(each) / np.sum(ROWS * np.ones((3, 2))),
    "SUM_OVER_BATCH_SIZE": np.mean,
    "SUM_BY_NONZERO_WEIGHTS": lambda each: np.sum(each) / 4,
}


@pytest.mark.parametrize("name", REDUCED)
async def test_weighted_losses_are_reduced(name: str):
    reduction = getattr(losses.Reduction, name)
    loss = losses.compute_weighted_loss(ax.constant(X, ax.float32), ROWS, reduction=reduction)

    np.testing.assert_allclose(await value(loss), REDUCED[name](X * ROWS), rtol=1e-6)


async def test_pairs_of_one_element_are_compared():
    loss = losses.mean_pairwise_squared_error(Y[:1], X[:1])

    difference = X[0] - Y[0]
    assert await value(loss) == pytest.approx((difference[0] - difference[1]) ** 2, rel=1e-5)


async def test_weights_that_fit_no_dimension_are_refused_in_the_run_where_they_come():
    weights = ax.placeholder(ax.float32, None)
    loss = losses.compute_weighted_loss(ax.constant(X, ax.float32), weights)

    assert await value(loss, {weights: 2.0}) == pytest.approx(np.mean(X) * 2, rel=1e-6)
    with pytest.raises(InvalidArgumentError, match="weights can not be broadcast to values"):
        await value(loss, {weights: np.ones((3, 3))})


@pytest.mark.parametrize(
    "make",
    [
        lambda: losses.mean_squared_error(None, X),
        lambda: losses.mean_squared_error(Y, None),
        lambda: losses.mean_squared_error(Y, X[:, :1]),
        lambda: losses.mean_squared_error(Y, X, weights=np.ones(3)),
        lambda: losses.mean_squared_error(Y, X, weights=np.ones((3, 3))),
        lambda: losses.mean_squared_error(Y, X, reduction="all"),
        lambda: losses.cosine_distance(Y, X),
        lambda: losses.cosine_distance(Y, X, axis=0, dim=0),
        lambda: losses.get_total_loss(),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make: Callable[[], Any]):
    with pytest.raises(GraphValueError):
        make()


async def test_the_total_is_of_losses_and_regularization():
    losses.absolute_difference([1.0], [3.0])
    ax.get_variable("v", initializer=4.0, regularizer=lambda v: 0.5 * ax.identity(v))
    total = losses.get_total_loss()
    init = ax.global_variables_initializer()
    async with ax.Session() as session:
        await session.run(init)

        assert await session.run(total) == 4
