"""Metrics of `aioexec.metrics` with predictions before labels, and covariance and correlation over many batches.

Each returns (value, update): the value so far, and the node that adds a batch. `metrics_collections` and `updates_collections`
get the two. The variables are local ones.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import size
from aioexec.ops.math.arithmetic import multiply
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.math.math_functions import sqrt
from aioexec.ops.nn.nn_ops import in_top_k
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.state.assignments import assign, assign_add
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.ops.training import binary_metrics, metrics
from aioexec.ops.training.metrics import Metric, fitted, listed, metric_variable
from aioexec.ops.training.weights import broadcast_weights


def _turned(function: Callable[..., Metric], doc: str) -> Callable[..., Metric]:
    """The metric with predictions before labels; its other parameters are the same."""
    labels, predictions, *others = signature(function).parameters.values()

    def metric(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Metric:
        return function(labels, predictions, *args, **kwargs)

    turned: Any = metric
    turned.__name__ = turned.__qualname__ = f"streaming_{function.__name__}"
    turned.__doc__ = f"Return {doc}, over all batches."
    turned.__signature__ = signature(function).replace(parameters=[predictions, labels, *others])
    return metric


streaming_mean = metrics.mean
streaming_mean_tensor = metrics.mean_tensor
streaming_percentage_less = metrics.percentage_below
streaming_accuracy = _turned(metrics.accuracy, "the fraction of predictions that equal the labels")
streaming_precision = _turned(binary_metrics.precision, "the fraction of positive predictions that are right")
streaming_recall = _turned(binary_metrics.recall, "the fraction of positive labels that are predicted")
streaming_true_positives = _turned(binary_metrics.true_positives, "the weight of true positives")
streaming_true_negatives = _turned(binary_metrics.true_negatives, "the weight of true negatives")
streaming_false_positives = _turned(binary_metrics.false_positives, "the weight of false positives")
streaming_false_negatives = _turned(binary_metrics.false_negatives, "the weight of false negatives")
streaming_mean_absolute_error = _turned(metrics.mean_absolute_error, "the mean absolute error")
streaming_mean_squared_error = _turned(metrics.mean_squared_error, "the mean squared error")
streaming_root_mean_squared_error = _turned(
    metrics.root_mean_squared_error, "the root of the mean squared error"
)
streaming_mean_relative_error = _turned(
    metrics.mean_relative_error,
    "the mean of |labels - predictions| / normalizer, 0 where the normalizer is 0",
)
streaming_mean_cosine_distance = _turned(
    metrics.mean_cosine_distance, "the mean of 1 minus the dot product of unit vectors along `dim`"
)
streaming_mean_iou = _turned(metrics.mean_iou, "the mean over the classes of intersection / union")
streaming_auc = _turned(
    binary_metrics.auc, "the area under the curve, ROC or PR, by `num_thresholds` thresholds"
)
streaming_precision_at_thresholds = _turned(
    binary_metrics.precision_at_thresholds, "the precision at each threshold"
)
streaming_recall_at_thresholds = _turned(binary_metrics.recall_at_thresholds, "the recall at each threshold")
streaming_sensitivity_at_specificity = _turned(
    binary_metrics.sensitivity_at_specificity,
    "the sensitivity at the threshold whose specificity is nearest to the given one",
)
streaming_specificity_at_sensitivity = _turned(
    binary_metrics.specificity_at_sensitivity,
    "the specificity at the threshold whose sensitivity is nearest to the given one",
)


def streaming_recall_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the fraction of labels [batch] that are among the `k` largest predictions [batch, classes]."""
    found = cast(in_top_k(predictions, labels, k), dtypes.float32)
    return metrics.mean(found, weights, metrics_collections, updates_collections, name or f"recall_at_{k}")


