"""Precision, recall and average precision of the k best predictions of each row, over many batches; see `metrics`.

Labels and predictions of a row are sets of classes, of which a class counts once. Rows of labels may have several lengths, in a
SparseTensor; it is made dense, with ABSENT where a row is shorter.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.arrays import expand_dims
from aioexec.ops.array.filling import ones_like, range_
from aioexec.ops.array.shapes_of import rank, shape, size
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, logical_and, logical_not, not_equal, where_v2
from aioexec.ops.nn.nn_ops import top_k
from aioexec.ops.reduction.cumulative import cumsum
from aioexec.ops.reduction.reductions import reduce_any, reduce_sum
from aioexec.ops.sparse.functions import sparse_to_dense
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.training.metrics import Metric, listed, metric_variable
from aioexec.ops.training.weights import assert_broadcastable, broadcast_weights

ABSENT = int(np.iinfo(np.int64).min)


class Sets(NamedTuple):
    """Classes int64 [..., n], and which of them are in the set of their row."""

    classes: Tensor
    is_member: Tensor

    def of_class(self, class_id: int | None) -> Sets:
        """Return the sets without other classes."""
        if class_id is None:
            return self
        chosen = equal(self.classes, constant(class_id, dtypes.int64))
        return Sets(self.classes, logical_and(self.is_member, chosen))

    def found_in(self, other: Sets) -> Tensor:
        """Return which of the classes are in the other set of the row."""
        same = equal(self.classes[..., :, None], other.classes[..., None, :])
        return reduce_any(logical_and(same, other.is_member[..., None, :]), axis=-1)

    def once(self) -> Tensor:
        """Return which of the classes are in the set, each at its first place only."""
        places = range_(shape(self.classes)[-1])
        before = places[:, None] > places[None, :]
        same = equal(self.classes[..., :, None], self.classes[..., None, :])
        return logical_and(self.is_member, logical_not(reduce_any(logical_and(same, before), axis=-1)))


def sets_of_predictions(predictions_idx: Any) -> Sets:
    classes = cast(predictions_idx, dtypes.int64)
    return Sets(classes, ones_like(equal(classes, classes)))


def sets_of_labels(labels: Any, predictions: Tensor) -> Sets:
    """Return the labels as sets of the rows of the predictions; labels of one dimension less are single classes.

    Raises:
        GraphValueError: the ranks differ by more.
    """
    if isinstance(labels, SparseTensor):
        values = cast(labels.values, dtypes.int64)
        dense = sparse_to_dense(
            labels.indices, labels.dense_shape, values, constant(ABSENT, dtypes.int64), False
        )
        known = labels.dense_shape.dims
        if dense.dims is None and known is not None and known[0] is not None:
            dense.set_shape([None] * known[0])
    else:
        dense = cast(convert_to_tensor(labels), dtypes.int64)
    classes = _with_rank_of(dense, predictions)
    return Sets(classes, not_equal(classes, constant(ABSENT, dtypes.int64)))


def _with_rank_of(labels: Tensor, predictions: Tensor) -> Tensor:
    if labels.dims is None or predictions.dims is None:
        is_lower = equal(rank(predictions), rank(labels) + 1)
        chosen: Tensor = cond(is_lower, lambda: expand_dims(labels, -1), lambda: labels)
        return chosen
    more = len(predictions.dims) - len(labels.dims)
    if more not in (0, 1):
        raise GraphValueError(
            f"Unexpected labels shape {labels.shape} for predictions shape {predictions.shape}. "
            "Predictions rank should be the same rank as labels rank or labels rank plus one."
        )
    return expand_dims(labels, -1) if more else labels


def at_k(name: str, k: int | None, class_id: int | None = None) -> str:
    """Return the name of a metric of the k best predictions."""
    whole = f"{name}_at_k" if k is None else f"{name}_at_{k}"
    return whole if class_id is None else f"{whole}_class{class_id}"


# Precision and recall


def _counted(
    name: str, k: int | None, class_id: int | None, numbers: Tensor, weights: Any
) -> tuple[Any, Any]:
    """Return a variable with the weighted sum of numbers, and its update."""
    with name_scope(at_k(name, k, class_id), values=[numbers]) as scope:
        counts = cast(numbers, dtypes.float64)
        if weights is not None:
            with get_default_graph().control_dependencies([assert_broadcastable(weights, counts)]):
                counts = apply_op("Mul", counts, cast(weights, dtypes.float64))
        total = metric_variable([], dtypes.float64, name=scope)
        return total, assign_add(total, reduce_sum(counts), name="update")


def _ratio(
    kind: Literal["precision", "recall"],
    labels: Any,
    predictions_idx: Any,
    k: int | None,
    class_id: int | None,
    weights: Any,
    collections: tuple[Any, Any],
    scope: str,
) -> Metric:
    """Return true positives / (true positives + what else was predicted, or what else is labelled)."""
    given = convert_to_tensor(predictions_idx)
    predicted = sets_of_predictions(given).of_class(class_id)
    wanted = sets_of_labels(labels, given).of_class(class_id)
    is_hit = predicted.found_in(wanted)
    once = predicted.once()
    hits = reduce_sum(cast(logical_and(once, is_hit), dtypes.int32), axis=-1)
    if kind == "precision":
        name, missed = "false_positive", logical_and(once, logical_not(is_hit))
    else:
        name, missed = "false_negative", logical_and(wanted.once(), logical_not(wanted.found_in(predicted)))
    others = reduce_sum(cast(missed, dtypes.int32), axis=-1)
    right, right_update = _counted("true_positive", k, class_id, hits, weights)
    wrong, wrong_update = _counted(name, k, class_id, others, weights)
    value = apply_op("RealDiv", right, apply_op("AddV2", right, wrong), name=scope)
    update = apply_op("RealDiv", right_update, apply_op("AddV2", right_update, wrong_update), name="update")
    return listed(value, update, *collections)


def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the share of predicted classes that are labels.

    Args:
        labels: integers, or a SparseTensor of them, [..., labels]; or one label for each row, [...].
        predictions_idx: integers [..., k], the predicted classes.
        k: named in the names of nodes.
        class_id: the only class to count.
        weights: floats that are broadcast to [...].

    Raises:
        GraphValueError: the ranks of labels and predictions do not fit.
    """
    with name_scope(name, at_k("precision", k, class_id), [predictions_idx, labels, weights]) as scope:
        collections = metrics_collections, updates_collections
        return _ratio("precision", labels, predictions_idx, k, class_id, weights, collections, scope)


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """As `precision_at_top_k`, of the classes with the k highest `predictions` [..., classes]."""
    with name_scope(name, at_k("precision", k, class_id), [predictions, labels, weights]) as scope:
        best = top_k(predictions, k).indices
        collections = metrics_collections, updates_collections
        return precision_at_top_k(labels, best, k, class_id, weights, *collections, name=scope)


