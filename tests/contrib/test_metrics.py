"""Metrics of `ax.contrib.metrics`: by those of `ax.metrics`, and by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphValueError
from tests.contrib.values import drawn, evaluated

metrics = ax.contrib.metrics


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


P, L = np.array([1, 0, 1, 1]), np.array([1, 1, 0, 1])
X, Y = np.array([0.9, 0.4, 0.6, 0.2], np.float32), np.array([True, False, True, True])
Z = X + np.array([1, 0, 0, 3], np.float32)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: metrics.streaming_accuracy(P, L), 2 / 4),
        (lambda: metrics.streaming_accuracy(P, L, [1, 0, 0, 1]), 1.0),
        (lambda: metrics.streaming_precision(P, L), 2 / 3),
        (lambda: metrics.streaming_recall(np.array([1, 0, 0, 1]), np.array([1, 1, 0, 1])), 2 / 3),
        (lambda: metrics.streaming_true_positives(P, L), 2),
        (lambda: metrics.streaming_true_negatives(P, L), 0),
        (lambda: metrics.streaming_false_positives(P, L), 1),
        (lambda: metrics.streaming_false_negatives(P, L), 1),
        (lambda: metrics.streaming_mean(X), 0.525),
        (lambda: metrics.streaming_mean_tensor(X), X),
        (lambda: metrics.streaming_percentage_less(X, 0.5), 0.5),
        (lambda: metrics.streaming_mean_absolute_error(X, Z), 1.0),
        (lambda: metrics.streaming_mean_squared_error(X, Z), 2.5),
        (lambda: metrics.streaming_root_mean_squared_error(X, Z), np.sqrt(2.5)),
        (lambda: metrics.streaming_mean_relative_error(X, X + 1, np.array([1, 2, 4, 4], np.float32)), 0.5),
        (lambda: metrics.streaming_mean_cosine_distance([[1.0, 0.0]], [[0.6, 0.8]], 1), 0.4),
        (lambda: metrics.streaming_mean_iou(P, L, 2), (0 / 2 + 2 / 4) / 2),
        (lambda: metrics.streaming_auc(X, Y), 2 / 3),
        (lambda: metrics.streaming_precision_at_thresholds(X, Y, [0.5, 0.3]), [1.0, 2 / 3]),
        (lambda: metrics.streaming_recall_at_thresholds(X, Y, [0.5, 0.1]), [2 / 3, 1.0]),
        (lambda: metrics.streaming_sensitivity_at_specificity(X, Y, 1.0), 2 / 3),
        (lambda: metrics.streaming_specificity_at_sensitivity(X, Y, 0.6), 1.0),
        (lambda: metrics.streaming_recall_at_k([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]], [2, 2], 2), 0.5),
    ],
)
async def test_a_metric_is_updated_by_a_batch(made: Any, expected: Any):
    value, update = made()

    async with ax.Session() as session:
        await session.run(ax.local_variables_initializer())
        await session.run(update)
        np.testing.assert_allclose(await session.run(value), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
async def test_covariance_and_correlation_are_over_all_batches(weighted: bool):
    x, y = drawn(3, 5) + 10, drawn(3, 5, seed=1)
    y = y + 0.5 * x
    w = (
        np.array([[1, 2, 0, 1, 1], [1, 1, 1, 1, 1], [3, 0, 0, 1, 2]], np.float32)
        if weighted
        else np.ones((3, 5))
    )
    fed_x, fed_y, fed_w = (ax.placeholder(ax.float32, [5], name=name) for name in "xyw")
    weights = fed_w if weighted else None
    made = [
        metrics.streaming_covariance(fed_x, fed_y, weights),
        metrics.streaming_pearson_correlation(fed_x, fed_y, weights),
    ]
    values, updates = metrics.aggregate_metrics(*made)

    async with ax.Session() as session:
        await session.run(ax.local_variables_initializer())
        for number in range(3):
            found = await session.run(updates, {fed_x: x[number], fed_y: y[number], fed_w: w[number]})
        np.testing.assert_allclose(await session.run(values), found, rtol=1e-5)
    repeats = w.astype(int).reshape(-1)
    both = np.stack([np.repeat(x.reshape(-1), repeats), np.repeat(y.reshape(-1), repeats)]).astype(np.float64)
    covariance: Any = np.cov(both)
    correlation: Any = np.corrcoef(both)
    np.testing.assert_allclose(found, [covariance[0, 1], correlation[0, 1]], rtol=1e-3)


async def test_accuracy_of_one_batch():
    made = [metrics.accuracy(P, L), metrics.accuracy(P, L, [1.0, 0.0, 3.0, 4.0])]

    np.testing.assert_allclose(await evaluated(made), [0.5, 5 / 8], rtol=1e-6)
    with pytest.raises(GraphValueError, match="dtype"):
        metrics.accuracy([1.0], [1.0])
    with pytest.raises(GraphValueError, match="Dtypes"):
        metrics.accuracy([True], [1])


def test_metrics_are_gathered_by_name():
    value, update = object(), object()

    assert metrics.aggregate_metric_map({"a": (value, update)}) == ({"a": value}, {"a": update})
    with pytest.raises(GraphValueError, match="at least one"):
        metrics.aggregate_metrics()


async def test_values_of_all_batches_are_joined():
    values = ax.placeholder(ax.int32, [None, 2])
    whole, update = metrics.streaming_concat(values)
    first, update_first = metrics.streaming_concat(values, axis=-2, max_size=2)

    async with ax.Session() as session:
        await session.run(ax.local_variables_initializer())
        assert (await session.run(whole)).shape == (0, 2)
        for batch in ([[1, 2]], [[3, 4], [5, 6]]):
            updated, _ = await session.run([update, update_first], {values: batch})
        results = await session.run([whole, first])

    assert whole.shape.as_list() == [None, 2]
    assert updated.tolist() == results[0].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert results[1].tolist() == [[1, 2], [3, 4]]


def test_values_of_unknown_sizes_cannot_be_joined():
    with ax.Graph().as_default():
        with pytest.raises(GraphValueError, match="known rank"):
            metrics.streaming_concat(ax.placeholder(ax.int32))
        with pytest.raises(GraphValueError, match="must have known sizes"):
            metrics.streaming_concat(ax.placeholder(ax.int32, [2, None]))
        with pytest.raises(GraphValueError, match="axis = 2 not in"):
            metrics.streaming_concat(ax.placeholder(ax.int32, [None, 2]), axis=2)
