"""Streaming metrics: variables accumulated over batches, a value tensor, and an update op for each batch.

Each function returns (value, update), where the update returns the new value. The variables are local and in the collection of
metric variables, so that `local_variables_initializer` (or that of the metric variables) resets them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import ones_like, zeros
from aioexec.ops.array.shapes_of import size
from aioexec.ops.common.elementwise import named
from aioexec.ops.linalg.matrix_diagonals import diag_part
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.reduction.reductions import reduce_mean, reduce_sum
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.state.scatter_updates import scatter_add
from aioexec.ops.state.variable import Variable
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.ops.training.confusion_matrix import confusion_matrix
from aioexec.ops.training.weights import broadcast_weights, remove_squeezable_dimensions, with_rank_of

Metric = tuple[Tensor, Tensor]
"""Value and update."""


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True, name: str | None = None) -> Any:
    """Create a metric variable, initialised to zeros."""
    return Variable(
        lambda: zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=validate_shape,
        name=name,
    )


def listed(value: Tensor, update: Tensor, metrics_collections: Any, updates_collections: Any) -> Metric:
    """Add value and update to these collections and return them."""
    graph = get_default_graph()
    if metrics_collections:
        graph.add_to_collections(metrics_collections, value)
    if updates_collections:
        graph.add_to_collections(updates_collections, update)
    return value, update


def fitted(predictions: Any, labels: Any, weights: Any) -> tuple[Tensor, Tensor, Any]:
    """Squeeze dimensions of 1 from predictions, labels and weights to equal ranks.

    Raises:
        GraphValueError: the shapes are incompatible.
    """
    wanted, predicted = remove_squeezable_dimensions(labels, predictions)
    predicted.shape.assert_is_compatible_with(wanted.shape)
    return predicted, wanted, None if weights is None else with_rank_of(weights, predicted)


# Means


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the (weighted) mean of all elements of all batches; 0 before the first."""
    with variable_scope(name, "mean", [values, weights]):
        each = cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, name="total")
        count = metric_variable([], dtypes.float32, name="count")
        if weights is None:
            number = cast(size(each), dtypes.float32)
        else:
            factors = broadcast_weights(cast(with_rank_of(weights, each), dtypes.float32), each)
            each = apply_op("Mul", each, factors)
            number = reduce_sum(factors)
        sums = (total, count), _added((total, reduce_sum(each)), (count, number))
        return listed(*_quotients(*sums), metrics_collections, updates_collections)


def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the (weighted) mean of each element over all batches, which have one shape."""
    with variable_scope(name, "mean", [values, weights]):
        each = cast(values, dtypes.float32)
        total = metric_variable(each.shape, dtypes.float32, name="total_tensor")
        count = metric_variable(each.shape, dtypes.float32, name="count_tensor")
        number = ones_like(each)
        if weights is not None:
            factors = broadcast_weights(cast(with_rank_of(weights, each), dtypes.float32), each)
            each, number = apply_op("Mul", each, factors), apply_op("Mul", number, factors)
        sums = (total, count), _added((total, each), (count, number))
        return listed(*_quotients(*sums), metrics_collections, updates_collections)


def _added(one: tuple[Any, Tensor], other: tuple[Any, Tensor]) -> tuple[Any, Any]:
    """Add to two variables; the second addition waits for the value that the first adds."""
    first = assign_add(*one)
    with get_default_graph().control_dependencies([one[1]]):
        return first, assign_add(*other)


def _quotients(*pairs: tuple[Any, Any]) -> Metric:
    """Return total / count before and after the update."""
    value, update = (
        div_no_nan(total, apply_op("Maximum", count, 0.0), name=name)
        for (total, count), name in zip(pairs, ("value", "update_op"), strict=True)
    )
    return value, update


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the fraction of predictions that equal the labels."""
    predicted, wanted, factors = fitted(predictions, labels, weights)
    if predicted.dtype.base_dtype != wanted.dtype.base_dtype:
        predicted = cast(predicted, wanted.dtype.base_dtype)
    is_correct = cast(apply_op("Equal", predicted, wanted), dtypes.float32)
    return mean(is_correct, factors, metrics_collections, updates_collections, name or "accuracy")