def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the share of labels that are predicted; arguments as of `precision_at_top_k`."""
    with name_scope(name, at_k("recall", k, class_id), [predictions_idx, labels, weights]) as scope:
        collections = metrics_collections, updates_collections
        return _ratio("recall", labels, predictions_idx, k, class_id, weights, collections, scope)


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """As `recall_at_top_k`, of the classes with the k highest `predictions` [..., classes]."""
    with name_scope(name, at_k("recall", k, class_id), [predictions, labels, weights]) as scope:
        best = top_k(predictions, k).indices
        collections = metrics_collections, updates_collections
        return recall_at_top_k(labels, best, k, class_id, weights, *collections, name=scope)


def sparse_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """As `precision_at_k`, an older name."""
    collections = metrics_collections, updates_collections
    return precision_at_k(labels, predictions, k, class_id, weights, *collections, name=name)


# Average precision


def _average_precision(labels: Any, best: Tensor) -> Tensor:
    """Return the average precision of each row of predicted classes: float64 [...].

    Raises:
        GraphValueError: the number of predictions is not known.
    """
    if best.dims is None or not best.dims or best.dims[-1] is None:
        raise GraphValueError("The last dimension of predictions_idx must be set. Currently, it is None.")
    k = best.dims[-1]
    wanted = sets_of_labels(labels, best)
    is_hit = cast(sets_of_predictions(best).found_in(wanted), dtypes.float64)
    precisions = apply_op("RealDiv", cumsum(is_hit, axis=-1), cumsum(ones_like(is_hit), axis=-1))
    total = reduce_sum(apply_op("Mul", precisions, is_hit), axis=-1)
    is_counted = wanted.once() if isinstance(labels, SparseTensor) else wanted.classes >= 0
    number = apply_op("Minimum", reduce_sum(cast(is_counted, dtypes.int64), axis=-1), k)
    return apply_op("RealDiv", total, cast(number, dtypes.float64))


def _known_classes(labels: Any, count: Tensor) -> Any:
    """Return the labels with -1 for those that are no class."""

    def known(values: Any) -> Tensor:
        given = cast(convert_to_tensor(values), dtypes.int64)
        return where_v2(given >= count, -ones_like(given), given)

    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, known(labels.values), labels.dense_shape)
    return known(labels)


def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over the rows of the average precision of the classes with the k highest predictions.

    The average precision of a row is the sum of the precision of the j best classes, for those j whose class is a label,
    divided by min(k, number of labels).

    Args:
        labels: integers, or a SparseTensor of them, [..., labels]; or one label for each row, [...].
        predictions: floats [..., classes].
        weights: floats that are broadcast to [...].

    Raises:
        GraphValueError: k is not positive, or the ranks of labels and predictions do not fit.
    """
    if k < 1:
        raise GraphValueError(f"Invalid k={k}. `k` should be >= 1.")
    with name_scope(name, at_k("average_precision", k), [predictions, labels, weights]) as scope:
        best = cast(top_k(predictions, k).indices, dtypes.int64)
        count = cast(shape(convert_to_tensor(predictions))[-1], dtypes.int64)
        average = _average_precision(_known_classes(labels, count), best)
        if weights is not None:
            weights = broadcast_weights(cast(weights, dtypes.float64), average)
            average = apply_op("Mul", average, weights)
        number = cast(size(average), dtypes.float64) if weights is None else reduce_sum(weights)
        # In TensorFlow, the node of a maximum has the name "max".
        most, most_update = _summed("max_1", number)
        total, total_update = _summed("total", reduce_sum(average))
        value = div_no_nan(total, most, name="mean")
        update = div_no_nan(total_update, most_update, name=scope)
        return listed(value, update, metrics_collections, updates_collections)


def _summed(name: str, number: Tensor) -> tuple[Any, Any]:
    """Return a variable with the sum of a number over the batches, and its update."""
    with name_scope(None, name, [number]) as scope:
        total = metric_variable([], dtypes.float64, name=scope)
        return total, assign_add(total, number, name="update")


def sparse_average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """As `average_precision_at_k`, an older name."""
    collections = metrics_collections, updates_collections
    return average_precision_at_k(labels, predictions, k, weights, *collections, name=name)