class _Comoments:
    """The sums of many batches from which covariances follow: weight, means, and the sum of products of distances to them.

    A batch is added by the formula of Chan et al. (1983) for two sets, which loses no digits.
    """

    def __init__(self, x: Tensor, y: Tensor, weights: Any) -> None:
        factors = None if weights is None else broadcast_weights(cast(weights, dtypes.float32), y)
        count = cast(size(y), dtypes.float32) if factors is None else reduce_sum(factors)
        self.count, self.mean_x, self.mean_y, self.products = (
            metric_variable([], dtypes.float32, name=name)
            for name in ("count", "mean_prediction", "mean_label", "comoment")
        )
        old_count = convert_to_tensor(self.count)
        batch = [div_no_nan(reduce_sum(_times(each, factors)), count) for each in (x, y)]
        distances = [new - old for new, old in zip(batch, (self.mean_x, self.mean_y), strict=True)]
        share = div_no_nan(count, old_count + count)
        within = reduce_sum(_times(multiply(x - batch[0], y - batch[1]), factors))
        between = distances[0] * distances[1] * div_no_nan(old_count * count, old_count + count)
        added = [count, distances[0] * share, distances[1] * share, within + between]
        with control_dependencies(added):
            variables = (self.count, self.mean_x, self.mean_y, self.products)
            new = [assign_add(variable, each) for variable, each in zip(variables, added, strict=True)]
        self.value = div_no_nan(self.products, self.count - 1.0)
        with control_dependencies(new):
            self.update = div_no_nan(new[3], new[0] - 1.0)


def _times(values: Tensor, factors: Tensor | None) -> Tensor:
    return values if factors is None else multiply(values, factors)


def streaming_covariance(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the unbiased covariance of predictions and labels over all batches; 0 for fewer than two elements."""
    with variable_scope(name, "covariance", [predictions, labels, weights]):
        x, y = (cast(each, dtypes.float32) for each in (predictions, labels))
        x, y, weights = fitted(x, y, weights)
        sums = _Comoments(x, y, weights)
        return listed(sums.value, sums.update, metrics_collections, updates_collections)


def streaming_pearson_correlation(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the correlation of predictions and labels over all batches; 0 if one of the two does not vary."""
    with variable_scope(name, "pearson_r", [predictions, labels, weights]):
        x, y = (cast(each, dtypes.float32) for each in (predictions, labels))
        x, y, weights = fitted(x, y, weights)
        both, of_x, of_y = (_Comoments(a, b, weights) for a, b in ((x, y), (x, x), (y, y)))
        value = div_no_nan(both.value, sqrt(of_x.value) * sqrt(of_y.value), name="value")
        update = div_no_nan(both.update, sqrt(of_x.update) * sqrt(of_y.update), name="update_op")
        return listed(value, update, metrics_collections, updates_collections)


def streaming_concat(
    values: Any,
    axis: int = 0,
    max_size: int | None = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the values of all batches, joined along an axis.

    Args:
        values: their other dimensions are known.
        max_size: how many of them to keep along the axis, the first ones.

    Raises:
        GraphValueError: the rank or another dimension is not known, or there is no such axis.
    """
    with variable_scope(name, "streaming_concat", (values,)):
        values = convert_to_tensor(values)
        rank = values.shape.ndims
        if rank is None:
            raise GraphValueError("`values` must have known statically known rank")
        if not -rank <= axis < rank:
            raise GraphValueError(f"axis = {axis} not in [-{rank}, {rank})")
        axis %= rank
        empty = [0 if each == axis else dimension.value for each, dimension in enumerate(values.shape.dims)]
        if None in empty:
            raise GraphValueError(
                "all dimensions of `values` other than the dimension to concatenate along must have known sizes"
            )
        array = metric_variable(empty, values.dtype, validate_shape=False, name="array")
        joined = concat([array, values], axis)
        if max_size is not None:
            joined = joined[(*(slice(None) for _ in range(axis)), slice(max_size))]
        value = identity(array, name="value")
        value.set_shape([None if each == axis else known for each, known in enumerate(empty)])
        update = assign(array, joined, validate_shape=False, name="update")
        return listed(value, update, metrics_collections, updates_collections)
