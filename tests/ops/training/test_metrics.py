"""Metrics over batches, by counting in NumPy; collections; refusals. Against TensorFlow: the interop suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec import metrics
from aioexec.errors import GraphValueError, InvalidArgumentError

LABELS = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])
SURE = np.array([[0.2, 0.9, 0.4, 0.6, 0.7], [0.8, 0.3, 0.1, 0.7, 0.2]], np.float32)
GUESSES = (SURE > 0.5).astype(np.int64)
WEIGHTS = np.array([[1, 2, 0, 1, 1], [0, 1, 3, 1, 1]], np.float32)
KINDS = pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def measured(make: Callable[[Any, Any, Any], Any], given: Any) -> tuple[Any, Any]:
    """The value after two batches, and the second update."""
    y, x, w = (ax.placeholder(dtype, [5]) for dtype in ("int64", given.dtype.name, "float32"))
    value, update = make(y, x, w)
    init = ax.local_variables_initializer()
    async with ax.Session() as session:
        await session.run(init)
        for labels, batch, weights in zip(LABELS, given, WEIGHTS, strict=True):
            last = await session.run(update, {y: labels, x: batch, w: weights})
        return await session.run(value), last


def of(outcome: Any) -> float:
    return float(np.sum(WEIGHTS * outcome))


RIGHT = of((LABELS == 1) & (GUESSES == 1))
BINARY: dict[str, float] = {
    "accuracy": of(LABELS == GUESSES) / of(True),
    "true_positives": RIGHT,
    "true_negatives": of((LABELS == 0) & (GUESSES == 0)),
    "false_positives": of((LABELS == 0) & (GUESSES == 1)),
    "false_negatives": of((LABELS == 1) & (GUESSES == 0)),
    "precision": RIGHT / of(GUESSES == 1),
    "recall": RIGHT / of(LABELS == 1),
}


@KINDS
@pytest.mark.parametrize("name", BINARY)
async def test_what_was_right_is_counted_over_batches(name: str, use_resource: bool):
    if use_resource:
        ax.enable_resource_variables()
    try:
        found = await measured(lambda y, x, w: getattr(metrics, name)(y, x, w), GUESSES)
    finally:
        ax.disable_resource_variables()

    assert found == pytest.approx((BINARY[name],) * 2)


def error(power: int) -> float:
    return float(np.sum(WEIGHTS * np.abs(SURE - LABELS) ** power) / np.sum(WEIGHTS))


MEANS: dict[str, float] = {
    "mean_absolute_error": error(1),
    "mean_squared_error": error(2),
    "root_mean_squared_error": error(2) ** 0.5,
}


@pytest.mark.parametrize("name", MEANS)
async def test_errors_are_averaged_over_batches(name: str):
    found = await measured(lambda y, x, w: getattr(metrics, name)(ax.cast(y, ax.float32), x, w), SURE)

    assert found == pytest.approx((MEANS[name],) * 2, rel=1e-5)


async def test_the_mean_of_a_tensor_is_of_each_element():
    found = await measured(lambda y, x, w: metrics.mean_tensor(x, w), SURE)

    with np.errstate(invalid="ignore"):
        expected = np.nan_to_num(np.sum(SURE * WEIGHTS, 0) / np.sum(WEIGHTS, 0))
    np.testing.assert_allclose(found[0], expected, rtol=1e-6)


async def test_the_area_under_the_curve_is_the_share_of_pairs_in_order():
    found = await measured(lambda y, x, w: metrics.auc(y, x, num_thresholds=2000), SURE)

    positive, negative = SURE[LABELS == 1][:, None], SURE[LABELS == 0]
    share = np.mean((positive > negative) + 0.5 * (positive == negative))
    assert found == pytest.approx((share,) * 2, abs=1e-3)


async def test_intersection_by_union_is_averaged_over_classes():
    found = await measured(lambda y, x, w: metrics.mean_iou(y, x, 3), GUESSES)

    each = [np.sum((k == LABELS) & (k == GUESSES)) / np.sum((k == LABELS) | (k == GUESSES)) for k in (0, 1)]
    assert found[0] == pytest.approx(np.mean(each))
    assert found[1].sum() == LABELS.size


async def test_a_metric_is_nothing_before_the_first_batch_and_its_parts_are_listed():
    value, update = metrics.mean(ax.constant([1.0]), metrics_collections="m", updates_collections=["u"])
    init = ax.variables_initializer(ax.get_collection(ax.GraphKeys.METRIC_VARIABLES))
    async with ax.Session() as session:
        await session.run(init)

        assert await session.run(value) == 0
    assert ax.get_collection("m") == [value]
    assert ax.get_collection("u") == [update]
    assert len(ax.local_variables()) == 2
    assert ax.global_variables() == []


async def test_predictions_that_are_no_shares_are_refused():
    with pytest.raises(InvalidArgumentError, match=r"predictions must be in \[0, 1\]"):
        await measured(lambda y, x, w: metrics.auc(y, x), SURE * 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: metrics.accuracy(LABELS, GUESSES[:, :2]),
        lambda: metrics.auc(LABELS, SURE, curve="XY"),
        lambda: metrics.auc(LABELS, SURE, summation_method="sum"),
        lambda: metrics.sensitivity_at_specificity(LABELS, SURE, 1.5),
        lambda: metrics.mean(SURE, weights=np.ones((3, 5))),
    ],
)
def test_arguments_that_do_not_fit_are_refused(make: Callable[[], Any]):
    with pytest.raises(GraphValueError):
        make()
