"""Metrics of the k best predictions against TensorFlow's: values after each batch, variables, collections and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, values, whole
from tests.interop.train.engines import Measured, compare, table

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning"),
]

ROWS, add = table()
ERRORS, add_error = table()
BATCHES = 3
PREDICTIONS = [values(step, 4, 7) for step in range(BATCHES)]
BEST = [np.argsort(-each)[:, :3].astype(np.int64) for each in PREDICTIONS]
LABELS = [whole(step + 10, 4, 2, low=0, high=7, dtype="int64") for step in range(BATCHES)]
SINGLE = [each[:, 0] for each in LABELS]
OUTSIDE = [np.where(each > 4, each + 9, each) - (each == 0) for each in LABELS]
WEIGHTS = [values(step + 20, 4, low=0.0) for step in range(BATCHES)]
TWICE = [np.concatenate([each, each[:, :1]], axis=1) for each in LABELS]


def metric(
    function: str,
    labels: Any,
    predictions: Any,
    k: int = 3,
    weights: Any = None,
    known: bool = True,
    **options: Any,
) -> Builder:
    def build(tf: Any) -> Measured:
        given = [each for each in (labels, predictions, weights) if each is not None]
        fed = [
            tf.placeholder(each[0].dtype.name, each[0].shape if known else [None] * each[0].ndim)
            for each in given
        ]
        factors = fed[-1] if weights is not None else None
        value, update = getattr(tf.metrics, function)(
            fed[0],
            fed[1],
            k,
            weights=factors,
            metrics_collections=["found"],
            updates_collections="updates",
            **options,
        )
        feeds = [dict(zip(fed, batch, strict=True)) for batch in zip(*given, strict=True)]
        return Measured([update], feeds, tf.local_variables_initializer(), after=[value])

    return build


def sparse(function: str, predictions: Any, *, classes: int = 7, **options: Any) -> Builder:
    """Labels of several lengths; one row has none."""
    places = [[0, 0], [0, 1], [0, 2], [1, 0], [3, 0], [3, 1]]

    def build(tf: Any) -> Measured:
        fed = tf.placeholder(predictions[0].dtype.name, predictions[0].shape)
        ids = tf.placeholder(tf.int64, [len(places)])
        labels = tf.SparseTensor(places, ids, [4, 3])
        value, update = getattr(tf.metrics, function)(labels, fed, 3, **options)
        feeds = [
            {fed: batch, ids: whole(step, len(places), low=0, high=classes, dtype="int64")}
            for step, batch in enumerate(predictions)
        ]
        return Measured([update], feeds, tf.local_variables_initializer(), after=[value])

    return build


RATIOS = {
    "precision_at_k": PREDICTIONS,
    "sparse_precision_at_k": PREDICTIONS,
    "recall_at_k": PREDICTIONS,
    "precision_at_top_k": BEST,
    "recall_at_top_k": BEST,
}
AVERAGES = ("average_precision_at_k", "sparse_average_precision_at_k")
for function, predictions in {**RATIOS, **dict.fromkeys(AVERAGES, PREDICTIONS)}.items():
    add(f"{function}", metric(function, LABELS, predictions))
    add(f"{function} of single labels", metric(function, SINGLE, predictions))
    add(f"{function} of labels outside", metric(function, OUTSIDE, predictions))
    add(f"{function} of labels twice", metric(function, TWICE, predictions))
    add(f"{function} weighted", metric(function, LABELS, predictions, weights=WEIGHTS))
    add(f"{function} by a scalar", metric(function, LABELS, predictions, weights=[np.float32(2)] * BATCHES))
    add(f"{function} named", metric(function, LABELS, predictions, name="mine"))
    add(f"{function} of a sparse tensor", sparse(function, predictions))
    if "average" not in function:
        add(f"{function} of unknown sizes", metric(function, LABELS, predictions, known=False))
        for chosen in (0, 3):
            add(f"{function} of class {chosen}", metric(function, LABELS, predictions, class_id=chosen))
        add(f"{function} of a class, sparse", sparse(function, predictions, class_id=2))
        add(
            f"{function} of a class, weighted",
            metric(function, LABELS, predictions, weights=WEIGHTS, class_id=2),
        )
    else:
        add(f"{function} for 1", metric(function, LABELS, predictions, 1))
        add(f"{function} of sparse labels outside", sparse(function, predictions, classes=12))
    cube = [np.stack([each] * 2, axis=1) for each in predictions]
    add(f"{function} of a cube", metric(function, [np.stack([each] * 2, 1) for each in LABELS], cube))
    add_error(f"{function} of other ranks", metric(function, [each[0, 0] for each in LABELS], predictions))
for function in AVERAGES:
    add_error(f"{function} for 0", metric(function, LABELS, PREDICTIONS, 0))


@pytest.mark.parametrize("name", ROWS)
async def test_a_metric_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ROWS[name]) == []


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name]) == []