def _mean_metric(
    name_of_function: str, summary: str, formula: Callable[[Tensor, Tensor], Tensor]
) -> Callable[..., Metric]:
    """Return the mean of a formula of predictions and labels."""

    def metric(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Metric:
        predicted, wanted, factors = fitted(predictions, labels, weights)
        each = formula(predicted, wanted)
        return mean(each, factors, metrics_collections, updates_collections, name or name_of_function)

    return named(metric, name_of_function, f"Return the mean of {summary}.")


mean_absolute_error = _mean_metric(
    "mean_absolute_error",
    "the absolute differences of predictions and labels",
    lambda x, y: apply_op("Abs", x - y),
)
mean_squared_error = _mean_metric(
    "mean_squared_error",
    "the squared differences of predictions and labels",
    lambda x, y: apply_op("SquaredDifference", y, x),
)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the root mean square of the difference of predictions and labels."""
    squares = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    value, update = (apply_op("Sqrt", square) for square in squares)
    return listed(value, update, metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the mean of |predictions - labels| / normalizer; 0 where that is 0."""
    predicted, wanted, factors = fitted(predictions, labels, weights)
    predicted, scale = remove_squeezable_dimensions(predicted, normalizer)
    predicted.shape.assert_is_compatible_with(scale.shape)
    error = apply_op("RealDiv", apply_op("Abs", wanted - predicted), scale)
    each = apply_op("Select", apply_op("Equal", scale, 0.0), apply_op("ZerosLike", wanted), error)
    return mean(each, factors, metrics_collections, updates_collections, name or "mean_relative_error")


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the mean of 1 minus the dot product of predictions and labels, both unit vectors, along `dim`."""
    predicted, wanted, factors = fitted(predictions, labels, weights)
    products = reduce_sum(apply_op("Mul", predicted, wanted), axis=[dim], keepdims=True)
    means = mean(products, factors, None, None, name or "mean_cosine_distance")
    value, update = (apply_op("Sub", 1.0, product) for product in means)
    return listed(value, update, metrics_collections, updates_collections)


def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the fraction of values below the threshold."""
    is_below = cast(apply_op("Less", values, threshold), dtypes.float32)
    called = name or "percentage_below_threshold"
    return mean(is_below, weights, metrics_collections, updates_collections, called)


# Classes


def _flat(x: Any) -> Tensor:
    tensor = convert_to_tensor(x)
    is_flat = tensor.dims is not None and len(tensor.dims) <= 1
    return tensor if is_flat else apply_op("Reshape", tensor, [-1])


def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over classes of the accuracy within each class; the update returns the accuracies."""
    with variable_scope(name, "mean_accuracy", [predictions, labels, weights]):
        classes, predicted = _flat(cast(labels, dtypes.int64)), _flat(predictions)
        predicted.shape.assert_is_compatible_with(classes.shape)
        total = metric_variable([num_classes], dtypes.float32, name="total")
        count = metric_variable([num_classes], dtypes.float32, name="count")
        is_correct = cast(apply_op("Equal", cast(predicted, dtypes.int64), classes), dtypes.float32)
        number = ones_like(is_correct)
        if weights is not None:
            factors = cast(_flat(weights), dtypes.float32)
            is_correct, number = is_correct * factors, number * factors
        after = scatter_add(total, classes, number), scatter_add(count, classes, is_correct)
        each, update = _quotients((count, total), (after[1], after[0]))
        value = reduce_mean(each, name="mean_accuracy")
        return listed(value, update, metrics_collections, updates_collections)


def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the mean over classes of intersection over union of predictions and labels.

    The update returns the confusion matrix. Classes without examples are excluded.
    """
    with variable_scope(name, "mean_iou", [predictions, labels, weights]):
        predicted, wanted = convert_to_tensor(predictions), convert_to_tensor(labels)
        predicted.shape.assert_is_compatible_with(wanted.shape)
        matrix = metric_variable([num_classes, num_classes], dtypes.float64, name="total_confusion_matrix")
        factors = None if weights is None else _flat(weights)
        batch = confusion_matrix(
            _flat(cast(wanted, dtypes.int64)),
            _flat(cast(predicted, dtypes.int64)),
            num_classes,
            weights=factors,
            dtype=dtypes.float64,
        )
        update = assign_add(matrix, batch)
        return listed(_intersection_by_union(matrix), update, metrics_collections, updates_collections)


def _intersection_by_union(matrix: Any) -> Tensor:
    content = convert_to_tensor(matrix)
    rows, columns = (cast(reduce_sum(content, axis), dtypes.float32) for axis in (0, 1))
    both = cast(diag_part(content), dtypes.float32)
    union = rows + columns - both
    occurring = reduce_sum(cast(apply_op("NotEqual", union, 0.0), dtypes.float32))
    divisor = apply_op("Select", apply_op("Greater", union, 0.0), union, ones_like(union))
    total = reduce_sum(both / divisor, name="mean_iou")
    is_any = apply_op("Greater", occurring, 0.0)
    return apply_op("Select", is_any, total / occurring, 0.0)
