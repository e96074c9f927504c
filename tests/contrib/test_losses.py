"""Losses of `ax.contrib.losses` by NumPy: predictions before labels, weights of fewer axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.contrib.values import drawn, evaluated

losses = ax.contrib.losses


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def mean(values: Any, weights: Any) -> Any:
    wide = np.broadcast_to(
        np.reshape(weights, np.shape(weights) + (1,) * (values.ndim - np.ndim(weights))), values.shape
    )
    return np.sum(values * wide) / max(np.count_nonzero(wide), 1)


WEIGHTS = [1.0, 2.0, 0.0, [1.0, 0.0, 2.0], [[1.0], [0.0], [2.0]], [[1.0, 0.0], [0.0, 0.0], [2.0, 3.0]]]


@pytest.mark.parametrize("weights", WEIGHTS)
async def test_differences_are_weighted(weights: Any):
    x, y = drawn(3, 2), drawn(3, 2, seed=1)
    made = [
        losses.absolute_difference(x, y, weights),
        losses.mean_squared_error(x, y, weights),
        losses.log_loss(np.abs(x), np.abs(y), weights),
        losses.sigmoid_cross_entropy(x, np.abs(y), weights),
        losses.compute_weighted_loss(x, weights),
    ]
    p, q = np.abs(x), np.abs(y)
    expected = [
        np.abs(x - y),
        (x - y) ** 2,
        -q * np.log(p + 1e-7) - (1 - q) * np.log(1 - p + 1e-7),
        np.log1p(np.exp(x)) - q * x,
        x,
    ]

    assert losses.get_losses() == made
    wide = np.squeeze(weights, -1) if np.ndim(weights) == 2 and np.shape(weights)[1] == 1 else weights
    np.testing.assert_allclose(await evaluated(made), [mean(each, wide) for each in expected], rtol=1e-4)


@pytest.mark.parametrize("weights", [1.0, [1.0, 0.0, 2.0], [[1.0], [0.0], [2.0]]])
async def test_cross_entropies_have_a_weight_for_each_example(weights: Any):
    logits, labels = drawn(3, 4), np.array([1, 3, 0])
    one_hot = np.eye(4, dtype=np.float32)[labels]
    made = [
        losses.softmax_cross_entropy(logits, one_hot, weights),
        losses.sparse_softmax_cross_entropy(logits, labels.reshape(3, 1), weights),
        losses.softmax_cross_entropy(logits, one_hot, weights, label_smoothing=0.2),
    ]
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    flat = np.reshape(weights, -1) if np.ndim(weights) else weights

    plain = mean(-np.sum(one_hot * log_p, 1), flat)
    smooth = mean(-np.sum((one_hot * 0.8 + 0.05) * log_p, 1), flat)
    np.testing.assert_allclose(await evaluated(made), [plain, plain, smooth], rtol=1e-4)


async def test_distances_of_unit_vectors():
    x, y = drawn(3, 4), drawn(3, 4, seed=1)
    x, y = x / np.linalg.norm(x, axis=1, keepdims=True), y / np.linalg.norm(y, axis=1, keepdims=True)
    made = [losses.cosine_distance(x, y, 1, [1.0, 0.0, 2.0]), losses.cosine_distance(x, y, dim=1)]
    distances = 1 - np.sum(x * y, 1)

    expected = [mean(distances, [1.0, 0.0, 2.0]), distances.mean()]
    np.testing.assert_allclose(await evaluated(made), expected, rtol=1e-4)


async def test_hinge_loss_is_not_reduced():
    logits, labels = drawn(3, 2), np.array([[0, 1], [1, 1], [0, 0]], np.float32)
    made = losses.hinge_loss(logits, labels)

    assert losses.get_losses() == []
    np.testing.assert_allclose(await evaluated(made), np.maximum(0, 1 - (2 * labels - 1) * logits), rtol=1e-5)


@pytest.mark.parametrize("weights", [1.0, [1.0, 0.0, 2.0]])
async def test_pairs_of_errors_are_compared(weights: Any):
    x, y = drawn(3, 4), drawn(3, 4, seed=1)
    made = losses.mean_pairwise_squared_error(x, y, weights)
    d = x - y
    pairs = (d[:, :, None] - d[:, None, :]) ** 2

    assert losses.get_losses() == [made]
    expected = np.sum(pairs.mean((1, 2)) * weights)
    np.testing.assert_allclose(await evaluated(made), expected, rtol=1e-4)


def test_ranks_must_be_known():
    with pytest.raises(GraphValueError, match="losses"):
        losses.compute_weighted_loss(ax.placeholder(ax.float32))
    with pytest.raises(GraphValueError, match="weights"):
        losses.compute_weighted_loss(ax.zeros([2]), ax.placeholder(ax.float32))


async def test_all_losses_are_summed():
    losses.add_loss(ax.constant(1.0))
    losses.compute_weighted_loss([2.0])
    ax.add_to_collection(ax.GraphKeys.REGULARIZATION_LOSSES, ax.constant(4.0))

    totals = [losses.get_total_loss(), losses.get_total_loss(add_regularization_losses=False)]
    assert await evaluated(totals) == [7.0, 3.0]
