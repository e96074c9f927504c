"""The losses over weights, reductions, static and dynamic shapes, and errors, against TensorFlow's."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, Built, values, whole
from tests.interop.train.engines import compare, table

pytestmark = pytest.mark.interop

ROWS, add = table()
REDUCTIONS = [
    "NONE",
    "SUM",
    "SUM_OVER_BATCH_SIZE",
    "MEAN",
    "SUM_BY_NONZERO_WEIGHTS",
    "SUM_OVER_NONZERO_WEIGHTS",
]
SHAPE = (4, 3)
WEIGHTS: dict[str, Any] = {
    "none": 1.0,
    "scalar": 2.5,
    "zero": 0.0,
    "rows": np.array([[1.0], [0.0], [2.0], [0.5]], np.float32),
    "columns": np.array([[1.0, 0.0, 3.0]], np.float32),
    "each": whole(3, *SHAPE, low=0, high=3, dtype="float32"),
    "integers": whole(3, *SHAPE, low=0, high=3),
    "vector": np.ones(4, np.float32),
    "another shape": np.ones((2, 3), np.float32),
    "all zero": np.zeros(SHAPE, np.float32),
}

# Of two arrays, labels first.
ELEMENTWISE: dict[str, list[dict[str, Any]]] = {
    "absolute_difference": [{}],
    "mean_squared_error": [{}],
    "hinge_loss": [{}],
    "huber_loss": [{}, {"delta": 0.3}],
    "log_loss": [{}, {"epsilon": 0.01}],
    "cosine_distance": [{"axis": 1}, {"dim": 0}],
    "sigmoid_cross_entropy": [{}, {"label_smoothing": 0.2}],
    "softmax_cross_entropy": [{}, {"label_smoothing": 0.3}],
}
LABELS = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
GIVEN = values(1, *SHAPE, low=0.05, high=0.95)


def weights_for(function: str, weights: Any) -> Any:
    """Where the loss of each row is one number, weights of rows are a vector."""
    if function == "softmax_cross_entropy" and isinstance(weights, np.ndarray) and weights.shape == (4, 1):
        return weights[:, 0]
    if function == "softmax_cross_entropy" and isinstance(weights, np.ndarray) and weights.shape == SHAPE:
        return weights[:, 1]
    return weights


def loss(function: str, labels: Any, given: Any, known: Any = SHAPE, **options: Any) -> Builder:
    """The loss, its gradient by what is given, and the total."""

    def build(tf: Any) -> Built:
        x = tf.placeholder(tf.float32, known)
        value = getattr(tf.losses, function)(labels, x, **options)
        gradient = tf.gradients(value, x)[0]
        total = tf.losses.get_total_loss()
        return Built([value, gradient, total], [{x: given}, {x: given[::-1].copy()}])

    return build


def plain(function: str, given: Any, **options: Any) -> Builder:
    """The loss alone, of what is no placeholder."""

    def build(tf: Any) -> Built:
        return Built([getattr(tf.losses, function)(LABELS, given, **options)])

    return build


def reduced(function: str, **options: Any) -> Builder:
    """The loss in each reduction, and the gradients."""

    def build(tf: Any) -> Built:
        x = tf.placeholder(tf.float32, SHAPE)
        kinds = [getattr(tf.losses.Reduction, name) for name in REDUCTIONS]
        each = [getattr(tf.losses, function)(LABELS, x, reduction=kind, **options) for kind in kinds]
        return Built([*each, *(tf.gradients(value, x)[0] for value in each)], [{x: GIVEN}])

    return build


for function, cases in ELEMENTWISE.items():
    for k, options in enumerate(cases):
        for kind, weights in WEIGHTS.items():
            fitting = weights_for(function, weights)
            add(f"{function} {k} weights {kind}", reduced(function, weights=fitting, **options))
    first = cases[0]
    rows = weights_for(function, WEIGHTS["rows"])
    for known in (None, [None, 3], [None, None]):
        add(f"{function} of shape {known}", loss(function, LABELS, GIVEN, known, weights=rows, **first))
    add(f"{function} named", loss(function, LABELS, GIVEN, scope="mine", **first))
    add(f"{function} of integers", loss(function, LABELS.astype(np.int64), GIVEN, **first))
    add(f"{function} of other shapes", loss(function, LABELS[:, :2], GIVEN, **first))
    add(f"{function} without labels", loss(function, None, GIVEN, **first))
    add(f"{function} reduced in no way", loss(function, LABELS, GIVEN, reduction="sum", **first))
    for name, given, options in (
        ("without predictions", None, {}),
        ("unlisted", GIVEN, {"loss_collection": None}),
    ):
        add(f"{function} {name}", plain(function, given, **first, **options))


# Of classes

CLASSES = np.array([2, 0, 1, 1])
CLASS_WEIGHTS: dict[str, Any] = {
    "none": 1.0,
    "scalar": 0.5,
    "rows": np.array([1, 0, 2, 1], np.float32),
    "column": np.array([[1], [0], [2], [1]], np.float32),
    "None": None,
    "another shape": np.ones(3, np.float32),
    "a scalar in a vector": np.array([2.0], np.float32),
}


def of_classes(classes: Any, known: Any, known_classes: Any, **options: Any) -> Builder:
    def build(tf: Any) -> Built:
        x, y = tf.placeholder(tf.float32, known), tf.placeholder(classes.dtype.name, known_classes)
        value = tf.losses.sparse_softmax_cross_entropy(y, x, **options)
        return Built([value, tf.gradients(value, x)[0]], [{x: GIVEN, y: classes}])

    return build


for kind, weights in CLASS_WEIGHTS.items():
    for reduction in (None, "weighted_mean", "none"):
        options = {} if reduction is None else {"reduction": reduction}
        program = of_classes(CLASSES, [4, 3], [4], weights=weights, **options)
        add(f"sparse_softmax_cross_entropy weights {kind} {reduction}", program)
for classes, known_classes in itertools.product(
    (CLASSES, CLASSES[:, None], CLASSES.astype(np.int32)),
    ([4], [4, 1], [None], None, [None, 1], [None, None]),
):
    rows = CLASS_WEIGHTS["rows"]
    add(
        f"sparse_softmax_cross_entropy {classes.shape} {classes.dtype} {known_classes}",
        of_classes(classes, [None, 3], known_classes, weights=rows),
    )
add("sparse_softmax_cross_entropy of unknown logits", of_classes(CLASSES, None, None))
add("sparse_softmax_cross_entropy of a class too many", of_classes(CLASSES + 1, [4, 3], [4]))

# Pairs


def pairwise(weights: Any, known: Any = SHAPE, labels: Any = LABELS) -> Builder:
    def build(tf: Any) -> Built:
        x = tf.placeholder(tf.float32, known)
        value = tf.losses.mean_pairwise_squared_error(labels, x, weights)
        return Built([value, tf.gradients(value, x)[0]], [{x: GIVEN}])

    return build


for kind, weights in WEIGHTS.items():
    add(f"mean_pairwise_squared_error weights {kind}", pairwise(weights))
    add(f"mean_pairwise_squared_error of unknown shape, weights {kind}", pairwise(weights, [None, None]))
add("mean_pairwise_squared_error of one dimension", pairwise(1.0, [4], LABELS[:, 0]))
add("mean_pairwise_squared_error without labels", pairwise(1.0, SHAPE, None))

# Weights that are known in a run


def late(shape: Any, weights: Any, known: Any) -> Builder:
    def build(tf: Any) -> Built:
        w, x = tf.placeholder(tf.float32, known), tf.placeholder(tf.float32, shape)
        value = tf.losses.compute_weighted_loss(x, w)
        each = tf.losses.compute_weighted_loss(x, w, "again", reduction=tf.losses.Reduction.NONE)
        return Built([value, each, tf.gradients(value, [x, w])[0]], [{x: GIVEN, w: weights}])

    return build


for (kind, weights), known, shape in itertools.product(
    WEIGHTS.items(), (None, "rank", "sizes"), (None, [None, None], [None, 3])
):
    array = np.asarray(weights, np.float32)
    dims = None if known is None else [None] * array.ndim if known == "rank" else list(array.shape)
    add(f"weights {kind} known {known}, losses {shape}", late(shape, array, dims))

# Collections


def totals(tf: Any) -> Built:
    tf.losses.add_loss(tf.constant(1.5, name="plain"))
    tf.losses.add_loss(tf.constant(7.0), loss_collection="others")
    tf.losses.add_loss(tf.constant(7.0), loss_collection=None)
    with tf.name_scope("part"):
        tf.losses.mean_squared_error([1.0, 2.0], [0.0, 0.0])
    none = tf.losses.get_regularization_loss()
    tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, tf.constant(0.25))
    tf.get_variable("v", [2], initializer=tf.ones_initializer(), regularizer=lambda v: tf.reduce_sum(v) * 0.5)
    fetches = [
        tf.losses.get_total_loss(),
        tf.losses.get_total_loss(add_regularization_losses=False, name="mine"),
        tf.losses.get_total_loss(scope="part"),
        tf.losses.get_regularization_loss(),
        none,
        *tf.losses.get_losses(),
        *tf.losses.get_losses("part"),
        *tf.losses.get_losses(loss_collection="others"),
        *tf.losses.get_regularization_losses(),
    ]
    return Built(fetches, init=tf.global_variables_initializer())


add("totals", totals)
add("a total of nothing", lambda tf: Built([tf.losses.get_total_loss()]))
add(
    "float64 losses keep their dtype",
    lambda tf: Built([tf.losses.compute_weighted_loss(tf.constant([1.0, 2.0], tf.float64), 0.3)]),
)
add(
    "half losses keep their dtype",
    lambda tf: Built([tf.losses.compute_weighted_loss(tf.constant([1.0, 2.0], tf.float16), 0.3)]),
)


@pytest.mark.parametrize("name", ROWS)
async def test_a_loss_is_tensorflows(tf: Any, name: str):
    assert await compare(tf, ROWS[name], tolerance=3) == []
