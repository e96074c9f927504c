"""Metrics over several batches, weighted and not, against TensorFlow's: values, updates, variables, collections."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, values, whole
from tests.interop.train.engines import Measured, compare, table

pytestmark = pytest.mark.interop

ROWS, add = table()
BATCHES = 4


def metric(
    function: str,
    labels: Sequence[Any] | None,
    predictions: Sequence[Any],
    *more: Any,
    weights: Sequence[Any] | None = None,
    known: bool = True,
    twice: bool = False,
    **options: Any,
) -> Builder:
    """Update for each batch, then read; `known`: placeholders have the shapes of the batches, else none."""

    def placeholder(tf: Any, batches: Sequence[Any]) -> Any:
        return tf.placeholder(batches[0].dtype.name, batches[0].shape if known else None)

    def build(tf: Any) -> Measured:
        given = [batches for batches in (labels, predictions, weights) if batches is not None]
        fed = [placeholder(tf, batches) for batches in given]
        factors = fed[-1] if weights is not None else None
        called = getattr(tf.metrics, function)
        arguments = fed[: len(given) - (weights is not None)]
        made = [
            called(
                *arguments,
                *more,
                weights=factors,
                metrics_collections=["found"],
                updates_collections="updates",
                **options,
            )
            for _ in range(2 if twice else 1)
        ]
        feeds = [dict(zip(fed, batch, strict=True)) for batch in zip(*given, strict=True)]
        updates = [update for _, update in made]
        return Measured(updates, feeds, tf.local_variables_initializer(), after=[value for value, _ in made])

    return build


def batches(make: Any) -> list[Any]:
    return [make(step) for step in range(BATCHES)]


FLOATS = batches(lambda k: values(k, 5, 2, low=0.0))
OTHERS = batches(lambda k: values(k + 10, 5, 2, low=0.0))
CLASSES = batches(lambda k: whole(k, 6, low=0, high=4))
GUESSES = batches(
    lambda k: np.where(whole(k + 20, 6, low=0, high=2) > 0, CLASSES[k], whole(k + 10, 6, low=0, high=4))
)
ROWS_OF = batches(lambda k: values(k + 30, 5, 1, low=0.0))
EACH = batches(lambda k: values(k + 40, 5, 2, low=0.0))
SIX = batches(lambda k: whole(k + 50, 6, low=0, high=3, dtype="float32"))
TRUTH = batches(lambda k: whole(k + 60, 6, low=0, high=2))
CLAIM = batches(lambda k: np.where(whole(k + 70, 6, low=0, high=3) > 0, TRUTH[k], 1 - TRUTH[k]))
SURE = batches(
    lambda k: np.clip(TRUTH[k] * 0.4 + values(k + 80, 6, low=0.0, high=0.6), 0, 1).astype(np.float32)
)
SCALAR = batches(lambda k: np.float32(k))
WEIGHTS = {
    "none": None,
    "scalar": SCALAR,
    "rows": ROWS_OF,
    "each": EACH,
    "vector": batches(lambda k: np.ones(5, np.float32)),
}

for (kind, weights), known in itertools.product(WEIGHTS.items(), (True, False)):
    where = f"{kind}, shapes {'known' if known else 'unknown'}"
    add(f"mean {where}", metric("mean", None, FLOATS, weights=weights, known=known))
    add(
        f"mean_squared_error {where}",
        metric("mean_squared_error", FLOATS, OTHERS, weights=weights, known=known),
    )
    add(
        f"percentage_below {where}",
        metric("percentage_below", None, FLOATS, 0.4, weights=weights, known=known),
    )
for kind, weights in WEIGHTS.items():
    add(f"mean_tensor {kind}", metric("mean_tensor", None, FLOATS, weights=weights))
    for function in ("mean_absolute_error", "root_mean_squared_error"):
        add(f"{function} {kind}", metric(function, FLOATS, OTHERS, weights=weights))
    add(f"mean_cosine_distance {kind}", metric("mean_cosine_distance", FLOATS, OTHERS, 1, weights=weights))
    scale = np.array([[1, 0], [2, 1], [0.5, 3], [1, 1], [0, 2]], np.float32)
    add(f"mean_relative_error {kind}", metric("mean_relative_error", FLOATS, OTHERS, scale, weights=weights))
add(
    "mean_squared_error of a column",
    metric("mean_squared_error", [f[:, 0] for f in FLOATS], [o[:, :1] for o in OTHERS]),
)
add("mean_squared_error of other shapes", metric("mean_squared_error", FLOATS, [o[:3] for o in OTHERS]))
add("mean of integers", metric("mean", None, CLASSES))
add("mean twice", metric("mean", None, FLOATS, twice=True))
add("mean named", metric("mean", None, FLOATS, name="mine", twice=True))
add("mean of nothing", metric("mean", None, [np.zeros((0, 2), np.float32)] * 2))
add("accuracy named", metric("accuracy", CLASSES, GUESSES, name="mine"))
add("accuracy twice", metric("accuracy", CLASSES, GUESSES, twice=True))
add("accuracy of strings", metric("mean", None, [np.array([b"a"])]))

OF_CLASSES: dict[str, tuple[Any, ...]] = {"accuracy": (), "mean_per_class_accuracy": (4,), "mean_iou": (4,)}
for function, more in OF_CLASSES.items():
    for kind, weights in {"none": None, "each": SIX, "whole": [s.astype(np.int32) for s in SIX]}.items():
        add(f"{function} {kind}", metric(function, CLASSES, GUESSES, *more, weights=weights))
    wide = [g.astype(np.int64) for g in GUESSES]
    add(f"{function} of other dtypes", metric(function, CLASSES, wide, *more))
    add(
        f"{function} of a matrix",
        metric(function, [c.reshape(2, 3) for c in CLASSES], [g.reshape(2, 3) for g in GUESSES], *more),
    )
    add(f"{function} of other sizes", metric(function, CLASSES, [g[:4] for g in GUESSES], *more))
    add(
        f"{function} of classes that lack",
        metric(function, [np.zeros(3, np.int32)] * 2, [np.ones(3, np.int32)] * 2, *more),
    )
add("accuracy of unknown shapes", metric("accuracy", CLASSES, GUESSES, known=False, weights=SIX))
add("accuracy of a column", metric("accuracy", CLASSES, [g[:, None] for g in GUESSES], weights=SIX))
add("mean_iou of a class too many", metric("mean_iou", CLASSES, GUESSES, 3))

for function in [
    "true_positives",
    "true_negatives",
    "false_positives",
    "false_negatives",
    "precision",
    "recall",
]:
    for kind, weights in {"none": None, "each": SIX, "scalar": SCALAR}.items():
        add(f"{function} {kind}", metric(function, TRUTH, CLAIM, weights=weights))
    add(f"{function} of bools", metric(function, [t > 0 for t in TRUTH], [c > 0 for c in CLAIM]))
    add(f"{function} of a column", metric(function, TRUTH, [c[:, None] for c in CLAIM]))
    add(f"{function} of unknown shapes", metric(function, TRUTH, CLAIM, known=False))
    add(f"{function} of other sizes", metric(function, TRUTH, [c[:4] for c in CLAIM]))
    add(f"{function} twice", metric(function, TRUTH, CLAIM, twice=True))
    add(f"{function} of none", metric(function, [np.zeros(3, np.int32)], [np.zeros(3, np.int32)]))

LIMITS = [0.1, 0.5, 0.75]
AT_THRESHOLDS = [
    f"{name}_at_thresholds"
    for name in [
        "true_positives",
        "true_negatives",
        "false_positives",
        "false_negatives",
        "precision",
        "recall",
    ]
]
for function in AT_THRESHOLDS:
    for kind, weights in {"none": None, "each": SIX, "scalar": SCALAR}.items():
        add(f"{function} {kind}", metric(function, TRUTH, SURE, LIMITS, weights=weights))
    add(f"{function} of unknown shapes", metric(function, TRUTH, SURE, LIMITS, known=False))
    add(f"{function} out of range", metric(function, TRUTH, [s + 1 for s in SURE], LIMITS))
for (kind, weights), curve, method in itertools.product(
    {"none": None, "each": SIX}.items(),
    ("ROC", "PR"),
    ("trapezoidal", "careful_interpolation", "minoring", "majoring"),
):
    add(
        f"auc {curve} {method} {kind}",
        metric("auc", TRUTH, SURE, weights=weights, curve=curve, summation_method=method),
    )
add("auc of few thresholds", metric("auc", TRUTH, SURE, num_thresholds=5))
add("auc of these thresholds", metric("auc", TRUTH, SURE, thresholds=[0.7, 0.2]))
add("auc of no curve", metric("auc", TRUTH, SURE, curve="XY"))
add("auc of no method", metric("auc", TRUTH, SURE, summation_method="sum"))
add("auc of other sizes", metric("auc", TRUTH, [s[:4] for s in SURE]))
add("auc of other sizes known late", metric("auc", TRUTH, [s[:4] for s in SURE], known=False))
for function, target in itertools.product(
    ("sensitivity_at_specificity", "specificity_at_sensitivity"), (0.0, 0.5, 0.8, 1.0, 1.5)
):
    add(f"{function} {target}", metric(function, TRUTH, SURE, target))
add(
    "sensitivity_at_specificity weighted",
    metric("sensitivity_at_specificity", TRUTH, SURE, 0.6, weights=SIX, num_thresholds=20),
)


def confusion(labels: Any, predictions: Any, *more: Any, known: bool = True, **options: Any) -> Builder:
    def build(tf: Any) -> Measured:
        fed = [tf.placeholder(a.dtype.name, a.shape if known else None) for a in (labels, predictions)]
        matrix = tf.confusion_matrix(*fed, *more, **options)
        return Measured([matrix], [dict(zip(fed, (labels, predictions), strict=True))])

    return build


ONE, OTHER = CLASSES[0], GUESSES[0]
add("confusion_matrix", confusion(ONE, OTHER))
add("confusion_matrix of 6 classes", confusion(ONE, OTHER, 6))
add("confusion_matrix of too few classes", confusion(ONE, OTHER, 2))
add("confusion_matrix of negative classes", confusion(ONE - 2, OTHER))
add("confusion_matrix of a column", confusion(ONE, OTHER[:, None]))
add("confusion_matrix of unknown shape", confusion(ONE, OTHER, known=False))
add("confusion_matrix as float64", confusion(ONE, OTHER, 4, np.float64))
add("confusion_matrix weighted", confusion(ONE, OTHER, weights=SIX[0], dtype=np.float32))
add("confusion_matrix of other sizes", confusion(ONE, OTHER[:3]))
add("confusion_matrix weighted otherwise", confusion(ONE, OTHER, weights=SIX[0][:3]))


@pytest.mark.parametrize("name", ROWS)
async def test_a_metric_is_tensorflows(tf: Any, name: str):
    assert await compare(tf, ROWS[name], tolerance=3) == []


@pytest.mark.parametrize("name", [name for name in ROWS if name.endswith(" none")])
async def test_a_metric_of_reference_variables_is_tensorflows(tf: Any, name: str):
    assert await compare(tf, ROWS[name], tolerance=3, resource=False) == []
